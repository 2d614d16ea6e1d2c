"""The pages of the evidence follow from their archives, commands and tables."""

import collections
import dataclasses
import importlib
import itertools
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import jinja2
import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

import dicejax as dj
from dicejax.cli import parse
from dicejax.config import to_json
from dicejax.data.examples import TaggedWords
from dicejax.objectives import names_of
from dicejax.objectives.parsing import objective_named
from dicejax.study import figures
from dicejax.study.compare.jobs import Outcome
from dicejax.study.significance import nominal_level
from dicejax.tasks.task import Prediction

from . import newcomer
from .documented import ROOT, blocks, commands_of, write_encoder

EVIDENCE = ROOT / "docs" / "evidence"
VERSION = re.compile(rb"Matplotlib v[\d.]+")


@pytest.fixture(scope="module")
def evidence():
    """Return a function that imports a script of the evidence.

    Tests share what the scripts have computed of the archives.
    """
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EVIDENCE)
        yield importlib.import_module
    for name in {file.stem for file in EVIDENCE.glob("*.py")} - before:
        sys.modules.pop(name, None)


def test_results_are_made_from_the_archives_to_the_byte(evidence, tmp_path):
    evidence("results").main([str(tmp_path)])
    for page in evidence("results").PAGES.keys() | {"README.md"}:
        assert (tmp_path / page).read_bytes() == (ROOT / page).read_bytes(), page
    for name in ("curve", "summary", "thinned", "why", "early"):
        figure = f"docs/evidence/{name}.svg"
        drawn, committed = ((root / figure).read_bytes() for root in (tmp_path, ROOT))
        if VERSION.search(committed)[0] == VERSION.search(drawn)[0]:
            assert drawn == committed


def test_archives_hold_what_the_scores_are_computed_from(evidence):
    parts = [evidence(name) for name in ("curve", "thinned", "reading")]
    for table in [table for part in parts for table in part.finished()]:
        for row in table.rows:
            for outcome in row.outcomes:
                above, below = outcome.example_statistics[:, 0].sum(0)
                f1 = above / below if below else 0.0
                assert outcome.score == pytest.approx(f1, abs=1e-12)


def test_tuned_comparisons_are_corrected_over_their_part(evidence):
    tuned = evidence("tuned")
    alone = {
        (comparison.name, row.loss): row.against.test.p_alone
        for comparison in tuned.finished()
        for row in comparison.rows
        if row.against and not row.is_control
    }
    assert len(alone) == 22
    over_part = tuned.over_part()
    for (name, loss), p in alone.items():  # Holm: largest (m - rank) p so far
        smaller = sorted(other for other in alone.values() if other <= p)
        adjusted = max((22 - rank) * other for rank, other in enumerate(smaller))
        assert over_part[name][loss] == pytest.approx(min(adjusted, 1.0))
    losses = {"focal": "inconclusive", "dsc-smooth=0.01": "inconclusive"}
    table = evidence("tables").comparison(
        tuned.comparison("1000-2").rows, over_part=over_part["1000-2"]
    )
    for loss, outcome in losses.items():
        row = tuned.tables.row_of(tuned.comparison("1000-2").rows, loss)
        assert row.against.verdict.outcome == "better"  # by its own table alone
        (line,) = [line for line in table.splitlines() if f"| `{loss}` |" in line]
        assert line.endswith(f"| {outcome} |")


def test_the_mechanism_is_corrected_over_the_cells_of_its_protocol(
    evidence, monkeypatch, request
):
    part, archive = evidence("mechanism").MECHANISM, evidence("archive")
    curve = archive.read("curve/250-2")
    names = {"ce": "ce+prior", "dsc-smooth=0.01": "dsc-smooth=0.01"}
    runs = [
        dataclasses.replace(run, loss=names[run.loss], seed=run.seed + 10)
        for run in curve.runs
        if run.loss in names
    ]
    cells = {"mechanism/250-2": archive.Archived(tuple(runs), (), {})}
    nothing = archive.Archived((), (), {})
    request.addfinalizer(type(part).cell.cache_clear)
    type(part).cell.cache_clear()
    monkeypatch.setattr(archive, "read", lambda name: cells.get(name, nothing))
    (cell,) = part.finished()
    difference = cell.difference("dsc", "ce+prior")
    means = [
        np.mean([100 * run.score for run in runs if run.loss == loss])
        for loss in names.values()
    ]
    assert 100 * difference.mean == pytest.approx(means[1] - means[0])
    assert difference.sentences == 231
    assert part.adjusted_p()[250, 2] == pytest.approx(4 * difference.p_value)
    assert part.adjusted_p()[3500, 2] == 1
    assert part.claim(cell) == "unstable: no claim"  # cross-entropy fails in some
    assert "250 sentences and 2 epochs (`ce`, `prior bias`" in part.waiting()


def test_documents_take_the_place_of_their_sentences(evidence):
    documents, archive = evidence("documents"), evidence("archive")
    text = "-DOCSTART- O\n\nA O\nb O\n\nC O\n\n-DOCSTART- O\n\nD O\n"
    assert documents.sizes_of(text) == [2, 1]
    runs = archive.read("curve/3500-2")
    sizes = json.loads(documents.FILE.read_text())
    for run, grouped in zip(
        runs.runs[:3], documents.by_document(runs).runs[:3], strict=True
    ):
        parts = np.split(run.example_statistics, np.cumsum(sizes)[:-1])
        sums = np.stack([part.sum(0) for part in parts])
        np.testing.assert_array_equal(grouped.example_statistics, sums)


def test_failed_runs_are_counted_with_an_upper_limit(evidence, whole):
    tables = evidence("tables")
    for failed, runs in ((0, 5), (0, 10), (1, 10), (4, 10)):
        exact = stats.binomtest(failed, runs).proportion_ci(0.9, method="exact")
        assert tables.failure_limit(failed, runs) == pytest.approx(exact.high)
    assert tables.failure_limit(5, 5) == 1
    row = tables.row_of(whole.rows(), "dsc-smooth=0.01")
    assert tables.failures(row) == (0, 5)
    first, *others = row.outcomes
    half = dataclasses.replace(first, result=low_score(first.result))
    lost = dataclasses.replace(first, seed=9, status="diverged", result=None)
    missing = dataclasses.replace(lost, seed=8, status="missing")
    some = dataclasses.replace(row, outcomes=(half, *others, lost, missing))
    assert tables.failures(some) == (2, 6)


def low_score(result):
    """Return a result with a third of the score."""
    scores = result["test"] | {"f1": result["test"]["f1"] / 3}
    return dict(result) | {"test": scores}


@pytest.fixture
def whole(evidence):
    """Return the runs of a first look."""
    return some_of(evidence("archive").read("curve/250-2"), lambda run: run.seed < 5)


@pytest.fixture
def archive(evidence, whole, tmp_path, monkeypatch):
    """Return the module with an empty folder of archives."""
    module = evidence("archive")
    monkeypatch.setattr(module, "SCORES", tmp_path)
    module.read.cache_clear()
    for name in ("curve", "tuned"):
        (tmp_path / name).mkdir()
    yield module
    module.read.cache_clear()


def some_of(whole, chosen):
    return dataclasses.replace(whole, runs=tuple(filter(chosen, whole.runs)))


def test_runs_of_several_machines_are_archived_one_after_another(archive, whole):
    name = "curve/250-2"
    early = some_of(whole, lambda run: run.seed < 3)
    late = some_of(whole, lambda run: run.seed >= 2)  # seed 2 is in both
    archive.write(archive.merged(archive.read(name), early), archive.file_of(name))
    begun = archive.read(name)
    assert (begun.seeds, begun.outcomes) == (0, [])
    assert len(archive.runs_of("curve")) == 21
    archive.write(archive.merged(begun, late), archive.file_of(name))
    both = archive.read(name)
    assert both.seeds == 5
    assert both.hours == pytest.approx(whole.hours)
    first, second = (
        {row.loss: row.to_json() for row in runs.rows()} for runs in (whole, both)
    )
    assert first == second


def test_two_runs_of_a_loss_and_seed_are_not_archived(archive, whole):
    counts = whole.runs[0].example_statistics + 1
    changes = {"folder": "elsewhere", "example_statistics": counts}
    run = dataclasses.replace(whole.runs[0], **changes)
    other = dataclasses.replace(whole, runs=(run,))
    with pytest.raises(SystemExit, match="elsewhere: is not the run of ce with seed 0"):
        archive.merged(whole, other)


def test_trials_are_archived_with_the_runs_that_they_are_of(archive, whole):
    tries = {2.0: None, 3.33: 0.8}
    trials = [
        {"dev": dev, "values": {"objective.gamma": g}} for g, dev in tries.items()
    ]
    record = {"losses": {"focal": {"trials": trials, "chosen": 1}}, "seconds": 7200.0}
    tuned = dataclasses.replace(whole, tuning=record)
    archive.write(tuned, archive.file_of("tuned/mrpc"))
    assert archive.merged(archive.read("tuned/mrpc"), tuned).tuning == record
    with pytest.raises(SystemExit, match="other trials than those of the archive"):
        archive.merged(archive.read("tuned/mrpc"), whole)


def test_a_look_waits_for_all_seeds_of_all_losses_that_learn(whole, evidence):
    later = [dataclasses.replace(run, seed=run.seed + 5) for run in whole.runs]
    runs = (*whole.runs, *later)

    def looks(chosen):
        return some_of(dataclasses.replace(whole, runs=runs), chosen)

    assert looks(lambda run: (run.loss, run.seed) != ("focal", 9)).seeds == 5
    assert looks(lambda run: (run.loss, run.seed) != ("focal", 4)).seeds == 0
    both = looks(lambda run: run.loss != "dsc-eq11" or run.seed == 0)  # learns nothing
    assert both.seeds == 10
    table = evidence("tables").comparison(both.rows())
    assert "| `dsc-eq11` | 1 | 0.00 | " in table
    rows = {row.loss: row.against for row in both.rows()}
    assert rows["dsc-eq11"].verdict.outcome == "nothing learnt"
    focal = rows["focal"].crossed
    assert focal.seeds == 10
    assert focal.level == pytest.approx(nominal_level([5, 10], 0.05))


def searched_to_the_end(third, dev):
    """Return the best setting of a search whose trials score dev, and its trials."""
    scores = {}
    while True:
        waiting, best = third.searched(scores, third.MINILM)
        if not waiting:
            return best, scores
        scores[waiting[0]] = dev(*waiting[0])  # one at a time, as a worker does


@pytest.mark.parametrize(
    ("rate", "factor"), [(4e-4, 10), (2e-4, 1), (3.2e-3, 30), (1e-4, 300)]
)
def test_a_search_finds_a_peak_inside_the_first_grid_and_beyond_it(
    evidence, rate, factor
):
    third = evidence("third")

    def dev(setting, seed):
        octaves = np.log2(setting.rate / rate) ** 2
        return 0.8 - 0.02 * octaves - 0.03 * abs(np.log(setting.factor / factor))

    best, scores = searched_to_the_end(third, dev)
    assert best == third.Setting(rate, factor)
    assert {seed for setting, seed in scores if setting == best} == {20, 21, 22}
    settings = {setting for setting, _ in scores}
    assert len(settings) <= 16
    assert {*third.MINILM.first} <= {setting.rate for setting in settings}
    # A setting that falls behind with the first seed is tried with no other.
    top = max(dev(setting, 20) for setting in settings)
    behind = [x for x in settings if dev(x, 20) < top - 0.25]
    assert all((setting, 21) not in scores for setting in behind)


def test_a_search_of_runs_that_learn_nothing_ends(evidence):
    third = evidence("third")
    best, scores = searched_to_the_end(third, lambda setting, seed: 0.0)
    assert best == third.Setting(2e-4, 10.0)
    assert len(scores) == 3 * 7  # its neighbours are no better


def test_the_commands_of_the_third_protocol_are_those_of_its_runs(
    evidence, monkeypatch, tmp_path
):
    third = evidence("third")
    monkeypatch.chdir(ROOT)
    commands = commands_of("docs/evidence/protocol-3.md")
    trained = [words for words in commands if words[:2] == ["dicejax", "train"]]
    cells = [cell for cell in third.CELLS if cell.encoder == third.MINILM]
    assert len(trained) == len(cells) >= 2
    for words, cell in zip(trained, cells, strict=True):
        documented = parse(words[1:]).settings
        run = third.Run(cell, "dsc+prior", third.Setting(4e-4, 10.0), 30, 64)
        folders = tmp_path, Path("DATA"), Path("MODEL")
        experiment = run.job(*folders).experiment
        assert to_json(documented) == to_json(experiment)
        trial = dataclasses.replace(run, length=None, arm="dsc", seed=20)
        plain = trial.job(*folders).experiment
        assert plain.training == dataclasses.replace(
            experiment.training, seed=20, head_bias="zeros"
        )
        assert plain.data == dataclasses.replace(experiment.data, train_sample=20)
        assert plain.optimizer == experiment.optimizer


GAINS = {"ce+prior": 0.0, "dsc": 0.02, "dsc+prior": 0.04, "ce": -0.05}


@pytest.fixture
def of_third(archive, evidence):
    """Return a function that archives made runs of the first cell, and reads them.

    It takes the gain of each arm over `ce+prior`, and arms that fail with some seeds.
    """
    third, module = evidence("third"), evidence("third_tables")
    cell = third.CELLS[0]

    def made(gains, failed=(), updates=64):
        rng = np.random.default_rng(0)
        shared = rng.normal(0, 0.01, 10)
        gold = rng.integers(1, 20, 300)
        lines, runs = [], []
        for arm in third.ARMS:
            for seed in third.TRIAL_SEEDS:
                line = {"arm": arm, "rate": 2e-4, "factor": 10.0, "seed": seed}
                lines.append(line | {"dev": 0.7 + gains.get(arm, 0)})
        for number, seed in enumerate(third.SEEDS):
            for arm in third.ARMS:
                share = 0.7 + shared[number] + gains.get(arm, 0.0)
                share += rng.normal(0, 0.005)
                if (arm, seed) in failed:
                    share = 0.0
                right = rng.binomial(gold, share)
                counts = np.stack([2 * right, 2 * gold], axis=-1)[:, None]
                result = {
                    "primary_metric": "f1",
                    "test": {"f1": right.sum() / gold.sum()},
                    "steps": updates,
                    "seconds": 60.0,
                    "test_data": 1,
                }
                runs.append(Outcome(arm, seed, "", "finished", result, counts))
        whole = archive.Archived(tuple(runs), (), {})
        file = archive.file_of(cell.archive_of(64))
        file.parent.mkdir(exist_ok=True)
        archive.write(whole, file)
        third.write_trials(cell.trials_file, lines)
        module.finished.cache_clear()
        return module

    with pytest.MonkeyPatch.context() as patch:
        one = ([], third.Setting(2e-4, 10.0))
        patch.setattr(third, "searched", lambda scores, encoder: one)
        yield made
    module.finished.cache_clear()


def test_the_third_protocol_compares_the_better_head_of_dice(of_third, archive):
    (each,) = of_third(GAINS).finished()
    assert each.dice == "dsc+prior"
    scores = {
        arm: np.array([run.score for run in runs]) for arm, runs in each.runs.items()
    }
    apart = scores["dsc+prior"] - scores["ce+prior"]
    assert each.primary.mean == pytest.approx(apart.mean())
    assert each.p_value == pytest.approx(15 * each.primary.p_value)
    assert each.called == "dice leads a tuned cross-entropy"
    module = sys.modules["third_tables"]
    with figures.look():
        drawn = figures.rendered(module.draw([each]), "svg").decode()
    assert ">CoNLL-2003, entities<" in drawn
    assert ">16 updates<" in drawn
    settings = {"undefined": jinja2.StrictUndefined, "trim_blocks": True}
    pages = jinja2.Environment(loader=jinja2.FileSystemLoader(EVIDENCE), **settings)
    page = pages.get_template("third.md.jinja").render(third=module)
    assert module.of_primaries() in page
    assert "| `dsc+prior` | 0.0002 | 10 | 74.0, 74.0, 74.0 | **74.00** |" in page
    table = module.of_arms(each)
    assert table in page
    assert f"| `ce` | 0.0002, 10 | {100 * scores['ce'].mean():.2f} ± " in table
    # Two arms lack a seed: nothing is shown.
    file = archive.file_of(each.cell.archive_of(64))
    fewer = archive.read(each.cell.archive_of(64))
    kept = [run for run in fewer.runs if (run.loss, run.seed) != ("wce", 39)]
    archive.write(dataclasses.replace(fewer, runs=tuple(kept)), file)
    module.finished.cache_clear()
    assert not module.finished()


@pytest.mark.parametrize(
    ("gain", "failed", "called"),
    [
        (-0.06, (), "a tuned cross-entropy is better"),
        (0.0, (), "no lead above 2 points"),
        (0.05, [("ce+prior", 31)], "unstable: no claim"),
        (
            0.05,
            [("ce+prior", seed) for seed in range(30, 40)],
            "`ce+prior` does not learn there, `dsc` does",
        ),
        (
            0.05,
            [(arm, seed) for arm in ("ce+prior", "dsc") for seed in range(30, 40)],
            "nothing learnt",
        ),
    ],
)
def test_outcomes_are_called_as_the_third_protocol_says(of_third, gain, failed, called):
    (each,) = of_third({"dsc": gain, "dsc+prior": gain - 0.1}, failed).finished()
    assert each.dice == "dsc"
    assert each.called == called
    assert (each.primary is None) == bool(failed)
    page = " ".join((EVIDENCE / "protocol-3.md").read_text().split())
    words = called.replace("`ce+prior`", "the one").replace("`dsc`", "the other")
    names = {"unstable: no claim": "unstable: medians, no interval, no claim"}
    words = words.replace(" there, the other does", " there and the other does")
    assert names.get(words, words) in page


def test_macro_f1_of_tags_is_that_of_scikit_learn(evidence):
    task = evidence("macro_tagging").MacroWordTagging()
    rng, tags = np.random.default_rng(0), ("ADJ", "NOUN", "VERB")
    gold = [TaggedWords(("a",) * 5, tuple(rng.choice(tags, 5)), n) for n in range(20)]
    guesses = [Prediction(tuple(rng.choice((*tags, "X"), 5))) for _ in gold]
    shares = task.example_statistics(gold, guesses, (*tags, "X"))
    assert shares.shape == (20, 3, 2)
    flat = [
        [tag for row in rows for tag in row]
        for rows in (
            [example.labels for example in gold],
            [guess.values for guess in guesses],
        )
    ]
    expected = f1_score(*flat, labels=tags, average="macro")
    above, below = np.moveaxis(shares.sum(0), -1, 0)
    assert np.mean(above / below) == pytest.approx(expected)
    scores = task.score(gold, guesses, (*tags, "X"))
    assert scores.values[task.primary_metric] == pytest.approx(expected)


def test_groups_of_examples_are_archived_with_their_runs(archive, whole):
    groups = np.arange(len(whole.runs[0].example_statistics)) // 3
    first, second = (
        some_of(whole, lambda run, of=seed: run.seed == of) for seed in (0, 1)
    )
    first, second = (
        dataclasses.replace(
            part, runs=tuple(dataclasses.replace(r, groups=groups) for r in part.runs)
        )
        for part in (first, second)
    )
    archive.write(first, archive.file_of("curve/250-2"))
    both = archive.merged(archive.read("curve/250-2"), second)
    archive.write(both, archive.file_of("curve/250-2"))
    for run in archive.read("curve/250-2").runs:
        np.testing.assert_array_equal(run.groups, groups)
        sums = [run.example_statistics[groups == n].sum(0) for n in np.unique(groups)]
        np.testing.assert_array_equal(run.item_statistics, sums)


@pytest.fixture
def small_work(tmp_path):
    """Return a function that makes a checkout with small data, and its command."""
    data = tmp_path / "DATA" / "conll2003"
    data.mkdir(parents=True)
    for split in ("train", "dev", "test"):
        newcomer.write(data / f"{split}.txt", sentences=200)
    write_encoder(tmp_path / "model")

    def made(name):
        folder = tmp_path / name / "docs" / "evidence"
        folder.mkdir(parents=True)
        for script in EVIDENCE.glob("*.py"):
            shutil.copy(script, folder)
        (tmp_path / name / "experiments").symlink_to(ROOT / "experiments")
        words = ["worker.py", "--data", tmp_path / "DATA", "--encoders", "minilm"]
        words += [tmp_path / "model", "--runs", folder / "runs", "--smallest"]
        return folder, [sys.executable, *map(str, words)]

    return made


def done(said):
    """Return the lines of a worker that are on runs."""
    return [line for line in said.splitlines() if "CPU" in line]


def work(folder, command, *more):
    """Let a worker do all runs; return what it says and its archives, without times."""
    paths = os.pathsep.join([str(ROOT), *sys.path])
    environment = os.environ | {"PYTHONPATH": paths}
    process = subprocess.run(
        [*command, *more], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stdout + process.stderr[-3000:]
    scores = folder / "scores" / "third"
    trials = scores / "conll2003-minilm-trials.jsonl"
    lines = [json.loads(line) for line in trials.read_text().splitlines()]
    untimed = [{k: v for k, v in line.items() if k != "seconds"} for line in lines]
    untimed.sort(key=lambda x: [x[k] for k in ("arm", "rate", "factor", "seed")])
    with np.load(scores / "conll2003-minilm-64.npz") as arrays:
        runs = json.loads(arrays["content"].item())["runs"]
        counts = arrays["counts"]
    for run in runs:
        assert run["result"].pop("seconds") > 0
    return process.stdout, (untimed, runs, counts.tobytes())


@pytest.mark.slow
def test_a_worker_archives_runs_until_none_is_left(
    small_work, archive, evidence, monkeypatch, capsys, tmp_path
):
    third, worker = evidence("third"), evidence("worker")
    best = third.Setting(2e-4, 10.0)
    monkeypatch.setattr(third, "searched", lambda scores, encoder: ([], best))
    folder, command = small_work("here")
    (archive.SCORES / "third").mkdir()
    words = [*command[2:], "--stop", str(folder / "S")]
    (folder / "S").touch()
    assert worker.main(words) == 0
    said = capsys.readouterr().out
    assert not done(said)
    assert "conll2003-mpnet: left out, --encoders names no mpnet" in said
    assert "ud_english-minilm: left out, there is no folder" in said
    (folder / "S").unlink()
    assert worker.main(words) == 0
    said = done(capsys.readouterr().out)
    arms, seeds = ["ce+prior", "dsc"], [30, 31]
    assert [line.split()[1].split("/")[2] for line in said] == 2 * arms
    runs = archive.read("third/conll2003-minilm-64").runs
    assert [(x.loss, x.seed) for x in runs] == [*itertools.product(arms, seeds)]
    for run in runs:
        above, below = run.example_statistics[:, 0].sum(0)
        assert run.score == pytest.approx(above / below if below else 0.0)
        assert run.result["versions"]["jax"]
        assert run.result["settings"] == {"rate": 2e-4, "factor": 10.0}
    # Another machine's archives are added; its run must be that which ours has.
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    file = archive.file_of("third/conll2003-minilm-64")
    file.rename(theirs / file.name)
    worker.main(["--merge", str(theirs)])
    assert (theirs / file.name).read_bytes() == file.read_bytes()
    assert worker.main(["--data", "DATA", "--encoders", "other", "MODEL"]) == 2


def test_cargo_is_unpacked_as_it_was_packed(
    evidence, small_work, monkeypatch, tmp_path
):
    cargo = evidence("cargo")
    small_work("here")
    monkeypatch.setattr(cargo, "PART", 5_000)
    model, packed, out = tmp_path / "model", tmp_path / "c" / "cargo", tmp_path / "out"
    (model / "1_Pooling").mkdir()
    (model / "1_Pooling" / "config.json").write_text("{}")
    words = ["--data", tmp_path / "DATA", "conll2003", "--encoders", "minilm", model]
    cargo.main([*map(str, ("pack", packed, *words))])
    parts = sorted(packed.parent.iterdir())
    assert len(parts) > 1
    assert all(part.stat().st_size <= 5_000 for part in parts)
    cargo.main(["unpack", str(packed), str(out)])
    for folder, ours in ((tmp_path / "DATA", out / "data"), (model, out / "minilm")):
        files = {f.relative_to(folder) for f in folder.rglob("*") if f.is_file()}
        assert files == {f.relative_to(ours) for f in ours.rglob("*") if f.is_file()}
        assert len(files) >= 3
        for name in files:
            assert (ours / name).read_bytes() == (folder / name).read_bytes()


def test_a_frozen_encoder_is_read_by_the_mean_over_tokens(
    evidence, tmp_path, monkeypatch
):
    module = evidence("regressions")
    monkeypatch.setattr(module, "ROWS", 2)
    write_encoder(tmp_path / "model")
    states = module.States(tmp_path / "model")
    texts = ["a b", "c d e f g h i j k l m n o p q r", "x", "a b"]
    means = states.of(texts)
    model, params, tokenizer = dj.from_pretrained(
        tmp_path / "model", {"tags": dj.TokenHead(classes=2)}
    )
    for text, mean in zip(texts, means, strict=True):
        ids = np.array([tokenizer.encode(text).ids])
        ones, places = np.ones_like(ids), np.arange(ids.shape[1])[None]
        keys = ("input_ids", "segment_ids", "position_ids", "token_type_ids")
        batch = dict(zip(keys, (ids, ones, places, 0 * ones), strict=True))
        alone = model.hidden_states(params, batch)[-1, 0].mean(0)
        np.testing.assert_allclose(mean, alone, rtol=1e-5, atol=1e-6)


def test_a_regression_takes_the_settings_that_are_best_on_dev(evidence):
    module, rng = evidence("regressions"), np.random.default_rng(0)
    gold = {split: rng.random(400) < 0.1 for split in module.SPLITS}
    features = {
        split: np.c_[2 * is_positive + rng.normal(size=400), rng.normal(size=(400, 5))]
        for split, is_positive in gold.items()
    }
    chosen = module.regression(features, gold)
    by_hand = []
    for c, weights in itertools.product(module.PENALTIES, module.WEIGHTS):
        model = LogisticRegression(C=c, class_weight=weights, max_iter=2000)
        model.fit(features["train"], gold["train"])
        dev = model.decision_function(features["dev"])
        scores = [f1_score(gold["dev"], dev >= limit) for limit in dev]
        by_hand.append((max(scores), model, dev[np.argmax(scores)]))
    best, model, limit = max(by_hand, key=lambda entry: entry[0])
    assert chosen.settings["dev"] == pytest.approx(best)
    ours, theirs = chosen.decisions, model.decision_function(features["test"]) >= limit
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.exhaustive
def test_a_worker_does_what_is_left_and_archives_merge(small_work):
    first, command = small_work("first")
    said, (trials, runs, _) = work(first, command)
    assert len(done(said)) == len(trials) + len(runs)
    assert {run["loss"] for run in runs} == {"ce+prior", "dsc"}
    chosen = {run["loss"]: run["result"]["settings"] for run in runs}
    for arm, settings in chosen.items():
        means = collections.defaultdict(list)
        for line in trials:
            if line["arm"] == arm:
                means[line["rate"], line["factor"]].append(line["dev"])
        whole = {k: np.mean(v) for k, v in means.items() if len(v) == 3}
        best = settings["rate"], settings["factor"]
        assert whole[best] == max(whole.values())
    assert all(run["result"]["versions"]["jax"] for run in runs)
    assert not [*first.glob("runs/**/checkpoints")]
    again, _ = work(first, command)
    assert not done(again)  # nothing is left
    (first / "STOP").touch()
    # Another machine has the trials and does the runs; this one adds its archives.
    other, command = small_work("other")
    theirs = other / "scores" / "third"
    theirs.mkdir(parents=True)
    shutil.copy(first / "scores/third/conll2003-minilm-trials.jsonl", theirs)
    said, both = work(other, command)
    assert len(done(said)) == len(runs)
    (first / "scores/third/conll2003-minilm-64.npz").unlink()
    _, merged = work(first, command, "--merge", theirs)
    assert merged == both


@pytest.mark.exhaustive
def test_a_worker_that_is_killed_ends_with_the_same_scores(small_work):
    whole, command = small_work("whole")
    _, undisturbed = work(whole, command)
    killed, command = small_work("killed")
    paths = os.pathsep.join([str(ROOT), *sys.path])
    rng, kills = random.Random(0), 0
    while kills < 5:
        process = subprocess.Popen(
            command,
            cwd=killed,
            env=os.environ | {"PYTHONPATH": paths},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        # In the middle of a run, whose folder is there.
        while not [*killed.glob("runs/**/metrics.jsonl")] and process.poll() is None:
            time.sleep(0.01)
        time.sleep(rng.random())
        assert process.poll() is None
        process.kill()
        process.wait()
        kills += 1
    _, disturbed = work(killed, command)
    assert disturbed == undisturbed


def test_positives_are_thinned_to_a_share(evidence, tmp_path):
    for name in ("dev", "test"):
        lines = [f"{n % 2} the {name} text {n}\n" for n in range(40)]
        (tmp_path / f"{name}.txt").write_text("".join(lines))
    rows = [f"phrase {n}\t{int(n % 3 > 0)}\n" for n in range(300)]
    rows.append("the test text 1\t1\n")  # left out: a sentence of the test set
    (tmp_path / "train.tsv").write_text("sentence\tlabel\n" + "".join(rows))
    evidence("thin").main([*3 * [str(tmp_path)], "20", "50", "60"])

    def texts(share, name, label):
        lines = (tmp_path / share / f"{name}.txt").read_text().splitlines()
        return [line[2:] for line in lines if line[0] == label]

    for name, negatives in (("dev", 20), ("test", 20), ("train", 100)):
        counts = {s: len(texts(s, name, "1")) for s in ("20", "50", "60")}
        assert counts == {
            "20": negatives // 4,
            "50": negatives,
            "60": 150 if name == "train" else 20,  # no more than there are
        }
        assert all(len(texts(s, name, "0")) == negatives for s in counts)
        assert set(texts("20", name, "1")) < set(texts("60", name, "1"))
    assert "the test text 1" not in texts("60", "train", "1")


PAGE = "docs/evidence/earlier.md"
HEADER = (
    "| loss | n | mean ± sd | min to max | difference | 95% CI | p (Holm) | verdict |"
)
# Tables on separate questions, which are not in the overview.
APART = ("Tversky", "Imbalance", "Cross-entropy plus dice")


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def tables():
    """Yield heading and rows of each table of a comparison."""
    heading, lines = None, iter((ROOT / PAGE).read_text().splitlines())
    for line in lines:
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line == HEADER:
            yield heading, [*map(cells, itertools.takewhile(bool, lines))][1:]


TABLES = list(tables())
(LOSSES,) = [
    shlex.split(block.text) for block in blocks(PAGE) if block.language == "text"
]


def test_commands_can_be_given(monkeypatch):
    monkeypatch.chdir(ROOT)
    commands = commands_of(PAGE)
    assert len(commands) >= len(TABLES)
    for words in commands:
        assert words[:2] == ["dicejax", "compare"]
        if "LOSSES" in words:
            place = words.index("LOSSES")
            words[place : place + 1] = LOSSES
        command = parse(words[1:])
        losses = names_of([objective_named(loss) for loss in command.losses])
        assert len(losses) >= 3 or losses == ["ce", "sum"]
        assert command.seeds >= 3
        assert command.settings.data.dir.startswith("DATA/")


def test_the_overview_repeats_the_tables():
    lines = (ROOT / PAGE).read_text().splitlines()
    (first,) = [place for place, line in enumerate(lines) if line.startswith("| | ")]
    overview = [*map(cells, lines[first : lines.index("", first)])]
    sets = [title.rpartition(",")[0] for title in overview[0][1:]]
    assert len(sets) == sum(not heading.startswith(APART) for heading, _ in TABLES)
    for column, name in enumerate(sets, start=1):
        (rows,) = [rows for heading, rows in TABLES if heading.startswith(name)]
        by_loss = {row[0]: row for row in rows}
        for line in overview[2:]:
            loss, cell = line[0], line[column]
            row = by_loss.get(loss)
            if row is None:
                assert cell == "–", (name, loss)
            elif row[-1] == "baseline":
                assert cell == row[2], name
            else:
                assert cell.strip("*") == row[4], (name, loss)
                assert cell.startswith("**") == row[7].startswith(("better", "worse"))
        assert set(by_loss) <= {line[0] for line in overview}, name


@pytest.mark.parametrize("page", ["README.md", "docs/choosing.md"])
def test_no_sentence_has_more_than_two_numbers(page):
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.S | re.M)
    text = re.sub(r"`[^`]*`|\]\([^)]*\)|<[^>]*>", "", text)
    sentences = re.split(r"(?<=[.:;?])\s|\n\s*\n|\n- |\n#+ |\|", text)
    for sentence in sentences:
        numbers = re.findall(r"(?<![\w.,])[+−-]?\d[\d.,]*(?![\w])", sentence)
        assert len(numbers) <= 2, sentence


@pytest.mark.parametrize("name", ["readme.md.jinja", "choosing.md.jinja"])
def test_measured_numbers_of_the_first_pages_are_computed(name):
    """Updates and points are expressions of the templates, with no digit typed."""
    template = (EVIDENCE / name).read_text()
    measured = r"(?:\w+ )?(?:updates|points|F1)\b"
    assert len(re.findall(rf"\}}\}} {measured}", template)) >= 3
    assert not re.findall(rf"\d[\d.,]* {measured}", template)


def test_the_quickstart_of_the_readme_has_the_scores_of_its_experiment():
    (output,) = (x for x in blocks("README.md") if x.language == "text")
    rows = re.findall(r"^  (?:ce|dsc|wce)\S* .*$", output.text, re.M)
    printed = [re.findall(r"[\d.]+ ± [\d.]+", row)[2] for row in rows]  # F1
    measured = (ROOT / "experiments/quickstart.py").read_text().partition("With --")[0]
    measured = " ".join(measured.replace("+-", "±").split())
    assert printed == re.findall(r"[\d.]+ ± [\d.]+", measured)


def test_the_readme_is_short():
    text = re.sub(
        r"^```.*?^```", "", (ROOT / "README.md").read_text(), flags=re.S | re.M
    )
    text = re.sub(r"<[^>]*>|\]\([^)]*\)", "", text)
    assert len([word for word in text.split() if re.search(r"\w", word)]) <= 500


def test_the_page_on_the_paper_has_numbers_of_the_archives():
    """Each row has the printed gain of the paper, and the archived one of ours."""
    page = (ROOT / "docs/reproduced.md").read_text().partition("## What did help")[0]
    gains = re.findall(r"^\|.*\| ?([+−.\d]*) \| (\S+) \((.*?)\) \|", page, re.M)
    assert len(gains) == 13
    papers = (ROOT / "experiments/paper.toml").read_text()
    tables = (ROOT / "docs/evidence/tables.md").read_text()
    for published, gain, interval in gains:
        assert not published or re.search(rf"\d{re.escape(published)}\b", papers)
        assert f"{gain} | {interval} |" in tables, gain
