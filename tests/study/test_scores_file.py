"""Scores from a CSV file have the verdicts of the runs they came from."""

import dataclasses
import json

import numpy as np
import pytest
from scipy import stats

from dicejax import cli
from dicejax.study import compare as comparison
from dicejax.study.compare.results import latex, methods
from dicejax.study.compare.scores_file import outcomes_of
from dicejax.study.compare.statistics import rows_of

from .made_runs import compared, outcome

RUNS = "data,loss,seed,score"
EXAMPLES = f"{RUNS},example"
SKILLS = {"ce": 0.7, "dice": 0.7, "focal": 0.8}


def written(path, rows, header=RUNS):
    lines = [header, *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def by_example(rows):
    for run in (run for row in rows for run in row.outcomes):
        for n, (right, _) in enumerate(run.example_statistics[:, 0]):
            yield "set", run.loss, run.seed, 100 * right, f"e{n}"


def test_scores_of_examples_have_the_verdicts_of_their_runs(tmp_path, capsys):
    rows = compared(SKILLS, n=60)
    path = written(tmp_path / "scores.csv", by_example(rows), EXAMPLES)
    (result,) = comparison.compare_scores(path, out=str(tmp_path / "out"))
    for ours, theirs in zip(result.rows, rows, strict=True):
        assert (ours.loss, ours.summary) == (theirs.loss, theirs.summary)
        if theirs.against is not None:
            left, right = (
                (x.against.crossed, x.against.test.p_value, x.against.verdict.outcome)
                for x in (ours, theirs)
            )
            assert left == right
    assert cli.run(["report", "--scores", path, "--out", str(tmp_path / "again")]) == 0
    assert f"focal: {result.verdicts['focal']}" in capsys.readouterr().out
    content = [tmp_path / name / "comparison.json" for name in ("out", "again")]
    assert content[0].read_text() == content[1].read_text()


def test_scores_of_runs_are_judged_over_seeds(tmp_path):
    """The paired t test at the level that one look at 5 seeds leaves."""
    rng = np.random.default_rng(0)
    scores = {"ce": 70 + rng.normal(size=5), "dice": 72 + rng.normal(size=5)}
    rows = [("a", loss, n, x) for loss in scores for n, x in enumerate(scores[loss])]
    path = written(tmp_path / "scores.csv", rows)
    (result,) = comparison.compare_scores(path, out=str(tmp_path))
    expected = stats.ttest_rel(scores["dice"], scores["ce"])
    test = result.rows[1].against.test
    assert test.p_value == pytest.approx(expected.pvalue / 0.6, rel=1e-3)
    ends = 100 * test.crossed.low, 100 * test.crossed.high
    assert ends == pytest.approx(expected.confidence_interval(0.97), rel=1e-3)


def test_each_data_set_has_a_folder_of_its_own(tmp_path):
    rows = [
        (data, loss, seed, 50 + seed)
        for data in ("a", "b")
        for loss in ("ce", "dice")
        for seed in range(3)
    ]
    path = written(tmp_path / "scores.csv", rows)
    results = comparison.compare_scores(path, out=str(tmp_path / "out"))
    assert [result.name for result in results] == ["a", "b"]
    for result in results:
        assert result.verdicts["dice"].outcome == "identical predictions"
        file = tmp_path / "out" / result.name / "comparison.json"
        assert json.loads(file.read_text())


GOOD = [("a", "ce", 0, 50), ("a", "ce", 1, 51), ("a", "dice", 0, 52)]


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        (GOOD, "data,loss,seed", "line 1: has 0 columns named score"),
        ([*GOOD, ("a", "dice", 0, 3)], RUNS, "line 5: repeats line 4; keep one"),
        ([*GOOD, ("a", "dice", "x", 3)], RUNS, "line 5: seed 'x' is no whole number"),
        ([*GOOD, ("a", "dice", 1, "nan")], RUNS, "line 5: score 'nan' is no number of"),
        ([*GOOD, ("a", "dice", 1, 101)], RUNS, "line 5: score '101' is no number of"),
        ([*GOOD, ("a", "dice", 1)], RUNS, "line 5: has 3 fields where the header has"),
        ([*GOOD, ("a", "", 1, 3)], RUNS, "line 5: names no loss; add it"),
        ([*GOOD, ("b", "dice", 1, 3)], RUNS, "'b' has no score of ce to compare with"),
        ([*GOOD, ('"a', "dice", 1, 3)], RUNS, "line 5: is no row of CSV"),
        ([("../x", "ce", 0, 5), ("y", "ce", 0, 5)], RUNS, "'../x'"),
        (
            [("a", "ce", 0, 5, "x"), ("a", "ce", 1, 5, "y")],
            EXAMPLES,
            "line 3: ce seed 1 has no example 'x', unlike ce seed 0",
        ),
    ],
)
def test_a_flaw_in_the_file_is_one_line(tmp_path, capsys, rows, header, message):
    path = written(tmp_path / "scores.csv", rows, header)
    out = tmp_path / "out"
    assert cli.run(["report", "--scores", path, "--out", str(out)]) == 2
    assert message in " ".join(capsys.readouterr().err.split()) and not out.exists()


def test_scores_want_a_folder_and_no_runs(tmp_path, capsys):
    path = written(tmp_path / "scores.csv", GOOD)
    for more in ([], ["runs", "--out", "x"]):
        assert cli.run(["report", "--scores", path, *more]) == 2
        assert "--scores goes with --out FOLDER" in capsys.readouterr().err


def test_the_texts_to_paste_have_the_numbers_of_the_rows():
    rows = compared(SKILLS, n=60)
    (dice,) = (row for row in rows if row.loss == "dice")
    table = latex([dataclasses.replace(row, loss=f"{row.loss}_1%~{{") for row in rows])
    scores = 100 * np.array(dice.scores("f1"))
    cell = f"${scores.mean():.2f} \\pm {scores.std(ddof=1):.2f}$"
    assert (
        f"dice\\_1\\%\\textasciitilde{{}}\\{{ & {cell} &" in table
        and table.count(r"\\") == 4
    )
    assert table.startswith("\\begin{tabular}{lrrl}\n\\toprule\n")
    text = methods(rows, 0.005, [{"dice": [0, 1, 2]}, {"dice": [0, 1, 2, 3, 4]}])
    assert "2 losses with cross-entropy by F1 on the test set (60 examples)" in text
    assert "looked at 2 times at 3, 5 seeds" in text and "±0.5 points" in text


def test_a_run_is_the_mean_of_its_examples(tmp_path):
    rows = [("a", "ce", 0, score, n) for n, score in enumerate((0, 50, 100, 100))]
    path = written(tmp_path / "x.csv", rows, EXAMPLES)
    (ce,) = outcomes_of(path)["a"]
    assert ce.score == 0.625 and len(ce.example_statistics) == 4
    assert rows_of([ce, outcome("dice", 1, np.ones(4))], "ce")[0].summary.n == 1
