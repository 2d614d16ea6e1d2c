"""The forest plot: each loss's difference to the baseline, with its interval."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from dicejax.metrics.scores import heading
from dicejax.study import figures
from dicejax.study.compare.statistics import Row
from dicejax.study.compare.table import baseline_name
from dicejax.study.report.document import MARKS, Panel, Picture
from dicejax.study.report.pictures import SEED, SETTINGS, wrapped
from dicejax.study.significance import signed

WIDTH, ROW = 520, 30
"""Width of the figure, and height of a row, in pixels."""
LEFT, RIGHT = 178, 14
"""Pixels for the names, and at the other side."""


def forest(rows: Sequence[Row], primary_metric: str, margin: float) -> Picture | None:
    """Draw the differences; None without a loss that has one.

    An interval that reaches beyond 5 times the median reach ends in an arrow.
    """
    from matplotlib.figure import Figure

    metric = heading(primary_metric)
    drawn = [row for row in rows if row.against and row.against.differences]
    if not drawn:
        return None
    learnt = [r for r in drawn if r.against.verdict.outcome != "nothing learnt"]
    limit = _limit(learnt or drawn, margin)
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
    has_intervals = any(row.against.crossed for row in drawn)
    what = "mean difference over seeds with its 95% confidence interval"
    return Picture(
        title=f"Difference to {baseline_name(rows[0].loss)}",
        caption=f"Test {metric}, {what if has_intervals else 'difference by seed'}; "
        "small ticks are seeds. Right of 0 the loss is better.",
        key=(
            ("dot", "loss"),
            *([("square", "control")] if any(row.is_control for row in drawn) else []),
            *([("mean", "95% CI")] if has_intervals else []),
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
    )


def _draw(axes, row: Row, y: float, limit: float) -> None:
    """Draw the interval, the mean and the seeds of a row.

    In words where a loss learnt nothing, or its mean is beyond the axis.
    """
    against = row.against
    color = figures.BASE if row.is_control else figures.LOSS
    mean, outcome = 100 * against.mean, against.verdict.outcome
    side = 1 if mean > 0 else -1
    place = {"ha": "right" if side > 0 else "left", "va": "center"}
    if outcome == "nothing learnt":
        axes.text(0.92 * limit * side, y, outcome, color=figures.SOFT, **place)
        return
    seeds = [100 * one for one in against.differences if abs(100 * one) <= limit]
    axes.plot(seeds, [y + 9] * len(seeds), "|", markersize=5, **SEED)
    if against.crossed is not None:
        ends = [100 * against.crossed.low, 100 * against.crossed.high]
        inside = [min(max(end, -limit), limit) for end in ends]
        axes.plot(inside, (y, y), color=color, linewidth=2.5, solid_capstyle="butt")
        for edge, marker in ((-limit, "<"), (limit, ">")):
            if any(abs(end) > limit and end * edge > 0 for end in ends):
                axes.plot([edge], [y], marker, color=color, clip_on=False)
    if abs(mean) > limit:
        text = f"{signed(mean, 1)}: {outcome}"
        axes.text(0.92 * limit * side, y, text, color=figures.SOFT, **place)
        return
    marker = "s" if row.is_control else "o"
    face = figures.PAGE if row.is_control else color
    axes.plot([mean], [y], marker, color=color, markerfacecolor=face, markersize=7)


def _limit(rows: Sequence[Row], margin: float) -> float:
    """Return the end of the axis in points."""
    reach = []
    for row in rows:
        crossed = row.against.crossed
        ends = row.against.differences
        if crossed is not None:
            ends = (crossed.low, crossed.high)
        reach.append(100 * max(map(abs, ends)))
    most = min(max(reach), 5 * statistics.median(reach))
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
