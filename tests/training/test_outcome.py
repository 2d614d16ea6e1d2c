"""Runs that diverge, skip updates or learn nothing, and weights that are not finite."""

import contextlib
import io
import json
import shutil

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import dicejax.training.train as training
from dicejax.cli import run
from dicejax.errors import InputError
from dicejax.metrics.scores import Scores
from dicejax.models import huggingface
from dicejax.models.network import Network
from dicejax.optimizers import AdamW
from dicejax.tasks import (
    Classification,
    MultiLabelClassification,
    Prediction,
    Tagging,
    WordTagging,
)
from dicejax.training.checkpoint import Checkpoints, restore_params
from dicejax.training.outcome import divergence, nothing_learnt
from dicejax.training.run_folder import CHECKPOINTS, Run
from dicejax.training.sharding import by_path
from dicejax.training.state import TrainState, not_finite

from ..small_project import fails, write_project


def train_skipping(folder, *steps):
    """Train 20 updates, some reported as skipped; return the status and the output."""
    real, calls, output = training.train_step, [], io.StringIO()

    def patched(*inputs, **settings):
        state, metrics = real(*inputs, **settings)
        calls.append(1)
        if len(calls) in steps:
            metrics = metrics | {"skipped": np.int32(1)}
        return state, metrics

    argv = [*["train", "mine.py", "--training.epochs", "5", "--out"], str(folder)]
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(output):
        patch.setattr(training, "train_step", patched)
        status = run(argv)
    return status, output.getvalue()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return the folder and the output of a run that skipped 2 of 20 updates."""
    folder = write_project(tmp_path_factory.mktemp("finished"))
    with contextlib.chdir(folder):
        status, output = train_skipping("run", 3, 9)
    assert status == 0
    return folder, output


def test_a_run_that_skips_a_tenth_reports_it_at_its_end(finished):
    folder, output = finished
    result = json.loads((folder / "run/result.json").read_text())
    assert (result["skipped"], result["steps"]) == (2, 20)
    assert "warning: 2 of 20 updates skipped" in output
    assert "nothing_learnt" not in result and "Nothing learnt" not in output


def test_the_end_of_train_has_classes_time_and_next_commands(finished):
    folder, output = finished
    test = json.loads((folder / "run/result.json").read_text())["test"]["per_type"]
    lines = output.splitlines()
    assert len(lines) <= 24  # a screen
    for name, row in test.items():
        scores = [f"{100 * row[x]:.2f}" for x in ("precision", "recall", "f1")]
        cells = [name, *scores, str(row["support"])]
        assert any(line.split() == cells for line in lines)
    (speed,) = (line for line in lines if "tokens/s" in line)
    seconds, unit = speed.split()[:2]
    assert int(seconds) >= 1 and unit.strip(",") in ("s", "min")
    following = [line[6:] for line in lines[-3:]]
    assert lines[-3].startswith("next: ")
    assert [line.split()[1] for line in following] == ["predict", "evaluate", "compare"]


def test_a_run_that_skips_more_than_a_tenth_has_diverged(project, capsys):
    status, output = train_skipping("run", 2, 3, 9)
    assert status == 1 and output == ""
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert "no finite loss or gradient in 3 of 20 updates" in line
    assert "try a lower --optimizer.learning_rate than 0.01" in line
    assert Run.at("run").diverged() in line and not Run.at("run").is_finished


@pytest.mark.parametrize(
    ("steps", "skipped", "last", "diverges"),
    [
        (20, 2, 0, False),
        (20, 3, 0, True),
        (1000, 100, 4, False),
        (1000, 101, 0, True),
        (1000, 5, 5, True),
        (3, 1, 1, True),
        (1, 0, 0, False),
    ],
)
def test_a_tenth_or_the_last_five_decide(steps, skipped, last, diverges):
    reason = divergence(steps, skipped, last)
    assert (reason is not None) == diverges
    if diverges:
        assert f"{skipped} of {steps:,} updates" in reason


@pytest.mark.parametrize(
    ("flags", "remedy"),
    [
        ("--optimizer.learning_rate 1e30 --training.epochs 3", "than 1e+30, with"),
        ("--optimizer.learning_rate 1e3 --training.epochs 4", "than 1000, with"),
        (
            "--optimizer.learning_rate 1 --training.precision float16 "
            "--training.epochs 6",
            "than 1 or --training.precision bfloat16, with",
        ),
    ],
)
def test_too_high_a_rate_has_diverged_in_a_short_run_too(
    project, capsys, flags, remedy
):
    assert run([*["train", "mine.py", "--out", "run"], *flags.split()]) == 1
    captured = capsys.readouterr()
    line = captured.err.strip().splitlines()[-1]
    records = (project / "run/metrics.jsonl").read_text().splitlines()
    last = json.loads(records[-1])
    assert last["skipped"] < 20  # the limit in a row did not end it
    assert f" {last['skipped']} of {last['step']} updates" in line and remedy in line
    assert captured.out == "" and not (project / "run/result.json").exists()


def with_nan(folder):
    """Add a best checkpoint to a run with a NaN in its weights; return its name."""
    trained = Run.open(str(folder))
    _, params = restore_params(trained.path / CHECKPOINTS, trained.network())
    leaves = by_path(params)
    name = list(leaves)[3]
    leaves[name] = leaves[name].at[(0,) * leaves[name].ndim].set(np.nan)
    params = jax.tree.structure(params).unflatten(leaves.values())
    assert not_finite(params) == f"{name} is not finite"
    state = TrainState.create(params, AdamW(), total_steps=99, rng=jax.random.key(0))
    checkpoints = Checkpoints(trained.path / CHECKPOINTS)
    checkpoints.save(99, state, score=2.0)
    checkpoints.close()
    return name


def test_weights_of_a_run_that_are_not_finite_are_refused(
    finished, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(finished[0])
    shutil.copytree("run", tmp_path / "run")
    name = with_nan(tmp_path / "run")
    for words in ("evaluate RUN", "predict RUN Anna", "export RUN model"):
        argv = words.replace("RUN", str(tmp_path / "run")).split()
        fails(capsys, argv, "checkpoints/99: ", f"{name} is not finite")
    assert not (finished[0] / "model").exists()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_of_a_model_folder_that_are_not_finite_are_refused(model_folder, value):
    network = Network(encoder=huggingface.read_config(model_folder), heads=())
    huggingface.read_weights(model_folder, network)
    file = model_folder / "model.safetensors"
    tensors = load_file(file)
    name = sorted(tensors)[4]
    tensors[name] = tensors[name].copy()
    tensors[name].flat[-1] = value
    save_file(tensors, file)
    with pytest.raises(InputError, match=rf"tensor {name} is not finite; "):
        huggingface.read_weights(model_folder, network)


def test_a_run_without_a_right_prediction_names_the_cause(project, capsys):
    argv = ["train", "mine.py", "--out", "run", "--training.epochs", "1"]
    assert run([*argv, "--optimizer.learning_rate", "1e-3"]) == 0
    output = capsys.readouterr().out
    result = json.loads((project / "run/result.json").read_text())
    assert result["test"]["f1"] == 0
    assert f"Nothing learnt: {result['nothing_learnt']}." in output
    assert result["nothing_learnt"] in (
        "none of 10 predictions is right",
        "no entity is predicted in any of 6 examples",
    )
    remedy = "Likely cause: 4 updates are few for random weights: try --training.epochs"
    assert f"{remedy} 375, with --overwrite" in output and "next:" not in output
    assert run(["evaluate", "run"]) == 0
    again = capsys.readouterr().out
    assert f"Nothing learnt: {result['nothing_learnt']}." in again and remedy in again


CLASSES = {name: {"f1": 0.5, "support": 3} for name in ("yes", "no")}


@pytest.mark.parametrize(
    ("task", "predictions", "scores", "expected"),
    [
        (
            Tagging(),
            [(), ()],
            Scores({"f1": 0.0}),
            "no entity is predicted in any of 2",
        ),
        (
            Tagging(),
            [("a",), ()],
            Scores({"f1": 0.0}),
            "none of 1 predictions is right",
        ),
        (Tagging(), [("a",), ()], Scores({"f1": 0.1}), None),
        (
            Classification(),
            [("no",), ("no",)],
            Scores({"f1": 0.4}, CLASSES),
            "every text is given the class 'no'",
        ),
        (Classification(), [("no",), ("yes",)], Scores({"f1": 0.4}, CLASSES), None),
        (
            Classification(),
            [("no",), ("no",)],
            Scores({"f1": 1.0}, {"no": CLASSES["no"], "yes": {"support": 0}}),
            None,
        ),
        (
            WordTagging(),
            [("no", "no"), ("no",)],
            Scores({"accuracy": 0.5}, CLASSES),
            "every word is given the class 'no'",
        ),
        (
            MultiLabelClassification(),
            [(), ()],
            Scores({"micro_f1": 0.0}),
            "no label is predicted in any of 2 examples",
        ),
    ],
)
def test_predictions_show_that_nothing_was_learnt(task, predictions, scores, expected):
    text = nothing_learnt(task, [Prediction(values) for values in predictions], scores)
    assert (text or "").startswith(expected or "") and (text is None) == (
        expected is None
    )
