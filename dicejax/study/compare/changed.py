"""Test examples whose answers the advised loss changes, and what is quoted of them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from etils import epath

from dicejax.study.compare.advice import foremost
from dicejax.study.compare.record import Comparison, Quoted
from dicejax.study.compare.statistics import Row, rivals_of
from dicejax.study.compare.testing import MARGIN
from dicejax.tasks.described import text_and_gold
from dicejax.training.identity import test_checksum
from dicejax.training.run_folder import Run

MOST = 5
"""Examples of a table: as many that a loss gains as it loses."""


def rival_of(rows: Sequence[Row], margin: float = MARGIN) -> Row | None:
    """Return the row that a page sets beside the baseline wherever it shows but two.

    It is the one that the advice is about, else the first loss; None without any.
    """
    return foremost(rows, margin) or next(iter(rivals_of(rows)), None)


def quote(
    comparison: Comparison,
    read_examples: Callable[[], Sequence[Any] | None] = lambda: None,
) -> Comparison:
    """Quote texts and predictions of the examples whose answers change.

    Where the test set cannot be read (None), texts are those that the comparison
    quotes already, if they are of this test set.
    """
    pair = compared_pair(comparison)
    if pair is None:
        return dataclasses.replace(comparison, quoted=Quoted())
    gain = gain_of(pair)
    numbers = {f"{n + 1}": n for each in most_changed(gain).values() for n in each}
    checksum = test_checksum(comparison.rows[0].results[0])
    earlier = comparison.quoted
    texts = earlier.texts if earlier.checksum == checksum else {}
    # Where parts of examples are scored, their numbers are not those of examples.
    examples = read_examples() if numbers else None
    if examples is not None and len(examples) == len(gain):
        texts = {k: tuple(text_and_gold(examples[n])) for k, n in numbers.items()}
    is_known = texts.keys() >= numbers.keys()
    texts = {k: texts[k] for k in numbers} if is_known else {}
    predictions = {row.loss: _predictions(row, len(gain)) for row in pair}
    predicted = {
        loss: {k: usual([runs[n] for runs in each]) for k, n in numbers.items()}
        for loss, each in predictions.items()
        if each and numbers
    }
    return dataclasses.replace(comparison, quoted=Quoted(checksum, texts, predicted))


def compared_pair(comparison: Comparison) -> tuple[Row, Row] | None:
    """Return baseline and rival; None unless both have scores by example."""
    rows = comparison.rows
    rival = rival_of(rows, comparison.margin)
    if rival is None or rows[0].source == "run scores":
        return None
    (right, runs), (other, other_runs) = right_of(rows[0]), right_of(rival)
    is_scored = runs and other_runs and len(right) == len(other)
    return (rows[0], rival) if is_scored else None


def right_of(row: Row) -> tuple[np.ndarray, int]:
    """Return in how many runs each example is wholly right, and how many there are."""
    counts = [x for run in row.runs if (x := run.example_statistics) is not None]
    right = sum((n[..., 0] == n[..., 1]).all(-1).astype(int) for n in counts)
    return np.asarray(right), len(counts)


def gain_of(pair: tuple[Row, Row]) -> np.ndarray:
    """Return the share of runs that are right on each example, minus the baseline's."""
    (right, runs), (other, other_runs) = map(right_of, pair)
    return other / other_runs - right / runs


def most_changed(gain: np.ndarray) -> dict[int, list[int]]:
    """Return the examples that change in most runs, gains and losses."""
    order = sorted(np.flatnonzero(gain), key=lambda n: (-abs(gain[n]), n))
    return {
        sign: [int(n) for n in order if sign * gain[n] > 0][:MOST] for sign in (1, -1)
    }


def _predictions(row: Row, count: int) -> list[np.ndarray]:
    """Return the predictions of each run in words; empty where a run has none."""
    predictions = []
    for run in row.runs:
        if run.example_statistics is None:
            continue
        if run.source != "run" or "control" in run.result:
            return []
        folder = epath.Path(run.folder)
        texts = Run(folder).test_array("predictions") if folder.exists() else None
        if texts is None or len(texts) != count:
            return []
        predictions.append(texts)
    return predictions


def usual(texts: Sequence[str]) -> str:
    """Return the text that most seeds have, and how many.

    >>> usual(["PER: Ada", "-", "PER: Ada"])
    'PER: Ada (2 of 3)'
    """
    ((text, count),) = Counter(map(str, texts)).most_common(1)
    return text if count == len(texts) else f"{text} ({count} of {len(texts)})"
