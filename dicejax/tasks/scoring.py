"""Predictions vs. gold: counts by class, and scores whose statistics are checked."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from dicejax.errors import InputError, quote
from dicejax.metrics import quotients
from dicejax.metrics.scores import Scores, class_of
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


def f1_statistics(
    task: Task, examples: Examples, predictions: Sequence[Any]
) -> np.ndarray:
    """Return the example statistics of F1, of the class of interest or of all.

    They are twice what is correct, and what is predicted plus gold, `[N, 1, 2]`.
    """
    names = (class_of(task.primary_metric) or "",)
    pairs = zip(examples, predictions, strict=True)
    counts = (count(task, *pair, names) for pair in pairs)
    rows = [(2 * n.true_positives, n.predicted + n.gold) for n in counts]
    return np.array(rows, float).reshape(-1, 1, 2)


def f1_counts(gold: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return the example statistics of each class's F1, `[N, C, 2]`, of bool `[N, C]`.

    >>> f1_counts(np.array([[True, False]]), np.array([[True, True]])).tolist()
    [[[2.0, 2.0], [0.0, 1.0]]]
    """
    return np.stack([2.0 * (gold & predicted), 1.0 * gold + predicted], axis=-1)


def require_metric(task: Task, examples: Examples) -> None:
    """Check that the class whose F1 is the primary metric occurs in train.

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
