"""Figures of a comparison: charts with a row per loss, and figures with a panel each.

Losses of a panel differ in dashes and marks as well as in colour.
"""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dicejax.metrics import score_counts
from dicejax.metrics.score_counts import ThresholdCurve
from dicejax.study import figures
from dicejax.study.compare.record import Comparison
from dicejax.study.compare.statistics import Row
from dicejax.study.compare.table import mean_and_spread
from dicejax.study.compare.testing import Contrast
from dicejax.study.report.document import (
    MARKS,
    Lines,
    Picture,
    number,
    scores_of_runs,
)
from dicejax.study.report.measured import (
    CURVES,
    CountsBySeed,
    band_of,
    bins_of,
    classes_of,
    counts_of,
    measured,
    most_frequent,
    pooled,
)
from dicejax.study.sentences import sentences
from dicejax.study.significance import signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

THRESHOLD = 0.5
FAILED = ("nothing learnt", "unstable")
"""Outcomes that have words in the place of a mark."""
WIDTH, HEIGHT = 232, 176
"""Size of a panel in pixels; two fit side by side on a phone."""
CHART_WIDTH, LINE = 520, 15  # in pixels, the height of a line of text too
SETTINGS = {
    "font.size": 11,
    "axes.axisbelow": True,
    "figure.constrained_layout.h_pad": 0.02,
    "figure.constrained_layout.w_pad": 0.02,
}
MEAN: dict[str, Any] = {"color": figures.LOSS, "linewidth": 2}
BASELINE: dict[str, Any] = {"color": figures.BASE, "lw": 1.75, "ls": (0, (4, 2))}
SEED: dict[str, Any] = {"color": figures.SOFT, "linewidth": 0.75, "alpha": 0.7}
LOSS_AND_BASELINE = {"dot": "this loss", "square": "baseline"}


def forest(rows: Sequence[Row], margin: float) -> Picture | None:
    """Draw the differences; None without a loss that has one.

    The axis holds intervals and seeds. An interval that reaches beyond 5 times the
    median reach ends in an arrow, and the caption counts the seeds beyond it.
    """
    metric, baseline = rows[0].metric, rows[0].name
    drawn = [(x, x.against) for x in rows if x.against and x.against.differences]
    if not drawn:
        return None
    learnt = [(x, contrast) for x, contrast in drawn if x.outcome not in FAILED]
    reach = [
        abs(np.append(100 * np.array(contrast.differences), _ends(contrast))).max()
        for _, contrast in learnt or drawn
    ]
    most = min(max(reach), 5 * statistics.median(reach))
    limit = max(1.08 * most, 200 * margin, 0.1)
    label = f"{metric} minus that of {baseline} (points)"
    losses = [row for row, _ in drawn]
    figure, axes = _new_chart(losses, label)
    axes.set_xlim(-limit, limit)
    axes.axvspan(-100 * margin, 100 * margin, color=figures.BASE, alpha=0.18, lw=0)
    axes.axvline(0, color=figures.TEXT, linewidth=1.25)
    for y, (row, contrast) in enumerate(drawn):
        _draw_difference(axes, row, contrast, y, limit)
    has_intervals = any(contrast.crossed for _, contrast in drawn)
    key = {"dot": "loss"}
    if any(row.is_control for row in losses):
        key["square"] = "control"
    if has_intervals:
        key["mean"] = "95% CI"
    key["margin"] = f"within ±{100 * margin:g} points: no difference in practice"
    seeds = (100 * x for _, contrast in learnt for x in contrast.differences)
    texts, title = sentences("page"), f"Difference from {baseline}"
    caption = texts.forest(metric, has_intervals, sum(abs(x) > limit for x in seeds))
    about = texts.drawn_differences(losses, MARKS)
    return Picture(title, caption, key, {title: figure}, about=about)


def _ends(contrast: Contrast) -> np.ndarray:
    """Return the ends of an interval in points; empty where no claim is made."""
    crossed = contrast.crossed
    return 100 * np.array([crossed.low, crossed.high] if crossed else [])


def _draw_difference(
    axes: Axes, row: Row, contrast: Contrast, y: int, most: float
) -> None:
    """Draw the interval, the mean and the seeds of a row, or words at the edge."""
    color = figures.BASE if row.is_control else figures.LOSS
    mean, outcome = 100 * (contrast.mean or 0.0), row.outcome
    side, align = (1, "right") if mean > 0 else (-1, "left")
    words: dict[str, Any] = {"ha": align, "va": "center", "color": figures.SOFT}
    if outcome in FAILED:
        axes.text(0.92 * most * side, y, outcome, **words)
        return
    seeds = [100 * x for x in contrast.differences if abs(100 * x) <= most]
    axes.plot(seeds, [y + 0.3] * len(seeds), "|", markersize=5, **SEED)
    if (ends := _ends(contrast)).size:
        inside = np.clip(ends, -most, most)
        axes.plot(inside, (y, y), color=color, linewidth=2.5, solid_capstyle="butt")
        for edge, marker in ((-most, "<"), (most, ">")):
            if any((inside == edge) & (ends != edge)):
                axes.plot([edge], [y], marker, color=color, clip_on=False)
    if abs(mean) > most:
        axes.text(0.92 * most * side, y, f"{signed(mean, 1)}: {outcome}", **words)
        return
    marker, face = ("s", figures.PAGE) if row.is_control else ("o", color)
    axes.plot([mean], [y], marker, color=color, markerfacecolor=face, markersize=7)


def strip(rows: Sequence[Row], primary_metric: str) -> Picture:
    """Draw the test score of each run, with equal seeds joined."""
    metric, title = rows[0].metric, "Every run"
    scores = [{r.seed: 100 * r.score for r in x.finished} for x in rows]
    spreads = [mean_and_spread(row.scores(primary_metric)) for row in rows]
    figure, axes = _new_chart(rows, f"Test {metric} (%)")
    right = axes.secondary_yaxis("right")
    right.set_yticks(range(len(rows)), spreads, color=figures.SOFT)
    right.tick_params(length=0)
    right.spines["right"].set_visible(False)
    for y, (by_seed, below) in enumerate(zip(scores, [*scores[1:], {}], strict=True)):
        for seed in by_seed.keys() & below.keys():
            axes.plot((by_seed[seed], below[seed]), (y, y + 1), **SEED)
        ends, gid = list(by_seed.values()), f"runs-of-{y}"
        axes.plot(ends, [y] * len(ends), "o", ms=6, color=figures.LOSS, gid=gid)
        if by_seed:
            mean = statistics.fmean(by_seed.values())
            axes.plot((mean, mean), (y - 0.2, y + 0.2), color=figures.TEXT, linewidth=3)
    mean = statistics.fmean(scores[0].values())
    axes.vlines(mean, 0, len(rows) - 0.5, zorder=0, **BASELINE)
    about = "; ".join(f"{r.loss} {text}" for r, text in zip(rows, spreads, strict=True))
    caption = sentences("page").strip(metric=metric)
    key = {"dot": "run", "bar": "mean", "seed": "same seed"}
    key["baseline"] = f"mean of {rows[0].loss}"
    panels, data = {title: figure}, scores_of_runs(rows)
    return Picture(title, caption, key, panels, data=data, about=about)


def _new_chart(rows: Sequence[Row], label: str) -> tuple[Figure, Axes]:
    """Return a figure whose axes have a row for each loss, from the top."""
    from matplotlib.figure import Figure

    names = [  # broken between settings
        textwrap.fill(row.loss.replace("-", "- "), 25, break_on_hyphens=False)
        for row in rows
    ]
    names = [name.replace("- ", "-") for name in names]
    most = 1 + max(name.count("\n") for name in names)
    size = CHART_WIDTH / 72, (len(rows) * (LINE * most + 13) + 48) / 72
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    axes.set(xlabel=label, ylim=(len(rows) - 0.5, -0.5))
    axes.set_yticks(range(len(rows)), names, parse_math=False)
    axes.tick_params("y", length=0)
    for row, text in zip(rows, axes.get_yticklabels(), strict=True):
        text.set_fontweight("normal" if row.is_control else "bold")
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x")
    return figure, axes


def learning(comparison: Comparison) -> Iterator[Picture]:
    """Draw the dev score and the training loss by training step."""
    rows = measured(comparison.rows)
    metric, baseline = f"Dev {comparison.rows[0].metric}", comparison.rows[0].loss
    for curve, is_score in zip(CURVES, (True, False), strict=True):
        measure = f"{metric} (%)" if is_score else "Training loss"
        title = f"{metric} during training" if is_score else measure
        bands = {
            row.loss: band_of(getattr(run, curve) for run in row.finished)
            for row in rows
        }
        bands = {loss: band for loss, band in bands.items() if len(band)}
        if not bands:
            continue
        factor, extreme, best = (100, "best", max) if is_score else (1, "lowest", min)
        lines, lows, highs = [], {}, {}
        for loss, band in bands.items():
            band[:, 1:] *= factor
            steps, mean, sd = band.T
            lows[loss], highs[loss] = mean - sd, mean + sd
            values = {"first": mean[0], extreme: best(mean), "last": mean[-1]}
            line = {name: f"{value:.4g}" for name, value in values.items()}
            lines.append({"loss": loss, **line, "steps": f"{steps[-1]:.0f}"})
        data = {f"{measure}, mean over seeds": lines}
        notes = _notes(lines, "final", "last")
        panels = new_panels(notes, "Training step", measure)
        least, most = min(map(min, lows.values())), max(map(max, highs.values()))
        room = max(0.04 * (most - least), 0.5)
        for loss, figure in panels.items():
            (axes,) = figure.axes
            (steps, mean, _), low = bands[loss].T, lows[loss]
            if is_score:
                axes.set_ylim(max(least - room, 0), min(most + room, 100))
            elif min(mean) > 0:  # it falls by orders of magnitude
                axes.set_yscale("log")
                low = np.maximum(low, min(mean) / 2)
            axes.fill_between(
                steps, low, highs[loss], color=figures.LOSS, alpha=0.2, lw=0
            )
            if is_score and baseline in bands and baseline != loss:
                axes.plot(*bands[baseline].T[:2], **BASELINE)
            axes.plot(steps, mean, **MEAN)
            axes.set_xlim(0, max(band[-1, 0] for band in bands.values()))
        key = {"mean": "mean over seeds", "band": "± 1 SD over seeds"}
        key |= {"baseline": "baseline"} if is_score else {}
        caption = sentences("page").learning(values=measure, is_score=is_score)
        yield Picture(title, caption, key, panels, notes, data)


def by_class(comparison: Comparison) -> Iterator[Picture]:
    """Draw the F1 of each class by its frequency."""
    counts = classes_of(comparison.rows)
    f1: dict[str, dict[str, float]] = {}  # by loss and class
    for row in comparison.rows:
        scores = {name: row.class_scores(name, "f1") for name in counts}
        means = {k: 100 * statistics.fmean(x) for k, x in scores.items() if x}
        f1 |= {row.loss: means} if means else {}
    if not f1:
        return
    baseline = comparison.rows[0].loss
    others = dict.fromkeys(f1, f1.get(baseline, {})) | {baseline: {}}
    notes = dict.fromkeys(f1, "baseline")
    for loss, ours in f1.items():
        if both := ours.keys() & others[loss].keys():
            higher = sum(ours[name] > others[loss][name] for name in both)
            notes[loss] = f"{higher} of {len(both)} classes above {baseline}"
    lines = []
    for name, count in most_frequent(counts):
        line = {"class": name, "count in test set": f"{count:,}"}
        lines.append(line | {k: number(each.get(name)) for k, each in f1.items()})
    heading = "F1 (%) of each class on the test set, mean over seeds"
    panels = new_panels(notes, "Count in test set", "F1 (%)")
    ends = [value for by_name in f1.values() for value in by_name.values()]
    room = max(0.06 * np.ptp(ends), 0.5)
    for loss, figure in panels.items():
        (axes,), ours, theirs = figure.axes, f1[loss], others[loss]
        shorten = axes.xaxis.get_major_formatter()
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(shorten)
        axes.xaxis.set_minor_formatter("")
        axes.set_xlim(min(counts.values()) / 1.6, max(counts.values()) * 1.6)
        axes.set_ylim(min(ends) - room, max(ends) + room)
        for name in (name for name in ours if name in theirs):
            axes.plot([counts[name]] * 2, (theirs[name], ours[name]), **SEED)
        for by_name, marker, edge, face in (
            (theirs, "s", figures.BASE, figures.PAGE),
            (ours, "o", figures.LOSS, figures.LOSS),
        ):
            x = [counts[name] for name in by_name]
            axes.plot(x, list(by_name.values()), marker, ms=6, mec=edge, mfc=face)
    title = "F1 of each class by its frequency"
    key, caption = LOSS_AND_BASELINE, sentences("page").by_class(values=heading)
    yield Picture(title, caption, key, panels, notes, {heading: lines})


def thresholds(comparison: Comparison) -> Iterator[Picture]:
    """Draw precision against recall, and F1 against the threshold, by output."""
    key = {"mean": "all seeds", "seed": "each seed", "baseline": "baseline"}
    baseline, texts = comparison.rows[0].loss, sentences("page")
    for output, losses in _by_output(comparison.rows).items():
        lines = _lines_of_seeds(
            losses, lambda counts: 100 * score_counts.curve(counts).average_precision
        )
        data = {f"Average precision (%) on the test set{output}": lines}
        notes = _notes(lines, "AP", "all seeds", baseline)
        panels = new_panels(notes, "Recall", "Precision", are_shares=True)
        _draw_curves(  # where anything is predicted
            panels,
            losses,
            baseline,
            lambda c: (c.recall[c.predicted > 0], c.precision[c.predicted > 0]),
        )
        title, caption = f"Precision and recall{output}", texts.precision_recall()
        yield Picture(title, caption, key, panels, notes, data)
        lines, at_default = [], f"at {THRESHOLD}"
        for loss, by_seed in losses.items():
            curve = score_counts.curve(pooled(by_seed))
            best = curve.f1.argmax()
            line = {"loss": loss, at_default: number(100 * curve.f1_at(THRESHOLD))}
            line["at best"] = number(100 * curve.f1[best])
            lines.append(line | {"best threshold": f"{curve.thresholds[best]:.3f}"})
        data = {f"F1 (%) of elements by threshold{output}, all seeds": lines}
        notes = _notes(lines, f"{at_default}:", at_default, baseline)
        panels = new_panels(notes, "Threshold", "F1", are_shares=True)
        for figure in panels.values():
            figure.axes[0].axvline(THRESHOLD, color=figures.RULE, lw=1.5, ls="--")
        _draw_curves(panels, losses, baseline, lambda c: (c.thresholds, c.f1))
        title, caption = f"F1 by threshold{output}", texts.f1_by_threshold(THRESHOLD)
        with_rule = {**key, "rule": f"threshold {THRESHOLD}"}
        yield Picture(title, caption, with_rule, panels, notes, data)


def _draw_curves(
    panels: Mapping[str, Figure],
    losses: Mapping[str, CountsBySeed],
    baseline: str,
    points: Callable[[ThresholdCurve], tuple[np.ndarray, np.ndarray]],
) -> None:
    """Draw a thin line per seed, the pooled line, and the baseline's."""
    for loss, figure in panels.items():
        (axes,), ours = figure.axes, losses[loss]
        for counts in ours.values() if len(ours) > 1 else ():
            axes.plot(*points(score_counts.curve(counts)), **SEED)
        if loss != baseline and baseline in losses:
            curve = score_counts.curve(pooled(losses[baseline]))
            axes.plot(*points(curve), **BASELINE)
        axes.plot(*points(score_counts.curve(pooled(ours))), **MEAN)


def calibration(comparison: Comparison) -> Iterator[Picture]:
    """Draw reliability diagrams, by output."""
    baseline = comparison.rows[0].loss
    for output, losses in _by_output(comparison.rows).items():
        lines = _lines_of_seeds(
            losses, lambda counts: 100 * score_counts.calibration_error(counts)
        )
        data = {f"Expected calibration error (%) on the test set{output}": lines}
        notes = _notes(lines, "ECE", "all seeds", baseline)
        names = "Predicted probability", "Frequency"
        panels = new_panels(notes, *names, are_shares=True)
        for loss, figure in panels.items():
            (axes,) = figure.axes
            axes.plot((0, 1), (0, 1), ":", color=figures.SOFT, linewidth=1)
            looks = {baseline: (BASELINE, "s", figures.PAGE)}
            looks[loss] = MEAN, "o", figures.LOSS
            for name, (look, marker, face) in looks.items():
                bins = bins_of(pooled(losses[name])) if name in losses else ()
                x, y = [b.confidence for b in bins], [b.accuracy for b in bins]
                sizes = [(3 + 1.2 * np.log10(b.count)) ** 2 for b in bins]
                edge: dict[str, Any] = {"facecolor": face, "edgecolor": look["color"]}
                axes.plot(x, y, **look)[0].set_linewidth(1.25)
                axes.scatter(
                    x, y, sizes, marker=marker, clip_on=False, zorder=3, **edge
                )
        caption = sentences("page").calibration()
        key = {**LOSS_AND_BASELINE, "even": "perfectly calibrated"}
        yield Picture(f"Calibration{output}", caption, key, panels, notes, data)


def _by_output(rows: Sequence[Row]) -> dict[str, dict[str, CountsBySeed]]:
    """Return counts by output, loss and seed; a single output needs no name."""
    by_output: dict[str, dict[str, CountsBySeed]] = {}
    for row in measured(rows):
        for output, by_seed in counts_of(row).items():
            by_output.setdefault(f", {output}", {})[row.loss] = by_seed
    return {"": by_output.popitem()[1]} if len(by_output) == 1 else by_output


def _lines_of_seeds(
    losses: Mapping[str, CountsBySeed], score: Callable[[np.ndarray], float]
) -> Lines:
    """Return the lines of a score: pooled over seeds, and for each seed."""
    seeds = sorted({seed for by_seed in losses.values() for seed in by_seed})
    lines = []
    for loss, by_seed in losses.items():
        each = {seed: score(counts) for seed, counts in by_seed.items()}
        line = {"loss": loss, "all seeds": number(score(pooled(by_seed)))}
        lines.append(line | {f"seed {seed}": number(each.get(seed)) for seed in seeds})
    return lines


def _notes(
    lines: Lines, measure: str, column: str, baseline: str | None = None
) -> dict[str, str]:
    """Return a note on each loss: its number in a table, vs. the baseline's."""
    numbers = {line["loss"]: line[column] for line in lines}
    versus = f" vs. {numbers.get(baseline, '-')}" if baseline else ""
    return {
        loss: f"{measure} {text}{versus * (loss != baseline)}"
        for loss, text in numbers.items()
    }


def new_panels(
    losses: Iterable[str], x: str, y: str, *, are_shares: bool = False
) -> dict[str, Figure]:
    """Return a figure with empty axes for each loss; shares range from 0 to 1."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    panels = {}
    for loss in losses:
        panels[loss] = Figure(figsize=(WIDTH / 72, HEIGHT / 72), layout="constrained")
        axes = panels[loss].add_subplot(xlabel=x, ylabel=y)
        axes.grid(True)
        axes.tick_params(length=0)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(4))
            axis.set_major_formatter(lambda value, _: short(value))
        if are_shares:
            ticks = (0, 0.5, 1)
            axes.set(xlim=(0, 1), ylim=(0, 1), xticks=ticks, yticks=ticks)
    return panels


def short(value: float) -> str:
    """Format a number on an axis.

    >>> short(20.0), short(0.25), short(12000.0), short(1e6)
    ('20', '0.25', '12k', '1M')
    """
    for unit, sign in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:g}{sign}"
    return f"{value:.6g}"
