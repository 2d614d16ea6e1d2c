"""The forest plot: each loss's difference to the baseline, with its interval."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from dicejax.analysis import figures
from dicejax.comparison.report.document import MARKS, Panel, Picture
from dicejax.comparison.report.pictures import SEED, SETTINGS, wrapped
from dicejax.comparison.statistics import Row
from dicejax.comparison.table import baseline_name
from dicejax.metrics.scores import heading
from dicejax.metrics.significance import signed

WIDTH, ROW = 520, 30
"""Width of the figure, and height of a row, in pixels."""
LEFT, RIGHT = 178, 14
"""Pixels for the names, and at the other side."""


def forest(rows: Sequence[Row], primary_metric: str, margin: float) -> Picture | None:
    """Draw the differences; None without a loss that has one.

    An interval that reaches beyond 2.5 times the median reach ends in an arrow.
    """
    from matplotlib.figure import Figure

    metric = heading(primary_metric)
    drawn = [row for row in rows if row.against and row.against.differences]
    if not drawn:
        return None
    limit = _limit(drawn, margin)
    names = [wrapped(row.loss, 24) for row in drawn]
    heights = [max(ROW, 15 * len(name) + 8) for name in names]
    height = sum(heights) + 48
    with figures.look(texts=[row.loss for row in drawn], settings=SETTINGS):
        figure = Figure(figsize=(WIDTH / 72, height / 72))
        inner = (WIDTH - LEFT - RIGHT) / WIDTH
        axes = figure.add_axes(
            (LEFT / WIDTH, 44 / height, inner, sum(heights) / height)
        )
        axes.set_ylim(sum(heights), 0)
        axes.set_xlim(-limit, limit)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(
            f"{metric} minus that of {baseline_name(rows[0].loss)} (points)"
        )
        axes.grid(axis="x")
        axes.set_axisbelow(True)
        axes.axvspan(-100 * margin, 100 * margin, color=figures.BASE, alpha=0.18, lw=0)
        axes.axvline(0, color=figures.TEXT, linewidth=1.25)
        text = {"transform": axes.get_yaxis_transform(), "va": "center"}
        top = 0
        for n, (row, name) in enumerate(zip(drawn, names, strict=True)):
            y = top + heights[n] / 2
            top += heights[n]
            for k, part in enumerate(name):
                line = y + 15 * (k - (len(name) - 1) / 2)
                weight = "normal" if row.is_control else "bold"
                label = figures.plain(part.strip())
                axes.text(-0.03, line, label, ha="right", weight=weight, **text)
            _draw(axes, row, y, limit)
    return Picture(
        title=f"Difference to {baseline_name(rows[0].loss)}",
        caption=f"Test {metric}, mean difference over seeds with its 95% confidence "
        "interval; small ticks are seeds. Right of 0 the loss is better.",
        key=(
            ("dot", "mean"),
            ("mean", "95% CI"),
            ("margin", f"within ±{100 * margin:g} points: no difference in practice"),
        ),
        panels=(
            Panel(
                name=f"Difference to {baseline_name(rows[0].loss)}",
                note="",
                figure=figure,
                axes="; ".join(f"{row.loss} {_numbers(row)}" for row in drawn),
            ),
        ),
        data=None,
        repeats_table=True,
    )


def _draw(axes, row: Row, y: float, limit: float) -> None:
    """Draw the interval, the mean and the seeds of a row."""
    against = row.against
    color = figures.BASE if row.is_control else figures.LOSS
    seeds = [100 * one for one in against.differences if abs(100 * one) <= limit]
    axes.plot(seeds, [y + 9] * len(seeds), "|", markersize=5, **SEED)
    mean = 100 * against.mean
    if against.crossed is not None:
        ends = [100 * against.crossed.low, 100 * against.crossed.high]
        inside = [min(max(end, -limit), limit) for end in ends]
        axes.plot(inside, (y, y), color=color, linewidth=2.5, solid_capstyle="butt")
        for edge, marker in ((-limit, "<"), (limit, ">")):
            if any(abs(end) > limit and end * edge > 0 for end in ends):
                axes.plot([edge], [y], marker, color=color, clip_on=False)
    if abs(mean) <= limit:
        marker = "s" if row.is_control else "o"
        axes.plot([mean], [y], marker, color=color, markersize=7)


def _limit(rows: Sequence[Row], margin: float) -> float:
    """Return the end of the axis in points."""
    reach = []
    for row in rows:
        crossed = row.against.crossed
        ends = row.against.differences
        if crossed is not None:
            ends = (crossed.low, crossed.high)
        reach.append(100 * max(map(abs, ends)))
    most = min(max(reach), 2.5 * statistics.median(reach))
    return max(1.08 * most, 200 * margin, 0.1)


def _numbers(row: Row) -> str:
    crossed = row.against.crossed
    mark = MARKS[row.against.verdict.outcome]
    if crossed is None:
        return f"{mark} {signed(100 * row.against.mean)}"
    digits = 1 if crossed.high - crossed.low >= 0.1 else 2
    mean, low, high = (
        signed(100 * one, digits) for one in (crossed.mean, crossed.low, crossed.high)
    )
    return f"{mark} {mean} ({low} to {high})"
