"""Paired differences over seeds, and how many seeds would show them."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from dicejax.metrics.significance import parts


@dataclasses.dataclass(frozen=True)
class PairedDifference:
    """A difference of scores over seeds, on this test set.

    Attributes:
      seeds: how many pairs.
      mean: of ours - baseline.
      sd: of the paired differences, with S - 1.
      low: where the interval of the mean begins.
      high: where it ends.
      p_value: of the two-sided paired t test.
      level: the interval has the coverage 1 - level.
    """

    seeds: int
    mean: float
    sd: float
    low: float
    high: float
    p_value: float
    level: float


def over_seeds(
    ours: ArrayLike, baseline: ArrayLike, *, level: float = 0.05
) -> PairedDifference:
    """Compare scores seed by seed, with Student's interval of the mean difference.

        d_s = ours_s - baseline_s,    mean d -+ t_{S-1, 1 - level/2} sd(d) / sqrt(S)

    No bootstrap, since none holds for so few seeds. Percentiles of resampled means,
    corrected for bias or not, lie between the smallest and the largest difference, and
    that range misses the median with probability 2^(1-S): 25 % of the time for 3
    seeds, 6 % for 5 (Hesterberg, "What Teachers Should Know About the Bootstrap", The
    American Statistician 69(4), 2015, on small samples). Of resamples of 3 seeds one
    in nine has no deviation at all, which leaves the bootstrap-t without quantiles.
    Student's interval is exact for normal differences; without a true difference the
    two losses can be exchanged, so that differences are symmetric, for which it is
    nearly so.

    Where all differences are equal the interval is a point and the p-value 0: scores
    that coarse need `seeds_and_items`.

    >>> difference = over_seeds([0.82, 0.85, 0.84], [0.80, 0.82, 0.83])
    >>> print(f"{difference.mean:.4f}, {difference.low:.4f} to {difference.high:.4f}")
    0.0200, -0.0048 to 0.0448
    >>> round(difference.p_value, 4)
    0.0742

    Args:
      ours: [S], a score per seed.
      baseline: [S], of the same seeds in the same order.
      level: 0.05 for a 95 % interval.

    Raises:
      ValueError: the shapes are not the same [S], there are fewer than 2 seeds, or a
        score is not finite.
    """
    ours, baseline = np.asarray(ours, np.float64), np.asarray(baseline, np.float64)
    if ours.ndim != 1 or ours.shape != baseline.shape:
        raise ValueError(
            f"ours have shape {ours.shape} and baseline {baseline.shape}, not both [S]"
        )
    parts.check_seeds(len(ours), least=2)
    difference = ours - baseline
    if not np.isfinite(difference).all():
        raise ValueError("scores hold numbers that are not finite")
    mean, sd = float(difference.mean()), float(difference.std(ddof=1))
    error, freedom = sd / math.sqrt(len(ours)), len(ours) - 1
    half = -float(special.stdtrit(freedom, level / 2)) * error
    return PairedDifference(
        seeds=len(ours),
        mean=mean,
        sd=sd,
        low=mean - half,
        high=mean + half,
        p_value=t_test(mean, error, freedom),
        level=level,
    )


def t_test(mean: float, error: float, freedom: int) -> float:
    """Return the two-sided p-value of a mean, 1 for a mean of 0 whatever its error.

    >>> t_test(4.302652729749464, 1.0, 2), t_test(0.0, 0.0, 2), t_test(0.1, 0.0, 2)
    (0.05, 1.0, 0.0)
    """
    if mean == 0:
        return 1.0
    if error == 0:
        return 0.0
    return 2 * float(special.stdtr(freedom, -abs(mean) / error))


def power(seeds: int, mean: float, sd: float, *, level: float = 0.05) -> float:
    """Compute how likely a two-sided paired t test sees a true difference.

        P(|T| > t_{S-1, 1 - level/2}),    T noncentral t with S - 1 degrees of freedom
                                          and noncentrality mean / sd sqrt(S)

    Source: Cohen, Statistical Power Analysis for the Behavioral Sciences, 1988,
    chapter 2.

    >>> round(power(10, mean=1.0, sd=1.0), 4)
    0.8031

    Args:
      seeds: how many pairs, at least 2.
      mean: the true difference.
      sd: of the paired differences; in the same unit.
      level: of the test.

    Raises:
      ValueError: there are fewer than 2 seeds, the deviation is negative, or a number
        is not finite.
    """
    parts.check_seeds(seeds, least=2)
    _check_effect(mean, sd)
    if mean == 0:
        return level
    if sd == 0:
        return 1.0
    # T^2 is noncentral F, which SciPy computes where its noncentral t gives NaN.
    critical = float(special.stdtrit(seeds - 1, level / 2)) ** 2
    return float(stats.ncf.sf(critical, 1, seeds - 1, seeds * (mean / sd) ** 2))


def seeds_needed(
    mean: float,
    sd: float,
    *,
    wanted: float = 0.8,
    level: float = 0.05,
    most: int = 10_000,
) -> int | None:
    """Find the smallest number of seeds with which `power` is at least as wanted.

    The observed difference stands for the true one, so this is a plan and no result:
    observed differences of few seeds are uncertain, and so is this number.

    >>> seeds_needed(1.0, 1.0), seeds_needed(0.0, 1.0)
    (10, None)

    Args:
      mean: the difference to see.
      sd: of the paired differences, as in `PairedDifference`.
      wanted: the power.
      level: of the two-sided paired t test.
      most: beyond it the answer is None.

    Returns:
      At least 2; None if it is more than `most`, or the difference is 0.

    Raises:
      ValueError: the deviation is negative, or a number is not finite.
    """
    _check_effect(mean, sd)
    if mean == 0 or power(most, mean, sd, level=level) < wanted:
        return None
    low, high = 1, most  # too few, enough
    while high - low > 1:
        middle = (low + high) // 2
        if power(middle, mean, sd, level=level) >= wanted:
            high = middle
        else:
            low = middle
    return high


def _check_effect(mean: float, sd: float) -> None:
    if not (math.isfinite(mean) and math.isfinite(sd) and sd >= 0):
        raise ValueError(f"the difference is {mean} and its deviation {sd}")
