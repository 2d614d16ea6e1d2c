"""Classification scores from a confusion matrix that adds over batches."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from dicejax.metrics import quotients


@dataclasses.dataclass(frozen=True)
class ConfusionMatrix:
    """Counts of gold and predicted classes; matrices of parts add up.

    The mean of the scores of parts is not the score of the whole, so keep a matrix per
    batch or process, add them, and take `scores` once.

    >>> first = confusion([0, 1], [0, 0], classes=2)
    >>> first + confusion([1], [1], classes=2)
    ConfusionMatrix(counts=((1, 0), (1, 1)))

    Attributes:
      counts: examples by gold class, then by predicted class.
    """

    counts: tuple[tuple[int, ...], ...]

    def __add__(self, other: ConfusionMatrix) -> ConfusionMatrix:
        """Merge with the counts of other examples.

        Raises:
          ValueError: the numbers of classes differ.
        """
        mine, theirs = len(self.counts), len(other.counts)
        if mine != theirs:
            raise ValueError(f"matrices of {mine} and of {theirs} classes do not add")
        total = np.add(self.counts, other.counts, dtype=np.int64)
        return ConfusionMatrix(tuple(map(tuple, total.tolist())))

    @property
    def gold(self) -> tuple[int, ...]:
        """Examples of each class."""
        return tuple(map(sum, self.counts))

    @property
    def predicted(self) -> tuple[int, ...]:
        """Examples predicted as each class."""
        return tuple(map(sum, zip(*self.counts, strict=True)))

    @property
    def correct(self) -> tuple[int, ...]:
        """Correct examples of each class."""
        return tuple(row[c] for c, row in enumerate(self.counts))


@dataclasses.dataclass(frozen=True)
class ClassScores:
    """The scores of one class, or of several together; shares in [0, 1].

    Precision is correct / predicted, recall correct / gold, and F1 is 2 correct /
    (predicted + gold), where gold is the `support`, the number of examples.
    """

    precision: float
    recall: float
    f1: float
    support: int


@dataclasses.dataclass(frozen=True)
class ClassificationScores:
    """The scores of a confusion matrix; every quotient 0 / 0 is 0.

    Attributes:
      accuracy: correct / all; in [0, 1].
      matthews: Matthews' correlation, in [-1, 1]; 0 where gold or predictions are all
        of one class. See `scores`.
      macro: the unweighted mean of each score, such as the mean of F1, over classes.
      per_class: scores of every class; binary tasks report `per_class[1]`.
    """

    accuracy: float
    matthews: float
    macro: ClassScores
    per_class: tuple[ClassScores, ...]


def confusion(gold: ArrayLike, predicted: ArrayLike, classes: int) -> ConfusionMatrix:
    """Count gold and predicted classes.

    >>> confusion([0, 1, 1], [0, 0, 1], classes=2).counts
    ((1, 0), (1, 1))

    Args:
      gold: classes as integers from 0, of any shape.
      predicted: the same shape.
      classes: number of classes.

    Raises:
      ValueError: the shapes differ, or an entry is no class.
    """
    gold, predicted = np.asarray(gold), np.asarray(predicted)
    if gold.shape != predicted.shape:
        raise ValueError(
            f"gold has shape {gold.shape}, predicted {predicted.shape}; want the same"
        )
    for name, values in (("gold", gold), ("predicted", predicted)):
        if values.size and not np.issubdtype(values.dtype, np.integer):
            raise ValueError(f"{name} has dtype {values.dtype}, not integers")
        strange = values[(values < 0) | (values >= classes)]
        if strange.size:
            raise ValueError(
                f"{name} holds {strange[0]}; classes go from 0 to {classes - 1}"
            )
    pairs = gold.astype(np.int64) * classes + predicted.astype(np.int64)
    counts = np.bincount(pairs.ravel(), minlength=classes**2).reshape(classes, classes)
    return ConfusionMatrix(tuple(map(tuple, counts.tolist())))


def scores(
    matrix: ConfusionMatrix, classes: Sequence[int] | None = None
) -> ClassificationScores:
    """Compute every score that a confusion matrix holds.

    With N examples, n correct, and for class c: g_c of it, p_c predicted as it,

        accuracy = n / N
        matthews = (n N - sum g_c p_c) / sqrt((N^2 - sum p_c^2) (N^2 - sum g_c^2))

    which for two classes is Matthews' correlation (1975), for more Gorodkin's R_K
    (2004). Equal to scikit-learn's metrics with zero_division=0.

    >>> result = scores(confusion([0, 0, 0, 1, 1], [0, 0, 1, 1, 0], classes=2))
    >>> result.accuracy, result.per_class[1].f1, round(result.matthews, 4)
    (0.6, 0.5, 0.1667)
    >>> result.macro.f1 == (result.per_class[0].f1 + result.per_class[1].f1) / 2
    True

    Args:
      matrix: the counts.
      classes: classes of the macro scores, of which one that does not occur counts as
        0. None: those that occur in gold or predictions, as scikit-learn does.

    Raises:
      ValueError: one of `classes` is none.
    """
    gold, predicted, correct = matrix.gold, matrix.predicted, matrix.correct
    total, count = sum(gold), len(gold)
    if classes is None:
        classes = [c for c in range(count) if gold[c] or predicted[c]]
    elif not all(0 <= c < count for c in classes):
        raise ValueError(f"classes {classes} are not all among {count}")
    per_class = tuple(map(class_scores, correct, predicted, gold))
    # Python's integers: N^2 and its square do not overflow.
    agreement = sum(correct) * total - sum(map(int.__mul__, gold, predicted))
    spreads = (total**2 - sum(n * n for n in counts) for counts in (gold, predicted))
    return ClassificationScores(
        accuracy=quotients.ratio(sum(correct), total),
        matthews=quotients.ratio(agreement, math.sqrt(math.prod(spreads))),
        macro=macro([per_class[c] for c in classes]),
        per_class=per_class,
    )


def class_scores(correct: int, predicted: int, gold: int) -> ClassScores:
    """Compute the scores of one class from its counts.

    >>> class_scores(1, 2, 4)
    ClassScores(precision=0.5, recall=0.25, f1=0.3333333333333333, support=4)
    """
    return ClassScores(
        precision=quotients.ratio(correct, predicted),
        recall=quotients.ratio(correct, gold),
        f1=quotients.ratio(2 * correct, predicted + gold),
        support=gold,
    )


def macro(classes: Sequence[ClassScores]) -> ClassScores:
    """Average the scores of classes, unweighted; the support is their sum.

    >>> macro([class_scores(1, 1, 2), class_scores(0, 1, 0)]).precision
    0.5
    """
    return ClassScores(
        precision=quotients.mean(row.precision for row in classes),
        recall=quotients.mean(row.recall for row in classes),
        f1=quotients.mean(row.f1 for row in classes),
        support=sum(row.support for row in classes),
    )
