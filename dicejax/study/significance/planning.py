"""Power of a comparison with more seeds, test sentences included."""

from __future__ import annotations

import bisect
import dataclasses
import functools
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

    >>> observed = CrossedDifference(0.01, 5, 900, 0.01 / 5**0.5, 0.0, 0.0, freedom=4)
    >>> round(power(observed, 0.01, 10, 0.05), 2)  # G*Power: 0.8031
    0.8

    Args:
      difference: observed errors, with their number of seeds.
      true: the true difference.
      seeds: S; may be infinite.
      level: level of the test.
    """
    return _share_beyond(true, *_half_and_error(difference, seeds, level))


def _half_and_error(
    difference: CrossedDifference, seeds: float, level: float
) -> tuple[np.ndarray | float, float]:
    """Return quantiles of the half width of an interval, and the standard error."""
    new = difference.sentence_error**2
    rest = max(difference.same_seeds_error**2 - new, 0.0) * difference.seeds
    variance = difference.seed_error**2 * difference.seeds
    freedom = seeds - difference.seeds + difference.freedom
    error = math.sqrt(variance / seeds + new)
    z = -float(special.stdtrit(difference.sentences - 1, level / 2))
    half: np.ndarray | float = z * math.sqrt(new + rest / seeds)
    if math.isfinite(seeds):
        t = -float(special.stdtrit(freedom, level / 2))
        drawn = t**2 * variance / seeds * _variances(freedom)
        half = np.maximum(half, np.sqrt(drawn + z**2 * new))
    return half, error


def _share_beyond(true: float, half: np.ndarray | float, error: float) -> float:
    """Return how likely a mean with an error lies beyond half widths."""
    if error == 0:
        return float(true != 0)
    tails = special.ndtr((abs(true) - half) / error)
    tails += special.ndtr((-abs(true) - half) / error)
    return float(np.sum(tails) / np.size(tails))


@functools.lru_cache(maxsize=2000)
def _variances(freedom: float) -> np.ndarray:
    """Return quantiles of chi-square over its freedom, most of the time of a power."""
    return special.chdtri(freedom, _QUANTILES) / freedom


def seeds_needed(
    difference: CrossedDifference,
    looks: Sequence[int],
    *,
    comparisons: int = 1,
    target: float = 0.8,
    level: float = 0.05,
    most: int = 1000,
) -> int | float | None:
    """Find the number of seeds that shows the observed difference with a power.

    The observed difference and errors are taken for the true ones: a plan and no
    result. The next look is taken for the last, Holm's correction for Bonferroni's.

    Args:
      difference: observed difference.
      looks: [J], numbers of seeds at all looks so far.
      comparisons: number of losses in the family.
      target: power to reach.
      level: level of the family, over all looks.
      most: largest number of seeds to consider.

    Returns:
      The number, more than at the last look; infinite for more than `most`; None where
      no number suffices, as the test set is too small or the difference is 0.
    """

    def is_enough(seeds: float) -> bool:
        look = int(min(seeds, 10**9))
        at_level = nominal_level([*looks, look], level / comparisons)
        return power(difference, difference.mean, seeds, at_level) >= target

    least = max([*looks, MIN_SEEDS - 1]) + 1
    if not is_enough(math.inf):
        return None
    if difference.mean == 0 or least > most or not is_enough(most):
        return math.inf
    return bisect.bisect_left(range(most), True, lo=least, key=is_enough)


def seeds_range(
    difference: CrossedDifference,
    looks: Sequence[int],
    *,
    comparisons: int = 1,
    level: float = 0.05,
    confidence: float = 0.8,
) -> tuple[int | float | None, int | float | None]:
    """Find the numbers of seeds for the ends of an interval of the true difference.

    One number from few seeds says little: where 24 are right, pilots of five seeds give
    7 to 292. The second number has no limit where the interval contains 0.

    Args:
      difference: observed difference.
      looks: [J], numbers of seeds at all looks so far.
      comparisons: number of losses in the family.
      level: level of the family, over all looks.
      confidence: confidence of the interval.

    Returns:
      Fewest and most seeds, as `seeds_needed` returns them.
    """
    half, size = difference.half(1 - confidence), abs(difference.mean)
    needed = functools.partial(seeds_needed, comparisons=comparisons, level=level)
    ends = size + half, max(size - half, 0.0)
    fewest, most = (dataclasses.replace(difference, mean=end) for end in ends)
    return needed(fewest, looks), needed(most, looks)


def detectable(
    difference: CrossedDifference,
    level: float,
    *,
    seeds: int | None = None,
    target: float = 0.8,
) -> float:
    """Compute the smallest true difference that a number of seeds shows with a power.

    Args:
      difference: observed errors, with their number of seeds.
      level: level of the test at this look.
      seeds: number of seeds; that of `difference` by default.
      target: power to reach.
    """
    seeds = difference.seeds if seeds is None else seeds
    high = difference.half(level) + difference.seed_error + difference.sentence_error
    if high == 0:
        return 0.0

    at = _half_and_error(difference, seeds, level)

    def excess(true: float) -> float:
        return _share_beyond(true, *at) - target

    while excess(high) < 0:
        high *= 2
    return optimize.root_scalar(excess, bracket=(0.0, high), xtol=1e-9).root
