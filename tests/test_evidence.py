"""The pages of the evidence are what their archives give."""

import dataclasses
import importlib
import re
import sys

import numpy as np
import pytest

from dicejax.study.significance import nominal_level

from .documented import ROOT

EVIDENCE = ROOT / "docs" / "evidence"
VERSION = re.compile(rb"Matplotlib v[\d.]+")


@pytest.fixture
def evidence(monkeypatch):
    """Return a function that imports a script of the evidence."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(EVIDENCE)
    yield importlib.import_module
    for name in {file.stem for file in EVIDENCE.glob("*.py")} - before:
        sys.modules.pop(name, None)


def test_results_are_made_from_the_archives_to_the_byte(evidence, tmp_path):
    evidence("results").main([str(tmp_path)])
    assert (tmp_path / "RESULTS.md").read_bytes() == (ROOT / "RESULTS.md").read_bytes()
    for name in ("curve", "thinned", "why"):
        figure = f"docs/evidence/{name}.svg"
        drawn, kept = ((root / figure).read_bytes() for root in (tmp_path, ROOT))
        if VERSION.search(kept)[0] == VERSION.search(drawn)[0]:
            assert drawn == kept


def test_choosing_repeats_the_numbers_of_the_results():
    results = (ROOT / "RESULTS.md").read_text()
    page = (ROOT / "docs" / "choosing.md").read_text()
    parts = r"(?:Curve|Tuned|Thinned|Reading): (.*?)"
    told = re.findall(parts + r"(?=\b[A-Z][a-z]+:|\|\n)", page)
    numbers = re.findall(r"\d+\.\d\d", " ".join(told))
    assert len(numbers) > 20
    assert set(numbers) <= set(re.findall(r"\d+\.\d\d(?!\d)", results))


def test_archives_hold_what_the_scores_are_computed_from(evidence):
    parts = [evidence(name) for name in ("curve", "thinned", "reading")]
    for table in [table for part in parts for table in part.finished()]:
        for row in table.rows:
            for outcome in row.outcomes:
                right, all_of = outcome.example_statistics[:, 0].sum(0)
                f1 = right / all_of if all_of else 0.0
                assert outcome.score == pytest.approx(f1, abs=1e-12)


@pytest.fixture
def whole(evidence):
    """Return the runs of a first look."""
    return some_of(evidence("archive").read("curve/250-2"), lambda one: one.seed < 5)


@pytest.fixture
def archive(evidence, whole, tmp_path, monkeypatch):
    """Return the module with an empty folder of archives."""
    module = evidence("archive")
    monkeypatch.setattr(module, "SCORES", tmp_path)
    module.read.cache_clear()
    (tmp_path / "curve").mkdir()
    yield module
    module.read.cache_clear()


def some_of(whole, chosen):
    return dataclasses.replace(whole, runs=tuple(filter(chosen, whole.runs)))


def test_runs_of_several_machines_are_archived_one_after_another(archive, whole):
    name = "curve/250-2"
    early = some_of(whole, lambda one: one.seed < 3)
    late = some_of(whole, lambda one: one.seed >= 2)  # seed 2 is in both
    archive.write(archive.merged(archive.read(name), early), archive.file_of(name))
    begun = archive.read(name)
    assert (begun.seeds, begun.outcomes) == (0, [])
    assert len(archive.runs_of("curve")) == 21
    archive.write(archive.merged(begun, late), archive.file_of(name))
    both = archive.read(name)
    assert both.seeds == 5
    assert both.hours == pytest.approx(whole.hours)
    wanted = {row.loss: row.to_json() for row in whole.rows()}
    assert {row.loss: row.to_json() for row in both.rows()} == wanted


def test_two_runs_of_a_loss_and_seed_are_not_archived(archive, whole):
    counts = whole.runs[0].example_statistics.copy()
    counts[0] += 1
    other = dataclasses.replace(
        whole.runs[0], folder="elsewhere", example_statistics=counts
    )
    other = dataclasses.replace(whole, runs=(other,))
    with pytest.raises(SystemExit, match="elsewhere: is not the run of ce with seed 0"):
        archive.merged(whole, other)


def test_trials_are_archived_with_the_runs_that_they_are_of(archive, whole, evidence):
    given = {"optimizer.learning_rate": 2e-4, "objective.gamma": 2.0}
    chosen = {"optimizer.learning_rate": 8.9e-5, "objective.gamma": 3.33}
    trials = [{"dev": None, "values": given}, {"dev": 0.8128, "values": chosen}]
    record = {"losses": {"focal": {"trials": trials, "chosen": 1}}, "seconds": 7200.0}
    tuned = dataclasses.replace(whole, tuning=record)
    (archive.SCORES / "tuned").mkdir()
    archive.write(tuned, archive.file_of("tuned/mrpc"))
    assert archive.merged(archive.read("tuned/mrpc"), tuned).tuning == record
    with pytest.raises(SystemExit, match="other trials than those of the archive"):
        archive.merged(archive.read("tuned/mrpc"), whole)
    tuned = evidence("tuned")
    (one,) = tuned.finished()
    assert one.hours == pytest.approx(whole.hours + 2)
    line = "| `focal` | 8.9e-05 | gamma 3.33 | 81.28 | diverged |"
    assert tuned.of_choices(one).splitlines()[-1] == line


def test_tuned_losses_stand_beside_their_cell_of_the_curve(archive, whole, evidence):
    rates = dataclasses.replace(whole, tuning={"seconds": 0.0})
    (archive.SCORES / "tuned").mkdir()
    archive.write(rates, archive.file_of("tuned/1000-2"))
    archive.write(whole, archive.file_of("curve/1000-2"))
    tuned = evidence("tuned")
    (one,) = tuned.finished()
    ce, focal = (
        [run.score for run in whole.runs if run.loss == loss]
        for loss in ("ce", "focal")
    )
    table = tuned.beside_the_curve(one).splitlines()
    mean = f"{100 * np.mean(ce):.2f}"
    assert f"| `ce` | {mean} |  | {mean} |  |" in table
    (line,) = (line for line in table if line.startswith("| `focal`"))
    gain = 100 * np.subtract(focal, ce).mean()
    assert line.count(f"{100 * np.mean(focal):.2f} | +{gain:.2f} (") == 2
    assert "tuned threshold" not in "".join(table)


@pytest.fixture
def plain(evidence):
    return evidence("archive").read("mrc/plain")


def test_mining_is_compared_with_cross_entropy_without_it(plain, archive, evidence):
    mined = some_of(plain, lambda one: one.loss == "dl-set")
    runs = [dataclasses.replace(one, loss="mined") for one in mined.runs]
    mined = dataclasses.replace(mined, runs=tuple(runs), positives={})
    (archive.SCORES / "mrc").mkdir()
    archive.write(plain, archive.file_of("mrc/plain"))
    reading = evidence("reading")
    assert [form.name for form in reading.finished()] == ["plain"]
    archive.write(mined, archive.file_of("mrc/mined"))
    archive.read.cache_clear()
    first, second = reading.finished()
    losses = [sorted(row.loss for row in form.rows) for form in (first, second)]
    only_first = [loss for loss in losses[0] if loss not in losses[1]]
    assert only_first == ["dl-set", "dsc-official", "focal"]
    gains = [
        next(row for row in form.rows if row.loss == loss).against.mean
        for form, loss in ((first, "dl-set"), (second, "mined"))
    ]
    assert gains[0] == gains[1]
    assert second.hours == pytest.approx(archive.hours_of(mined.runs))
    told = evidence("results").trained("mrc", [first, second])
    assert told == f"{25 + 5} runs"


def test_a_look_waits_for_all_seeds_of_all_losses_that_learn(whole, evidence):
    later = [dataclasses.replace(one, seed=one.seed + 5) for one in whole.runs]
    runs = (*whole.runs, *later)

    def looks(chosen):
        return some_of(dataclasses.replace(whole, runs=runs), chosen)

    assert looks(lambda one: (one.loss, one.seed) != ("focal", 9)).seeds == 5
    assert looks(lambda one: (one.loss, one.seed) != ("focal", 4)).seeds == 0
    both = looks(lambda one: one.loss != "dsc-eq11" or one.seed == 0)  # learns nothing
    assert both.seeds == 10
    table = evidence("tables").comparison(both.rows())
    assert "| `dsc-eq11` | 1 | 0.00 | " in table
    rows = {row.loss: row.against for row in both.rows()}
    assert rows["dsc-eq11"].verdict.outcome == "nothing learnt"
    focal = rows["focal"].crossed
    assert focal.seeds == 10
    assert focal.level == pytest.approx(nominal_level([5, 10], 0.05))


def test_weights_give_the_line_that_the_cells_lie_on(evidence):
    curve = evidence("curve")
    cells = [
        curve.Cell(size, 2, updates, 0.0, 0.0, (), {})
        for size, updates in ((250, 16), (1000, 64), (3500, 512), (14041, 880))
    ]
    updates, sizes = (
        np.log2([getattr(one, name) for one in cells])
        for name in ("updates", "sentences")
    )
    weights = curve.coefficients(cells)
    np.testing.assert_allclose(weights @ (3 - 2 * updates), [3, -2], rtol=1e-9)
    weights = curve.coefficients(cells, with_sentences=True)
    found = weights @ (3 - 2 * updates + 0.5 * sizes)
    np.testing.assert_allclose(found, [3, -2, 0.5], rtol=1e-7)


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
