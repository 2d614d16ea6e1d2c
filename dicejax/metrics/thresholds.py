"""Decision thresholds tuned on dev data for the best F1."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from dicejax.metrics import arrays, quotients


@dataclasses.dataclass(frozen=True)
class TunedThreshold:
    """A tuned threshold with its scores.

    Its F1 is the best that these examples allow, so on others expect less: report
    `default_f1` with it, and scores on test data with both thresholds.

    >>> print(tune([0.1, 0.4, 0.45, 0.8], [0, 1, 1, 1]))
    F1 1.0000 at threshold 0.25, tuned on 4 examples with 3 positives; 0.5000 at 0.5

    Attributes:
      threshold: scores that are not below it, in float64, count as positive.
      f1: on the examples it was chosen from; a share in [0, 1].
      default_threshold: threshold without tuning.
      default_f1: its F1 on the same examples.
      examples: number of scores it was chosen from.
      positives: number of positives.
    """

    threshold: float
    f1: float
    default_threshold: float
    default_f1: float
    examples: int
    positives: int

    def __str__(self) -> str:
        return (
            f"F1 {self.f1:.4f} at threshold {self.threshold:.4g}, tuned on "
            f"{self.examples} examples with {self.positives} positives; "
            f"{self.default_f1:.4f} at {self.default_threshold:.4g}"
        )


@dataclasses.dataclass(frozen=True)
class TunedThresholds:
    """A tuned threshold for each label, with their scores.

    Attributes:
      threshold: by label; scores that are not below it count as positive.
      f1: mean over labels of the F1 on the examples it was chosen from.
      default_threshold: threshold without tuning.
      default_f1: the mean F1 with it, on the same examples.
      examples: number of examples.
      tuned: number of labels whose threshold is not the default.
    """

    threshold: Mapping[str, float]
    f1: float
    default_threshold: float
    default_f1: float
    examples: int
    tuned: int

    def __str__(self) -> str:
        return (
            f"macro F1 {self.f1:.4f} with {self.tuned} of {len(self.threshold)} "
            f"thresholds tuned on {self.examples} examples; {self.default_f1:.4f} at "
            f"{self.default_threshold:.4g}"
        )


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


def tune(scores: ArrayLike, gold: ArrayLike, *, default: float = 0.5) -> TunedThreshold:
    """Choose the threshold with the best F1 = 2 TP / (predicted + gold positives).

    Every way to cut the sorted scores is tried, in O(N log N); equal scores are never
    parted, and the order of the examples changes nothing:

    - Where the default threshold is as good as the best, it stays.
    - Of equally good cuts the highest is taken, with the fewest predictions.
    - The threshold lies halfway between the two scores it parts, so that the rounding
      of a score decides nothing. A cut that takes everything is at the lowest score.

    >>> tuned = tune([0.9, 0.3, 0.2, 0.1], [1, 1, 0, 0])
    >>> tuned.threshold, tuned.f1, round(tuned.default_f1, 4), tuned.examples
    (0.25, 1.0, 0.6667, 4)

    Args:
      scores: probabilities, or logits with `default=0`; of any shape.
      gold: the same shape, 1 or True for positives.
      default: threshold without tuning.

    Raises:
      ValueError: the shapes differ, a score is NaN, gold holds other values than 0
        and 1, or there is no score.
    """
    return _best_cut(scores, gold, None, default)


def tune_per_label(
    scores: ArrayLike, gold: ArrayLike, labels: Sequence[str], *, default: float = 0.5
) -> TunedThresholds:
    """Choose the threshold with the best F1 of each label, as `tune` does.

    A label without positives keeps the default.

    >>> scores, gold = [[0.9, 0.3], [0.2, 0.2], [0.1, 0.1]], [[1, 1], [0, 0], [0, 0]]
    >>> print(tune_per_label(scores, gold, ["usual", "rare"]).threshold)
    {'usual': 0.5, 'rare': 0.25}

    Args:
      scores: [N, C], such as probabilities.
      gold: [N, C], 1 or True where a label holds.
      labels: names of the C labels.
      default: threshold without tuning.

    Raises:
      ValueError: as of `tune`, or labels and columns differ in number.
    """
    columns = zip(labels, np.asarray(scores).T, np.asarray(gold).T, strict=True)
    tuned = {label: tune(*pair, default=default) for label, *pair in columns}
    return TunedThresholds(
        threshold={label: row.threshold for label, row in tuned.items()},
        f1=quotients.mean(row.f1 for row in tuned.values()),
        default_threshold=default,
        default_f1=quotients.mean(row.default_f1 for row in tuned.values()),
        examples=len(np.asarray(scores)),
        tuned=sum(row.threshold != default for row in tuned.values()),
    )


def tune_spans(
    scores: ArrayLike, correct: ArrayLike, gold: int, *, default: float = 0.5
) -> TunedThreshold:
    """Choose the threshold with the best micro F1 over scored candidate spans.

    F1 = 2 TP / (accepted + gold), as `tune` otherwise. Gold spans that are no candidate
    count as missed. Each candidate is judged alone: resolve overlaps before.

    >>> tuned = tune_spans([0.9, 0.6, 0.4], [True, False, True], gold=3)
    >>> tuned.threshold, round(tuned.f1, 4), round(tuned.default_f1, 4)
    (0.4, 0.6667, 0.4)

    Args:
      scores: one per candidate, of all sentences together.
      correct: whether a candidate is a gold span.
      gold: the number of gold spans in all sentences.
      default: threshold without tuning.

    Raises:
      ValueError: the lengths differ, more candidates are correct than there is gold, a
        score is NaN, or there is no candidate.
    """
    return _best_cut(scores, correct, gold, default)


def _best_cut(
    scores: ArrayLike, correct: ArrayLike, positives: int | None, default: float
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
    if not scores.size:
        raise ValueError("there are no scores to choose a threshold from")
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    ends = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))
    hits = np.cumsum(correct[order])[ends]
    f1s = 2 * hits / (ends + 1 + positives)  # after each distinct score
    best = int(f1s.argmax())  # the first of equals: the highest threshold
    accepted = scores >= default
    default_f1 = quotients.ratio(
        2 * int(correct[accepted].sum()), int(accepted.sum()) + positives
    )
    threshold = default
    if f1s[best] > default_f1:
        upper, rest = float(ranked[ends[best]]), ranked[ends[best] + 1 :]
        threshold = between(float(rest[0]) if rest.size else upper, upper)
    return TunedThreshold(
        threshold=threshold,
        f1=max(float(f1s[best]), default_f1),
        default_threshold=default,
        default_f1=default_f1,
        examples=int(scores.size),
        positives=positives,
    )
