"""Predictions vs. gold: counts by class, and scores whose statistics are checked."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from dicejax.errors import InputError, quote
from dicejax.metrics import quotients
from dicejax.metrics.scores import Scores, beta_of, class_of
from dicejax.metrics.spans import TypeCounts
from dicejax.tasks.task import Examples, Labels, Task

ROUNDING = 1e-9
"""Largest difference of a score from the quotient of its statistics."""


def score(
    task: Task, examples: Examples, predictions: Sequence[Any], labels: Labels
) -> tuple[Scores, np.ndarray | None]:
    """Score predictions, and return the statistics of examples that comparisons test.

    They are None where the primary metric is no sum over examples.

    Raises:
      InputError: they are those of another metric.
    """
    scores = task.score(examples, predictions, labels)
    try:
        shares = task.example_statistics(examples, predictions, labels)
    except InputError:  # reported by comparisons
        return scores, None
    metric = task.primary_metric
    value, tested = scores.values[metric], total(shares)
    if len(examples) and not abs(value - tested) <= ROUNDING:
        raise InputError(
            f"task {type(task).__name__}: {metric} is {value:.4f}, but that of the "
            f"examples' statistics, which comparisons test, is {tested:.4f}: return "
            f"those of {metric} from example_statistics, or raise InputError there if "
            "it is no sum over examples"
        )
    return scores, shares


def total(shares: np.ndarray) -> float:
    """Return the metric whose statistics `[N, C, 2]` those of examples are.

    >>> total(np.array([[[2, 2], [0, 1]], [[0, 2], [0, 0]]]))
    0.25
    """
    return quotients.mean(quotients.ratio(*pair) for pair in shares.sum(axis=0))


def count(
    task: Task, example: Any, prediction: Any, names: Collection[str] = ("",)
) -> TypeCounts:
    """Count what is correct, predicted and gold in one example, of some classes.

    "" stands for all classes.
    """
    gold, guesses = (
        {pair for pair in pairs if "" in names or pair[0] in names}
        for pairs in (task.labelled(example), task.labelled(example, prediction))
    )
    return TypeCounts(len(gold & guesses), len(guesses), len(gold))


def f_statistics(
    task: Task, examples: Examples, predictions: Sequence[Any]
) -> np.ndarray:
    """Return the example statistics of F-beta, of the class of interest or of all.

    They are 1 + b^2 times what is correct, and what is predicted plus b^2 times gold,
    `[N, 1, 2]`: of F1 twice what is correct, and what is predicted plus gold.
    """
    names = (class_of(task.primary_metric) or "",)
    pairs = zip(examples, predictions, strict=True)
    counts = (count(task, *pair, names) for pair in pairs)
    rows = [(n.true_positives, n.predicted, n.gold) for n in counts]
    correct, predicted, gold = np.array(rows, float).reshape(-1, 3, 1).swapaxes(0, 1)
    return _quotients(correct, predicted, gold, task.primary_metric)


def f_counts(gold: np.ndarray, predicted: np.ndarray, metric: str) -> np.ndarray:
    """Return the example statistics of each class's F-beta, `[N, C, 2]`.

    Gold and predicted are bool `[N, C]`.

    >>> gold, predicted = np.array([[True, False]]), np.array([[True, True]])
    >>> f_counts(gold, predicted, "macro_f1").tolist()
    [[[2.0, 2.0], [0.0, 1.0]]]
    >>> f_counts(gold, predicted, "macro_f2").tolist()
    [[[5.0, 5.0], [0.0, 1.0]]]
    """
    return _quotients(1.0 * (gold & predicted), 1.0 * predicted, 1.0 * gold, metric)


def _quotients(
    correct: np.ndarray, predicted: np.ndarray, gold: np.ndarray, metric: str
) -> np.ndarray:
    squared = (beta_of(metric) or 1.0) ** 2
    # Added up alike, so that both are equal to the bit where all is right.
    return np.stack([squared * correct + correct, squared * gold + predicted], axis=-1)


def require_metric(task: Task, examples: Examples) -> None:
    """Check that the class whose F-beta is the primary metric occurs in train.

    Raises:
      InputError: it does not.
    """
    named = class_of(task.primary_metric)
    if named is None:
        return
    names = sorted({name for example in examples for name, _ in task.labelled(example)})
    if named not in names:
        raise InputError(
            f"primary_metric {task.primary_metric}: train has no {quote(named)}; take "
            f"one of {', '.join(map(quote, names))}"
        )
