"""Parts A and C of the protocol: each loss with settings of its own.

Statistics and tables, for `results.py`, from the archives.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import archive
import curve
import tables

from dicejax.study.compare.statistics import Row

# By the names of their archives, in the order of the protocol.
DATA = {
    "1000-2": "CoNLL-2003, 1,000 sentences, 2 epochs",
    "250-2": "CoNLL-2003, 250 sentences, 2 epochs",
    "3500-2": "CoNLL-2003, 3,500 sentences, 2 epochs",
    "250-10": "CoNLL-2003, 250 sentences, 10 epochs",
    "mrpc": "MRPC",
    "conll2003": "CoNLL-2003, all sentences, 2 epochs",
}
CELLS = {curve.name_of(*cell).rpartition("/")[-1]: cell for cell in curve.CELLS}
CELLS["conll2003"] = (14041, 2)
"""Cells of the curve by the data that run them again."""
RATE = "optimizer.learning_rate"


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A finished comparison.

    Attributes:
      name: of the data.
      updates: per run.
      hours: of training, of all runs and trials.
      rows: statistics of each loss vs. cross-entropy.
      tuning: record of the trials.
    """

    name: str
    updates: float
    hours: float
    rows: tuple[Row, ...]
    tuning: Mapping[str, Any]


@functools.cache
def comparison(name: str) -> Comparison:
    """Read an archive."""
    runs = archive.read(f"tuned/{name}")
    hours = runs.hours + runs.tuning["seconds"] / 3600
    return Comparison(name, runs.updates, hours, tuple(runs.rows()), runs.tuning)


def finished() -> list[Comparison]:
    """Return the comparisons that have the seeds of a look."""
    return [comparison(name) for name in DATA if archive.read(f"tuned/{name}").seeds]


def beside_the_curve(tuned: Comparison) -> str:
    """Return the table of scores and gains, tuned and at the rate of the curve.

    It is empty for data that the curve has no cell of.
    """
    if tuned.name not in CELLS:
        return ""
    cell = curve.cell(*CELLS[tuned.name])
    pairs = [(row, cell.row(row.loss)) for row in tuned.rows if tables.is_trained(row)]
    return tables.table(
        "loss | tuned | gain | at 2e-4 | gain",
        [[f"`{row.loss}`", *_told(row), *_told(as_given)] for row, as_given in pairs],
    )


def _told(row: Row) -> list[str]:
    score = f"{100 * row.summary.mean:.2f}"
    return [
        score,
        "" if row.against is None else tables.with_interval(row.against.crossed),
    ]


def of_choices(tuned: Comparison) -> str:
    """Return the table of the settings that were chosen on dev."""
    return tables.table(
        "loss | learning rate | its own settings | dev F1 | as given",
        [
            [f"`{loss}`", *_choice(search["trials"], search["chosen"])]
            for loss, search in tuned.tuning["losses"].items()
        ],
    )


def _choice(trials: list[dict[str, Any]], chosen: int) -> list[str]:
    values = trials[chosen]["values"]
    settings = [
        f"{path.rpartition('.')[-1]} {value:g}"
        for path, value in values.items()
        if path != RATE
    ]
    scores = [_score(trials[number]["dev"]) for number in (chosen, 0)]
    return [f"{values[RATE]:g}", ", ".join(settings), *scores]


def _score(dev: float | None) -> str:
    return "diverged" if dev is None else f"{100 * dev:.2f}"
