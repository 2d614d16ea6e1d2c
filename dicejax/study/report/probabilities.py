"""Figures of predicted probabilities: precision, recall, thresholds, calibration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dicejax.metrics import score_counts
from dicejax.metrics.calibration import Reliability
from dicejax.metrics.score_counts import ThresholdCurve
from dicejax.study import figures
from dicejax.study.report.document import Panel, Picture, TextTable
from dicejax.study.report.material import Material
from dicejax.study.report.pictures import (
    BASELINE,
    BASELINE_KEY,
    EVEN,
    MEAN,
    SEED,
    new_panel,
    number,
)

THRESHOLD = 0.5
Counted = Mapping[str, Mapping[int, np.ndarray]]
"""Counts of scores by loss and seed."""


def thresholds(materials: Sequence[Material]) -> list[Picture]:
    """Draw precision against recall, and F1 against the threshold, by output."""
    return [
        picture
        for output, counted in _by_output(materials).items()
        for picture in _of_thresholds(counted, output, materials[0].loss)
    ]


def _of_thresholds(counted: Counted, output: str, baseline: str) -> list[Picture]:
    of_all = {loss: score_counts.curve(_sum(c)) for loss, c in counted.items()}
    precision = {loss: f"{100 * c.average_precision:.2f}" for loss, c in of_all.items()}
    at_default = {loss: f"{100 * c.f1_at(THRESHOLD):.2f}" for loss, c in of_all.items()}
    key = (("mean", "all seeds"), ("seed", "each seed"), BASELINE_KEY)
    best = {
        loss: (c.f1.max(), c.thresholds[c.f1.argmax()]) for loss, c in of_all.items()
    }
    return [
        Picture(
            title=f"Precision and recall{output}",
            caption="Precision by recall on the test set, for all thresholds on the "
            "probability of a class; of single elements (words, texts), not of whole "
            "entities. AP: average precision (%).",
            key=key,
            panels=_curves(
                counted,
                baseline,
                recall_precision,
                ("Recall", "Precision"),
                "AP",
                precision,
            ),
            data=_table_of_seeds(
                f"Average precision (%) on the test set{output}",
                counted,
                precision,
                lambda one: 100 * score_counts.curve(one).average_precision,
            ),
        ),
        Picture(
            title=f"F1 by threshold{output}",
            caption="F1 of elements on the test set by the probability from which a "
            f"class is predicted. {THRESHOLD} is the default where there are two "
            "classes; with more, the most probable class is predicted. Choosing a "
            "threshold from this figure would be tuning on the test set.",
            key=(*key, ("rule", f"threshold {THRESHOLD}")),
            panels=_curves(
                counted,
                baseline,
                lambda curve: (curve.thresholds, curve.f1),
                ("Threshold", "F1"),
                f"at {THRESHOLD}:",
                at_default,
                rule=THRESHOLD,
            ),
            data=TextTable(
                caption=f"F1 (%) of elements by threshold{output}, all seeds",
                columns=("loss", f"at {THRESHOLD}", "at best", "best threshold"),
                rows=tuple(
                    (loss, at_default[loss], f"{100 * f1:.2f}", f"{threshold:.3f}")
                    for loss, (f1, threshold) in best.items()
                ),
            ),
        ),
    ]


def recall_precision(curve: ThresholdCurve) -> tuple[np.ndarray, np.ndarray]:
    """Return recall and precision by rising threshold, where anything is predicted."""
    found = curve.predicted > 0
    return curve.recall[found], curve.precision[found]


def _curves(
    counted: Counted,
    baseline: str,
    points: Callable[[ThresholdCurve], tuple[np.ndarray, np.ndarray]],
    labels: tuple[str, str],
    what: str,
    numbers: Mapping[str, str],
    rule: float | None = None,
) -> tuple[Panel, ...]:
    """Draw a panel per loss: a thin line per seed, the pooled one, the baseline's."""
    found = {loss: points(score_counts.curve(_sum(c))) for loss, c in counted.items()}
    panels = []
    for loss, by_seed in counted.items():
        note = _versus(what, numbers, loss, baseline)
        panel, axes = new_panel(loss, note, *labels, shares=True)
        if rule is not None:
            axes.axvline(rule, color=figures.RULE, linewidth=1.5, linestyle="--")
        for one in by_seed.values() if len(by_seed) > 1 else ():
            axes.plot(*points(score_counts.curve(one)), **SEED)
        if baseline in found and loss != baseline:
            axes.plot(*found[baseline], **BASELINE)
        axes.plot(*found[loss], **MEAN)
        panels.append(panel)
    return tuple(panels)


def calibration(materials: Sequence[Material]) -> list[Picture]:
    """Draw reliability diagrams, by output."""
    baseline, found = materials[0].loss, []
    for output, counted in _by_output(materials).items():
        pooled = {loss: _sum(counts) for loss, counts in counted.items()}
        diagrams = {loss: score_counts.reliability(one) for loss, one in pooled.items()}
        errors = {
            loss: f"{100 * score_counts.calibration_error(one):.2f}"
            for loss, one in pooled.items()
        }
        found.append(
            Picture(
                title=f"Calibration{output}",
                caption="Frequency of a class by its predicted probability, on the "
                "test set. Larger marks stand for more elements. ECE: expected "
                "calibration error (%) of elements predicted to be of a class.",
                key=(
                    ("dot", "this loss"),
                    ("square", "baseline"),
                    ("even", "perfectly calibrated"),
                ),
                panels=tuple(
                    _reliability(loss, diagrams, baseline, errors) for loss in diagrams
                ),
                data=_table_of_seeds(
                    f"Expected calibration error (%) on the test set{output}",
                    counted,
                    errors,
                    lambda one: 100 * score_counts.calibration_error(one),
                ),
            )
        )
    return found


def _reliability(
    loss: str,
    diagrams: Mapping[str, Reliability],
    baseline: str,
    errors: Mapping[str, str],
) -> Panel:
    note = _versus("ECE", errors, loss, baseline)
    panel, axes = new_panel(
        loss, note, "Predicted probability", "Frequency", shares=True
    )
    axes.plot((0, 1), (0, 1), **EVEN)
    both = [(baseline, BASELINE, "s"), (loss, MEAN, "o")][loss == baseline :]
    for name, line, marker in both:
        if name not in diagrams:
            continue
        bins = [one for one in diagrams[name].bins if one.count]
        x = [one.confidence for one in bins]
        y = [one.accuracy for one in bins]
        sizes = [(3 + 1.2 * np.log10(one.count)) ** 2 for one in bins]
        axes.plot(x, y, **line | {"linewidth": 1.25})
        face = figures.PAGE if marker == "s" else line["color"]
        axes.scatter(
            x,
            y,
            sizes,
            marker=marker,
            facecolor=face,
            edgecolor=line["color"],
            zorder=3,
            clip_on=False,
        )
    return panel


def _by_output(materials: Sequence[Material]) -> dict[str, Counted]:
    """Return counts by output and loss; a single output needs no name."""
    outputs = list(dict.fromkeys(name for m in materials for name in m.counts))
    return {
        f", {output}" if len(outputs) > 1 else "": {
            m.loss: m.counts[output] for m in materials if output in m.counts
        }
        for output in outputs
    }


def _sum(by_seed: Mapping[int, np.ndarray]) -> np.ndarray:
    return np.sum(list(by_seed.values()), axis=0)


def _table_of_seeds(
    caption: str,
    counted: Counted,
    of_all: Mapping[str, str],
    score: Callable[[np.ndarray], float],
) -> TextTable:
    """Return a table of a score: pooled over seeds, and for each seed."""
    seeds = sorted({seed for by_seed in counted.values() for seed in by_seed})
    rows = []
    for loss, by_seed in counted.items():
        each = (score(by_seed[s]) if s in by_seed else None for s in seeds)
        rows.append((loss, of_all[loss], *map(number, each)))
    columns = ("loss", "all seeds", *(f"seed {seed}" for seed in seeds))
    return TextTable(caption=caption, columns=columns, rows=tuple(rows))


def _versus(what: str, numbers: Mapping[str, str], loss: str, baseline: str) -> str:
    text = f"{what} {numbers[loss]}"
    return text if loss == baseline else f"{text} vs. {numbers.get(baseline, '-')}"
