"""Power of a comparison with more seeds, test sentences included."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence

import numpy as np
from scipy import optimize, special

from dicejax.study.significance.crossed import CrossedDifference
from dicejax.study.significance.looks import MIN_SEEDS, nominal_level

_QUANTILES = (np.arange(400) + 0.5) / 400


def power(
    difference: CrossedDifference, true: float, seeds: float, level: float
) -> float:
    """Compute how likely a number of seeds shows a true difference.

        E Phi((|true| - half) / se) + Phi((-|true| - half) / se),   se^2 = v / S + w
        half^2 = max(t_f^2 v X / (f S) + z^2 w, z^2 u),   X chi-square of f freedom,

    over X, with v the variance of a seed's difference, w that of the mean for new
    sentences and u for new sentences alone, as observed. f grows with S.

    >>> one = CrossedDifference(0.01, 5, 900, 0.01 / 5**0.5, 0.0, 0.0, freedom=4)
    >>> round(power(one, 0.01, 10, 0.05), 2)  # G*Power: 0.8031
    0.8

    Args:
      difference: its errors and number of seeds.
      true: the true difference.
      seeds: S; may be infinite.
      level: of the test.
    """
    new, residual = _variances(difference)
    variance = difference.seed_error**2 * difference.seeds
    freedom = seeds - difference.seeds + difference.freedom
    error = math.sqrt(variance / seeds + new)
    z = -float(special.stdtrit(difference.sentences - 1, level / 2))
    half = z * math.sqrt(new + residual / seeds)
    if math.isfinite(seeds):
        t = -float(special.stdtrit(freedom, level / 2))
        drawn = special.chdtri(freedom, _QUANTILES) / freedom
        half = np.maximum(half, np.sqrt(t**2 * variance / seeds * drawn + z**2 * new))
    if error == 0:
        return float(true != 0)
    tails = special.ndtr((abs(true) - half) / error)
    tails += special.ndtr((-abs(true) - half) / error)
    return float(np.mean(tails))


def _variances(difference: CrossedDifference) -> tuple[float, float]:
    """Return the variance for new sentences, and the rest times the seeds."""
    new = difference.sentence_error**2
    return new, max(difference.same_seeds_error**2 - new, 0.0) * difference.seeds


def seeds_needed(
    difference: CrossedDifference,
    looks: Sequence[int],
    *,
    comparisons: int = 1,
    wanted: float = 0.8,
    level: float = 0.05,
    most: int = 1000,
) -> int | float | None:
    """Find the number of seeds that shows the observed difference with a power.

    The observed difference and errors are taken for the true ones: a plan and no
    result. Other looks than the next are not counted on, and Holm's correction is taken
    as Bonferroni's.

    Args:
      difference: as observed.
      looks: [J], numbers of seeds at all looks so far.
      comparisons: number of losses in the family.
      wanted: the power.
      level: of the family, over all looks.
      most: beyond it the answer is infinite.

    Returns:
      The number, more than at the last look; infinite for more than `most`; None where
      no number suffices, as the test set is too small or the difference is 0.
    """
    level /= comparisons

    def is_enough(seeds: int) -> bool:
        at_level = nominal_level([*looks, seeds], level)
        return power(difference, difference.mean, seeds, at_level) >= wanted

    least = max([*looks, MIN_SEEDS - 1]) + 1
    unlimited = nominal_level([*looks, 10**9], level)
    if power(difference, difference.mean, math.inf, unlimited) < wanted:
        return None
    if difference.mean == 0 or not is_enough(most):
        return math.inf
    return bisect.bisect_left(range(most), True, lo=least, key=is_enough)


def detectable(
    difference: CrossedDifference,
    level: float,
    *,
    seeds: int | None = None,
    wanted: float = 0.8,
) -> float:
    """Compute the smallest true difference that a number of seeds shows with a power.

    Args:
      difference: its errors and number of seeds.
      level: of the test at this look.
      seeds: as many as there are by default.
      wanted: the power.
    """
    seeds = difference.seeds if seeds is None else seeds

    def missing(true: float) -> float:
        return power(difference, true, seeds, level) - wanted

    high = difference.half(level) + difference.seed_error + difference.sentence_error
    if high == 0:
        return 0.0
    while missing(high) < 0:
        high *= 2
    return float(optimize.brentq(missing, 0.0, high, xtol=1e-9))
