"""Part B of the protocol: gains over cross-entropy by the number of updates.

Statistics, tables and the figure, for `results.py`, from the archives.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import archive
import documents
import numpy as np
import tables
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dicejax.study import figures
from dicejax.study.compare.statistics import Row
from dicejax.study.compare.testing import MARGIN
from dicejax.study.significance import (
    CrossedDifference,
    contrast,
    holm,
    signed,
    verdict,
)

# Sentences and epochs, in the order of the protocol.
CELLS = (
    (250, 2),
    (250, 10),
    (1000, 2),
    (1000, 10),
    (3500, 2),
    (14041, 2),
    (3500, 10),
    (14041, 10),
)
SHORT = ((250, 2), (1000, 2), (250, 10))
"""Cells of up to 90 updates."""
EQUAL_UPDATES = (((1000, 10), (3500, 2)), ((3500, 10), (14041, 2)))
"""Cells of ten epochs, and of two with nearly as many updates."""
LONG = 220
"""Updates of the shortest cell of the long trainings."""
LOSSES = ("focal", "dl", "dsc-official", "dsc-eq11", "dsc-smooth=0.01")
SHAPES = {2: "o", 10: "s"}
"""Marks of the figure, by epochs."""
RANGE = (-13.0, 42.0)
"""Points of gain that the figure shows."""
SCORED = ("ce", "wce", "ce + tuned threshold", "dsc-smooth=0.01")
"""Losses and controls whose F1 the figure shows."""
SUMMARY = {
    "dsc-smooth=0.01": "dice over the batch",
    "wce": "class weights",
    "ce + tuned threshold": "tuned threshold",
}
"""Losses and controls of the figure of the first page, in words."""
DRAWN = ("ce", *LOSSES[:3], SCORED[2], LOSSES[4], "wce")
"""Losses and controls of the figure, in the order of colours."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """A finished comparison.

    Attributes:
      sentences: of training.
      epochs: of training.
      updates: per run, mean over seeds.
      positives: entity tokens of the sample times epochs, mean over seeds.
      hours: of all its runs.
      rows: statistics of each loss.
      by_document: the same with documents as items.
      counts: statistics of each test sentence, by loss and seed.
    """

    sentences: int
    epochs: int
    updates: float
    positives: float
    hours: float
    rows: tuple[Row, ...]
    by_document: tuple[Row, ...]
    counts: dict[str, dict[int, np.ndarray]]

    def row(self, loss: str) -> Row:
        """Return the statistics of a loss."""
        return tables.row_of(self.rows, loss)


@functools.cache
def cell(sentences: int, epochs: int) -> Cell:
    """Read an archive."""
    runs = archive.read(name_of(sentences, epochs))
    counts: dict[str, dict[int, np.ndarray]] = {}
    for run in runs.outcomes:
        if run.result:
            counts.setdefault(run.loss, {})[run.seed] = run.example_statistics
    return Cell(
        sentences,
        epochs,
        runs.updates,
        positives=epochs * runs.mean_positives,
        hours=runs.hours,
        rows=tuple(runs.rows()),
        by_document=tuple(documents.by_document(runs).rows()),
        counts=counts,
    )


def name_of(sentences: int, epochs: int) -> str:
    """Return the name of a cell's archive."""
    return f"curve/{sentences}-{epochs}"


def finished() -> list[Cell]:
    """Return the cells that have the seeds of a look."""
    return [cell(*key) for key in CELLS if archive.read(name_of(*key)).seeds]


def learnt(loss: str, cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells in which a loss has learnt anything."""
    return [cell_ for cell_ in cells if tables.has_learnt(cell_.row(loss))]


def combined(
    loss: str, cells: Sequence[Cell], weights: Sequence[float]
) -> CrossedDifference:
    """Return a weighted sum of a loss's gains, over the seeds that all cells have."""
    seeds = sorted(
        set.intersection(
            *({*cell_.counts[loss]} & {*cell_.counts["ce"]} for cell_ in cells)
        )
    )
    pairs = [
        tuple(
            np.stack([cell_.counts[name][seed] for seed in seeds])
            for name in (loss, "ce")
        )
        for cell_ in cells
    ]
    return contrast(pairs, weights)


def coefficients(cells: Sequence[Cell], *, with_sentences: bool = False) -> np.ndarray:
    """Return the weights of cells that give the coefficients of least squares.

    Args:
      cells: C of them.
      with_sentences: whether log2(sentences) is a regressor too.

    Returns:
      [2 or 3, C]: of the constant, of log2(updates), and of log2(sentences).
    """
    columns = [np.ones(len(cells)), np.log2([cell_.updates for cell_ in cells])]
    if with_sentences:
        columns.append(np.log2([cell_.sentences for cell_ in cells]))
    return np.linalg.pinv(np.stack(columns, axis=1))


def off_line(loss: str, cells: Sequence[Cell]) -> float:
    """Return the largest distance of a gain from the line of `slopes`, in points."""
    some = learnt(loss, cells)
    gains = np.array([100 * cell_.row(loss).against.mean for cell_ in some])
    constant, slope = coefficients(some) @ gains
    line = constant + slope * np.log2([cell_.updates for cell_ in some])
    return float(np.abs(gains - line).max())


def slopes(cells: Sequence[Cell]) -> dict[str, CrossedDifference]:
    """Return the change of each loss's gain for each doubling of the updates."""
    cells_learnt = {loss: learnt(loss, cells) for loss in LOSSES}
    return {
        loss: combined(loss, some, coefficients(some)[1])
        for loss, some in cells_learnt.items()
        if len(some) > 1
    }


def of_slopes(cells: Sequence[Cell]) -> str:
    """Return the table of the slopes: the primary conclusions."""
    by_loss = slopes(cells)
    adjusted = holm([slope.p_value for slope in by_loss.values()])
    kinds = {"better": "rises", "worse": "falls"}
    rows = []
    for (loss, slope), p in zip(by_loss.items(), adjusted, strict=True):
        outcome = verdict(slope, p).outcome
        rows.append(
            [
                f"`{loss}`",
                str(len(learnt(loss, cells))),
                str(slope.seeds),
                signed(100 * slope.mean),
                tables.interval(slope),
                tables.p_value(p),
                kinds.get(outcome, outcome),
            ]
        )
    return tables.table(
        "loss | cells | seeds | slope | 95% CI | p (Holm) | verdict", rows
    )


def slope_from(loss: str, cells: Sequence[Cell], least: float) -> CrossedDifference:
    """Return the slope over the cells with so many updates or more."""
    some = [cell_ for cell_ in learnt(loss, cells) if cell_.updates >= least]
    return combined(loss, some, coefficients(some)[1])


def of_ranges(cells: Sequence[Cell]) -> str:
    """Return the table of the slopes over fewer and fewer of the short trainings."""
    least = (0, 20, LONG)
    rows = []
    for loss in LOSSES:
        if loss in slopes(cells):
            ranges = [slope_from(loss, cells, updates) for updates in least]
            rows.append([f"`{loss}`", *map(tables.with_interval, ranges)])
    return tables.table(
        f"loss | all cells | without the cell of 16 updates | from {LONG} updates on",
        rows,
    )


def of_epochs(loss: str, pairs: Sequence[tuple[Cell, Cell]]) -> CrossedDifference:
    """Return the gain in the first cells of pairs minus that in the second ones."""
    weight = 1 / len(pairs)
    both = [cell_ for pair in pairs for cell_ in pair]
    return combined(loss, both, [weight, -weight] * len(pairs))


def equal_updates() -> list[tuple[Cell, Cell]]:
    """Return pairs of cells with nearly equal updates, that of ten epochs first."""
    return [(cell(*first), cell(*second)) for first, second in EQUAL_UPDATES]


def of_equal_updates() -> str:
    """Return the table of gains with ten epochs minus those with two."""
    rows, pairs = [], equal_updates()
    for loss in LOSSES:
        if all(tables.has_learnt(c.row(loss)) for pair in pairs for c in pair):
            contrasts = [of_epochs(loss, some) for some in ([p] for p in pairs)]
            contrasts.append(of_epochs(loss, pairs))
            rows.append([f"`{loss}`", *map(tables.with_interval, contrasts)])
    headings = [
        f"{first.updates:,.0f} and {second.updates:,.0f} updates"
        for first, second in pairs
    ]
    return tables.table(" | ".join(["loss", *headings, "mean of both"]), rows)


def failed(loss: str, keys: Sequence[tuple[int, int]]) -> int:
    """Return the number of runs of a loss that failed in cells."""
    return sum(tables.failures(cell(*key).row(loss))[0] for key in keys)


def largest_possible(cell_: Cell) -> float:
    """Return the upper end of the intervals of a cell's losses, in points."""
    return 100 * max(
        row.against.crossed.high
        for row in cell_.rows
        if row.against and row.against.crossed and row.loss in LOSSES
    )


def both_slopes(loss: str, cells: Sequence[Cell]) -> list[CrossedDifference]:
    """Return the changes for each doubling of updates and of sentences, together."""
    some = learnt(loss, cells)
    _, *weights = coefficients(some, with_sentences=True)
    return [combined(loss, some, weights_of_one) for weights_of_one in weights]


def slope_of_sentences(loss: str) -> CrossedDifference:
    """Return the slope of sentences without the shortest cells of two epochs."""
    some = [cell_ for cell_ in finished() if cell_.epochs > 2 or cell_.sentences > 1000]
    return both_slopes(loss, some)[1]


def of_both_slopes(cells: Sequence[Cell]) -> str:
    """Return the table of the slopes over updates and over sentences together."""
    rows = [
        [f"`{loss}`", *map(tables.with_interval, both_slopes(loss, cells))]
        for loss in LOSSES
        if len(learnt(loss, cells)) > 3
    ]
    return tables.table("loss | of updates | of sentences", rows)


def draw(
    cells: Sequence[Cell],
    tuned: Mapping[tuple[int, int], Any],
    mended: Mapping[float, float],
) -> Figure:
    """Draw F1 of cross-entropy and its controls, and below the gain of each loss.

    Args:
      cells: of the curve.
      tuned: comparisons at tuned rates, by sentences and epochs.
      mended: F1 of cross-entropy with a mended head in points, by updates.
    """
    figure = Figure(figsize=(7.5, 8), layout="constrained", facecolor="white")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1, 2))
    for loss in SCORED:
        color = figures.COLORS[DRAWN.index(loss)]
        for cell_ in cells:
            f1 = 100 * cell_.row(loss).mean
            above.plot(cell_.updates, f1, SHAPES[cell_.epochs], color=color, ms=5)
        above.plot([], [], "o", color=color, ms=5, label=loss)
    if mended:
        above.plot([*mended], [*mended.values()], "*", color=figures.TEXT, ms=8)
        above.plot([], [], "*", color=figures.TEXT, ms=8, label="ce+prior")
    above.set_ylabel("test F1")
    above.set_ylim(0, 100)
    above.legend(frameon=False, ncols=2, loc="lower right")
    below.axhline(0, color=figures.TEXT, linewidth=1.2)
    margin = 100 * MARGIN
    below.axhspan(-margin, margin, color=figures.BASE, alpha=0.15, linewidth=0)
    for number, loss in enumerate(DRAWN):
        if loss.startswith("ce"):
            continue
        color, shift = figures.COLORS[number], 1.04 ** (number - 3)
        for cell_ in cells:
            shape, x = SHAPES[cell_.epochs], cell_.updates * shift
            _draw_gain(below, x, cell_.row(loss), shape, color, color)
            other = tuned.get((cell_.sentences, cell_.epochs))
            rows = [row for row in other.rows if row.loss == loss] if other else []
            for row in rows:
                _draw_gain(below, x * 1.02, row, shape, color, "white")
        below.plot([], [], "o", color=color, ms=5, label=loss)
    below.set_ylim(*RANGE)
    _label(below, "test F1 minus that of ce (points)")
    above.grid(axis="y")
    return figure


def draw_summary(
    cells: Sequence[Cell], mended: Mapping[float, CrossedDifference]
) -> Figure:
    """Draw gains of dice and of the controls in one panel, for the first page.

    Where runs of either failed there is none.

    Args:
      cells: of the curve.
      mended: gain of cross-entropy with a mended head, by updates.
    """
    figure = Figure(figsize=(7.5, 3.6), layout="constrained", facecolor="white")
    axes = figure.subplots()
    axes.set_title("Gain over cross-entropy with 95% intervals (6 layers)")
    axes.axhline(0, color=figures.TEXT, linewidth=1.2)
    gains = {
        name: {cell_.updates: cell_.row(loss).against.crossed for cell_ in cells}
        for loss, name in SUMMARY.items()
    }
    shapes = [("o", figures.COLORS[DRAWN.index(loss)]) for loss in SUMMARY]
    if mended:
        gains["cross-entropy, prior bias and faster head"] = dict(mended)
        shapes.append(("*", figures.TEXT))
    for (name, by_updates), (shape, color) in zip(gains.items(), shapes, strict=True):
        known = [(x, by_updates[x]) for x in sorted(by_updates) if by_updates[x]]
        means = np.array([100 * gain.mean for _, gain in known])
        ends = np.array([[gain.low, gain.high] for _, gain in known]).T * 100
        axes.errorbar(
            [x for x, _ in known],
            means,
            yerr=np.abs(ends - means),
            fmt=shape,
            color=color,
            markersize=5,
            capsize=1.5,
            linewidth=0.8,
            label=name,
        )
    _label(axes, "test F1 minus that of cross-entropy")
    return figure


def _label(axes: Axes, label: str) -> None:
    axes.legend(frameon=False, ncols=2, loc="upper right")
    axes.set_ylabel(label)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    axes.set_xlabel("updates")
    axes.grid(axis="y")


def _draw_gain(
    axes: Axes, x: float, row: Row, shape: str, color: str, face: str
) -> None:
    """Draw a gain with its interval, or an arrow where it is beyond the axis."""
    crossed = row.against.crossed
    if not tables.has_learnt(row) or crossed is None:
        return
    mean, low, high = (100 * end for end in (crossed.mean, crossed.low, crossed.high))
    if mean < RANGE[0]:
        axes.plot(x, RANGE[0] + 0.7, "v", color=color, markerfacecolor=face, ms=5)
        return
    axes.errorbar(
        x,
        mean,
        yerr=[[mean - low], [high - mean]],
        fmt=shape,
        color=color,
        markerfacecolor=face,
        markersize=4.5,
        capsize=1.5,
        linewidth=0.8,
    )


def draw_gains(axes: Axes, rows: Mapping[float, Sequence[Row]]) -> None:
    """Draw the gains of losses that learn, with their intervals and the margin.

    Args:
      axes: where to draw; the horizontal one has logarithms.
      rows: statistics of a comparison, by its place on that axis.
    """
    axes.axhline(0, color=figures.TEXT, linewidth=1.2)
    margin = 100 * MARGIN
    axes.axhspan(-margin, margin, color=figures.BASE, alpha=0.15, linewidth=0)
    axes.grid(axis="y")
    for number, loss in enumerate(LOSSES, start=1):  # 0 is cross-entropy's
        learnt_rows = {x: tables.row_of(rows[x], loss) for x in sorted(rows)}
        learnt_rows = {x: row for x, row in learnt_rows.items() if row.against.crossed}
        if not learnt_rows:
            continue
        gains = [row.against.crossed for row in learnt_rows.values()]
        means = np.array([100 * gain.mean for gain in gains])
        ends = [(100 * gain.low, 100 * gain.high) for gain in gains]
        axes.errorbar(
            [x * 1.03 ** (number - 3) for x in learnt_rows],  # side by side
            means,
            yerr=np.abs(np.transpose(ends) - means),
            color=figures.COLORS[number],
            linestyle=figures.STYLES[number],
            marker="o",
            markersize=4,
            capsize=2,
            label=loss,
        )
