"""Published scores, as data to compare with; the numbers are in paper.toml.

Rows are named as `experiments/` names things: `dataset` is the experiment's name,
`loss` mostly the name that `--losses` takes. Numbers are percent, as printed.

usage: python experiments/paper.py DATASET

>>> best("conll03").loss, best("conll03")["f1"]
('dsc', 93.33)
>>> [(row.loss, row["f1"]) for row in rows(table="6", dataset="mrpc", model="XLNet")]
[('ce', 89.2), ('fl', 89.25), ('dl', 89.33), ('dsc', 89.78)]
"""

from __future__ import annotations

import dataclasses
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any


@dataclasses.dataclass(frozen=True)
class PaperSource:
    """The publication of a table.

    Attributes:
      citation: authors, title, edition.
      table: number or name of the table.
      read_from: origin of the numbers, if not the publication's own text.
      notes: notes on all rows.
    """

    citation: str
    table: str
    read_from: str = ""
    notes: str = ""


@dataclasses.dataclass(frozen=True)
class PaperScore:
    """One cell: a metric, its percent, and the printed gain over cross-entropy."""

    metric: str
    percent: float
    gain: float | None = None


@dataclasses.dataclass(frozen=True)
class PaperRow:
    """One line of a table, for one data set.

    Attributes:
      table: a key of `SOURCES`.
      dataset: the experiment's name.
      model: the network without its loss; empty where the table names none.
      loss: as `--losses` names it, but for "dsc", which is `dsc-eq11` by the paper's
        text and `dsc-official` by its code, and "lsr", which is
        `CrossEntropy(label_smoothing=0.1)`; None for systems that others trained.
      scores: the cells that hold a number.
      variant: modification of the training data.
      alpha: alpha of the Tversky index.
    """

    table: str
    dataset: str
    model: str
    loss: str | None
    scores: tuple[PaperScore, ...]
    variant: str = ""
    alpha: float | None = None

    @property
    def source(self) -> PaperSource:
        """The publication of the row."""
        return SOURCES[self.table]

    def __str__(self) -> str:
        loss = f"{self.loss or '-'}{f' alpha={self.alpha}' if self.alpha else ''}"
        cells = (
            f"{s.metric} {s.percent}{f' ({s.gain:+})' if s.gain is not None else ''}"
            for s in self.scores
        )
        named = (f"table {self.table}:", self.variant, self.model, loss)
        return "  ".join([" ".join(filter(None, named)), *cells])

    def __getitem__(self, metric: str) -> float | None:
        return next((s.percent for s in self.scores if s.metric == metric), None)


def rows(**fields: Any) -> tuple[PaperRow, ...]:
    """Return the rows whose fields have the given values.

    >>> [row["f1"] for row in rows(dataset="ctb5", loss="dsc")]
    [97.92]

    Raises:
      TypeError: a row has no such field.
    """
    names = {field.name for field in dataclasses.fields(PaperRow)}
    if unknown := fields.keys() - names:
        raise TypeError(f"rows have no {sorted(unknown)}; they have {sorted(names)}")
    return tuple(
        row
        for row in ROWS
        if all(getattr(row, name) == value for name, value in fields.items())
    )


def best(dataset: str, metric: str = "f1", **fields: Any) -> PaperRow:
    """Return the row with the highest score on a data set.

    The best published score on OntoNotes4 is not of the authors' own loss:

    >>> best("ontonotes4").loss, best("ontonotes4", table="4").loss
    ('tl', 'dsc')

    Raises:
      LookupError: no row has that metric.
    """
    matches = [r for r in rows(dataset=dataset, **fields) if r[metric] is not None]
    if not matches:
        raise LookupError(f"no row of {dataset} has {metric} with {fields}")
    return max(matches, key=lambda row: row[metric])


def _rows(table: str, text: str) -> Iterator[PaperRow]:
    header, *lines = text.strip().splitlines()
    datasets, metrics = (part.split() for part in header.split("|"))
    for line in lines:
        model, loss, *cells = line.split()
        loss, _, alpha = loss.partition("@")
        if len(cells) != len(datasets) * len(metrics):
            raise ValueError(f"table {table} has {len(cells)} cells in {line!r}")
        for i, place in enumerate(datasets):
            read = zip(metrics, cells[i * len(metrics) :], strict=False)
            dataset, _, variant = place.partition("/")
            scores = tuple(_score(m, c) for m, c in read if c not in "-?")
            if not scores:
                continue
            yield PaperRow(
                table,
                dataset,
                model="" if model == "-" else model,
                loss=None if loss == "-" else loss,
                scores=scores,
                variant=variant,
                alpha=float(alpha) if alpha else None,
            )


def _score(metric: str, cell: str) -> PaperScore:
    percent, gain = re.fullmatch(r"([0-9.]+)([+-][0-9.]+)?", cell).groups()
    return PaperScore(metric, float(percent), float(gain) if gain else None)


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
SOURCES = {
    name: PaperSource(**{key: value for key, value in table.items() if key != "rows"})
    for name, table in _TABLES.items()
}
ROWS = tuple(
    row
    for name, table in _TABLES.items()
    for text in table["rows"]
    for row in _rows(name, text)
)

if __name__ == "__main__":
    dataset = " ".join(sys.argv[1:])
    if not (published := rows(dataset=dataset)):
        names = ", ".join(sorted({row.dataset for row in ROWS}))
        sys.exit(f"no table has {dataset!r}; choices: {names}")
    print(*published, sep="\n")
