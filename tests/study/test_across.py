"""Several comparisons in one statement vs. equations, enumeration and simulation."""

import itertools
import json

import numpy as np
import pytest
from scipy import stats

from dicejax.cli import run
from dicejax.study.compare import compare_scores
from dicejax.study.significance.across import across_sets, holds_on

from ..small_project import fails
from .test_scores_file import written

Y, S = np.array([0.01, 0.05, -0.01, 0.04]), np.array([0.004, 0.01, 0.006, 0.02])


def test_the_estimate_solves_its_equations():
    got = across_sets(Y, S)
    w = 1 / (S**2 + got.between**2)
    mean = (w @ Y) / w.sum()
    assert got.mean == pytest.approx(mean)
    assert w @ (Y - mean) ** 2 == pytest.approx(3)  # Paule and Mandel
    error = np.sqrt(1 / w.sum())
    half = stats.t.isf(0.025, 3) * error
    assert (got.low, got.high) == pytest.approx((mean - half, mean + half))
    assert got.p_value == pytest.approx(2 * stats.t.sf(abs(mean) / error, 3))


def test_sets_that_agree_have_no_spread_and_no_narrower_interval():
    got = across_sets([0.02, 0.0201, 0.0199], [0.01] * 3)
    half = stats.t.isf(0.025, 2) * 0.01 / np.sqrt(3)
    assert got.between == 0 and got.high - got.mean == pytest.approx(half)


@pytest.mark.parametrize("sets", [3, pytest.param(6, marks=pytest.mark.exhaustive)])
def test_the_interval_covers_the_mean_over_sets(sets):
    rng = np.random.default_rng(sets)
    covered = 0
    for _ in range(1000):
        errors = rng.uniform(0.2, 2, sets)
        y = 1 + rng.normal(size=sets) + errors * rng.normal(size=sets)
        got = across_sets(y, errors)
        covered += got.low <= 1 <= got.high
    assert covered >= stats.binom.ppf(0.001, 1000, 0.95)


def test_partial_conjunction_equals_the_tests_of_all_subsets():
    rng = np.random.default_rng(0)
    for _ in range(200):
        p = rng.uniform(size=5) ** 4
        largest = 0
        for u in range(1, 6):
            size = 5 - u + 1  # were the claim true on fewer than u, all of one are null
            subsets = itertools.combinations(p, size)
            if max(size * min(subset) for subset in subsets) > 0.05:
                break
            largest = u
        assert holds_on(p) == largest


@pytest.fixture
def comparisons(tmp_path):
    """Comparisons on three data sets."""
    rng = np.random.default_rng(0)
    rows = [
        (data, loss, seed, 60 + gain + rng.normal())
        for place, data in enumerate("abc")
        for loss, gain in (("ce", 0), ("good", 6 + place), ("same", 0))
        for seed in range(5)
    ]
    path = written(tmp_path / "scores.csv", rows)
    return compare_scores(path, out=str(tmp_path / "out"))


def test_comparisons_are_combined_on_the_command_line(comparisons, tmp_path, capsys):
    folders, out = [x.folder for x in comparisons], tmp_path / "all"
    assert run(["report", *folders, "--across", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("3 data sets as a sample of such sets, vs. cross-entropy")
    assert "good: better: +" in printed
    content = json.loads((out / "several.json").read_text())["losses"]
    for name in ("good", "same"):
        rows = [row for x in comparisons for row in x.rows if row.loss == name]
        tests = [row.against for row in rows]
        means = [test.crossed.mean for test in tests]
        expected = across_sets(means, [test.crossed.seed_error for test in tests])
        assert content[name]["estimate"]["mean"] == pytest.approx(expected.mean)
        sided = [t.p_alone / 2 if t.crossed.mean > 0 else 1 for t in tests]
        assert content[name]["better_on"] == holds_on(sided)
    assert content["good"]["better_on"] == 3 and content["good"]["improvement"] == 1
    assert (content["good"]["rank"], content["same"]["rank"]) == (1, 2)


def test_what_cannot_be_combined_is_one_line(comparisons, tmp_path, capsys):
    argv = ["report", *(x.folder for x in comparisons), "--across"]
    file = tmp_path / "out" / "b" / "comparison.json"
    text = file.read_text()
    fails(capsys, [*argv[:2], "--across"], "--across combines two or more comparisons")
    for old, new, message in (
        ('"mean"', '"men"', "is damaged: required field missing"),
        ('"ce"', '"focal"', "ce and focal cannot be combined"),
    ):
        file.write_text(text.replace(old, new))
        fails(capsys, argv, message)
    file.unlink()
    fails(capsys, argv, "comparison.json: missing; run dicejax report")
    rows = [("b", loss, seed, 60 + seed) for loss in ("ce", "good") for seed in (0, 1)]
    path = written(tmp_path / "few.csv", rows)
    compare_scores(path, out=str(file.parent))
    message = "no loss has a confidence interval, which --across combines; it takes 3 "
    fails(capsys, argv, f"comparison.json: {message}seeds")
