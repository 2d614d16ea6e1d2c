"""Calibration: do predictions made with confidence p come true p of the time?"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special

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
        raise ValueError(f"{strange[0]} is not a probability")
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


@dataclasses.dataclass(frozen=True)
class ProbabilityScores:
    """Proper scores of probabilities, and their calibration error; lower is better.

    >>> scores = probability_scores(np.log([[0.2, 0.8], [0.6, 0.4]]), [1, 1])
    >>> round(scores.log_loss, 4), round(scores.brier, 4)
    (0.5697, 0.2)

    Attributes:
      log_loss: mean of -log p of what came true, in nats.
      brier: mean of sum_c (p_c - [c came true])^2, half of it for two outcomes.
      expected_error: `Reliability.expected_error` of the likeliest outcome, or of the
        second of two, in 15 bins.
      count: number of predictions.
    """

    log_loss: float
    brier: float
    expected_error: float
    count: int


def probability_scores(
    log_shares: ArrayLike, outcomes: ArrayLike, temperature: float = 1.0
) -> ProbabilityScores:
    """Score probabilities softmax(log_shares / T).

    Source: Gneiting and Raftery, "Strictly proper scoring rules, prediction, and
    estimation", JASA 102, 2007.

    Args:
      log_shares: [N, C], logarithms of the probabilities of C outcomes; at least one.
      outcomes: [N] integers, what came true.
      temperature: T.
    """
    outcomes, logits = np.asarray(outcomes), np.asarray(log_shares) / temperature
    logs: np.ndarray = special.log_softmax(logits, axis=-1)
    shares, truth = np.exp(logs), np.eye(logs.shape[1])[outcomes]
    is_pair = shares.shape[1] == 2
    top = np.ones_like(outcomes) if is_pair else shares.argmax(axis=1)
    confidence = np.take_along_axis(shares, top[:, None], axis=1)[:, 0]
    brier = np.square(shares - truth).sum(axis=1).mean() / (2 if is_pair else 1)
    return ProbabilityScores(
        log_loss=-float(logs[truth == 1].mean()),
        brier=float(brier),
        expected_error=reliability(
            np.minimum(confidence, 1), top == outcomes
        ).expected_error,
        count=len(outcomes),
    )


def fit_temperature(log_shares: ArrayLike, outcomes: ArrayLike) -> float | None:
    """Fit the temperature T by which softmax(log_shares / T) is the likeliest.

    It minimises the log loss, which is convex in 1 / T, for T from 0.05 to 20. T above
    1 makes probabilities less extreme, and no T changes their order. None where the
    best T is 0 or infinite: what is likeliest is always true, or no truer than others.

    Source: Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.

    >>> log_shares = np.log([[0.01, 0.99]] * 4)  # too sure: 3 of 4 come true
    >>> temperature = fit_temperature(log_shares, [1, 1, 1, 0])
    >>> special.softmax(log_shares[0] / temperature).round(3)
    array([0.25, 0.75])
    >>> fit_temperature(log_shares, [1, 1, 1, 1]) is None
    True

    Args:
      log_shares: [N, C], logarithms of the probabilities of C outcomes.
      outcomes: [N] integers, what came true.

    Raises:
      ValueError: a logarithm is NaN.
    """
    log_shares = np.asarray(log_shares, np.float64)
    if np.isnan(log_shares).any():
        raise ValueError("log_shares has NaN; want logarithms of probabilities")
    rows = np.arange(len(log_shares)), np.asarray(outcomes, int)
    true = log_shares[rows]
    if (true == log_shares.max(axis=1)).all() or true.mean() <= log_shares.mean():
        return None

    def log_loss(log_temperature: float) -> float:
        scaled = log_shares / np.exp(log_temperature)
        return -float(special.log_softmax(scaled, axis=-1)[rows].mean())

    bounds = (np.log(0.05), np.log(20))
    best = optimize.minimize_scalar(log_loss, bounds=bounds, method="bounded")
    return float(np.exp(best.x))


@dataclasses.dataclass(frozen=True)
class Calibration:
    """Scores of probabilities before and after a temperature.

    >>> print(Calibration.from_outcomes(2.0, np.log([[0.01, 0.99]] * 4), [1, 1, 1, 0]))
    temperature 2, log loss 0.670 (1.159 without it), Brier score 0.213 (0.245), \
calibration error 0.159 (0.240)

    Attributes:
      temperature: fitted on dev.
      before: scores of the network's probabilities.
      after: scores of the calibrated ones.
    """

    temperature: float
    before: ProbabilityScores
    after: ProbabilityScores

    @classmethod
    def from_outcomes(
        cls, temperature: float, log_shares: ArrayLike, outcomes: ArrayLike
    ) -> Calibration | None:
        """Score some predictions; None of none, see `probability_scores`."""
        if not np.size(outcomes):
            return None
        before, after = (
            probability_scores(log_shares, outcomes, x) for x in (1.0, temperature)
        )
        return cls(temperature, before, after)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Calibration:
        """Return what `dataclasses.asdict` has written."""
        before, after = (
            ProbabilityScores(**content[name]) for name in ("before", "after")
        )
        return cls(content["temperature"], before, after)

    def __str__(self) -> str:
        pairs = (
            ("log loss", "log_loss"),
            ("Brier score", "brier"),
            ("calibration error", "expected_error"),
        )
        parts = [
            f"{name} {getattr(self.after, key):.3f} "
            f"({getattr(self.before, key):.3f}{' without it' * (key == 'log_loss')})"
            for name, key in pairs
        ]
        return f"temperature {self.temperature:.3g}, {', '.join(parts)}"
