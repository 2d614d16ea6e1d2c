"""Charts with a row for each loss: differences to the baseline, and every run."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dicejax.metrics.scores import heading
from dicejax.study import figures
from dicejax.study.compare.statistics import Row
from dicejax.study.compare.table import baseline_name, mean_and_spread
from dicejax.study.report.document import MARKS, Panel, Picture, TextTable
from dicejax.study.report.pictures import BASELINE, SEED, SETTINGS, number
from dicejax.study.significance import signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, LINE = 520, 15
"""Width of a chart, and height of a line of text, in pixels."""


def forest(rows: Sequence[Row], primary_metric: str, margin: float) -> Picture | None:
    """Draw the differences; None without a loss that has one.

    An interval that reaches beyond 5 times the median reach ends in an arrow.
    """
    metric, baseline = heading(primary_metric), baseline_name(rows[0].loss)
    drawn = [row for row in rows if row.against and row.against.differences]
    if not drawn:
        return None
    learnt = [r for r in drawn if r.against.verdict.outcome != "nothing learnt"]
    limit = _limit(learnt or drawn, margin)
    with figures.look(texts=[row.loss for row in drawn], settings=SETTINGS):
        figure, axes = _chart(drawn, f"{metric} minus that of {baseline} (points)")
        axes.set_xlim(-limit, limit)
        axes.axvspan(-100 * margin, 100 * margin, color=figures.BASE, alpha=0.18, lw=0)
        axes.axvline(0, color=figures.TEXT, linewidth=1.25)
        for place, row in enumerate(drawn):
            _draw(axes, row, place, limit)
    has_intervals = any(row.against.crossed for row in drawn)
    what = "mean difference over seeds with its 95% confidence interval"
    title = f"Difference to {baseline}"
    about = "; ".join(f"{row.loss} {_numbers(row)}" for row in drawn)
    return Picture(
        title,
        f"Test {metric}, {what if has_intervals else 'difference by seed'}; "
        "small ticks are seeds. Right of 0 the loss is better.",
        key=(
            ("dot", "loss"),
            *([("square", "control")] if any(row.is_control for row in drawn) else []),
            *([("mean", "95% CI")] if has_intervals else []),
            ("margin", f"within ±{100 * margin:g} points: no difference in practice"),
        ),
        panels=(Panel(title, "", figure, about),),
    )


def strip(rows: Sequence[Row], primary_metric: str) -> Picture:
    """Draw the test score of each run, with equal seeds joined."""
    metric, title = heading(primary_metric), "Every run"
    scores = [
        {one.seed: 100 * one.score for one in row.outcomes if one.result}
        for row in rows
    ]
    spreads = [mean_and_spread(row.scores(primary_metric)) for row in rows]
    with figures.look(settings=SETTINGS):
        figure, axes = _chart(rows, f"Test {metric} (%)")
        right = axes.secondary_yaxis("right")
        right.set_yticks(range(len(rows)), spreads, color=figures.SOFT)
        right.tick_params(length=0)
        right.spines["right"].set_visible(False)
        for place, here in enumerate(scores):
            below = scores[place + 1] if place + 1 < len(scores) else {}
            for seed in here.keys() & below.keys():
                axes.plot((here[seed], below[seed]), (place, place + 1), **SEED)
            places = [place] * len(here)
            look = {"color": figures.LOSS, "markersize": 6, "gid": f"runs-of-{place}"}
            axes.plot(list(here.values()), places, "o", **look)
            if here:
                mean, ends = statistics.fmean(here.values()), (place - 0.2, place + 0.2)
                axes.plot((mean, mean), ends, color=figures.TEXT, linewidth=3)
        if scores[0]:
            mean = statistics.fmean(scores[0].values())
            axes.vlines(mean, 0, len(rows) - 0.5, zorder=0, **BASELINE)
    seeds = sorted({seed for here in scores for seed in here})
    about = "; ".join(f"{r.loss} {one}" for r, one in zip(rows, spreads, strict=True))
    return Picture(
        title,
        f"Test {metric} of each run, one row per loss. Thin lines join runs "
        "with the same seed: parallel ones mean that the seed makes the difference, "
        "not the loss.",
        key=(
            ("dot", "run"),
            ("bar", "mean"),
            ("seed", "same seed"),
            ("baseline", f"mean of {rows[0].loss}"),
        ),
        panels=(Panel(title, "", figure, about),),
        data=TextTable(
            f"Test {metric} (%) of each run",
            ("loss", *(f"seed {seed}" for seed in seeds)),
            tuple(
                (row.loss, *(number(here.get(seed)) for seed in seeds))
                for row, here in zip(rows, scores, strict=True)
            ),
        ),
    )


def _chart(rows: Sequence[Row], label: str) -> tuple[Figure, Axes]:
    """Return a figure whose axes have a row for each loss, from the top."""
    from matplotlib.figure import Figure

    names = [wrapped(row.loss) for row in rows]
    lines = 1 + max(name.count("\n") for name in names)
    height = len(rows) * (LINE * lines + 13) + 48
    figure = Figure(figsize=(WIDTH / 72, height / 72), layout="constrained")
    axes = figure.add_subplot()
    axes.set(xlabel=label, ylim=(len(rows) - 0.5, -0.5))
    axes.set_yticks(range(len(rows)), map(figures.plain, names))
    axes.tick_params("y", length=0)
    for row, text in zip(rows, axes.get_yticklabels(), strict=True):
        text.set_weight("normal" if row.is_control else "bold")
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x")
    return figure, axes


def wrapped(name: str) -> str:
    """Break a name between its settings.

    >>> print(wrapped("dsc-alpha=0.01-smooth=0.01-stop_gradient_weight=True"))
    dsc-alpha=0.01-
    smooth=0.01-
    stop_gradient_weight=True
    """
    lines = textwrap.wrap(name.replace("-", "- "), 25, break_on_hyphens=False)
    return "\n".join(lines).replace("- ", "-")


def _draw(axes: Axes, row: Row, y: int, limit: float) -> None:
    """Draw the interval, the mean and the seeds of a row.

    In words where a loss learnt nothing, or its mean is beyond the axis.
    """
    against = row.against
    color = figures.BASE if row.is_control else figures.LOSS
    mean, outcome = 100 * against.mean, against.verdict.outcome
    side = 1 if mean > 0 else -1
    words = {"ha": "right" if side > 0 else "left", "va": "center"}
    words |= {"x": 0.92 * limit * side, "y": y, "color": figures.SOFT}
    if outcome == "nothing learnt":
        axes.text(s=outcome, **words)
        return
    seeds = [100 * one for one in against.differences if abs(100 * one) <= limit]
    axes.plot(seeds, [y + 0.3] * len(seeds), "|", markersize=5, **SEED)
    if against.crossed is not None:
        ends = [100 * against.crossed.low, 100 * against.crossed.high]
        inside = [min(max(end, -limit), limit) for end in ends]
        axes.plot(inside, (y, y), color=color, linewidth=2.5, solid_capstyle="butt")
        for edge, marker in ((-limit, "<"), (limit, ">")):
            if any(abs(end) > limit and end * edge > 0 for end in ends):
                axes.plot([edge], [y], marker, color=color, clip_on=False)
    if abs(mean) > limit:
        axes.text(s=f"{signed(mean, 1)}: {outcome}", **words)
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
