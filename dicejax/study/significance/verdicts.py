"""Scores of one loss over its seeds, corrected p-values, and a verdict in words."""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dicejax.study.sentences import sentences
from dicejax.study.significance.crossed import CrossedDifference

Outcome = Literal[
    "better",
    "worse",
    "practically equal",
    "identical predictions",
    "identical scores",
    "inconclusive",
    "unstable",
    "nothing learnt",
    "no verdict",
]


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The outcome of a comparison, in words.

    Attributes:
      outcome: "no verdict" where there are fewer than 3 seeds.
      sentence: the outcome with difference and interval, in points of 100.
    """

    outcome: Outcome
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def holm(p_values: ArrayLike) -> np.ndarray:
    """Adjust p-values of several comparisons by Holm's step-down procedure.

        p~_(i) = max_{j <= i} min((m - j + 1) p_(j), 1),    p_(1) <= ... <= p_(m)

    Rejecting at 5 % keeps the chance of any false claim at 5 %, however the comparisons
    depend on one another.

    Source: Holm, "A simple sequentially rejective multiple test procedure",
    Scandinavian Journal of Statistics 6(2), 1979.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]

    Args:
      p_values: [m], in any order; none is fine.

    Returns:
      [m], in the same order.

    Raises:
      ValueError: p-values are not [m], or one is not in [0, 1].
    """
    p_values = np.asarray(p_values, np.float64)
    if p_values.ndim != 1:
        raise ValueError(f"p_values have shape {p_values.shape}, not [m]")
    strange = p_values[~((p_values >= 0) & (p_values <= 1))]  # NaN too
    if strange.size:
        raise ValueError(f"{strange[0]} is not a p-value")
    order = np.argsort(p_values, kind="stable")
    steps = np.arange(len(p_values), 0, -1) * p_values[order]
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return adjusted


def failure_limit(failed: int, runs: int, *, level: float = 0.05) -> float:
    """Compute the largest share of runs that may fail, k of n of which did.

        the p for which P(at most k of n fail) = level, 1 where all failed

    Source: Clopper and Pearson, "The use of confidence or fiducial limits illustrated
    in the case of the binomial", Biometrika 26(4), 1934, one-sided.

    >>> [round(failure_limit(0, runs), 2) for runs in (5, 10)]
    [0.45, 0.26]

    Args:
      failed: k.
      runs: n, at least 1.
      level: 0.05 for a confidence of 95 %.

    Raises:
      ValueError: k is not from 0 to n, or n is 0.
    """
    if not 0 <= failed <= runs or not runs:
        raise ValueError(f"{failed} of {runs} runs failed: want 0 <= k <= n and n > 0")
    if failed == runs:
        return 1.0
    return float(special.betaincinv(failed + 1, runs - failed, 1 - level))


def verdict(
    difference: CrossedDifference,
    p_value: float,
    p_equal: float = 1.0,
    *,
    margin: float = 0.005,
    comparisons: int = 1,
    level: float = 0.05,
    metric: str = "F1",
) -> Verdict:
    """Compare a loss with the baseline in words.

    The interval is not corrected for multiple comparisons.

    >>> crossed = CrossedDifference(0.0062, 5, 900, 0.001, 0.0, 0.0, freedom=4)
    >>> print(verdict(crossed, p_value=0.004))
    better: +0.62 F1 (95% CI +0.34 to +0.90)
    >>> print(verdict(crossed, p_value=0.06, comparisons=15))
    not significant after correcting for 15 comparisons (Holm p = 0.06): \
+0.62 F1 (95% CI +0.34 to +0.90)
    >>> print(verdict(crossed, p_value=0.004, p_equal=0.03, margin=0.01))
    practically equal: +0.62 F1 (95% CI +0.34 to +0.90), better within a margin of ±1

    Args:
      difference: difference with the interval of this look.
      p_value: p-value over all looks, adjusted by `holm`.
      p_equal: `CrossedDifference.p_equal` over all looks, adjusted by `holm`.
      margin: differences within it do not matter in practice.
      comparisons: number of losses in the family, for the sentence.
      level: error rate over all looks and losses.
      metric: name of the score, for the sentence.
    """
    outcome: Outcome = "better" if difference.mean > 0 else "worse"
    if (difference.mean, difference.low, difference.high) == (0, 0, 0):
        outcome = "identical predictions"
    elif p_equal <= level:
        outcome = "practically equal"
    elif p_value > level:
        outcome = "inconclusive"
    sentence = sentences("verdicts").tested(
        outcome,
        difference,
        metric=metric,
        level=level,
        margin=margin,
        is_shown=p_value <= level,
        comparisons=comparisons,
        p=p_value,
    )
    return Verdict(outcome, sentence)
