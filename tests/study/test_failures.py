"""Runs that fail are counted, and examples in groups are not taken for independent."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from dicejax.study.compare.failures import failures_of
from dicejax.study.compare.jobs import Outcome
from dicejax.study.compare.statistics import rows_of
from dicejax.study.significance import failure_limit, seeds_and_items

from .made_runs import compared, outcome


@pytest.mark.parametrize("runs", [1, 3, 5, 10, 30])
def test_the_limit_is_the_exact_one_of_a_binomial_share(runs):
    for failed in range(runs + 1):
        exact = stats.binomtest(failed, runs).proportion_ci(0.9, "exact")
        assert failure_limit(failed, runs) == pytest.approx(exact.high, rel=1e-9)
    for wrong in (-1, runs + 1):
        with pytest.raises(ValueError, match="runs failed: want"):
            failure_limit(wrong, runs)


def run(seed, score):
    if score is None:
        return Outcome("dice", seed, "x", "diverged")
    return outcome("dice", seed, np.arange(1000) < 1000 * score)


@pytest.mark.parametrize(
    ("scores", "failed", "median"),
    [
        ([0.7, 0.72, 0.36, 0.71], [], 0.705),
        ([0.7, 0.72, 0.34, 0.71], [2], 0.71),
        ([0.7, 0.0, None, 0.72, 0.71], [1, 2], 0.71),
        ([0.7, 0.0, 0.0, 0.0, 0.03], [1, 2, 3, 4], 0.7),  # most runs fail
        ([None, 0.0], [0, 1], None),
    ],
)
def test_a_run_fails_that_diverges_learns_nothing_or_scores_far_below(
    scores, failed, median
):
    failures = failures_of([run(seed, score) for seed, score in enumerate(scores)])
    assert sorted(failures.seeds) == failed and failures.runs == len(scores)
    assert failures.median == (median and pytest.approx(median))
    assert failures.is_unstable == (0 < len(failed) < len(scores))
    missing = failures_of([Outcome("dice", 9, "x", "missing")])
    assert missing.to_json() == {"seeds": [], "runs": 0, "limit": None}


def test_a_loss_that_fails_in_some_runs_is_unstable_whatever_its_mean():
    skills = {"ce": [0.3] * 5, "dice": [0.8, 0.8, 0.1, 0.8, 0.8]}
    _, dice = compared(skills)
    crossed = dice.against.crossed
    assert crossed.mean > 0.3  # far better on average
    others = 100 * np.median(np.delete(dice.scores("f1"), 2))
    sentence = str(dice.against.verdict)
    assert dice.against.verdict.outcome == "unstable"
    assert sentence.startswith(
        "unstable: failed in 1 of 5 runs, up to 66% may fail (Clopper-Pearson, "
        f"one-sided 95%); median of the others {others:.1f} F1, cross-entropy "
    )
    assert float(sentence.rpartition(" ")[2]) == pytest.approx(30, abs=2)


def test_a_claim_of_better_carries_the_limit_of_what_may_fail():
    _, dice = compared({"ce": 0.7, "dice": 0.8}, seeds=10)
    sentence = str(dice.against.verdict)
    assert sentence.startswith("better: ")
    assert sentence.endswith("; no failure in 10 runs: up to 26% may fail")


def test_where_the_baseline_fails_a_claim_has_to_hold_for_the_other_seeds():
    failing = [0.7] * 4 + [0.0] * 6
    _, dice = compared({"ce": failing, "dice": 0.7}, seeds=10, spread=0.01)
    assert dice.against.crossed.p_value < 0.01  # by the baseline's failures alone
    assert dice.against.verdict.outcome == "inconclusive"
    sentence = str(dice.against.verdict)
    assert "in the other 4 seeds inconclusive: " in sentence
    assert sentence.endswith(
        "; cross-entropy failed in 6 of 10 runs, up to 85% may fail"
    )
    _, dice = compared({"ce": failing, "dice": 0.8}, seeds=10)
    assert dice.against.verdict.outcome == "better"
    assert str(dice.against.verdict).endswith(
        "; no failure in 10 runs: up to 26% may fail; cross-entropy failed in 6 of 10 "
        "runs, up to 85% may fail"
    )
    few = {"ce": [0.7, 0.7, 0.0, 0.0, 0.0, 0.0], "dice": 0.75}
    _, dice = compared(few, seeds=6)
    assert "too few other seeds" in str(dice.against.verdict)


def test_examples_of_a_group_are_a_sample_of_it_and_not_independent():
    rng = np.random.default_rng(0)
    groups = rng.permutation(np.repeat(np.arange(30), rng.integers(2, 30, 30)))
    of_group = rng.normal(size=(2, 30))[:, groups] > 0  # all alike within a group
    flips = rng.random((2, 5, len(groups))) < 0.1
    right = of_group[:, None] ^ flips
    outcomes = [
        dataclasses.replace(outcome(loss, seed, x), groups=groups)
        for loss, of_loss in zip(("ce", "dice"), right, strict=True)
        for seed, x in enumerate(of_loss)
    ]
    grouped = rows_of(outcomes, "ce")[1].against.crossed
    ours, ce = (np.stack([x, np.ones_like(x)], -1)[:, :, None] for x in right[::-1])
    alone = seeds_and_items(ours, ce)
    assert grouped.mean == pytest.approx(alone.mean, abs=1e-12)
    assert grouped.sentences == 30
    assert grouped.same_seeds_error > 2 * alone.same_seeds_error
    # The cluster-robust error: G / (G - 1) sum of squared sums of residuals / N^2.
    apart = (right[1].astype(float) - right[0]).mean(0)
    sums = np.bincount(groups, apart - apart.mean(), minlength=30)
    robust = math.sqrt(30 / 29 * np.square(sums).sum()) / len(groups)
    # The jackknife that leaves groups out agrees with it to the order of 1 / G.
    assert grouped.same_seeds_error == pytest.approx(robust, rel=0.1)
