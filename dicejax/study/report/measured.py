"""Curves and probabilities of the runs of a loss, over seeds."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from dicejax.metrics import score_counts
from dicejax.metrics.calibration import ReliabilityBin
from dicejax.study.compare.failures import support_of
from dicejax.study.compare.statistics import Row

CURVES = ("dev", "training_loss")
"""The primary metric on dev, and the training loss: step and value, float `[S, 2]`."""


def band_of(curves: Iterable[np.ndarray]) -> np.ndarray:
    """Return step, mean and sample SD of the seeds that have the step, `[S, 3]`.

    >>> band_of([np.array([[10, 1.0], [20, 4.0]]), np.array([[10, 3.0]])]).round(3)
    array([[10.   ,  2.   ,  1.414],
           [20.   ,  4.   ,  0.   ]])
    """
    values: dict[int, list[float]] = {}
    for step, value in np.concatenate([np.zeros((0, 2)), *curves]).tolist():
        values.setdefault(int(step), []).append(value)
    band = [
        (step, statistics.fmean(x), statistics.stdev(x) if len(x) > 1 else 0.0)
        for step, x in sorted(values.items())
    ]
    return np.array(band, np.float64).reshape(-1, 3)


def measured(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with curves of their own, of losses that have begun.

    A row that shares its runs with an earlier one, as a tuned threshold does, has none.
    """
    begun: list[Row] = []
    read: set[str] = set()
    for row in rows:
        folders = {run.folder for run in row.runs}
        if row.settings is not None and not folders <= read:
            begun.append(row)
        read |= folders
    return begun


CountsBySeed = Mapping[int, np.ndarray]
"""Counts of `score_counts.count_scores` on test, without the negative class."""


def counts_of(row: Row) -> Mapping[str, CountsBySeed]:
    """Return the counts of predicted probabilities by output."""
    by_output: dict[str, dict[int, np.ndarray]] = {}
    for run in row.runs:
        for output, counts in run.score_counts.items():
            by_output.setdefault(output, {})[run.seed] = counts
    return by_output


def pooled(by_seed: CountsBySeed) -> np.ndarray:
    """Return the counts of all seeds together."""
    return np.sum(list(by_seed.values()), axis=0)


def bins_of(counts: np.ndarray) -> list[ReliabilityBin]:
    """Return the reliability of probabilities in bins, without the empty ones."""
    return [x for x in score_counts.reliability(counts).bins if x.count]


def classes_of(rows: Sequence[Row]) -> Counter[str]:
    """Count the classes that the test set has; their scores are `Row.class_scores`."""
    return +support_of(rows[0].results[0]["test"])


def most_frequent(support: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return classes with their counts, the most frequent first."""
    return sorted(support.items(), key=lambda each: (-each[1], each[0]))
