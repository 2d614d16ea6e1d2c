"""One statement on a loss from its differences on several data sets."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special

from dicejax.study.significance.differences import t_test


@dataclasses.dataclass(frozen=True)
class AcrossSets:
    """Mean difference over data sets of a kind, with an interval from low to high.

    The standard deviation of true differences between sets is `between`.
    """

    sets: int
    mean: float
    low: float
    high: float
    p_value: float
    between: float


def across_sets(
    differences: ArrayLike, errors: ArrayLike, *, level: float = 0.05
) -> AcrossSets:
    """Estimate the mean difference over data sets in a random effects model.

        y_i = mean + set_i + error_i,    w_i = 1 / (s_i^2 + between^2)

    `between` is Paule and Mandel's: sum_i w_i (y_i - mean)^2 = k - 1, or 0. The
    interval is Hartung and Knapp's with k - 1 degrees of freedom, no narrower than that
    of known variances.

    Source: Paule and Mandel, "Consensus values and weighting factors", Journal of
    Research of the National Bureau of Standards 87(5), 1982; Knapp and Hartung,
    "Improved tests for a random effects meta-regression with a single covariate",
    Statistics in Medicine 22(17), 2003; for the bound Roever, Knapp and Friede, BMC
    Medical Research Methodology 15:99, 2015.

    >>> estimate = across_sets([0.01, 0.03, 0.02], [0.005, 0.005, 0.005])
    >>> print(f"{estimate.mean:.3f}, {estimate.low:.3f} to {estimate.high:.3f}")
    0.020, -0.005 to 0.045

    Args:
      differences: [k], one per data set.
      errors: [k], their standard errors, positive.
      level: 0.05 for a 95 % interval.

    Raises:
      ValueError: there are fewer than 2 sets, shapes differ, or an error is not
        positive.
    """
    y, s = np.asarray(differences, np.float64), np.asarray(errors, np.float64)
    if y.ndim != 1 or y.shape != s.shape or len(y) < 2:
        raise ValueError(f"differences {y.shape} and errors {s.shape}: want [k], k > 1")
    if not (np.isfinite(y).all() and np.isfinite(s).all() and (s > 0).all()):
        raise ValueError("want finite differences and positive errors")

    def excess(variance: float) -> float:
        return _spread(y, 1 / (s**2 + variance)) - (len(y) - 1)

    variance = 0.0
    if excess(0.0) > 0:
        most = float(np.ptp(y) ** 2 * len(y))
        variance = optimize.root_scalar(excess, bracket=(0.0, most)).root
    weights = 1 / (s**2 + variance)
    mean = float(np.average(y, weights=weights))
    scale = max(_spread(y, weights) / (len(y) - 1), 1.0)
    error = math.sqrt(scale / weights.sum())
    half = -float(special.stdtrit(len(y) - 1, level / 2)) * error
    p_value = t_test(mean, error, len(y) - 1)
    interval = mean, mean - half, mean + half
    return AcrossSets(len(y), *interval, p_value, math.sqrt(variance))


def _spread(y: np.ndarray, weights: np.ndarray) -> float:
    return float(weights @ np.square(y - np.average(y, weights=weights)))


def holds_on(p_values: Sequence[float], *, level: float = 0.05) -> int:
    """Return on how many data sets at least a claim holds.

        the largest u with max_{v <= u} (k - v + 1) p_(v) <= level

    the partial conjunction test by Bonferroni's method: with a probability of at least
    1 - level the claim is true on that many of the sets, whichever they are.

    Source: Benjamini and Heller, "Screening for partial conjunction hypotheses",
    Biometrics 64(4), 2008.

    >>> holds_on([0.001, 0.02, 0.3]), holds_on([0.5, 0.9])
    (2, 0)

    Args:
      p_values: one-sided, one per data set.
      level: significance level of the test.
    """
    ordered = np.sort(np.asarray(p_values, np.float64))
    tests = np.maximum.accumulate(ordered * np.arange(len(ordered), 0, -1))
    return int((tests <= level).sum())
