"""Figures of a report: one panel per loss, vs. the baseline.

A panel holds two losses, which differ in dashes and marks as well as in colour.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dicejax.metrics import score_counts
from dicejax.metrics.score_counts import ThresholdCurve
from dicejax.metrics.scores import heading
from dicejax.study import figures
from dicejax.study.report.document import Panel, Picture, TextTable
from dicejax.study.report.facts import THRESHOLD, Band, LossFacts, Probabilities

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 232, 176
"""Size of a panel in pixels; two fit side by side on a phone."""
SETTINGS = {
    "font.size": 11,
    "path.simplify_threshold": 0.5,
    "axes.axisbelow": True,
    "figure.constrained_layout.h_pad": 0.02,
    "figure.constrained_layout.w_pad": 0.02,
}
MEAN = {"color": figures.LOSS, "linewidth": 2}
BASELINE = {"color": figures.BASE, "linewidth": 1.75, "linestyle": (0, (4, 2))}
SEED = {"color": figures.SOFT, "linewidth": 0.75, "alpha": 0.7}
EVEN = {"color": figures.SOFT, "linewidth": 1, "linestyle": ":"}
MEAN_KEY = ("mean", "mean over seeds")
BAND_KEY = ("band", "± 1 SD over seeds")
BASELINE_KEY = ("baseline", "baseline")
DOT_KEY, SQUARE_KEY = ("dot", "this loss"), ("square", "baseline")


def learning(trained: Sequence[LossFacts], primary_metric: str) -> Iterator[Picture]:
    """Draw the dev score and the training loss by training step."""
    metric = f"Dev {heading(primary_metric)}"
    dev = {m.loss: m.dev * 100 for m in trained if len(m.dev.steps)}
    if dev:
        yield Picture(
            f"{metric} during training",
            f"{metric} (%) by training step.",
            key=(MEAN_KEY, BAND_KEY, BASELINE_KEY),
            panels=tuple(_learning(dev, f"{metric} (%)", trained[0].loss)),
            data=_learning_table(dev, f"{metric} (%)", "best", max),
        )
    training = {m.loss: m.training for m in trained if len(m.training.steps)}
    if training:
        yield Picture(
            "Training loss",
            "Training loss by training step, logarithmic. Each loss has a "
            "scale of its own, so heights cannot be compared.",
            key=(MEAN_KEY, BAND_KEY),
            panels=tuple(_learning(training, "Training loss", None)),
            data=_learning_table(training, "Training loss", "lowest", min),
        )


def _learning(
    bands: Mapping[str, Band], y: str, baseline: str | None
) -> Iterator[Panel]:
    last = max(int(band.steps[-1]) for band in bands.values())
    ends = [end for b in bands.values() for end in (*(b.mean - b.sd), *(b.mean + b.sd))]
    for loss, band in bands.items():
        note = f"final {band.mean[-1]:.4g}"
        panel, axes = new_panel(loss, note, "Training step", y)
        low, high = band.mean - band.sd, band.mean + band.sd
        if baseline is None and band.mean.min() > 0:  # falls by orders of magnitude
            axes.set_yscale("log")
            low = np.maximum(low, band.mean.min() / 2)
        axes.fill_between(band.steps, low, high, color=figures.LOSS, alpha=0.2, lw=0)
        if baseline in bands and baseline != loss:
            axes.plot(bands[baseline].steps, bands[baseline].mean, **BASELINE)
        axes.plot(band.steps, band.mean, **MEAN)
        axes.set_xlim(0, last)
        if baseline is not None:  # a scale for all of them
            room = max(0.04 * (max(ends) - min(ends)), 0.5)
            axes.set_ylim(max(min(ends) - room, 0), min(max(ends) + room, 100))
        yield panel


def _learning_table(
    bands: Mapping[str, Band],
    what: str,
    extreme: str,
    best: Callable[[np.ndarray], float],
) -> TextTable:
    return TextTable(
        f"{what}, mean over seeds",
        ("loss", "first", extreme, "last", "steps"),
        tuple(
            (
                loss,
                *(f"{n:.4g}" for n in (b.mean[0], best(b.mean), b.mean[-1])),
                str(b.steps[-1]),
            )
            for loss, b in bands.items()
        ),
    )


def by_class(losses: Sequence[LossFacts]) -> Iterator[Picture]:
    """Draw the F1 of each class by its frequency."""
    f1 = {
        m.loss: {
            name: 100 * statistics.fmean(x) for name, x in m.of_classes("f1").items()
        }
        for m in losses
    }
    f1 = {loss: by_name for loss, by_name in f1.items() if by_name}
    if not f1:
        return
    names = {name for by_name in f1.values() for name in by_name}
    counts = {
        name: m.classes[name][0] for m in losses for name in m.classes if name in names
    }
    what = "F1 (%) of each class on the test set, mean over seeds"
    yield Picture(
        "F1 of each class by its frequency",
        f"{what}, by its count in the test set. A line joins the two marks of a class.",
        key=(DOT_KEY, SQUARE_KEY),
        panels=tuple(_by_class(f1, counts, losses[0].loss)),
        data=TextTable(
            what,
            ("class", "count in test set", *f1),
            tuple(
                (
                    name,
                    f"{counts[name]:,}",
                    *(number(of.get(name)) for of in f1.values()),
                )
                for name in sorted(counts, key=lambda name: (-counts[name], name))
            ),
        ),
    )


def _by_class(
    f1: Mapping[str, Mapping[str, float]], counts: Mapping[str, int], baseline: str
) -> Iterator[Panel]:
    from matplotlib.ticker import NullFormatter

    values = [value for by_name in f1.values() for value in by_name.values()]
    room = max(0.06 * (max(values) - min(values)), 0.5)
    for loss, ours in f1.items():
        theirs = f1.get(baseline, {}) if loss != baseline else {}
        both = [name for name in ours if name in theirs]
        higher = sum(ours[name] > theirs[name] for name in both)
        note = (
            f"{higher} of {len(both)} classes above {baseline}" if both else "baseline"
        )
        panel, axes = new_panel(loss, note, "Count in test set", "F1 (%)")
        shorten = axes.xaxis.get_major_formatter()
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(shorten)
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlim(min(counts.values()) / 1.6, max(counts.values()) * 1.6)
        axes.set_ylim(min(values) - room, max(values) + room)
        for name in both:
            axes.plot([counts[name]] * 2, (theirs[name], ours[name]), **SEED)
        for of, color, marker in (
            (theirs, figures.BASE, "s"),
            (ours, figures.LOSS, "o"),
        ):
            face = figures.PAGE if marker == "s" else color
            x = [counts[name] for name in of]
            axes.plot(x, list(of.values()), marker, ms=6, mec=color, mfc=face)
        yield panel


def thresholds(trained: Sequence[LossFacts]) -> Iterator[Picture]:
    """Draw precision against recall, and F1 against the threshold, by output."""
    key = (("mean", "all seeds"), ("seed", "each seed"), BASELINE_KEY)
    labels, baseline = ("Recall", "Precision"), trained[0].loss
    for output, losses in _by_output(trained).items():
        precision = {
            k: f"{100 * p.curve.average_precision:.2f}" for k, p in losses.items()
        }
        at_default = {
            k: f"{100 * p.curve.f1_at(THRESHOLD):.2f}" for k, p in losses.items()
        }
        notes = _versus("AP", precision, baseline)
        yield Picture(
            f"Precision and recall{output}",
            "Precision by recall on the test set, for all thresholds on the "
            "probability of a class; of single elements (words, texts), not of whole "
            "entities. AP: average precision (%).",
            key=key,
            panels=tuple(_curves(losses, notes, baseline, recall_precision, labels)),
            data=_table_of_seeds(
                f"Average precision (%) on the test set{output}",
                losses,
                lambda counts: 100 * score_counts.curve(counts).average_precision,
            ),
        )
        panels = _curves(
            losses,
            _versus(f"at {THRESHOLD}:", at_default, baseline),
            baseline,
            lambda curve: (curve.thresholds, curve.f1),
            ("Threshold", "F1"),
            rule=THRESHOLD,
        )
        best = {k: (p.curve.f1.max(), p.curve.f1.argmax()) for k, p in losses.items()}
        yield Picture(
            f"F1 by threshold{output}",
            "F1 of elements on the test set by the probability from which a "
            f"class is predicted. {THRESHOLD} is the default where there are two "
            "classes; with more, the most probable class is predicted. Choosing a "
            "threshold from this figure would be tuning on the test set.",
            key=(*key, ("rule", f"threshold {THRESHOLD}")),
            panels=tuple(panels),
            data=TextTable(
                f"F1 (%) of elements by threshold{output}, all seeds",
                ("loss", f"at {THRESHOLD}", "at best", "best threshold"),
                tuple(
                    (
                        loss,
                        at_default[loss],
                        f"{100 * f1:.2f}",
                        f"{losses[loss].curve.thresholds[place]:.3f}",
                    )
                    for loss, (f1, place) in best.items()
                ),
            ),
        )


def recall_precision(curve: ThresholdCurve) -> tuple[np.ndarray, np.ndarray]:
    """Return recall and precision by rising threshold, where anything is predicted."""
    is_any = curve.predicted > 0
    return curve.recall[is_any], curve.precision[is_any]


def _curves(
    losses: Mapping[str, Probabilities],
    notes: Mapping[str, str],
    baseline: str,
    points: Callable[[ThresholdCurve], tuple[np.ndarray, np.ndarray]],
    labels: tuple[str, str],
    rule: float | None = None,
) -> Iterator[Panel]:
    """Draw a panel per loss: a thin line per seed, the pooled one, the baseline's."""
    for loss, one in losses.items():
        panel, axes = new_panel(loss, notes[loss], *labels, shares=True)
        if rule is not None:
            axes.axvline(rule, color=figures.RULE, linewidth=1.5, linestyle="--")
        for counts in one.by_seed.values() if len(one.by_seed) > 1 else ():
            axes.plot(*points(score_counts.curve(counts)), **SEED)
        if loss != baseline and baseline in losses:
            axes.plot(*points(losses[baseline].curve), **BASELINE)
        axes.plot(*points(one.curve), **MEAN)
        yield panel


def calibration(trained: Sequence[LossFacts]) -> Iterator[Picture]:
    """Draw reliability diagrams, by output."""

    def error(counts: np.ndarray) -> float:
        return 100 * score_counts.calibration_error(counts)

    for output, losses in _by_output(trained).items():
        errors = {loss: f"{error(one.counts):.2f}" for loss, one in losses.items()}
        notes = _versus("ECE", errors, trained[0].loss)
        yield Picture(
            f"Calibration{output}",
            "Frequency of a class by its predicted probability, on the "
            "test set. Larger marks stand for more elements. ECE: expected "
            "calibration error (%) of elements predicted to be of a class.",
            key=(DOT_KEY, SQUARE_KEY, ("even", "perfectly calibrated")),
            panels=tuple(_reliability(losses, notes, trained[0].loss)),
            data=_table_of_seeds(
                f"Expected calibration error (%) on the test set{output}", losses, error
            ),
        )


def _reliability(
    losses: Mapping[str, Probabilities], notes: Mapping[str, str], baseline: str
) -> Iterator[Panel]:
    for loss in losses:
        labels = ("Predicted probability", "Frequency")
        panel, axes = new_panel(loss, notes[loss], *labels, shares=True)
        axes.plot((0, 1), (0, 1), **EVEN)
        both = [(baseline, BASELINE, "s"), (loss, MEAN, "o")][loss == baseline :]
        for name, look, marker in both:
            if name not in losses:
                continue
            bins = losses[name].bins
            x, y = [b.confidence for b in bins], [b.accuracy for b in bins]
            axes.plot(x, y, **look | {"linewidth": 1.25})
            axes.scatter(
                x,
                y,
                [(3 + 1.2 * np.log10(b.count)) ** 2 for b in bins],
                marker=marker,
                facecolor=figures.PAGE if marker == "s" else look["color"],
                edgecolor=look["color"],
                zorder=3,
                clip_on=False,
            )
        yield panel


def _by_output(trained: Sequence[LossFacts]) -> dict[str, dict[str, Probabilities]]:
    """Return probabilities by output and loss; a single output needs no name."""
    outputs = dict.fromkeys(name for m in trained for name in m.probabilities)
    return {
        f", {output}" if len(outputs) > 1 else "": {
            m.loss: m.probabilities[output]
            for m in trained
            if output in m.probabilities
        }
        for output in outputs
    }


def _table_of_seeds(
    caption: str,
    losses: Mapping[str, Probabilities],
    score: Callable[[np.ndarray], float],
) -> TextTable:
    """Return a table of a score: pooled over seeds, and for each seed."""
    seeds = sorted({seed for one in losses.values() for seed in one.by_seed})
    rows = []
    for loss, one in losses.items():
        each = (score(one.by_seed[s]) if s in one.by_seed else None for s in seeds)
        rows.append((loss, number(score(one.counts)), *map(number, each)))
    columns = ("loss", "all seeds", *(f"seed {seed}" for seed in seeds))
    return TextTable(caption, columns, tuple(rows))


def _versus(what: str, numbers: Mapping[str, str], baseline: str) -> dict[str, str]:
    """Return a note on each loss: its number vs. the baseline's."""
    versus = f" vs. {numbers.get(baseline, '-')}"
    return {
        loss: f"{what} {text}{versus * (loss != baseline)}"
        for loss, text in numbers.items()
    }


def new_panel(
    name: str, note: str, x: str, y: str, *, shares: bool = False
) -> tuple[Panel, Axes]:
    """Return a panel and its axes, which range from 0 to 1 for shares."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    with figures.look(settings=SETTINGS):
        figure = Figure(figsize=(WIDTH / 72, HEIGHT / 72), layout="constrained")
        axes = figure.add_subplot(xlabel=x, ylabel=y)
        axes.grid(True)
        axes.tick_params(length=0)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(4))
            axis.set_major_formatter(lambda value, _: short(value))
        if shares:
            ticks = (0, 0.5, 1)
            axes.set(xlim=(0, 1), ylim=(0, 1), xticks=ticks, yticks=ticks)
    return Panel(name, note, figure, f"{y} by {x}"), axes


def short(value: float) -> str:
    """Format a number on an axis.

    >>> short(20.0), short(0.25), short(12000.0), short(1e6)
    ('20', '0.25', '12k', '1M')
    """
    for unit, sign in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:g}{sign}"
    return f"{value:.6g}"


def number(value: float | None) -> str:
    """Format a number in a table; "-" for None."""
    return "-" if value is None else f"{value:.2f}"
