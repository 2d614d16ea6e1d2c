"""Calibration: do predictions made with confidence p come true p of the time?"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike

from dicejax.metrics import quotients


@dataclasses.dataclass(frozen=True)
class ReliabilityBin:
    """A bar of a reliability diagram: predictions of a confidence in (lower, upper].

    Attributes:
      count: number of predictions.
      confidence: mean confidence, in [0, 1]; 0 if empty.
      accuracy: share of correct predictions, in [0, 1]; 0 if empty.
    """

    lower: float
    upper: float
    count: int
    confidence: float
    accuracy: float


@dataclasses.dataclass(frozen=True)
class Reliability:
    """The bins of a reliability diagram, from the lowest confidence."""

    bins: tuple[ReliabilityBin, ...]

    @property
    def count(self) -> int:
        """Number of predictions."""
        return sum(bar.count for bar in self.bins)

    @property
    def expected_error(self) -> float:
        """The expected calibration error, sum n_b / N |accuracy_b - confidence_b|.

        In [0, 1]; 0 without predictions. Source: Naeini et al., AAAI 2015; Guo et al.,
        "On Calibration of Modern Neural Networks", ICML 2017, equation 3. It depends on
        the number of bins, so name it with the score.
        """
        gaps = (b.count * abs(b.accuracy - b.confidence) for b in self.bins)
        return quotients.ratio(sum(gaps), self.count)


def reliability(
    confidence: ArrayLike,
    correct: ArrayLike,
    *,
    counts: ArrayLike | None = None,
    bins: int = 15,
) -> Reliability:
    """Sort predictions into M bins ((b - 1) / M, b / M] by their confidence.

    >>> diagram = reliability([0.1, 0.9, 0.7, 0.6], [0, 1, 1, 0], bins=2)
    >>> [(b.lower, b.upper, b.count, round(b.accuracy, 4)) for b in diagram.bins]
    [(0.0, 0.5, 1, 0.0), (0.5, 1.0, 3, 0.6667)]
    >>> round(diagram.expected_error, 4)
    0.075

    Args:
      confidence: [N], the probability of the predicted or of the positive class.
      correct: [N], 1 or True where the prediction, or the positive class, is right.
      counts: [N] integers, number of predictions of each entry; 1 by default.
      bins: M; 15 in Guo et al. The first bin holds 0 too; empty ones are kept.

    Raises:
      ValueError: the shapes are not the same [N], a confidence is not in [0, 1],
        `correct` holds other values than 0 and 1, or there is no bin.
    """
    confidence = np.asarray(confidence, np.float64)
    correct = np.asarray(correct)
    counts = np.ones(confidence.shape, int) if counts is None else np.asarray(counts)
    if confidence.ndim != 1 or {correct.shape, counts.shape} != {confidence.shape}:
        raise ValueError(
            f"confidence has shape {confidence.shape} and correct {correct.shape}"
        )
    if bins < 1:
        raise ValueError(f"bins is {bins}; it must be at least 1")
    strange = confidence[~((confidence >= 0) & (confidence <= 1))]  # NaN too
    if strange.size:
        raise ValueError(f"{strange[0]} is no probability")
    if not np.isin(correct, (0, 1)).all():
        raise ValueError("correct holds something that is neither 0 nor 1")
    edges = np.linspace(0, 1, bins + 1)
    place = np.searchsorted(edges[1:-1], confidence, side="left")
    number, total, right = (
        np.bincount(place, weights=weights, minlength=bins)
        for weights in (counts, counts * confidence, counts * correct)
    )
    some = np.maximum(number, 1)
    columns = (edges[:-1], edges[1:], number.astype(int), total / some, right / some)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return Reliability(tuple(ReliabilityBin(*row) for row in rows))
