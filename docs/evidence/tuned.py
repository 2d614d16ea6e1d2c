"""Parts A and C of the protocol: each loss with settings of its own.

Statistics and tables, for `results.py`, from the archives.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import archive
import curve
import documents
import tables

from dicejax.study.compare.statistics import Row, rivals_of
from dicejax.study.significance import holm, signed

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
CONTROLS = ("wce", "ce + tuned threshold")
RATE = "optimizer.learning_rate"
ITEMS = ("rows", "by_document")
RATE_OF_CURVE = 2e-4
SHORT = ("250-2", "1000-2", "250-10")
"""Data with fewer updates than the long cells of the curve."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A finished comparison.

    Attributes:
      name: of the data.
      updates: per run.
      hours: of training, of all runs and trials.
      rows: statistics of each loss vs. cross-entropy.
      by_document: the same with documents as items; empty without documents.
      tuning: record of the trials.
    """

    name: str
    updates: float
    hours: float
    rows: tuple[Row, ...]
    by_document: tuple[Row, ...]
    tuning: Mapping[str, Any]


@functools.cache
def comparison(name: str) -> Comparison:
    """Read an archive."""
    runs = archive.read(f"tuned/{name}")
    hours = runs.hours + runs.tuning["seconds"] / 3600
    by_document = documents.by_document(runs).rows() if name in CELLS else ()
    return Comparison(
        name, runs.updates, hours, tuple(runs.rows()), tuple(by_document), runs.tuning
    )


def finished() -> list[Comparison]:
    """Return the comparisons that have the seeds of a look."""
    return [comparison(name) for name in DATA if archive.read(f"tuned/{name}").seeds]


@functools.cache
def over_part(items: str = "rows") -> dict[str, dict[str, float]]:
    """Return the p-values of the primary comparisons, adjusted over the whole part.

    By data and loss; Holm's method over all losses of all comparisons.

    Args:
      items: "rows" for those over test examples, "by_document" for those over documents
        where there are some.
    """
    alone = {
        (comparison.name, row.loss): row.against.p_alone
        for comparison in finished()
        for row in rivals_of(getattr(comparison, items) or comparison.rows)
    }
    adjusted: dict[str, dict[str, float]] = {}
    for (name, loss), p in zip(alone, holm([*alone.values()]), strict=True):
        adjusted.setdefault(name, {})[loss] = float(p)
    return adjusted


def p_of(name: str, loss: str) -> str:
    """Return the p-value of a primary comparison, adjusted over the part."""
    return tables.p_value(over_part()[name][loss])


def by_cell() -> dict[tuple[int, int], Comparison]:
    """Return the finished comparisons that have a cell of the curve, by that cell."""
    some = [comparison for comparison in finished() if comparison.name in CELLS]
    return {CELLS[comparison.name]: comparison for comparison in some}


def of_gains(cells: Sequence[curve.Cell]) -> str:
    """Return the table of gains by updates, at the rate of the curve and tuned."""
    in_order = sorted(cells, key=lambda cell: cell.updates)
    names = [*curve.LOSSES, *CONTROLS]
    lines = [
        [f"`{loss}`", *(tables.marked(cell.row(loss)) for cell in in_order)]
        for loss in names
    ]
    for loss in names:
        columns = [by_cell().get((cell.sentences, cell.epochs)) for cell in in_order]
        marks = [_tuned_gain(comparison, loss) for comparison in columns]
        if any(mark != "–" for mark in marks):
            lines.append([f"`{loss}`, tuned", *marks])
    updates = [f"{cell.updates:,.0f}" for cell in in_order]
    return tables.table(" | ".join(["updates", *updates]), lines)


def _tuned_gain(comparison: Comparison | None, loss: str) -> str:
    """Return a gain at tuned rates, decided over the part; "–" where it was not run."""
    rows = [row for row in comparison.rows if row.loss == loss] if comparison else []
    if not rows:
        return "–"
    return tables.marked(rows[0], over_part()[comparison.name])


def of_part() -> str:
    """Return the table of the primary comparisons, corrected over the part."""
    rows = []
    for comparison in finished():
        for row in rivals_of(comparison.rows):
            adjusted = [over_part(items)[comparison.name][row.loss] for items in ITEMS]
            p_values = [row.against.p_value, *adjusted]
            rows.append(
                [
                    f"{DATA[comparison.name]}: `{row.loss}`",
                    tables.with_interval(row.against.crossed),
                    *map(tables.p_value, p_values),
                    tables.outcome_of(row, over_part()[comparison.name]),
                ]
            )
    return tables.table(
        "comparison | gain (CI over looks) | p, this table | p, part "
        "| p, part, by document | verdict",
        rows,
    )


def beside_the_curve(tuned: Comparison) -> str:
    """Return the table of scores and gains, tuned and at the rate of the curve.

    Seed 0 of the curve has the same training sample, other seeds have others. The
    table is empty for data that the curve has no cell of.
    """
    if tuned.name not in CELLS:
        return ""
    cell = curve.cell(*CELLS[tuned.name])
    rows = [
        [
            f"`{row.loss}`",
            *_score_and_gain(row),
            *_first_seed(cell, row.loss),
            *_score_and_gain(cell.row(row.loss)),
        ]
        for row in tuned.rows
        if tables.is_trained(row)
    ]
    return tables.table(
        "loss | tuned | gain | 2e-4, seed 0 | gain | 2e-4, all seeds | gain", rows
    )


def mean_gain(name: str, loss: str) -> float:
    """Return the mean gain of a loss at tuned rates, in points."""
    return 100 * tables.row_of(comparison(name).rows, loss).against.mean


def largest_possible(name: str) -> float:
    """Return the upper end of the intervals of all losses, in points."""
    rivals = rivals_of(comparison(name).rows)
    gains = [row.against.crossed for row in rivals if row.against.crossed]
    return 100 * max(gain.high for gain in gains)


def first_gain(name: str, loss: str) -> float:
    """Return the gain of a loss in the run of seed 0 of the curve, in points."""
    cell = curve.cell(*CELLS[name])
    ours, baseline = (_first_score(cell, which) for which in (loss, "ce"))
    return 100 * (ours - baseline)


def _first_seed(cell: curve.Cell, loss: str) -> list[str]:
    score, baseline = (_first_score(cell, which) for which in (loss, "ce"))
    gain = "" if loss == "ce" else signed(100 * (score - baseline))
    return [f"{100 * score:.2f}", gain]


def _first_score(cell: curve.Cell, loss: str) -> float:
    return next(run.score for run in cell.row(loss).runs if run.seed == 0)


def rate_gains() -> list[float]:
    """Return what the rate brings cross-entropy on dev in the short trainings.

    In points: the best trial minus the trial nearest to the rate of the curve.
    """
    gains = []
    for name in SHORT:
        search = comparison(name).tuning["losses"]["ce"]
        trials = search["trials"]
        nearest = min(trials, key=lambda t: abs(t["values"][RATE] - RATE_OF_CURVE))
        gains.append(100 * (trials[search["chosen"]]["dev"] - nearest["dev"]))
    return gains


def _score_and_gain(row: Row) -> list[str]:
    score = f"{100 * row.mean:.2f}"
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
