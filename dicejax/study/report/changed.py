"""Test examples whose answers a loss changes, with what each loss predicted."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath

from dicejax.study.compare.advice import foremost
from dicejax.study.compare.statistics import Row, rivals_of, source_of
from dicejax.study.compare.testing import MARGIN
from dicejax.study.report.document import TextTable
from dicejax.tasks.described import text_and_gold
from dicejax.training.run_folder import Run

MOST = 5
"""Examples of a table: as many that a loss gains as it loses."""


@dataclasses.dataclass(frozen=True)
class Changed:
    """Tables of gains and of losses, and text and gold answer of each, by number."""

    summary: str
    tables: Sequence[TextTable]
    texts: Mapping[str, Sequence[str]]


def rival_of(rows: Sequence[Row], margin: float = MARGIN) -> Row | None:
    """Return the row that a page sets beside the baseline wherever it shows but two.

    It is the one that the advice is about, else the first loss; None without any.
    """
    return foremost(rows, margin) or next(iter(rivals_of(rows)), None)


def changed_answers(
    rows: Sequence[Row],
    read_examples: Callable[[], Sequence[Any] | None],
    earlier: Mapping[str, Sequence[str]] = {},
    margin: float = MARGIN,
) -> Changed | None:
    """Return the test examples whose answers the recommended or best loss changes.

    None where no answer changes. Where the test set cannot be read (None), texts are
    those of an earlier report, by number.
    """
    best = rival_of(rows, margin)
    if best is None or source_of(rows) == "run scores":
        return None
    pair = (rows[0], best)
    right, runs = [], []  # of each loss: runs in which an example is wholly right
    for row in pair:
        counts = [outcome.example_statistics for outcome in row.outcomes]
        counts = [count for count in counts if count is not None]
        right.append(sum((n[..., 0] == n[..., 1]).all(-1) for n in counts))
        runs.append(len(counts))
    if 0 in runs or len(right[0]) != len(right[1]):
        return None
    gain = right[1] / runs[1] - right[0] / runs[0]
    order = sorted(np.flatnonzero(gain), key=lambda n: (-abs(gain[n]), n))
    if not order:
        return None
    chosen = {
        sign: [int(n) for n in order if sign * gain[n] > 0][:MOST] for sign in (1, -1)
    }
    numbers = [n for each in chosen.values() for n in each]
    # Where parts of examples are scored, their numbers are not those of examples.
    examples = read_examples()
    if examples is not None and len(examples) == len(gain):
        earlier = {f"{n + 1}": text_and_gold(examples[n]) for n in numbers}
    has_texts = all(f"{n + 1}" in earlier for n in numbers)
    texts = {f"{n + 1}": earlier[f"{n + 1}"] for n in numbers} if has_texts else {}
    predictions = [predictions_of(row, len(gain)) for row in pair]
    names = rows[0].outcomes[0].names
    tables = []
    for sign, places in chosen.items():
        lines = []
        for n in places:
            line = {"test example": names[n] if names else f"{n + 1}"}
            cells = texts.get(f"{n + 1}", ())
            line |= dict(zip(("text", "gold"), cells, strict=False))
            for row, each in zip(pair, predictions, strict=True):
                if each:
                    line[f"{row.loss} predicted"] = usual([texts[n] for texts in each])
            for row, count, total in zip(pair, right, runs, strict=True):
                line[f"{row.loss} right"] = f"{count[n]} of {total}"
            lines.append(line)
        if lines:
            which = "more" if sign > 0 else "fewer"
            caption = f"{best.loss} is right in {which} seeds than {rows[0].loss}"
            words = {"text", "gold", *(f"{row.loss} predicted" for row in pair)}
            tables.append(TextTable(caption, lines, words))
    up, down = int((gain > 0).sum()), int((gain < 0).sum())
    cancel = min(up, down) > 0.8 * max(up, down)
    summary = (
        f"{best.loss} is right in more seeds than {rows[0].loss} on {up:,} test "
        f"example{'s' * (up != 1)}, and in fewer on {down:,}"
        f"{', which nearly cancels out' * cancel}. An example is right if all of its "
        "predictions are. Those that change in most seeds come first."
    )
    if any(predictions):
        summary += " Predictions are those that most seeds agree on."
    if not texts and not names:
        summary += " Numbers count from 1 in the test set."
    return Changed(summary, tables, texts)


def predictions_of(row: Row, count: int) -> list[np.ndarray]:
    """Return the predictions of each run in words; empty where a run has none."""
    predictions = []
    for outcome in row.outcomes:
        if outcome.example_statistics is None:
            continue
        if outcome.source != "run" or "control" in outcome.result:
            return []
        folder = epath.Path(outcome.folder)
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
