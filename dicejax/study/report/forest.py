"""Charts with a row for each loss: differences to the baseline, and every run."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dicejax.metrics.scores import heading
from dicejax.study import figures
from dicejax.study.compare.statistics import Row
from dicejax.study.compare.table import baseline_name, mean_and_spread
from dicejax.study.report.document import MARKS, Panel, Picture, TextTable
from dicejax.study.report.pictures import BASELINE, SEED, number
from dicejax.study.significance import signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    intervals = [
        100 * np.array([crossed.low, crossed.high]) if crossed else None
        for crossed in (row.against.crossed for row in drawn)
    ]
    learnt = [row.against.verdict.outcome != "nothing learnt" for row in drawn]
    reach = [
        abs(100 * np.array(row.against.differences) if ends is None else ends).max()
        for row, ends, counts in zip(drawn, intervals, learnt, strict=True)
        if counts or not any(learnt)
    ]
    most = min(max(reach), 5 * statistics.median(reach))
    limit = max(1.08 * most, 200 * margin, 0.1)
    axes = _chart(drawn, f"{metric} minus that of {baseline} (points)")
    axes.set_xlim(-limit, limit)
    axes.axvspan(-100 * margin, 100 * margin, color=figures.BASE, alpha=0.18, lw=0)
    axes.axvline(0, color=figures.TEXT, linewidth=1.25)
    about = []
    for y, (row, ends) in enumerate(zip(drawn, intervals, strict=True)):
        _draw_difference(axes, row, y, ends, limit)
        text = signed(100 * row.against.mean)
        if ends is not None:
            digits = 1 if ends[1] - ends[0] >= 10 else 2
            mean, low, high = (
                signed(x, digits) for x in (100 * row.against.crossed.mean, *ends)
            )
            text = f"{mean} ({low} to {high})"
        about.append(f"{row.loss} {MARKS[row.against.verdict.outcome]} {text}")
    is_tested = any(ends is not None for ends in intervals)
    key = {
        "dot": "loss",
        "square": "control" if any(row.is_control for row in drawn) else None,
        "mean": "95% CI" if is_tested else None,
        "margin": f"within ±{100 * margin:g} points: no difference in practice",
    }
    what = "mean difference over seeds with its 95% confidence interval"
    caption = (
        f"Test {metric}, {what if is_tested else 'difference by seed'}; "
        "small ticks are seeds. Right of 0 the loss is better."
    )
    title = f"Difference to {baseline}"
    panels = [Panel(title, "; ".join(about), axes.figure)]
    return Picture(title, caption, [k for k in key.items() if k[1]], panels)


def _draw_difference(
    axes: Axes, row: Row, y: int, ends: np.ndarray | None, limit: float
) -> None:
    """Draw the interval, the mean and the seeds of a row.

    In words where a loss learnt nothing, or its mean is beyond the axis.
    """
    color = figures.BASE if row.is_control else figures.LOSS
    mean, outcome = 100 * row.against.mean, row.against.verdict.outcome
    side, align = (1, "right") if mean > 0 else (-1, "left")
    words = {"ha": align, "va": "center", "color": figures.SOFT}
    if outcome == "nothing learnt":
        axes.text(0.92 * limit * side, y, outcome, **words)
        return
    seeds = [100 * x for x in row.against.differences if abs(100 * x) <= limit]
    axes.plot(seeds, [y + 0.3] * len(seeds), "|", markersize=5, **SEED)
    if ends is not None:
        inside = np.clip(ends, -limit, limit)
        axes.plot(inside, (y, y), color=color, linewidth=2.5, solid_capstyle="butt")
        for edge, marker in ((-limit, "<"), (limit, ">")):
            if any((inside == edge) & (ends != edge)):
                axes.plot([edge], [y], marker, color=color, clip_on=False)
    if abs(mean) > limit:
        axes.text(0.92 * limit * side, y, f"{signed(mean, 1)}: {outcome}", **words)
        return
    marker, face = ("s", figures.PAGE) if row.is_control else ("o", color)
    axes.plot([mean], [y], marker, color=color, markerfacecolor=face, markersize=7)


def strip(rows: Sequence[Row], primary_metric: str) -> Picture:
    """Draw the test score of each run, with equal seeds joined."""
    metric, title = heading(primary_metric), "Every run"
    scores = [
        {run.seed: 100 * run.score for run in row.outcomes if run.result}
        for row in rows
    ]
    spreads = [mean_and_spread(row.scores(primary_metric)) for row in rows]
    axes = _chart(rows, f"Test {metric} (%)")
    right = axes.secondary_yaxis("right")
    right.set_yticks(range(len(rows)), spreads, color=figures.SOFT)
    right.tick_params(length=0)
    right.spines["right"].set_visible(False)
    for y, (by_seed, below) in enumerate(zip(scores, [*scores[1:], {}], strict=True)):
        for seed in by_seed.keys() & below.keys():
            axes.plot((by_seed[seed], below[seed]), (y, y + 1), **SEED)
        look = {"color": figures.LOSS, "markersize": 6, "gid": f"runs-of-{y}"}
        axes.plot(list(by_seed.values()), [y] * len(by_seed), "o", **look)
        if by_seed:
            mean = statistics.fmean(by_seed.values())
            axes.plot((mean, mean), (y - 0.2, y + 0.2), color=figures.TEXT, linewidth=3)
    if scores[0]:
        mean = statistics.fmean(scores[0].values())
        axes.vlines(mean, 0, len(rows) - 0.5, zorder=0, **BASELINE)
    seeds = sorted({seed for by_seed in scores for seed in by_seed})
    about = "; ".join(f"{r.loss} {text}" for r, text in zip(rows, spreads, strict=True))
    caption = (
        f"Test {metric} of each run, one row per loss. Thin lines join runs "
        "with the same seed: parallel ones mean that the seed makes the difference, "
        "not the loss."
    )
    base = ("baseline", f"mean of {rows[0].loss}")
    key = (("dot", "run"), ("bar", "mean"), ("seed", "same seed"), base)
    lines = [
        {"loss": row.loss, **{f"seed {s}": number(by_seed.get(s)) for s in seeds}}
        for row, by_seed in zip(rows, scores, strict=True)
    ]
    data = TextTable(f"Test {metric} (%) of each run", lines)
    return Picture(title, caption, key, [Panel(title, about, axes.figure)], data)


def _chart(rows: Sequence[Row], label: str) -> Axes:
    """Return axes that have a row for each loss, from the top."""
    from matplotlib.figure import Figure

    names = [wrap_name(row.loss) for row in rows]
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
    return axes


def wrap_name(name: str) -> str:
    """Break a name between its settings.

    >>> print(wrap_name("dsc-alpha=0.01-smooth=0.01-stop_gradient_weight=True"))
    dsc-alpha=0.01-
    smooth=0.01-
    stop_gradient_weight=True
    """
    lines = textwrap.wrap(name.replace("-", "- "), 25, break_on_hyphens=False)
    return "\n".join(lines).replace("- ", "-")
