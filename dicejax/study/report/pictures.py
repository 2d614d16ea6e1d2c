"""Figures of a report: one panel per loss, vs. the baseline.

A panel holds two losses, which differ in dashes and marks as well as in colour.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dicejax.metrics.scores import heading
from dicejax.study import figures
from dicejax.study.compare.statistics import Row
from dicejax.study.compare.table import mean_and_spread
from dicejax.study.report.document import Panel, Picture, TextTable
from dicejax.study.report.material import Material, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 232, 176
"""Size of a panel in pixels; two fit side by side on a phone."""
STRIP_WIDTH = 520
SETTINGS = {"font.size": 11, "path.simplify_threshold": 0.5}
MEAN = {"color": figures.LOSS, "linewidth": 2}
BASELINE = {"color": figures.BASE, "linewidth": 1.75, "linestyle": (0, (4, 2))}
SEED = {"color": figures.SOFT, "linewidth": 0.75, "alpha": 0.7}
EVEN = {"color": figures.SOFT, "linewidth": 1, "linestyle": ":"}
MEAN_KEY = ("mean", "mean over seeds")
BAND_KEY = ("band", "± 1 SD over seeds")
BASELINE_KEY = ("baseline", "baseline")


def strip(rows: Sequence[Row], primary_metric: str) -> Picture:
    """Draw the test score of each run, with equal seeds joined."""
    from matplotlib.figure import Figure

    metric = heading(primary_metric)
    scores = [
        {one.seed: 100 * one.score for one in row.outcomes if one.result}
        for row in rows
    ]
    names = [wrapped(row.loss, 22) for row in rows]
    heights = [max(28, 14 * len(name) + 8) for name in names]
    height = sum(heights) + 46
    with figures.look(settings=SETTINGS):
        figure = Figure(figsize=(STRIP_WIDTH / 72, height / 72))
        axes = figure.add_axes((0.31, 42 / height, 0.5, 1 - 46 / height))
        # Names and means are outside, level with the marks; 1 unit is a pixel.
        places = [sum(heights[:n]) + heights[n] / 2 for n in range(len(rows))]
        axes.set_ylim(sum(heights), 0)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(f"Test {metric} (%)")
        axes.grid(axis="x")
        axes.set_axisbelow(True)
        for n, (row, name, here) in enumerate(zip(rows, names, scores, strict=True)):
            text = {"transform": axes.get_yaxis_transform(), "va": "center"}
            for k, part in enumerate(name):
                y = places[n] + 14 * (k - (len(name) - 1) / 2)
                label = figures.plain(part.strip())
                axes.text(-0.04, y, label, ha="right", weight="bold", **text)
            spread = mean_and_spread(row.scores(primary_metric))
            axes.text(1.04, places[n], spread, color=figures.SOFT, **text)
            below = scores[n + 1] if n + 1 < len(rows) else {}
            for seed in here.keys() & below.keys():
                x = (here[seed], below[seed])
                axes.plot(x, (places[n], places[n + 1]), zorder=1, **SEED)
            axes.plot(
                list(here.values()),
                [places[n]] * len(here),
                "o",
                color=figures.LOSS,
                markersize=6,
                gid=f"runs-of-{n}",
            )
            if here:
                mean = statistics.fmean(here.values())
                ends = (places[n] - 7, places[n] + 7)
                axes.plot((mean, mean), ends, color=figures.TEXT, linewidth=3)
        if scores[0]:
            mean = statistics.fmean(scores[0].values())
            axes.vlines(mean, places[0], sum(heights), zorder=0, **BASELINE)
    seeds = sorted({seed for here in scores for seed in here})
    return Picture(
        title="Every run",
        caption=f"Test {metric} of each run, one row per loss. Thin lines join runs "
        "with the same seed: parallel ones mean that the seed makes the difference, "
        "not the loss.",
        key=(
            ("dot", "run"),
            ("bar", "mean"),
            ("seed", "same seed"),
            ("baseline", f"mean of {rows[0].loss}"),
        ),
        panels=(
            Panel(
                name="Every run",
                note="",
                figure=figure,
                axes="; ".join(
                    f"{row.loss} {mean_and_spread(row.scores(primary_metric))}"
                    for row in rows
                ),
            ),
        ),
        data=TextTable(
            caption=f"Test {metric} (%) of each run",
            columns=("loss", *(f"seed {seed}" for seed in seeds)),
            rows=tuple(
                (row.loss, *(number(here.get(seed)) for seed in seeds))
                for row, here in zip(rows, scores, strict=True)
            ),
        ),
    )


def learning(materials: Sequence[Material], primary_metric: str) -> list[Picture]:
    """Draw the dev score and the training loss by training step."""
    metric = heading(primary_metric)
    of_dev = {
        m.loss: {
            seed: tuple((step, 100 * value) for step, value in series)
            for seed, series in m.dev.items()
        }
        for m in materials
        if any(m.dev.values())
    }
    of_loss = {m.loss: m.training for m in materials if any(m.training.values())}
    found = []
    if of_dev:
        table = _learning_table(of_dev, f"Dev {metric} (%)", "best", max)
        drawn = _learning(of_dev, f"Dev {metric} (%)", materials[0].loss)
        found.append(
            Picture(
                title=f"Dev {metric} during training",
                caption=f"Dev {metric} (%) by training step.",
                key=(MEAN_KEY, BAND_KEY, BASELINE_KEY),
                panels=drawn,
                data=table,
            )
        )
    if of_loss:
        table = _learning_table(of_loss, "Training loss", "lowest", min)
        found.append(
            Picture(
                title="Training loss",
                caption="Training loss by training step, logarithmic. Each loss has a "
                "scale of its own, so heights cannot be compared.",
                key=(MEAN_KEY, BAND_KEY),
                panels=_learning(of_loss, "Training loss", None),
                data=table,
            )
        )
    return found


def mean_and_band(
    by_seed: Mapping[int, Series],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return steps, means and sample standard deviations over the seeds with each step.

    >>> steps, mean, sd = mean_and_band({0: ((10, 1.0), (20, 4.0)), 1: ((10, 3.0),)})
    >>> steps.tolist(), mean.tolist(), sd.round(3).tolist()
    ([10, 20], [2.0, 4.0], [1.414, 0.0])
    """
    at: dict[int, list[float]] = {}
    for series in by_seed.values():
        for step, value in series:
            at.setdefault(step, []).append(value)
    steps = sorted(at)
    sds = [statistics.stdev(at[s]) if len(at[s]) > 1 else 0.0 for s in steps]
    means = [statistics.fmean(at[step]) for step in steps]
    return np.array(steps, int), np.array(means, float), np.array(sds, float)


def _learning(
    series: Mapping[str, Mapping[int, Series]], y: str, baseline: str | None
) -> tuple[Panel, ...]:
    found = {loss: mean_and_band(by_seed) for loss, by_seed in series.items()}
    last = max(int(steps[-1]) for steps, _, _ in found.values())
    ends = [value for _, m, sd in found.values() for value in (*(m - sd), *(m + sd))]
    panels = []
    for loss, (steps, mean, sd) in found.items():
        panel, axes = new_panel(loss, f"final {mean[-1]:.4g}", "Training step", y)
        low = mean - sd
        if baseline is None and mean.min() > 0:  # falls by orders of magnitude
            axes.set_yscale("log")
            low = np.maximum(low, mean.min() / 2)
        axes.fill_between(
            steps, low, mean + sd, color=figures.LOSS, alpha=0.2, linewidth=0
        )
        if baseline in found and baseline != loss:
            axes.plot(found[baseline][0], found[baseline][1], **BASELINE)
        axes.plot(steps, mean, **MEAN)
        axes.set_xlim(0, last)
        if baseline is not None:  # a scale for all of them
            room = max(0.04 * (max(ends) - min(ends)), 0.5)
            axes.set_ylim(max(min(ends) - room, 0), min(max(ends) + room, 100))
        panels.append(panel)
    return tuple(panels)


def _learning_table(
    series: Mapping[str, Mapping[int, Series]],
    what: str,
    extreme: str,
    best: Callable[[np.ndarray], float],
) -> TextTable:
    rows = []
    for loss, by_seed in series.items():
        steps, mean, _ = mean_and_band(by_seed)
        numbers = (f"{n:.4g}" for n in (mean[0], best(mean), mean[-1]))
        rows.append((loss, *numbers, str(steps[-1])))
    columns = ("loss", "first", extreme, "last", "steps")
    return TextTable(
        caption=f"{what}, mean over seeds", columns=columns, rows=tuple(rows)
    )


def by_class(materials: Sequence[Material]) -> list[Picture]:
    """Draw the F1 of each class by its frequency."""
    from matplotlib.ticker import FuncFormatter

    known = [m for m in materials if m.classes]
    if not known:
        return []
    baseline = materials[0]
    supports = {name: n for m in known for name, (n, _) in m.classes.items()}
    order = sorted(supports, key=lambda name: (-supports[name], name))
    f1 = {
        m.loss: {name: 100 * statistics.fmean(s) for name, (_, s) in m.classes.items()}
        for m in known
    }
    values = [value for by_name in f1.values() for value in by_name.values()]
    room = max(0.06 * (max(values) - min(values)), 0.5)
    panels = []
    for m in known:
        ours = f1[m.loss]
        theirs = f1.get(baseline.loss, {}) if m.loss != baseline.loss else {}
        both = [name for name in ours if name in theirs]
        higher = sum(ours[name] > theirs[name] for name in both)
        note = f"{higher} of {len(both)} classes above {baseline.loss}" if both else ""
        panel, axes = new_panel(
            m.loss, note or "baseline", "Count in test set", "F1 (%)"
        )
        axes.set_xscale("log")
        axes.set_xlim(min(supports.values()) / 1.6, max(supports.values()) * 1.6)
        axes.set_ylim(min(values) - room, max(values) + room)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        axes.xaxis.set_minor_formatter(FuncFormatter(lambda value, _: ""))
        for name in both:
            axes.plot([supports[name]] * 2, (theirs[name], ours[name]), **SEED)
        for of, line, marker in ((theirs, BASELINE, "s"), (ours, MEAN, "o")):
            face = figures.PAGE if marker == "s" else line["color"]
            axes.plot(
                [supports[name] for name in of],
                list(of.values()),
                marker,
                markersize=6,
                markerfacecolor=face,
                markeredgecolor=line["color"],
            )
        panels.append(panel)
    return [
        Picture(
            title="F1 of each class by its frequency",
            caption="F1 (%) of each class on the test set, mean over seeds, by its "
            "count in the test set. A line joins the two marks of a class.",
            key=(("dot", "this loss"), ("square", "baseline")),
            panels=tuple(panels),
            data=TextTable(
                caption="F1 (%) of each class on the test set, mean over seeds",
                columns=("class", "count in test set", *(m.loss for m in known)),
                rows=tuple(
                    (
                        name,
                        f"{supports[name]:,}",
                        *(number(f1[m.loss].get(name)) for m in known),
                    )
                    for name in order
                ),
            ),
        )
    ]


def new_panel(
    name: str, note: str, x: str, y: str, *, shares: bool = False
) -> tuple[Panel, Axes]:
    """Return a panel and its axes, which range from 0 to 1 for shares."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    with figures.look(settings=SETTINGS):
        figure = Figure(figsize=(WIDTH / 72, HEIGHT / 72))
        axes = figure.add_axes((0.215, 0.24, 0.745, 0.72))
        axes.set(xlabel=x, ylabel=y)
        axes.grid(True)
        axes.set_axisbelow(True)
        axes.tick_params(length=0)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(4))
            axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        if shares:
            ticks = (0, 0.5, 1)
            axes.set(xlim=(0, 1), ylim=(0, 1), xticks=ticks, yticks=ticks)
    return Panel(name=name, note=note, figure=figure, axes=f"{y} by {x}"), axes


def short(value: float) -> str:
    """Format a number on an axis.

    >>> short(20.0), short(0.25), short(12000.0), short(1e6)
    ('20', '0.25', '12k', '1M')
    """
    for unit, sign in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:g}{sign}"
    return f"{value:.6g}"


def wrapped(name: str, widest: int = 40) -> tuple[str, ...]:
    """Break a name between its settings.

    >>> wrapped("dsc-alpha=0.01-smooth=0.01-stop_gradient_weight=True", 30)
    ('dsc-alpha=0.01-smooth=0.01-', 'stop_gradient_weight=True')
    """
    lines = [""]
    for part in re.findall(rf".{{1,{widest}}}?(?:[- ]|$)|.{{{widest}}}", name):
        if lines[-1] and len(lines[-1]) + len(part) > widest:
            lines.append("")
        lines[-1] += part
    return tuple(line for line in lines if line)


def number(value: float | None) -> str:
    """Format a number in a table; "-" for None."""
    return "-" if value is None else f"{value:.2f}"
