"""Average precision: how well scores put positives before negatives."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike

from dicejax.metrics import arrays, quotients


@dataclasses.dataclass(frozen=True)
class PrecisionAreas:
    """The average precision of each class; shares in [0, 1].

    Attributes:
      per_class: each class against the rest; 0 without positives.
      macro: the unweighted mean over the classes that have positives; 0 if none has.
    """

    per_class: tuple[float, ...]
    macro: float


def average_precision(gold: ArrayLike, scores: ArrayLike) -> float:
    """Compute the average precision of binary decisions.

    With the distinct scores as thresholds, from the highest,

        AP = sum over n of (R_n - R_(n-1)) P_n

    P_n and R_n being precision and recall when all scores from the n-th up count as
    positive; R_0 = 0. Equal scores go together, and nothing is interpolated. Equal to
    scikit-learn's `average_precision_score`.

    >>> round(average_precision([0, 1, 1], [0.9, 0.8, 0.1]), 4)
    0.5833
    >>> average_precision([0, 0], [0.3, 0.7])  # no positives: 0
    0.0

    Args:
      gold: [N], 1 or True for positives.
      scores: [N], higher for likelier positives.

    Raises:
      ValueError: the shapes are not the same [N], gold holds other values than 0
        and 1, or a score is NaN.
    """
    gold, scores = arrays.truths(gold, "gold"), arrays.numbers(scores, "scores")
    if gold.ndim != 1 or gold.shape != scores.shape:
        raise ValueError(f"gold has shape {gold.shape} and scores {scores.shape}")
    if not gold.any():
        return 0.0
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    ends = np.append(ranked[1:] != ranked[:-1], True)
    correct = np.cumsum(gold[order])[ends]
    precision = correct / (np.flatnonzero(ends) + 1)
    return float(np.diff(correct / gold.sum(), prepend=0.0) @ precision)


def average_precision_per_class(gold: ArrayLike, scores: ArrayLike) -> PrecisionAreas:
    """Compute the average precision of each class against the rest.

    >>> gold, scores = [[1, 0], [0, 1], [0, 1]], [[3, 1], [2, 2], [1, 3]]
    >>> average_precision_per_class(gold, scores)
    PrecisionAreas(per_class=(1.0, 1.0), macro=1.0)

    Args:
      gold: [N, C], 1 or True where a class or label holds.
      scores: [N, C], higher for likelier classes.

    Raises:
      ValueError: the shapes are not the same [N, C], gold holds other values than 0
        and 1, or a score is NaN.
    """
    gold, scores = arrays.truths(gold, "gold"), np.asarray(scores)
    arrays.require_table(gold, scores, "scores")
    per_class = tuple(map(average_precision, gold.T, scores.T))
    pairs = zip(per_class, np.any(gold, axis=0), strict=True)
    return PrecisionAreas(
        per_class, quotients.mean(area for area, some in pairs if some)
    )
