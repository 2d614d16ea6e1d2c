"""Several comparisons in one statement vs. equations, enumeration and simulation."""

import itertools
import json

import numpy as np
import pytest
from scipy import stats

from dicejax.cli import run
from dicejax.study.compare import compare_scores
from dicejax.study.significance.several import across_sets, holds_on

from .test_scores_file import written

Y, S = np.array([0.01, 0.05, -0.01, 0.04]), np.array([0.004, 0.01, 0.006, 0.02])


def test_the_estimate_solves_its_equations():
    found = across_sets(Y, S)
    w = 1 / (S**2 + found.between**2)
    mean = (w @ Y) / w.sum()
    assert found.mean == pytest.approx(mean)
    assert w @ (Y - mean) ** 2 == pytest.approx(3)  # Paule and Mandel
    half = stats.t.isf(0.025, 3) * np.sqrt(1 / w.sum())
    assert (found.low, found.high) == pytest.approx((mean - half, mean + half))
    assert found.p_value == pytest.approx(
        2 * stats.t.sf(abs(mean) * np.sqrt(w.sum()), 3)
    )


def test_sets_that_agree_have_no_spread_and_no_narrower_interval():
    found = across_sets([0.02, 0.0201, 0.0199], [0.01] * 3)
    half = stats.t.isf(0.025, 2) * 0.01 / np.sqrt(3)
    assert found.between == 0
    assert found.high - found.mean == pytest.approx(half)


@pytest.mark.parametrize("sets", [3, pytest.param(6, marks=pytest.mark.exhaustive)])
def test_the_interval_covers_the_mean_over_sets(sets):
    rng = np.random.default_rng(sets)
    covered = 0
    for _ in range(1000):
        errors = rng.uniform(0.2, 2, sets)
        y = 1 + rng.normal(size=sets) + errors * rng.normal(size=sets)
        found = across_sets(y, errors)
        covered += found.low <= 1 <= found.high
    assert covered >= stats.binom.ppf(0.001, 1000, 0.95)


def test_partial_conjunction_equals_the_tests_of_all_subsets():
    rng = np.random.default_rng(0)
    for _ in range(200):
        p = rng.uniform(size=5) ** 4
        wanted = 0
        for u in range(1, 6):
            size = 5 - u + 1  # were the claim true on fewer than u, all of one are null
            subsets = itertools.combinations(p, size)
            if max(size * min(one) for one in subsets) > 0.05:
                break
            wanted = u
        assert holds_on(p) == wanted


def compared(tmp_path, capsys):
    rng = np.random.default_rng(0)
    rows = [
        (data, loss, seed, 60 + gain + rng.normal())
        for place, data in enumerate("abc")
        for loss, gain in (("ce", 0), ("good", 6 + place), ("same", 0))
        for seed in range(5)
    ]
    path = written(tmp_path / "scores.csv", rows)
    found = compare_scores(path, out=str(tmp_path / "out"))
    return [str(tmp_path / "out" / one.name) for one in found], found


def test_comparisons_are_combined_on_the_command_line(tmp_path, capsys):
    folders, comparisons = compared(tmp_path, capsys)
    out = tmp_path / "all"
    assert run(["report", *folders, "--across", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("3 data sets as a sample of such sets, vs. cross-entropy")
    content = json.loads((out / "several.json").read_text())["losses"]
    for name in ("good", "same"):
        rows = [row for one in comparisons for row in one.rows if row.loss == name]
        crossed = [row.against.crossed for row in rows]
        found = across_sets([x.mean for x in crossed], [x.seed_error for x in crossed])
        assert content[name]["found"]["mean"] == pytest.approx(found.mean)
        one_sided = [
            row.against.test.p_alone / 2 if row.against.mean > 0 else 1 for row in rows
        ]
        assert content[name]["better_on"] == holds_on(one_sided)
    assert content["good"]["better_on"] == 3 and content["good"]["improvement"] == 1
    assert (content["good"]["rank"], content["same"]["rank"]) == (1, 2)
    assert "good: better: +" in said


@pytest.mark.parametrize("case", ["one", "missing", "damaged", "baselines"])
def test_what_cannot_be_combined_is_one_line(tmp_path, capsys, case):
    folders, _ = compared(tmp_path, capsys)
    file = tmp_path / "out" / "b" / "comparison.json"
    text = file.read_text()
    if case == "one":
        folders = folders[:1]
    elif case == "missing":
        file.unlink()
    elif case == "damaged":
        file.write_text(text.replace('"mean"', '"men"'))
    else:
        file.write_text(text.replace('"baseline": "ce"', '"baseline": "focal"'))
    assert run(["report", *folders, "--across"]) == 2
    expected = {
        "one": "--across combines two or more comparisons",
        "missing": "comparison.json: missing; run dicejax report",
        "damaged": "has no 'mean'",
        "baselines": "with ce and focal cannot be combined",
    }
    said = " ".join(capsys.readouterr().err.split())
    assert expected[case] in said and "Traceback" not in said
