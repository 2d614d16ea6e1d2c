"""Scores from a CSV file have the verdicts of the runs they came from."""

import dataclasses
import errno
import itertools
import json
import re

import jinja2
import numpy as np
import pytest
from scipy import special, stats

from dicejax import cli
from dicejax.io import files
from dicejax.study import compare as comparison
from dicejax.study import figures
from dicejax.study.compare.advice import headline
from dicejax.study.compare.results import latex, methods
from dicejax.study.compare.scores_file import runs_of
from dicejax.study.compare.statistics import rows_of
from dicejax.study.compare.table import warnings_of
from dicejax.study.report import document
from dicejax.study.significance import planning, seeds_and_items

from ..small_project import fails
from .made_runs import compared, outcome, record_of, statistics_of

RUNS = "data,loss,seed,score"
EXAMPLES = f"{RUNS},example"
GROUPS = f"{EXAMPLES},group"
SKILLS = {"ce": 0.7, "dice": 0.7, "focal": 0.8}


def written(path, rows, header=RUNS):
    lines = [header, *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def by_example(rows):
    for run in (run for row in rows for run in row.runs):
        for n, (right, _) in enumerate(run.example_statistics[:, 0]):
            yield "set", run.loss, run.seed, 100 * right, f"e{n}"


def test_scores_of_examples_have_the_verdicts_of_their_runs(tmp_path, capsys):
    rows = compared(SKILLS, n=60)
    path = written(tmp_path / "scores.csv", by_example(rows), EXAMPLES)
    (result,) = comparison.compare_scores(path, out=str(tmp_path / "out"))
    for ours, theirs in zip(result.rows, rows, strict=True):
        assert (ours.loss, ours.mean, ours.sd) == (theirs.loss, theirs.mean, theirs.sd)
        if theirs.against is not None:
            left, right = ours.against, theirs.against
            assert (ours.outcome, left.crossed) == (theirs.outcome, right.crossed)
            assert left.p_value == right.p_value
    assert cli.run(["report", "--scores", path, "--out", str(tmp_path / "again")]) == 0
    assert f"focal: {result.verdicts['focal']}" in capsys.readouterr().out
    content = [tmp_path / name / "comparison.json" for name in ("out", "again")]
    assert content[0].read_text() == content[1].read_text()


def test_groups_of_examples_are_the_items_of_the_test(tmp_path):
    rows = compared(SKILLS, n=60)
    lines = [
        (*line, f"d{int(line[-1][1:]) % 7}")  # examples of a document are scattered
        for line in by_example(rows)
    ]
    path = written(tmp_path / "scores.csv", lines, GROUPS)
    (result,) = comparison.compare_scores(path, out=str(tmp_path / "out"))

    def sums(row):
        counts = statistics_of(row.runs)
        return np.stack([counts[:, d::7].sum(1) for d in range(7)], 1)

    ours = {row.loss: row for row in rows}
    for row in result.rows[1:]:
        expected = seeds_and_items(sums(ours[row.loss]), sums(ours["ce"]))
        crossed = row.against.crossed
        assert (crossed.sentences, expected.sentences) == (7, 7)
        for name in ("mean", "sentence_error", "same_seeds_error"):
            value = pytest.approx(getattr(expected, name), rel=1e-6, abs=1e-12)
            assert getattr(crossed, name) == value
    text = (tmp_path / "out" / "methods.txt").read_text()
    assert "(60 examples in 7 groups)" in text
    assert "crossed with groups of examples" in text


def test_scores_of_runs_are_judged_over_seeds(tmp_path):
    """The paired t test at the level that one look at 5 seeds leaves."""
    rng = np.random.default_rng(0)
    scores = {"ce": 70 + rng.normal(size=5), "dice": 72 + rng.normal(size=5)}
    rows = [("a", loss, n, x) for loss in scores for n, x in enumerate(scores[loss])]
    path = written(tmp_path / "scores.csv", rows)
    (result,) = comparison.compare_scores(path, out=str(tmp_path))
    expected = stats.ttest_rel(scores["dice"], scores["ce"])
    test = result.rows[1].against
    assert test.p_value == pytest.approx(expected.pvalue / 0.6, rel=1e-3)
    ends = 100 * test.crossed.low, 100 * test.crossed.high
    assert ends == pytest.approx(expected.confidence_interval(0.97), rel=1e-3)


def test_each_data_set_has_a_folder_of_its_own(tmp_path):
    cases = itertools.product("ab", ("ce", "dice"), range(3))
    rows = [(data, loss, seed, 50 + seed) for data, loss, seed in cases]
    path = written(tmp_path / "scores.csv", rows)
    results = comparison.compare_scores(path, out=str(tmp_path / "out"))
    assert [result.name for result in results] == ["a", "b"]
    for result in results:
        assert str(result.verdicts["dice"]) == "identical scores throughout"
        file = tmp_path / "out" / result.name / "comparison.json"
        assert json.loads(file.read_text())


def many(folder, count):
    """Write scores of as many data sets, whose differences have the same freedom."""
    rng = np.random.default_rng(1)
    cases = itertools.product(range(count), ("ce", "dice", "focal"), range(5))
    rows = [
        (f"set{data}", loss, seed, f"{70 + rng.normal():.2f}")
        for data, loss, seed in cases
    ]
    return written(folder / f"scores-{count}.csv", rows)


def test_many_data_sets_take_templates_once_and_no_figures(
    tmp_path, capsys, monkeypatch
):
    drawn, inverted, read = [], [], []
    monkeypatch.setattr(comparison, "MOST_DRAWN", 2)
    rendered, chdtri = figures.rendered, special.chdtri

    def draw(*inputs, **options):
        drawn.append(inputs)
        return rendered(*inputs, **options)

    def invert(freedom, quantiles):
        inverted.append(freedom)
        return chdtri(freedom, quantiles)

    monkeypatch.setattr(figures, "rendered", draw)
    monkeypatch.setattr(special, "chdtri", invert)
    few = comparison.compare_scores(many(tmp_path, 2), out=str(tmp_path / "few"))
    assert len(drawn) == 2 * len(few)  # differences and runs
    drawn.clear()
    planning._variances.cache_clear()
    document._templates.cache_clear()
    inverted.clear()
    out, path = tmp_path / "out", many(tmp_path, 12)
    with monkeypatch.context() as patched:
        load = jinja2.PackageLoader.get_source
        source = lambda *x: read.append(x[-1]) or load(*x)  # noqa: E731
        patched.setattr(jinja2.PackageLoader, "get_source", source)
        assert cli.run(["report", "--scores", path, "--out", str(out)]) == 0
    assert (drawn, len(read)) == ([], len({*read})) and "page.html.jinja" in read
    assert len(inverted) == len(set(inverted))  # once for each freedom, not data set
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 13
    assert said[-1] == f"reports of 12 data sets, without figures: {out}"
    cells = [f"{score:.2f}" for score in outcome_scores(path, "set11", "dice")]
    for kind, between in (("md", r" \| "), ("html", r".*?")):
        text = (out / "set11" / f"report.{kind}").read_text()
        assert re.search(between.join(map(re.escape, cells)), text)
        assert "<svg" not in text
    record = json.loads((out / "set11" / "comparison.json").read_text())
    outcomes = {k: x.outcome for k, x in verdicts_of(path, "set11").items()}
    assert outcomes == {"dice": "inconclusive", "focal": "inconclusive"}
    assert said[11] == "set11: focal inconclusive, dice inconclusive"  # by their means
    assert record["losses"].keys() == {"ce", "dice", "focal"}


def outcome_scores(path, data, loss):
    return [100 * run.score for run in runs_of(path)[data] if run.loss == loss]


def verdicts_of(path, data):
    """Return the verdicts on one data set, by loss."""
    rows = rows_of(runs_of(path)[data], "ce")
    return {row.loss: row.against.verdict for row in rows if row.against}


@pytest.mark.parametrize("is_new", [True, False])
def test_an_error_leaves_the_reports_of_all_data_sets_or_none(
    tmp_path, capsys, monkeypatch, is_new
):
    monkeypatch.setattr(comparison, "MOST_DRAWN", 0)
    path, out, encoded, count = many(tmp_path, 3), tmp_path / "out", files._encoded, []
    if not is_new:
        (out / "set1").mkdir(parents=True)
        (out / "set1" / "notes.txt").write_text("mine")
    before = sorted(tmp_path.rglob("*"))

    def full(content):
        count.append(content)
        if len(count) == 14:  # of 15 files
            raise OSError(errno.ENOSPC, "No space left on device")
        return encoded(content)

    monkeypatch.setattr(files, "_encoded", full)
    fails(capsys, ["report", "--scores", path, "--out", str(out)], "No space left")
    assert sorted(tmp_path.rglob("*")) == before
    assert cli.run(["report", "--scores", path, "--out", str(out)]) == 0
    assert len(list(out.rglob("comparison.json"))) == 3
    assert not list(tmp_path.rglob(".*"))


def test_a_thousand_seeds_and_more_have_a_verdict(tmp_path):
    rng = np.random.default_rng(0)
    scores = {"ce": 70 + rng.normal(size=1200), "dice": 71 + rng.normal(size=1200)}
    rows = [("a", loss, n, x) for loss in scores for n, x in enumerate(scores[loss])]
    path = written(tmp_path / "scores.csv", rows)
    verdict = verdicts_of(path, "a")["dice"]
    test = stats.ttest_rel(scores["dice"], scores["ce"])
    low, high = test.confidence_interval(0.95)
    assert verdict.outcome == "better"
    assert f"+{np.mean(scores['dice'] - scores['ce']):.2f} score" in verdict.sentence
    (row,) = (x for x in rows_of(runs_of(path)["a"], "ce") if x.loss == "dice")
    ends = 100 * row.against.crossed.low, 100 * row.against.crossed.high
    assert ends[0] < low < high < ends[1]  # wider, for the looks before
    assert ends == pytest.approx((low, high), abs=0.02)


GOOD = [("a", "ce", 0, 50), ("a", "ce", 1, 51), ("a", "dice", 0, 52)]


def runs(scores, data="a"):
    return [(data, loss, n, x) for loss in scores for n, x in enumerate(scores[loss])]


FRACTIONS = {"ce": [0.8, 0.81, 0.82, 0.8, 0.81], "dsc": [0.85, 0.86, 0.87, 0.85, 0.86]}
POINTS = {loss: [100 * x for x in row] for loss, row in FRACTIONS.items()}


@pytest.mark.parametrize(
    ("scores", "unit", "gain"),
    [
        (FRACTIONS, "fraction", "better: +5.00 score"),
        (POINTS, None, "better: +5.00 score"),
        (POINTS, "points", "better: +5.00 score"),
        (FRACTIONS, "points", "practically equal: +0.05 score"),
        ({"ce": [1, 1.5, 1], "dsc": [2, 2.5, 2]}, None, "better: +1.00 score"),
        ({"ce": [80, 81, 80], "dsc": [0, 0, 0]}, None, "nothing learnt by dsc in 3"),
        ({"ce": [80, 81, 80], "dsc": [0.3, 81, 80]}, None, "unstable: failed in 1"),
    ],
)
def test_scores_are_read_in_their_unit(tmp_path, capsys, scores, unit, gain):
    path, out = written(tmp_path / "scores.csv", runs(scores)), str(tmp_path / "out")
    more = ["--unit", unit] if unit else []
    assert cli.run(["report", "--scores", path, "--out", out, *more]) == 0
    assert f"\n  dsc: {gain}" in capsys.readouterr().out
    (result,) = comparison.compare_scores(path, out=out, unit=unit)
    expected = np.mean(scores["dsc"]) - np.mean(scores["ce"])
    factor = 1 if unit == "fraction" else 100
    assert result.rows[1].against.mean * factor == pytest.approx(expected)


def test_a_file_without_a_column_of_data_is_one_data_set(tmp_path):
    rows = [row[1:] for row in runs(POINTS)]
    plain = written(tmp_path / "mine.csv", rows, "loss,seed,score")
    named = written(tmp_path / "named.csv", runs(POINTS, "mine"))
    of_file, of_column = map(runs_of, (plain, named))
    assert list(of_file) == list(of_column) == ["mine"]
    for ours, theirs in zip(of_file["mine"], of_column["mine"], strict=True):
        assert (ours.loss, ours.seed) == (theirs.loss, theirs.seed)
        np.testing.assert_array_equal(ours.item_statistics, theirs.item_statistics)


def test_a_missing_run_is_named(tmp_path, capsys):
    path = written(tmp_path / "scores.csv", runs(POINTS)[:-2])
    (result,) = comparison.compare_scores(path, out=str(tmp_path / "out"))
    assert "dsc has no run of seeds 3, 4." in warnings_of(result.rows)
    whole = written(tmp_path / "whole.csv", runs(POINTS))
    (result,) = comparison.compare_scores(whole, out=str(tmp_path / "out2"))
    assert warnings_of(result.rows) == []


MIXED = {"ce": POINTS["ce"], "dsc": [85.0, 86.0, 0.87, 85.5, 86.5]}
UNLIKE = [("a", "ce", 0, 5, "x"), ("a", "ce", 1, 5, "y")]
REGROUPED = [("a", "ce", n // 2, 5, "xy"[n % 2], f"d{n}") for n in range(4)]
ALIKE = [("a", "ce", 0, 5, "x", "d"), ("a", "ce", 0, 6, "y", "d")]
ONE_OR_NOTHING = [(*row, n % 2) for n, row in enumerate(runs({"ce": [0, 1, 1, 0]}))]
FLAWS = [
    (GOOD, "data,loss,seed", ":1: has no column score, but data, loss, seed"),
    (GOOD, "loss,loss,seed,score", ":1: repeats loss, but"),
    ([*GOOD, ("a", "dice", 0, 3)], RUNS, ":5: repeats line 4; keep one"),
    ([*GOOD, ("a", "dice", "x", 3)], RUNS, ":5: seed 'x' is not a whole number"),
    ([*GOOD, ("a", "dice", 1, "nan")], RUNS, ":5: score 'nan' is not a number of"),
    ([*GOOD, ("a", "dice", 1, 101)], RUNS, ":5: score '101' is not a number of"),
    ([*GOOD, ("a", "dice", 1)], RUNS, ":5: has 3 fields where the header has"),
    ([*GOOD, ("a", "", 1, 3)], RUNS, ":5: names no loss; add it"),
    ([*GOOD, ("b", "dice", 1, 3)], RUNS, "'b' has no score of ce to compare with"),
    ([*GOOD, ('"a', "dice", 1, 3)], RUNS, ":5: a quote begins a field and is not clo"),
    ([("../x", "ce", 0, 5), ("y", "ce", 0, 5)], RUNS, "'../x'"),
    ([*GOOD, ("a", "dice", 1, "7_5")], RUNS, ":5: score '7_5' is not a number of"),
    ([*GOOD, ("a", "dice", 1, "٧٥")], RUNS, ":5: score '٧٥' is not a number of"),
    ([*GOOD, ("a", "dice", "1_0", 3)], RUNS, ":5: seed '1_0' is not a whole num"),
    (runs(MIXED), RUNS, ":9: a score of dsc is 0.87, others up to 86.5, which loo"),
    (UNLIKE, EXAMPLES, ":3: ce seed 1 has no example 'x', unlike ce seed 0"),
    (REGROUPED, GROUPS, ":4: group is 'd2', on line 2 'd0'; correct it"),
    ([("a", "ce", 0, 5, "x", "")], GROUPS, ":2: names no group; add it"),
    (ALIKE, GROUPS, "all examples of a are of group 'd'; name two groups or more"),
    (runs(FRACTIONS), RUNS, "at most 1, which looks like fractions; add --unit frac"),
    (runs(POINTS) + runs(FRACTIONS, "b"), RUNS, "all scores on b are at most 1"),
    (ONE_OR_NOTHING, EXAMPLES, "all scores on a are at most 1"),
    (
        runs({"ce": POINTS["ce"], "dice": [0, 0], "dsc": FRACTIONS["dsc"]}),
        RUNS,
        ":11: all scores of dsc on a are at most 1, those of ce go up to 82 (line "
        "4), which looks like mixed units",
    ),
    (
        runs({"ce": FRACTIONS["ce"], "dsc": POINTS["dsc"]}),
        *(RUNS, ":7: score '85.0' is not a fraction from 0 to 1", "fraction"),
    ),
]


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_flaw_in_the_file_is_one_line(tmp_path, capsys, flaw):
    rows, header, message, *unit = flaw
    path, out = written(tmp_path / "scores.csv", rows, header), tmp_path / "out"
    more = ["--unit", *unit] if unit else []
    fails(capsys, ["report", "--scores", path, "--out", str(out), *more], message)
    assert not out.exists()


WITHOUT_EXAMPLES = (
    "ropy (95% CI over seeds, valid over all looks):",
    "We compared 1 loss with",
)


@pytest.mark.parametrize(
    ("seeds", "with_examples", "expected", "absent"),
    [
        (
            *(5, False),
            (*WITHOUT_EXAMPLES, "Student's t test of the mean difference over seeds"),
            ("jackknife", "examples", "the losses'", "Diverged", "--seeds"),
        ),
        (
            *(2, False),
            (*WITHOUT_EXAMPLES, "takes 3.\nNext: scores of 5 seeds of each loss."),
            ("--seeds", "same command"),
        ),
        (
            *(5, True),
            (
                "CI over seeds and test examples, valid",
                "set (12 examples)",
                "(Owen, 2007)",
            ),
            ("Diverged", "identical predictions"),
        ),
    ],
)
def test_the_texts_name_what_the_scores_are_of(
    tmp_path, capsys, seeds, with_examples, expected, absent
):
    scores = {"ce": range(70, 70 + seeds), "dice": [72, 79, 71, 60, 75][:seeds]}
    rows = runs(scores)
    if with_examples:
        rows = [(*row, n) for row in rows for n in range(12)]
    path = written(tmp_path / "x.csv", rows, EXAMPLES if with_examples else RUNS)
    out = tmp_path / "out"
    assert cli.run(["report", "--scores", path, "--out", str(out)]) == 0
    text = capsys.readouterr().out + (out / "methods.txt").read_text()
    assert [part for part in expected if part not in text] == []
    assert [part for part in absent if part in text] == []
    record = record_of(out)["losses"]["dice"]
    if crossed := record["against_baseline"]["crossed"]:
        assert crossed["sentences"] == (12 if with_examples else None)
        randomisation = record["against_baseline"]["randomisation"]
        assert (randomisation is not None) == with_examples
    files = "comparison.json", "methods.txt", "report.html", "report.md", "table.tex"
    assert {file.name for file in out.iterdir()} == {*files}


@pytest.mark.parametrize("kind", ["runs", "examples", "groups"])
def test_scores_have_a_page_that_says_no_more_than_they_do(tmp_path, kind):
    rows = compared(SKILLS, n=60)
    header, lines = EXAMPLES, list(by_example(rows))
    if kind == "runs":
        outcomes = [run for row in rows for run in row.runs]
        lines = [("set", run.loss, run.seed, 100 * run.score) for run in outcomes]
        header = RUNS
    if kind == "groups":
        header = GROUPS
        lines = [(*line, f"d{int(line[-1][1:]) % 7}") for line in lines]
    path, out = written(tmp_path / "scores.csv", lines, header), tmp_path / "out"
    (result,) = comparison.compare_scores(path, out=str(out), unit="points")
    assert result.report == str(out / "report.html")
    page = (out / "report.html").read_text()
    text = (out / "report.md").read_text()
    assert page.startswith("<!DOCTYPE html>") and "# set: loss comparison" in text
    assert headline(result.rows).splitlines()[0] in text
    samples = {
        "runs": "(95% CI over seeds, valid",
        "examples": "(95% CI over seeds and test examples, valid",
        "groups": "(95% CI over seeds and 7 groups of test examples, valid",
    }
    assert samples[kind] in text
    assert ("60 test examples" in text) == (kind != "runs")
    assert ("Changed answers" in text) == (kind != "runs")
    assert f"dicejax report --scores {path} --out FOLDER --unit points" in text
    everything = text + (out / "methods.txt").read_text()
    # Nothing is known of training, of other data or of texts.
    for word in ("same weights", "dev", "diverged", "rerun.py", "updates", "Hardware"):
        assert word not in everything, word
    if kind == "runs":
        for word in ("example", "crossed", "jackknife"):
            assert word not in everything, word
    record = record_of(out)
    assert record["verdict"] == headline(result.rows)
    assert "experiment" not in record["rerun"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--scores", "scores.csv"], "--scores needs --out FOLDER"),
        (["--scores", "x.csv", "runs", "--out", "x"], "--scores needs --out"),
        (["runs", "--unit", "points"], "--unit goes with --scores"),
    ],
)
def test_scores_want_a_folder_and_no_runs(capsys, words, message):
    fails(capsys, ["report", *words], message)


def test_the_texts_to_paste_have_the_numbers_of_the_rows():
    rows = compared(SKILLS, n=60)
    (dice,) = (row for row in rows if row.loss == "dice")
    table = latex([dataclasses.replace(row, loss=f"{row.loss}_1%~{{") for row in rows])
    scores = 100 * np.array(dice.scores("f1"))
    cell = f"${scores.mean():.2f} \\pm {scores.std(ddof=1):.2f}$"
    assert f"dice\\_1\\%\\textasciitilde{{}}\\{{ & {cell} &" in table
    assert table.count(r"\\") == 4
    assert table.startswith("\\begin{tabular}{lrrl}\n\\toprule\n")
    text = methods(rows, 0.005, [{"dice": [0, 1, 2]}, {"dice": [0, 1, 2, 3, 4]}])
    assert "2 losses with cross-entropy by F1 on the test set (60 examples)" in text
    assert "looked at 2 times at 3, 5 seeds" in text and "±0.5 points" in text


def test_a_run_is_the_mean_of_its_examples(tmp_path):
    rows = [("a", "ce", 0, score, n) for n, score in enumerate((0, 50, 100, 100))]
    path = written(tmp_path / "x.csv", rows, EXAMPLES)
    (ce,) = runs_of(path)["a"]
    assert ce.score == 0.625 and len(ce.example_statistics) == 4
    assert len(rows_of([ce, outcome("dice", 1, np.ones(4))], "ce")[0].finished) == 1
