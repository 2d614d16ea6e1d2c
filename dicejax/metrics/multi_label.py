"""Scores of texts with any number of labels each."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike

from dicejax.metrics import arrays, quotients
from dicejax.metrics.classification import ClassScores, class_scores, macro


@dataclasses.dataclass(frozen=True)
class MultiLabelScores:
    """The scores of label decisions; every quotient 0 / 0 is 0.

    Attributes:
      micro: scores of all decisions together.
      macro: the unweighted mean of each score over the labels.
      subset_accuracy: share of examples whose labels are all right.
    """

    micro: ClassScores
    macro: ClassScores
    per_label: tuple[ClassScores, ...]
    subset_accuracy: float


def scores(gold: ArrayLike, predicted: ArrayLike) -> MultiLabelScores:
    """Compute the scores of label decisions.

    With TP_c true positives of label c, P_c predictions and G_c gold,

        micro F1 = 2 sum TP_c / sum (P_c + G_c)
        macro F1 = mean of 2 TP_c / (P_c + G_c)

    A label that is neither gold nor predicted enters the macro mean as 0. Equal to
    scikit-learn's metrics with zero_division=0.

    >>> result = scores([[1, 0], [1, 1], [0, 0]], [[1, 0], [0, 1], [0, 0]])
    >>> round(result.micro.f1, 4), round(result.macro.f1, 4)
    (0.8, 0.8333)
    >>> round(result.subset_accuracy, 4)
    0.6667

    Args:
      gold: [N, C], 1 or True where a label holds.
      predicted: the same of predictions.

    Raises:
      ValueError: the shapes are not the same [N, C], or hold other values than 0 and 1.
    """
    gold = arrays.truths(gold, "gold")
    predicted = arrays.truths(predicted, "predicted")
    arrays.require_table(gold, predicted, "predicted")
    counts = [
        array.sum(axis=0, dtype=int).tolist()
        for array in (gold & predicted, predicted, gold)
    ]
    per_label = tuple(map(class_scores, *counts))
    right = (gold == predicted).all(axis=1)
    return MultiLabelScores(
        micro=class_scores(*map(sum, counts)),
        macro=macro(per_label),
        per_label=per_label,
        subset_accuracy=quotients.mean(right),
    )


def label_ranking_average_precision(gold: ArrayLike, scores: ArrayLike) -> np.ndarray:
    """Compute the label-ranking average precision (LRAP) of each example.

        LRAP_n = mean over j in Y_n of |{k in Y_n: s_k >= s_j}| / |{k: s_k >= s_j}|

    Y_n being the labels of example n: how many of the labels ranked as high as a true
    one are true. It is 1 for an example without labels. Its mean is equal to
    scikit-learn's `label_ranking_average_precision_score`.

    >>> label_ranking_average_precision([[1, 0, 1], [0, 0, 0]],
    ...                                 [[0.9, 0.8, 0.3], [0.1, 0.2, 0.3]]).round(4)
    array([0.8333, 1.    ])

    Args:
      gold: [N, C], 1 or True where a label holds.
      scores: [N, C], higher for likelier labels.

    Returns:
      float [N], in (0, 1].

    Raises:
      ValueError: the shapes are not the same [N, C], gold holds other values than 0
        and 1, or a score is NaN.
    """
    gold, values = arrays.truths(gold, "gold"), arrays.numbers(scores, "scores")
    arrays.require_table(gold, values, "scores")
    precisions = np.ones(len(gold))
    for number, (is_true, row) in enumerate(zip(gold, values, strict=True)):
        if is_true.any():
            true = row[is_true]
            as_high = [(others >= true[:, None]).sum(1) for others in (true, row)]
            precisions[number] = np.mean(as_high[0] / as_high[1])
    return precisions
