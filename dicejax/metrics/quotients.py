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
    return f_beta(precision, recall, 1.0)


def f_beta(precision: float, recall: float, beta: float) -> float:
    """Compute (1 + b^2) P R / (b^2 P + R); 0 where both are 0.

    That is (1 + b^2) TP / ((1 + b^2) TP + b^2 FN + FP): recall counts b times as much
    as precision. Source: van Rijsbergen, Information Retrieval, 1979, chapter 7.

    >>> f_beta(0.5, 1.0, 2.0), f_beta(0.5, 1.0, 1.0) == f1(0.5, 1.0)
    (0.8333333333333334, True)
    """
    squared = beta * beta
    return ratio((1 + squared) * precision * recall, squared * precision + recall)


def mean(values: Iterable[float]) -> float:
    """Take the unweighted mean; that of nothing is 0.

    >>> mean([0.5, 1.0]), mean([])
    (0.75, 0.0)
    """
    array = np.array(list(values), np.float64)
    return float(array.mean()) if array.size else 0.0
