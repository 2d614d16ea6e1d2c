"""Decision thresholds tuned on dev data for the best F1 or F-beta."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dicejax.metrics import arrays, quotients


@dataclasses.dataclass(frozen=True)
class TunedThreshold:
    """A tuned threshold with its scores, or one for each label.

    Its F1, or F-beta, is the best that these examples allow, so on others expect less:
    report `default_score` with it, and scores on test data with both thresholds.

    >>> print(tune([0.1, 0.4, 0.45, 0.8], [0, 1, 1, 1]))
    F1 1.0000 at threshold 0.25, tuned on 4 examples with 3 positives; 0.5000 at 0.5

    Attributes:
      threshold: number, or by label; scores that are not below it, in float64, count as
        positive.
      score: F-beta on the examples it was chosen from, a share in [0, 1]; of labels
        their mean.
      default_threshold: threshold without tuning.
      default_score: the F-beta with it, on the same examples.
      examples: number of scores it was chosen from, or of examples with labels.
      positives: number of positives.
      beta: 1 for F1.
    """

    threshold: float | Mapping[str, float]
    score: float
    default_threshold: float
    default_score: float
    examples: int
    positives: int
    beta: float = 1.0

    @property
    def tuned(self) -> int:
        """Number of thresholds that are not the default."""
        chosen = self.threshold
        limits = chosen.values() if isinstance(chosen, Mapping) else [chosen]
        return sum(limit != self.default_threshold for limit in limits)

    def __str__(self) -> str:
        name, number = f"F{self.beta:g}", f"{self.examples} examples"
        if isinstance(self.threshold, Mapping):
            which = f"with {self.tuned} of {len(self.threshold)} thresholds"
            text = f"macro {name} {self.score:.4f} {which} tuned on {number}"
        else:
            text = f"{name} {self.score:.4f} at threshold {self.threshold:.4g}, tuned "
            text += f"on {number} with {self.positives} positives"
        return f"{text}; {self.default_score:.4f} at {self.default_threshold:.4g}"


def describe(threshold: float | Mapping[str, float]) -> str:
    """Return a threshold, or the range of the thresholds of labels, as text.

    >>> describe(0.25), describe({"rare": 0.125, "usual": 0.5})
    ('threshold 0.25', 'thresholds 0.125 to 0.5')
    """
    if not isinstance(threshold, Mapping):
        return f"threshold {threshold:.3g}"
    values = threshold.values()
    if len(values) == 1:
        return f"threshold {min(values):.3g}"
    return f"thresholds {min(values):.3g} to {max(values):.3g}"


def between(lower: float, upper: float) -> float:
    """Return a threshold that parts two scores: halfway, where there is room.

    >>> between(0.2, 0.4), between(0.4, 0.4)
    (0.30000000000000004, 0.4)
    """
    with np.errstate(invalid="ignore"):  # neighbours and infinities have no middle
        middle = lower + (upper - lower) / 2
    return float(middle if lower < middle <= upper else upper)


def tune(
    scores: ArrayLike, gold: ArrayLike, *, default: float = 0.5, beta: float = 1.0
) -> TunedThreshold:
    """Choose the threshold with the best F1, or F-beta.

        F = (1 + beta^2) TP / (predicted + beta^2 gold positives)

    Every way to cut the sorted scores is tried, in O(N log N); equal scores are never
    parted, and the order of the examples changes nothing:

    - Where the default threshold is as good as the best, it stays.
    - Of equally good cuts the highest is taken, with the fewest predictions.
    - The threshold lies halfway between the two scores it parts, so that the rounding
      of a score decides nothing. A cut that takes everything is at the lowest score.

    >>> tuned = tune([0.9, 0.3, 0.2, 0.1], [1, 1, 0, 0])
    >>> tuned.threshold, tuned.score, round(tuned.default_score, 4), tuned.examples
    (0.25, 1.0, 0.6667, 4)

    Args:
      scores: probabilities, or logits with `default=0`; of any shape.
      gold: the same shape, 1 or True for positives.
      default: threshold without tuning.
      beta: of F-beta, above 0: recall counts beta times as much as precision.

    Raises:
      ValueError: the shapes differ, a score is NaN, gold holds other values than 0
        and 1, there is no score, or beta is not above 0.
    """
    return _best_cut(scores, gold, None, default, beta)


def tune_per_label(
    scores: ArrayLike,
    gold: ArrayLike,
    labels: Sequence[str],
    *,
    default: float = 0.5,
    beta: float = 1.0,
) -> TunedThreshold:
    """Choose the threshold with the best F-beta of each label, as `tune` does.

    A label without positives keeps the default.

    >>> scores, gold = [[0.9, 0.3], [0.2, 0.2], [0.1, 0.1]], [[1, 1], [0, 0], [0, 0]]
    >>> print(tune_per_label(scores, gold, ["usual", "rare"]).threshold)
    {'usual': 0.5, 'rare': 0.25}

    Args:
      scores: [N, C], such as probabilities.
      gold: [N, C], 1 or True where a label holds.
      labels: names of the C labels.
      default: threshold without tuning.
      beta: as of `tune`.

    Raises:
      ValueError: as of `tune`, or labels and columns differ in number.
    """
    columns = zip(labels, np.asarray(scores).T, np.asarray(gold).T, strict=True)
    form: dict[str, Any] = {"default": default, "beta": beta}
    tuned: dict[str, Any] = {label: tune(*pair, **form) for label, *pair in columns}
    return TunedThreshold(
        threshold={label: row.threshold for label, row in tuned.items()},
        score=quotients.mean(row.score for row in tuned.values()),
        default_threshold=default,
        default_score=quotients.mean(row.default_score for row in tuned.values()),
        examples=len(np.asarray(scores)),
        positives=sum(row.positives for row in tuned.values()),
        beta=beta,
    )


def tune_spans(
    scores: ArrayLike,
    correct: ArrayLike,
    gold: int,
    *,
    default: float = 0.5,
    beta: float = 1.0,
) -> TunedThreshold:
    """Choose the threshold with the best micro F-beta over scored candidate spans.

    F1 = 2 TP / (accepted + gold), as `tune` otherwise. Gold spans that are no candidate
    count as missed. Each candidate is judged alone: resolve overlaps before.

    >>> tuned = tune_spans([0.9, 0.6, 0.4], [True, False, True], gold=3)
    >>> tuned.threshold, round(tuned.score, 4), round(tuned.default_score, 4)
    (0.4, 0.6667, 0.4)

    Args:
      scores: one per candidate, of all sentences together.
      correct: whether a candidate is a gold span.
      gold: the number of gold spans in all sentences.
      default: threshold without tuning.
      beta: as of `tune`.

    Raises:
      ValueError: the lengths differ, more candidates are correct than there is gold, a
        score is NaN, there is no candidate, or beta is not above 0.
    """
    return _best_cut(scores, correct, gold, default, beta)


def _best_cut(
    scores: ArrayLike,
    correct: ArrayLike,
    positives: int | None,
    default: float,
    beta: float,
) -> TunedThreshold:
    """Choose for so many positives; None: all that are correct."""
    scores = arrays.numbers(scores, "scores")
    correct = arrays.truths(correct, "gold")
    if scores.shape != correct.shape:
        raise ValueError(f"scores have shape {scores.shape}, gold {correct.shape}")
    scores, correct, total = scores.ravel(), correct.ravel(), int(correct.sum())
    positives = total if positives is None else positives
    if total > positives:
        raise ValueError(f"{total} candidates are correct but gold is {positives}")
    if not beta > 0:
        raise ValueError(f"beta is {beta}; want above 0")
    if not scores.size:
        raise ValueError("there are no scores to choose a threshold from")
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    ends = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))
    hits = np.cumsum(correct[order])[ends]
    squared = beta * beta
    reached = (1 + squared) * hits / (ends + 1 + squared * positives)
    best = int(reached.argmax())  # the first of equals: the highest threshold
    accepted = scores >= default
    default_score = quotients.ratio(
        (1 + squared) * int(correct[accepted].sum()),
        int(accepted.sum()) + squared * positives,
    )
    threshold = default
    if reached[best] > default_score:
        upper, rest = float(ranked[ends[best]]), ranked[ends[best] + 1 :]
        threshold = between(float(rest[0]) if rest.size else upper, upper)
    return TunedThreshold(
        threshold=threshold,
        score=max(float(reached[best]), default_score),
        default_threshold=default,
        default_score=default_score,
        examples=int(scores.size),
        positives=positives,
        beta=beta,
    )
