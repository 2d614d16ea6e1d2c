"""Quotients with 0 / 0 = 0."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


def ratio(numerator: float, denominator: float) -> float:
    """Return the quotient, or 0 for a denominator of 0.

    >>> ratio(1, 4), ratio(0, 0)
    (0.25, 0.0)
    """
    return float(numerator / denominator) if denominator else 0.0


def f1(precision: float, recall: float) -> float:
    """Compute 2 P R / (P + R), the harmonic mean; 0 where both are 0.

    The same as 2 TP / (predicted + gold) but for rounding: this is the form in which
    conlleval, seqeval and SQuAD's scripts have it.

    >>> f1(0.5, 1.0), f1(0.0, 0.0)
    (0.6666666666666666, 0.0)
    """
    return ratio(2 * precision * recall, precision + recall)


def mean(values: Iterable[float]) -> float:
    """Take the unweighted mean; that of nothing is 0.

    >>> mean([0.5, 1.0]), mean([])
    (0.75, 0.0)
    """
    array = np.array(list(values), np.float64)
    return float(array.mean()) if array.size else 0.0
