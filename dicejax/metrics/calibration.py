"""Calibration: do predictions made with confidence p come true p of the time?"""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from dicejax.metrics import arrays, quotients


@dataclasses.dataclass(frozen=True)
class ReliabilityBin:
    """A bar of a reliability diagram; shares in [0, 1].

    Attributes:
      lower: where the bin begins.
      upper: where it ends.
      count: predictions in it.
      confidence: their mean confidence; 0 if there are none.
      accuracy: the share of them that came true; 0 if there are none.
    """

    lower: float
    upper: float
    count: int
    confidence: float
    accuracy: float


@dataclasses.dataclass(frozen=True)
class Reliability:
    """The data of a reliability diagram and what follows from it.

    Attributes:
      bins: from the lowest confidence.
    """

    bins: tuple[ReliabilityBin, ...]

    @property
    def count(self) -> int:
        """How many predictions there are."""
        return sum(one.count for one in self.bins)

    @property
    def expected_error(self) -> float:
        """The expected calibration error, sum n_b / N |accuracy_b - confidence_b|.

        In [0, 1]; 0 without predictions. Source: Naeini et al., AAAI 2015; Guo et al.,
        "On Calibration of Modern Neural Networks", ICML 2017, equation 3. It depends on
        the number of bins, so name it with the score.
        """
        gaps = (b.count * abs(b.accuracy - b.confidence) for b in self.bins)
        return quotients.ratio(sum(gaps), self.count)

    @property
    def largest_error(self) -> float:
        """The largest gap of a bin with predictions (Guo et al., equation 5)."""
        gaps = (abs(b.accuracy - b.confidence) for b in self.bins if b.count)
        return max(gaps, default=0.0)


def reliability(
    confidence: ArrayLike,
    correct: ArrayLike,
    *,
    bins: int = 15,
    equal: Literal["width", "mass"] = "width",
) -> Reliability:
    """Sort predictions into bins by their confidence.

    >>> diagram = reliability([0.1, 0.9, 0.7, 0.6], [0, 1, 1, 0], bins=2)
    >>> [(b.lower, b.upper, b.count, round(b.accuracy, 4)) for b in diagram.bins]
    [(0.0, 0.5, 1, 0.0), (0.5, 1.0, 3, 0.6667)]
    >>> round(diagram.expected_error, 4)
    0.075

    Args:
      confidence: [N], the probability of what was predicted (see `top_label`), or of
        the positive class.
      correct: [N], 1 or True where the prediction, or the positive class, is right.
      bins: how many; 15 is Guo et al.'s number.
      equal: "width" makes M bins ((b - 1) / M, b / M], the first with 0 in it; empty
        ones are kept. "mass" puts N / M predictions into each, in the order of
        confidence. Predictions of equal confidence stay together, in the bin where the
        first of them falls, so that order changes nothing; bins left empty are dropped,
        and a bin reaches from its lowest to its highest confidence.

    Raises:
      ValueError: the shapes are not the same [N], a confidence is not in [0, 1],
        something in `correct` is neither 0 nor 1, or there is no bin.
    """
    confidence = np.asarray(confidence, np.float64)
    correct = arrays.truths(correct, "correct")
    if confidence.ndim != 1 or confidence.shape != correct.shape:
        raise ValueError(
            f"confidence has shape {confidence.shape} and correct {correct.shape}"
        )
    if bins < 1:
        raise ValueError(f"bins is {bins}; it must be at least 1")
    _check_probabilities(confidence)
    if equal == "width":
        edges = np.linspace(0, 1, bins + 1)
        place = np.searchsorted(edges[1:-1], confidence, side="left")
        members = [place == b for b in range(bins)]
        ends = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
    elif equal == "mass":
        # The rank of the first of equals.
        rank = np.searchsorted(np.sort(confidence), confidence, side="left")
        place = rank * bins // max(len(confidence), 1)
        members = [place == b for b in np.unique(place)]
        ends = [
            (float(confidence[m].min()), float(confidence[m].max())) for m in members
        ]
    else:
        raise ValueError(f"equal is {equal!r}; choose 'width' or 'mass'")
    return Reliability(
        tuple(
            ReliabilityBin(
                lower=lower,
                upper=upper,
                count=int(member.sum()),
                confidence=quotients.mean(confidence[member]),
                accuracy=quotients.mean(correct[member]),
            )
            for member, (lower, upper) in zip(members, ends, strict=True)
        )
    )


def top_label(
    probabilities: ArrayLike, labels: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Return the confidence in each prediction, [N], and whether it is right, [N].

    The prediction is the likeliest class, of equals the first.

    >>> confidence, correct = top_label([[0.2, 0.8], [0.7, 0.3]], [1, 1])
    >>> confidence.tolist(), correct.tolist()
    ([0.8, 0.7], [True, False])

    Args:
      probabilities: [N, C].
      labels: [N] integers.

    Raises:
      ValueError: the shapes do not fit.
    """
    probabilities, labels = np.asarray(probabilities), np.asarray(labels)
    if probabilities.ndim != 2 or labels.shape != probabilities.shape[:1]:
        raise ValueError(
            f"probabilities have shape {probabilities.shape}, not [N, C] for labels "
            f"of shape {labels.shape}"
        )
    return probabilities.max(-1), probabilities.argmax(-1) == labels


def brier(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Compute the Brier score, the mean squared error of probabilities.

        binary, [N]:         mean over examples of (p - y)^2, in [0, 1]
        several, [N, C]:     mean over examples of sum_c (p_c - [y = c])^2, in [0, 2]

    The second is Brier's own (1950); of two classes it is twice the first. Without
    examples the score is 0.

    >>> brier([0.9, 0.2], [1, 0])
    0.025
    >>> brier([[0.25, 0.75], [0.5, 0.5]], [1, 0])
    0.3125

    Args:
      probabilities: [N] of the positive class, or [N, C].
      labels: [N]; 1 or True for positives, or integers below C.

    Raises:
      ValueError: the shapes do not fit, a probability is not in [0, 1], or a label is
        no class.
    """
    probabilities = np.asarray(probabilities, np.float64)
    labels = np.asarray(labels)
    if probabilities.ndim not in (1, 2) or labels.shape != probabilities.shape[:1]:
        raise ValueError(
            f"probabilities have shape {probabilities.shape}, not [N] or [N, C] for "
            f"labels of shape {labels.shape}"
        )
    _check_probabilities(probabilities)
    classes = probabilities.shape[1] if probabilities.ndim == 2 else 2
    if not np.isin(labels, np.arange(classes)).all():
        raise ValueError(f"labels are not all from 0 to {classes - 1}")
    if probabilities.ndim == 1:
        return quotients.mean((probabilities - labels) ** 2)
    right = labels[:, None] == np.arange(classes)
    return quotients.mean(((probabilities - right) ** 2).sum(-1))


def _check_probabilities(values: np.ndarray) -> None:
    strange = values[~((values >= 0) & (values <= 1))]  # NaN too
    if strange.size:
        raise ValueError(f"{strange[0]} is no probability")
