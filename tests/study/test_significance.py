"""Significance vs. plain loops, enumeration, published tables and integrals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dicejax.study.significance import (
    CrossedDifference,
    approximate_randomisation,
    contrast,
    differences,
    holm,
    nominal_level,
    over_seeds,
    score,
    seeds_and_items,
    seeds_needed,
    sequential_p_value,
    verdict,
)


def counts(seed, seeds=3, sentences=12, classes=2):
    """Draw 2 TP and predicted + gold per sentence, some of them 0."""
    rng = np.random.default_rng(seed)
    shape = (2, seeds, sentences, classes)
    gold, wrong = rng.poisson(1, shape), rng.poisson(0.5, shape)
    right = rng.binomial(gold, 0.6)
    return np.stack([2 * right, gold + right + wrong], -1)


def score_by_loops(sentences):
    """Compute the score of [N, C, 2]."""
    classes, total = len(sentences[0]), 0.0
    for c in range(classes):
        above, below = (sum(float(s[c][part]) for s in sentences) for part in (0, 1))
        total += above / below if below else 0.0
    return total / classes


def mean_difference(ours, baseline):
    pairs = zip(ours, baseline, strict=True)
    return sum(score_by_loops(o) - score_by_loops(b) for o, b in pairs) / len(ours)


# Scores and their description


@pytest.mark.parametrize("seeds", [1000, 1001, 20_000])
def test_of_more_seeds_than_are_planned_for_none_is_enough(seeds):
    seen = CrossedDifference(0.001, seeds, 9000, 0.001, 0.0, 0.0, freedom=seeds - 1)
    assert seeds_needed(seen, [seeds]) == math.inf


def test_score_equals_loops_over_any_leading_axes():
    runs = counts(0)
    got = score(runs)
    assert got.shape == (2, 3)
    for i, j in itertools.product(range(2), range(3)):
        assert got[i, j] == pytest.approx(score_by_loops(runs[i, j]), abs=1e-15)
    assert score(runs[0, 0]) == got[0, 0]
    assert score([[[2, 2], [0, 0]]]) == 0.5  # a class that is nowhere
    right = np.array([True, False, True, True])
    assert score(np.stack([right, np.ones(4, bool)], -1)[:, None]) == 0.75


# Over seeds


def test_over_seeds_equals_scipys_paired_t_test():
    ours, baseline = np.random.default_rng(1).random((2, 7))
    got = over_seeds(ours, baseline, level=0.1)
    expected = stats.ttest_rel(ours, baseline)
    assert got.p_value == pytest.approx(expected.pvalue, rel=1e-12)
    assert (got.low, got.high) == pytest.approx(expected.confidence_interval(0.9))
    assert (got.seeds, got.mean) == (7, pytest.approx((ours - baseline).mean()))
    assert got.seed_error == pytest.approx(stats.sem(ours - baseline))
    assert over_seeds([0.5, 0.6], [0.5, 0.6]).p_value == 1


# Approximate randomisation


def randomisation_by_enumeration(ours, baseline):
    """Return the share of all 2^N swaps that differ at least as much."""
    observed = abs(mean_difference(ours, baseline))
    reached = 0
    ways = list(itertools.product([False, True], repeat=ours.shape[1]))
    for way in ways:
        swap = np.array(way)[None, :, None, None]
        a, b = np.where(swap, baseline, ours), np.where(swap, ours, baseline)
        reached += abs(mean_difference(a, b)) >= observed - 1e-12
    return reached / len(ways)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("chunk", [2**22, 50])
def test_approximate_randomisation_equals_enumeration(seed, chunk, monkeypatch):
    monkeypatch.setattr(differences, "_CHUNK", chunk)
    ours, baseline = counts(seed, seeds=2, sentences=8)
    exact = randomisation_by_enumeration(ours, baseline)
    got = approximate_randomisation(ours, baseline, resamples=20_000)
    four_errors = 4 * math.sqrt(exact * (1 - exact) / 20_000)
    assert abs(got - exact) <= four_errors + 1 / 20_000


def test_approximate_randomisation_is_deterministic_and_never_0():
    ours, baseline = counts(5, sentences=40)
    options = [{"resamples": 500, "seed": seed} for seed in range(5)] * 2
    p_values = [approximate_randomisation(ours, baseline, **x) for x in options]
    assert p_values[:5] == p_values[5:] and len(set(p_values)) > 1
    right = np.ones((1, 60, 1, 2))
    assert approximate_randomisation(right, right * [0, 1], resamples=99) == 0.01
    assert approximate_randomisation(right, right, resamples=99) == 1


# Seeds and sentences


def pseudo_values_by_loops(ours, baseline):
    """Return the jackknife's pseudo-values [S, N], with the scores as their means."""
    seeds, sentences = ours.shape[:2]
    pseudo = np.empty((seeds, sentences))
    for s in range(seeds):
        whole = score_by_loops(ours[s]) - score_by_loops(baseline[s])
        for n in range(sentences):
            left = [i for i in range(sentences) if i != n]
            without = score_by_loops(ours[s, left]) - score_by_loops(baseline[s, left])
            pseudo[s, n] = sentences * whole - (sentences - 1) * without
        pseudo[s] += whole - pseudo[s].mean()  # the score itself, not the jackknife's
    return pseudo


def variances_by_loops(pseudo):
    """Return variances of the mean: of seeds, of sentences in common, of the rest."""
    seeds, sentences = pseudo.shape
    of_seed, of_sentence = pseudo.mean(1), pseudo.mean(0)
    rest = 0.0
    for s, n in itertools.product(range(seeds), range(sentences)):
        rest += (pseudo[s, n] - of_seed[s] - of_sentence[n] + pseudo.mean()) ** 2
    a = sentences * stats.tvar(of_seed)
    b = seeds * stats.tvar(of_sentence)
    e = rest / ((seeds - 1) * (sentences - 1))
    cells = seeds * sentences
    return a / cells, max(b - e, 0) / cells, b / cells


PAIRS = [counts(seed, seeds=4, sentences=30) for seed in range(6)]


@pytest.mark.parametrize(
    ("pairs", "weights"),
    [*(([pair], [1.0]) for pair in PAIRS), (PAIRS[:3], [-1.0, 0.25, 2.0])],
)
def test_errors_and_intervals_equal_loops(pairs, weights):
    pseudo = sum(
        weight * pseudo_values_by_loops(*pair)
        for weight, pair in zip(weights, pairs, strict=True)
    )
    *_, alone = variances = variances_by_loops(pseudo)
    got = contrast(pairs, weights, level=0.1)
    if len(pairs) == 1:
        assert got == seeds_and_items(*pairs[0], level=0.1)
        assert pseudo.mean() == pytest.approx(mean_difference(*pairs[0]))
    squares = np.square(stats.t.isf(0.05, [3, 29]))
    half = math.sqrt(max(squares @ variances[:2], squares[1] * alone))
    ends = pseudo.mean() + np.array([-half, 0, half])
    assert (got.low, got.mean, got.high) == pytest.approx(ends, abs=1e-12)
    errors = (got.seed_error, got.sentence_error, got.same_seeds_error)
    np.testing.assert_allclose(errors, np.sqrt(variances), rtol=1e-9)
    assert (got.seeds, got.sentences, got.level) == (4, 30, 0.1)


@pytest.mark.parametrize("pair", PAIRS)
def test_p_values_are_levels_at_which_the_interval_ends_at_0_or_the_margin(pair):
    crossed = seeds_and_items(*pair)
    got = seeds_and_items(*pair, level=crossed.p_value)
    end = min(abs(got.low), abs(got.high))
    assert end == pytest.approx(0, abs=1e-9 * (got.high - got.low))
    margin = abs(crossed.mean) + 0.1
    half = crossed.half(crossed.p_equal(margin))
    assert abs(crossed.mean) + half == pytest.approx(margin, rel=1e-9)
    assert crossed.p_equal(abs(crossed.mean) / 2) == 1


def test_roles_can_be_exchanged_and_the_same_runs_are_no_evidence():
    ours, baseline = counts(7)
    there, back = seeds_and_items(ours, baseline), seeds_and_items(baseline, ours)
    assert (there.mean, there.low, there.high) == (-back.mean, -back.high, -back.low)
    assert there.p_value == back.p_value
    same = seeds_and_items(ours, ours)
    assert (same.mean, same.low, same.high, same.p_value) == (0, 0, 0, 1)


def test_without_seeds_the_error_is_that_of_a_bootstrap_of_sentences():
    runs = counts(8, seeds=1, sentences=300)
    ours, baseline = np.repeat(runs, 4, axis=1)  # 4 seeds that give the same outputs
    got = seeds_and_items(ours, baseline)
    rng = np.random.default_rng(0)
    weights = rng.multinomial(300, np.full(300, 1 / 300), 4000).astype(float)
    sums = np.einsum("rn,mnck->mrck", weights, runs[:, 0])
    scores = (sums[..., 0] / sums[..., 1]).mean(-1)
    # Sampling error of a deviation from 4000: 1 / sqrt(8000), four times.
    assert got.seed_error == 0
    assert got.sentence_error == pytest.approx((scores[0] - scores[1]).std(), rel=0.045)


def test_coarse_scores_that_agree_by_chance_are_not_sure():
    """Two seeds, each one of 40 sentences better, but not the same one."""
    right = np.zeros((2, 40, 1), bool)
    right[:, :20] = True
    better = right.copy()
    better[0, 30] = better[1, 35] = True
    ones = np.ones_like(right)
    ours, baseline = np.stack([better, ones], -1), np.stack([right, ones], -1)
    assert over_seeds(score(ours), score(baseline)).p_value == 0
    assert seeds_and_items(ours, baseline).p_value > 0.15


def test_a_difference_beyond_doubt_has_a_p_value_that_is_a_number():
    rng = np.random.default_rng(0)
    right = rng.random((2, 10, 3000, 1)) < np.array([0.99, 0.01])[:, None, None, None]
    got = seeds_and_items(*np.stack([right, np.ones_like(right)], -1))
    assert 0 <= got.p_value < 1e-12
    everything = np.ones((2, 5, 1, 2))
    assert seeds_and_items(everything, everything * [0, 1]).p_value == 0


# Several losses, and words


def holm_by_closure(p_values):
    """Holm's procedure as the closed test of Bonferroni's over all subsets."""
    adjusted = []
    for i, p in enumerate(p_values):
        rest = [*p_values[:i], *p_values[i + 1 :]]
        sizes = range(len(rest) + 1)
        subsets = ((p, *x) for n in sizes for x in itertools.combinations(rest, n))
        adjusted.append(max(min(1.0, len(x) * min(x)) for x in subsets))
    return adjusted


@given(st.lists(st.floats(0, 1) | st.sampled_from([0.0, 0.01, 0.05, 1]), max_size=7))
def test_holm_equals_the_closed_test(p_values):
    assert holm(p_values) == pytest.approx(holm_by_closure(p_values), abs=1e-15)


# Difference, half width of its interval, p values: outcome and sentence.
VERDICTS = [
    (0.0012, 0.0042, 1.0, 1.0, "inconclusive", "{}: +0.12 F1 (95% CI −0.30 to +0.54)"),
    (0.0062, 0.0031, 0.05, 1.0, "better", "{}: +0.62 F1 (95% CI +0.31 to +0.93)"),
    (-0.0062, 0.0031, 0.01, 1.0, "worse", "{}: −0.62 F1 (95% CI −0.93 to −0.31)"),
    (-0.1342, 0.7185, 0.6, 1.0, "inconclusive", "{}: −13.4 F1 (95% CI −85.3 to +58.4)"),
    (0.0, 0.0, 1.0, 0.0, "identical predictions", "{} on all test examples"),
    (
        *(0.0012, 0.0022, 0.6, 0.04, "practically equal"),
        "{}: +0.12 F1 (95% CI −0.10 to +0.34), within a margin of ±0.5",
    ),
    (
        *(0.0062, 0.0061, 0.2, 1.0, "inconclusive"),
        "not significant after correcting for 4 comparisons (Holm p = 0.2): "
        "+0.62 F1 (95% CI +0.01 to +1.23)",
    ),
]


@pytest.mark.parametrize(
    ("mean", "half", "p_value", "p_equal", "outcome", "sentence"), VERDICTS
)
def test_verdict(mean, half, p_value, p_equal, outcome, sentence):
    error = half / stats.t.isf(0.005, 4)
    crossed = CrossedDifference(mean, 5, 900, error, 0, 0, freedom=4, level=0.01)
    got = verdict(crossed, p_value, p_equal, comparisons=4)
    assert (got.outcome, str(got)) == (outcome, sentence.format(outcome))


# Errors

RUNS = np.ones((3, 6, 1, 2))
NAN = np.where(np.arange(6)[:, None, None] == 2, np.nan, RUNS)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: score([1.0, 2.0]), r"shape \(2,\), not \[\.\.\., N, C, 2\]"),
        (lambda: score(np.ones((0, 1, 2))), "shape"),
        (lambda: score(NAN), "not finite"),
        (lambda: over_seeds([0.5, 0.6], [0.5]), r"\(2,\) and baseline \(1,\)"),
        (lambda: over_seeds([0.5], [0.5]), "1 paired seeds; it takes at least 2"),
        (lambda: over_seeds([0.5, math.inf], [0.5, 0.5]), "not finite"),
        (lambda: seeds_and_items(RUNS, RUNS[:, :5]), r"\(3, 5, 1, 2\)"),
        (lambda: seeds_and_items(RUNS, RUNS[:2]), r"\(2, 6, 1, 2\)"),
        (lambda: seeds_and_items(RUNS[0], RUNS[0]), r"not \[S, N, C, 2\]"),
        (lambda: seeds_and_items(RUNS[:1], RUNS[:1]), "1 paired seeds"),
        (lambda: seeds_and_items(RUNS[:, :1], RUNS[:, :1]), "1 sentence"),
        (lambda: contrast([(RUNS, RUNS), (RUNS[:2],) * 2], [1, 1]), "pairs differ"),
        (lambda: seeds_and_items(RUNS, NAN), "baseline hold numbers that are not"),
        (lambda: approximate_randomisation(RUNS, RUNS[:, :5]), "shape"),
        (lambda: approximate_randomisation(NAN, RUNS), "ours hold numbers that are"),
        (lambda: holm([0.1, 1.1]), "1.1 is not a p-value"),
        (lambda: holm([math.nan]), "nan is not a p-value"),
        (lambda: holm(0.1), r"not \[m\]"),
        (lambda: nominal_level([2, 5], 0.05), r"looks are at \[2, 5\] seeds; want 3"),
        (lambda: sequential_p_value([0.1, 0.1], [5, 5]), "which do not grow"),
        (lambda: sequential_p_value([], []), "want 3 or more"),
    ],
)
def test_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
