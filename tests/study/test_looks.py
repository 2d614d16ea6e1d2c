"""Looks, borrowed variances and planning vs. simulation, integrals and tables."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

from dicejax.study.compare.testing import Contrast
from dicejax.study.sentences import sentences
from dicejax.study.significance import (
    CrossedDifference,
    Verdict,
    detectable,
    nominal_level,
    power,
    seeds_needed,
    seeds_range,
    sequential_p_value,
    shrink_variances,
)


def observed(mean, seed_sd, seeds, item_sd=0.0, rest_sd=0.0, examples=100_000):
    """Return a difference with known errors; deviations are those of one seed's."""
    same_seeds = math.sqrt(item_sd**2 + rest_sd**2 / seeds)
    errors = seed_sd / math.sqrt(seeds), item_sd, same_seeds
    return CrossedDifference(mean, seeds, examples, *errors, freedom=seeds - 1)


def power_by_integral(seeds, effect, level, item=0.0):
    """Integrate the normal tails over the distribution of the sample's deviation.

    The seeds' deviation is 1; `item` is the error for new sentences.
    """
    freedom = seeds - 1
    critical = stats.t.isf(level / 2, freedom)
    error = math.sqrt(1 / seeds + item**2)

    def density(u):
        rest = (stats.norm.isf(level / 2) * item) ** 2
        limit = math.sqrt((critical * u) ** 2 / seeds + rest)
        tails = stats.norm.sf((limit - effect) / error)
        tails += stats.norm.cdf((-limit - effect) / error)
        return tails * stats.chi2.pdf(freedom * u * u, freedom) * 2 * freedom * u

    return integrate.quad(density, 0, 8, epsabs=1e-12, limit=200)[0]


@pytest.mark.parametrize("seeds", [3, 5, 10, 30])
@pytest.mark.parametrize("effect", [0.1, -0.7, 1.5])
@pytest.mark.parametrize(("level", "item"), [(0.05, 0.0), (0.01, 0.0), (0.05, 0.3)])
def test_power_equals_an_integral(seeds, effect, level, item):
    got = power(observed(0.0, 3.0, seeds, 3 * item), 3 * effect, seeds, level)
    expected = power_by_integral(seeds, abs(effect), level, item)
    assert got == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("looks", [[], [3], [3, 5]])
@pytest.mark.parametrize("effect", [0.4, 1.0, 2.0])
def test_seeds_needed_is_the_smallest_number(effect, looks):
    difference = observed(effect, 1.0, 5, 0.1)
    got = seeds_needed(difference, looks, comparisons=2)
    for seeds in (got - 1, got):
        if seeds > max(looks, default=2):
            level = nominal_level([*looks, seeds], 0.025)
            assert (power(difference, effect, seeds, level) >= 0.8) == (seeds == got)


def test_the_range_of_seeds_needed_has_the_right_number_in_80_percent():
    """By pilots of five seeds, as an observed number is anything from 7 to 292."""
    effect, rng, pilots = 0.6, np.random.default_rng(0), 150
    right = seeds_needed(observed(effect, 1.0, 5), [5])
    assert 20 < right < 40
    covered, bounded = 0, 0
    for _ in range(pilots):
        differences = effect + rng.normal(size=5)
        pilot = observed(differences.mean(), differences.std(ddof=1), 5)
        fewest, most = seeds_range(pilot, [5])
        assert fewest <= (math.inf if most is None else most)
        covered += fewest <= right <= (math.inf if most is None else most)
        bounded += most is not None and math.isfinite(most)
    print(f"covered {covered} of {pilots}, with a limit {bounded}")
    assert covered >= stats.binom.ppf(0.001, pilots, 0.8)
    assert bounded > pilots / 10


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ((7, 292), "7 to 292"),
        ((7, 7), "7"),
        ((9, math.inf), "9 or more"),
        ((9, None), "9 or more"),
        ((math.inf, math.inf), "> 1,000"),
        ((None, None), "never"),
    ],
)
def test_the_seeds_needed_are_a_range_in_words(ends, text):
    untested = Contrast(seeds=(), differences=(), verdict=Verdict("inconclusive", ""))
    crossed = observed(0.1, 1.0, 5)
    tested = dataclasses.replace(untested, crossed=crossed, seeds_needed=ends)
    assert sentences("cells").needed(tested) == text
    assert sentences("cells").needed(untested) == "-"


def test_no_number_of_seeds_makes_up_for_a_small_test_set():
    # 2.8 errors have a power of 0.8 at 5 %: Phi(2.8 - 1.96).
    assert seeds_needed(observed(0.027, 0.01, 5, 0.01), []) is None
    assert 5 < seeds_needed(observed(0.029, 0.01, 5, 0.01), []) < 1000
    # A look at 5 seeds spends 3 % of it, and leaves 2 %: 2.33 + 0.84 errors.
    assert seeds_needed(observed(0.031, 0.01, 5, 0.01), [5]) is None
    assert 5 < seeds_needed(observed(0.033, 0.01, 5, 0.01), [5]) < 1000
    assert seeds_needed(observed(0.0, 1.0, 5), [5]) is None
    assert math.isinf(seeds_needed(observed(0.001, 1.0, 5), [5]))


def test_the_detectable_difference_has_the_power():
    crossed = observed(0.0, 0.02, 5, 0.005)
    least = detectable(crossed, 0.03)
    assert power(crossed, least, 5, 0.03) == pytest.approx(0.8, abs=1e-6)
    assert detectable(observed(0.0, 0.0, 5), 0.03) == 0


# Looks


def first_crossings(p_values, looks, level):
    """Return how often each look is the first to reject, of p-values [look, path]."""
    levels = [nominal_level(looks[: j + 1], level) for j in range(len(looks))]
    rejected = p_values <= np.array(levels)[:, None]
    first = rejected.argmax(0)[rejected.any(0)]
    return np.bincount(first, minlength=len(looks)) / p_values.shape[1]


LOOKS = [([3, 5, 10, 20], 0.05), ([3, 4, 5, 6, 7, 8], 0.2), ([10, 11, 100], 0.05)]


@pytest.mark.parametrize(("looks", "level"), LOOKS)
def test_each_look_spends_its_share(looks, level):
    """With normal sums that gain 1 per seed from the third on."""
    steps = np.diff([0, *np.array(looks) - 2])
    drawn = np.random.default_rng(0).normal(size=(400_000, len(looks)))
    sums = np.cumsum(drawn * np.sqrt(steps), axis=1)
    p_values = 2 * stats.norm.sf(np.abs(sums) / np.sqrt(np.array(looks) - 2)).T
    shares = np.diff([0, *(1 - 2 / np.array(looks))]) * level
    four_errors = 4 * np.sqrt(shares / 400_000)
    crossings = first_crossings(p_values, looks, level)
    assert np.all(np.abs(crossings - shares) <= four_errors)


@pytest.mark.parametrize(
    ("looks", "level"), [*LOOKS, ([*range(3, 21)], 0.05), ([3, 5, 8, 12, 18], 0.005)]
)
def test_t_tests_reject_at_most_the_level_over_all_looks(looks, level):
    paths = 100_000
    drawn = np.random.default_rng(0).normal(size=(paths, looks[-1]))
    t = [
        drawn[:, :n].mean(1) / drawn[:, :n].std(1, ddof=1) * math.sqrt(n) for n in looks
    ]
    freedom = np.array(looks)[:, None] - 1
    p_values = 2 * stats.t.sf(np.abs(t), freedom)
    rate = first_crossings(p_values, looks, level).sum()
    spent = level * (1 - 2 / looks[-1])
    assert 0.85 * spent <= rate <= level + 3 * math.sqrt(level / paths)


@pytest.mark.parametrize("looks", [[5], [3, 5], [3, 5, 10, 20]])
@pytest.mark.parametrize("level", [0.3, 0.05, 0.001, 1e-7])
def test_the_sequential_p_value_is_the_level_that_just_rejects(looks, level):
    p_values = [1.0] * len(looks)
    for j in range(len(looks)):
        at_look = [*p_values]
        at_look[j] = nominal_level(looks[: j + 1], level)
        assert sequential_p_value(at_look, looks) == pytest.approx(level, rel=2e-3)


def test_later_looks_never_raise_a_p_value():
    p_values = np.random.default_rng(0).random((4, 50)) ** 3
    looks = [3, 5, 10, 20]
    at_looks = [sequential_p_value(p_values[:j], looks[:j]) for j in range(1, 5)]
    assert all((b <= a).all() for a, b in itertools.pairwise(at_looks))
    assert at_looks[0] == pytest.approx(np.minimum(3 * p_values[0], 1), rel=2e-3)


# Borrowed variances


def test_moderated_variances_by_hand():
    sds = [0.01, 0.02, 0.03, 0.02, 0.022]  # median 0.02, 2 borrowed of 4 + 2
    got = shrink_variances([observed(0.0, sd, 5) for sd in sds])
    expected = [(2 * 0.02**2 + 4 * 0.01**2) / 6, 0.02**2, 0.03**2, 0.02**2, 0.022**2]
    assert [5 * x.seed_error**2 for x in got] == pytest.approx(expected)
    assert [x.freedom for x in got] == [6, 6, 4, 6, 4]
    alone = observed(0.0, 0.01, 5)
    assert shrink_variances([alone]) == [alone]
    assert [x.freedom for x in shrink_variances([alone, alone])] == [4.5, 4.5]
    assert shrink_variances([]) == []


@pytest.mark.parametrize("losses", [3, 4, 5])
def test_a_loss_that_collapses_does_not_widen_the_intervals_of_others(losses):
    quiet = [observed(0.0, 0.01 + n / 1000, 5) for n in range(losses - 1)]
    wild = observed(0.0, 0.2, 5)
    *others, last = shrink_variances([*quiet, wild])
    assert last == wild
    assert max(x.seed_error for x in others) <= quiet[-1].seed_error * (1 + 1e-12)
