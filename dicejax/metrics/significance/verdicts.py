"""From p-values of several losses to one sentence for each."""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from dicejax.metrics.significance.crossed import CrossedDifference


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What may be said of a loss, with its reason.

    Attributes:
      outcome: "unknown" where there are too few seeds to say anything.
      sentence: the outcome with difference and interval, in points of 100.
    """

    outcome: Literal["better", "worse", "no evidence", "unknown"]
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def holm(p_values: ArrayLike) -> np.ndarray:
    """Adjust p-values of several comparisons by Holm's step-down procedure.

        p~_(i) = max_{j <= i} min((m - j + 1) p_(j), 1),    p_(1) <= ... <= p_(m)

    Rejecting what is at most 5 % keeps the chance of any false claim at 5 %, however
    the comparisons depend on one another: here they share the baseline's runs.

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
        raise ValueError(f"{strange[0]} is no p-value")
    order = np.argsort(p_values, kind="stable")
    steps = np.arange(len(p_values), 0, -1) * p_values[order]
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return adjusted


def verdict(
    difference: CrossedDifference | None, p_value: float | None = None
) -> Verdict:
    """Say whether a loss is better than the baseline.

    It is where `p_value` is at most the difference's `level`. The interval is that of
    this comparison alone: among several it may leave 0 out and still be no evidence,
    which the sentence then says.

    >>> found = CrossedDifference(
    ...     mean=0.0062, low=0.0031, high=0.0093, p_value=0.004, level=0.05, seeds=5,
    ...     sentences=900, seed_error=0.001, sentence_error=0.0,
    ... )
    >>> print(verdict(found))
    better by 0.62 (0.31 to 0.93)
    >>> print(verdict(found, p_value=0.06))
    no evidence of a difference among so many (+0.62, 95 % interval +0.31 to +0.93)
    >>> print(verdict(None))
    one seed: no statement possible

    Args:
      difference: None for fewer than two paired seeds.
      p_value: adjusted by `holm` if there are several comparisons; otherwise the
        difference's own.
    """
    if difference is None:
        return Verdict("unknown", "one seed: no statement possible")
    p_value = difference.p_value if p_value is None else p_value
    mean, low, high = (
        100 * value for value in (difference.mean, difference.low, difference.high)
    )
    if p_value > difference.level:
        among = "" if low <= 0 <= high else " among so many"
        interval = f"{100 * (1 - difference.level):g} % interval"
        return Verdict(
            "no evidence",
            f"no evidence of a difference{among} "
            f"({mean:+.2f}, {interval} {low:+.2f} to {high:+.2f})",
        )
    if mean > 0:
        return Verdict("better", f"better by {mean:.2f} ({low:.2f} to {high:.2f})")
    return Verdict("worse", f"worse by {-mean:.2f} ({-high:.2f} to {-low:.2f})")
