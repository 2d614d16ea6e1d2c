"""Records in analysis.jsonl, of every kind of output, without effect on training."""

import dataclasses
import shutil
import signal

import jax
import numpy as np
import pytest

import dicejax.training.train as training
from dicejax import config
from dicejax.cli import run
from dicejax.config import Analysis
from dicejax.mesh import MeshShape
from dicejax.objectives import CrossEntropy
from dicejax.tasks import QuestionAnswering, Tagging
from dicejax.training.gradients.probe import FILE, Collector, outputs_of
from dicejax.training.setup import prepare
from dicejax.training.sharding import global_batch, replicate
from dicejax.training.throughput import Throughput

from ...kinds import exhaustive_but
from ...shrinking import ROOT, shrunk
from ..commands import records, stop_at

TRAIN = ["train", "mine.py", "--training.epochs", "6", "--training.log_every", "4"]


def steps(out):
    return [record["step"] for record in records(out, FILE)]


@pytest.fixture
def programs(monkeypatch):
    """Return the text of the step's program before compilation."""
    texts, real = [], training.train_step

    def lowered(*inputs, **fixed):
        if not texts:  # all batches have one shape
            texts.append(real.lower(*inputs, **fixed).as_text())
        return real(*inputs, **fixed)

    monkeypatch.setattr(training, "train_step", lowered)
    return texts


@pytest.mark.slow
def test_the_step_is_the_same_program_and_gives_the_same_bits(project, programs):
    assert run([*TRAIN, "--out", "without"]) == 0
    without = list(programs)
    assert not (project / "without" / FILE).exists()
    programs.clear()
    assert run([*TRAIN, "--out", "with", "--analysis.every", "3"]) == 0
    assert programs == without and len(without) == 1

    metrics = records(project / "with")
    assert metrics == records(project / "without")
    analyses = records(project / "with", FILE)
    assert steps(project / "with") == [1, *range(3, metrics[-1]["step"] + 1, 3)]
    for record in analyses:
        for leaf in jax.tree.leaves(record):  # numbers that JSON has
            assert isinstance(leaf, str) or np.isfinite(leaf)
        tags = record["outputs"]["tags"]
        assert sum(map(sum, tags["hardness"])) == sum(tags["count"]) > 0
        assert tags["kinds"]["padding"]["gradient_norm"] == 0
        assert -1 <= tags["cosine"]["micro"] <= 1
    # It learns its corpus: soft F1 rises, elements become easy.
    first, last = (analyses[index]["outputs"]["tags"] for index in (0, -1))
    assert sum(first["hard"]) > 0.4 * sum(first["count"])
    assert sum(last["hard"]) < 0.1 * sum(last["count"])
    assert last["soft_f1"]["micro"] > first["soft_f1"]["micro"]


def test_a_run_that_was_cut_off_has_each_step_once(project):
    flags = [*TRAIN, "--analysis.every", "2", "--recording.checkpoint_every", "5"]
    flags += ["--recording.keep_last", "99", "--out", "run"]
    assert run(flags) == 0
    folder = project / "run"
    whole = (folder / FILE).read_bytes()
    assert steps(folder) == [1, *range(2, steps(folder)[-1] + 1, 2)]
    # As a kill leaves it: the last checkpoint is an early one, later steps are there.
    (folder / "result.json").unlink()
    for saved in (folder / "checkpoints").iterdir():
        if saved.name.isdigit() and int(saved.name) > 5:
            shutil.rmtree(saved)
    with open(folder / FILE, "ab") as file:
        file.write(b'{"step": 99, "outp')
    assert run(flags) == 0
    assert (folder / FILE).read_bytes() == whole


def test_it_may_be_switched_on_when_a_run_resumes(project):
    flags = [*TRAIN, "--out", "run"]
    stop_at(7, signal.SIGTERM, flags)
    assert run([*flags, "--analysis.every", "4"]) == 0
    assert steps(project / "run")[0] == 8


@pytest.mark.slow
def test_alarms_are_printed_once_and_recorded(project, capsys):
    # Dice of one class is flat where nothing is right yet: far from the border.
    flags = ["--loss", "dsc", "--optimizer.learning_rate", "0.1"]
    assert run([*TRAIN, *flags, "--out", "run", "--analysis.every", "1"]) == 0
    stderr = capsys.readouterr().err
    tags = [record["outputs"]["tags"] for record in records(project / "run", FILE)]
    alarms = {tuple(alarm) for record in tags for alarm in record["alarms"]}
    assert alarms
    for kind, group in alarms:
        printed = [
            line
            for line in stderr.splitlines()
            if f"{kind}: " in line and f"hard elements of {group} " in line
        ]
        assert len(printed) == 1, (kind, group, stderr)


def test_positions_and_unread_outputs_are_left_out():
    task, labels = QuestionAnswering(form="positions"), ("O", "B-PER")
    loss = CrossEntropy().bind(task.targets(()))
    assert outputs_of(task, (), loss, {}) == ()
    tokens = {"tags": -100}
    (output,) = outputs_of(Tagging(), labels, CrossEntropy(output="tags"), tokens)
    assert output.of_tokens and output.groups.names == labels
    assert outputs_of(Tagging(), labels, CrossEntropy(output="other"), {}) == ()


def test_a_negative_interval_is_refused():
    with pytest.raises(ValueError, match="every is -1"):
        Analysis(every=-1)


# Analysed outputs, without positions, and their number of groups.
KINDS = {
    "ner/conll03": ({}, {"tags": 5}),
    "ner/cluener": ({}, None),
    "ner/conll03_mrc": ({"match_width": 8}, {"start": 2, "end": 2, "match": 2}),
    "qa/squad1": ({}, {"start": 2, "end": 2}),
    "qa/squad1 positions": ({"form": "positions"}, {}),
    "paraphrase/mrpc": ({}, {"label": 2}),
}
DEFAULT = ("ner/conll03", "paraphrase/mrpc")


@pytest.mark.slow
@pytest.mark.parametrize("name", exhaustive_but(DEFAULT, KINDS))
def test_counts_are_those_of_the_labels(name, tmp_path):
    changes, groups = KINDS[name]
    experiment = config.load(ROOT / f"{name.split()[0]}.py")
    task = dataclasses.replace(experiment.task, **changes)
    experiment = dataclasses.replace(experiment, task=task, objective=CrossEntropy())
    experiment = dataclasses.replace(
        shrunk(experiment, tmp_path), analysis=Analysis(every=1)
    )
    setup = prepare(experiment, warn=lambda text: None)
    mesh = MeshShape().make(jax.devices()[:1])
    batches, notes = setup.batches(mesh), []
    state = setup.initial_state(mesh, len(batches))
    objective = replicate(setup.objective, mesh)
    collector = Collector(setup, tmp_path, mesh, after_step=0, say=notes.append)
    batch = global_batch(batches[0].arrays, mesh)
    collector.look(1, state, batch, objective, Throughput([]))
    collector.log.close()
    if groups == {}:
        assert not collector._pending and any("positions" in text for text in notes)
        return
    ((_, measured),) = jax.device_get(collector._pending)
    if groups is not None:
        assert groups == {key: len(x.measures.count) for key, x in measured.items()}
    for output, result in measured.items():
        measures = result.measures
        if output in batches[0].arrays:
            labels = batches[0].arrays[output]
            assert measures.count.sum() == (labels >= 0).sum() > 0
            assert measures.count[0] == (labels == 0).sum()
        norm = measures.gradient_norm.sum()
        assert 0 < norm < np.inf and not measures.not_finite
        assert all(-1 <= value <= 1 for value in result.cosine.values())
        if result.kinds is not None:
            total = result.kinds["gradient_norm"].sum()
            np.testing.assert_allclose(total, norm, rtol=1e-4)
