"""Runs that fail are counted, and examples in groups are not taken for independent."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from dicejax.study.compare.failures import (
    Failures,
    compared_failures,
    failures_of,
    is_repeated,
    learnt_nothing,
)
from dicejax.study.compare.jobs import ScoredRun
from dicejax.study.compare.statistics import rows_of
from dicejax.study.significance import failure_limit, seeds_and_items

from .made_runs import compared, in_record, outcome


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
        return ScoredRun("dice", seed, "x", "diverged")
    return outcome("dice", seed, np.arange(1000) < 1000 * score)


@pytest.mark.parametrize(
    ("scores", "failed", "median"),
    [
        ([0.7, 0.72, 0.54, 0.71], [], 0.705),  # less than a quarter below
        ([0.7, 0.72, 0.52, 0.71], [2], 0.71),
        ([0.7, 0.72, 0.34, 0.71], [2], 0.71),
        ([0.7, 0.72, 0.47], [2], 0.71),  # a third is lost
        ([0.7, 0.47, 0.71, 0.48, 0.72], [1, 3], 0.71),
        ([0.47, 0.7, 0.71, 0.48, 0.35], [], 0.48),  # most are low: which is usual?
        ([0.6, 0.75, 0.5, 0.42, 0.7], [], 0.6),  # no further than the others apart
        ([0.70, 0.45], [], 0.575),  # two runs have no usual distance
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
    missing = failures_of([ScoredRun("dice", 9, "x", "missing")])
    assert (missing.seeds, missing.runs, missing.limit) == (frozenset(), 0, None)


def test_a_loss_that_fails_in_some_runs_is_unstable_whatever_its_mean():
    skills = {"ce": [0.3] * 5, "dice": [0.8, 0.8, 0.1, 0.8, 0.8]}
    _, dice = rows = compared(skills)
    assert dice.against.mean > 0.3  # far better on average
    others = 100 * np.median(np.delete(dice.scores("f1"), 2))
    sentence = str(dice.against.verdict)
    assert dice.against.verdict.outcome == "unstable"
    assert sentence.startswith(
        "unstable: failed in 1 of 5 runs, up to 66% may fail (Clopper-Pearson, "
        "one-sided 95%; Fisher's exact test of both: p = 1); median F1 of the others "
        f"{others:.1f}, cross-entropy "
    )
    assert float(sentence.rpartition(" ")[2]) == pytest.approx(30, abs=2)
    assert dice.against.crossed is None and "CI" not in sentence
    assert in_record(rows)["dice"]["against_baseline"]["crossed"] is None


def test_a_claim_of_better_carries_the_limit_of_what_may_fail():
    _, dice = compared({"ce": 0.7, "dice": 0.8}, seeds=10)
    sentence = str(dice.against.verdict)
    assert sentence.startswith("better: ")
    assert sentence.endswith("; no failure in 10 runs: up to 26% may fail")


@pytest.mark.parametrize("failing", [[0.7] * 4 + [0.0] * 6, [0.7] * 8 + [0.46] * 2])
def test_where_the_baseline_fails_counts_and_medians_stand_for_a_difference(failing):
    _, dice = compared({"ce": failing, "dice": 0.8}, seeds=10, spread=0.01)
    assert dice.against.p_value < 0.05  # by the failures alone
    failed = sum(score < 0.7 for score in failing)
    verdict, limit = dice.against.verdict, failure_limit(failed, 10)
    fisher = stats.fisher_exact([[0, 10], [failed, 10 - failed]]).pvalue
    assert verdict.outcome == "unstable" and dice.against.crossed is None
    assert verdict.sentence.startswith(
        f"unstable: cross-entropy failed in {failed} of 10 runs, up to "
        f"{100 * limit:.0f}% may fail (Clopper-Pearson, one-sided 95%; Fisher's exact "
        f"test of both: p = {fisher:.2g}); median F1 of the others 8"
    )


@pytest.mark.parametrize("failed", [(0, 0), (1, 3), (0, 9), (10, 10)])
def test_failures_are_compared_by_the_hypergeometric_distribution(failed):
    both = [Failures(frozenset(range(n)), 10) for n in failed]
    chances = [stats.hypergeom(20, sum(failed), 10).pmf(n) for n in range(11)]
    seen = chances[failed[0]]
    expected = sum(p for p in chances if p <= seen * (1 + 1e-9))
    assert compared_failures(*both) == pytest.approx(expected)


def test_seeds_of_the_same_scores_are_one_run():
    right = np.arange(40) % 4 > 0
    runs = [outcome("ce", seed, right) for seed in range(5)]
    assert is_repeated(runs) and not is_repeated(runs[:2])
    assert not is_repeated([outcome("ce", seed, np.ones(40)) for seed in range(5)])
    assert not is_repeated([*runs, outcome("ce", 5, np.roll(right, 1))])
    others = [outcome("dice", seed, np.roll(right, seed)) for seed in range(5)]
    _, dice = rows_of([*runs, *others], "ce")
    verdict = dice.against.verdict
    assert verdict.outcome == "no verdict"
    assert dice.against.crossed is None and dice.against.mean == 0
    assert "all seeds of ce have the same scores, so they are one" in verdict.sentence


def test_with_few_examples_a_score_of_0_is_no_sign_of_a_failure():
    for examples in (9, 10):
        right = np.arange(examples) > 6
        runs = [outcome("ce", seed, right & (seed > 0)) for seed in range(5)]
        assert runs[0].score == 0
        assert learnt_nothing(runs[0]) == (examples == 10)


def test_refusing_all_questions_is_a_failure_whatever_f1_it_has():
    rows = {"answerable": {"support": 20}, "unanswerable": {"support": 20}}
    test = {"f1": 0.5, "answerable_f1": 0.0, "per_type": rows}
    right = np.arange(40) < 20
    refusing = [outcome("ce", seed, right, test=test) for seed in range(3)]
    test = test | {"answerable_f1": 0.1}
    answering = [outcome("dice", i, np.roll(right, i), test=test) for i in range(3)]
    assert failures_of(refusing).has_learnt_nothing
    assert not failures_of(answering).seeds
    assert rows_of([*refusing, *answering], "ce")[1].outcome == "nothing learnt"


@pytest.mark.parametrize("untaught", ["dice", "wce"])
def test_nothing_learnt_is_said_versus_a_control_too(untaught):
    skills = {"ce": 0.7, "dice": 0.7, "wce": 0.7} | {untaught: 0.0}
    contrast = compared(skills, controls=["wce"])[1].versus["wce"]
    assert contrast.verdict.outcome == "nothing learnt" and contrast.crossed is None


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
