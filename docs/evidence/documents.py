"""Documents of the test set of CoNLL-2003, as the items that intervals are over.

    python docs/evidence/documents.py DATA/conll2003/test.txt

writes docs/evidence/scores/documents.json, the number of sentences of each document in
the order of the file: sentences of a document are not independent of each other.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import archive
import numpy as np

from dicejax.study.compare.jobs import ScoredRun
from dicejax.study.compare.statistics import Row

FILE = Path(__file__).parent / "scores" / "documents.json"
START = "-DOCSTART-"


def main(argv: Sequence[str]) -> None:
    """Write the sizes of the documents of a test set."""
    sizes = sizes_of(Path(argv[0]).read_text(encoding="utf-8"))
    FILE.write_text(json.dumps(sizes) + "\n")
    print(f"{FILE}: {len(sizes)} documents, {sum(sizes):,} sentences")


def sizes_of(text: str) -> list[int]:
    """Return the number of sentences of each document of a column file."""
    sizes: list[int] = []
    for block in filter(None, map(str.strip, text.split("\n\n"))):
        if block.startswith(START):
            sizes.append(0)
        else:
            sizes[-1] += 1
    return sizes


@functools.cache
def starts() -> np.ndarray:
    """Return the index of the first sentence of each document."""
    sizes = json.loads(FILE.read_text())
    return np.cumsum([0, *sizes[:-1]])


def by_document(runs: archive.Archived) -> archive.Archived:
    """Return runs whose items are documents, with the sums of their sentences."""
    return dataclasses.replace(runs, runs=tuple(map(in_documents, runs.runs)))


def in_documents(run: ScoredRun) -> ScoredRun:
    """Return a run whose items are documents; as it is if they are, or it has none."""
    if not run.result or run.groups is not None:
        return run
    sums = np.add.reduceat(run.example_statistics, starts())
    return dataclasses.replace(run, example_statistics=sums)


def changed(rows: Sequence[Row], rows_by_document: Sequence[Row]) -> list[str]:
    """Return the losses and controls whose verdict is another one by documents."""
    outcomes = {row.loss: row.against.verdict.outcome for row in rows if row.against}
    return [
        f"`{row.loss}` from {outcomes[row.loss]} to {row.against.verdict.outcome}"
        for row in rows_by_document
        if row.against and row.against.verdict.outcome != outcomes[row.loss]
    ]


if __name__ == "__main__":
    main(sys.argv[1:])
