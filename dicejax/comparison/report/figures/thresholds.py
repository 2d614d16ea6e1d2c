"""What other thresholds would give: precision, recall and F1 for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dicejax.comparison.report.chart import Axis, Line, Panel, Point, joined
from dicejax.comparison.report.document import Figure, Table
from dicejax.comparison.report.figures.counted import (
    BASELINE_KEY,
    SHARE,
    beside,
    by_output,
    table_of_seeds,
)
from dicejax.comparison.report.material import Material
from dicejax.metrics import score_counts

DEFAULT_THRESHOLD = 0.5


def thresholds(materials: Sequence[Material]) -> list[Figure]:
    """Draw precision against recall, and F1 against the threshold, by output."""
    return [
        figure
        for output, counted in by_output(materials).items()
        for figure in (
            _precision_recall(counted, output, materials[0].loss),
            _f1_by_threshold(counted, output, materials[0].loss),
        )
    ]


def _precision_recall(
    counted: Mapping[str, Mapping[int, np.ndarray]], output: str, baseline: str
) -> Figure:
    x, y = Axis(label="recall", **SHARE), Axis(label="precision", **SHARE)
    summed = {loss: summed_curve(by_seed) for loss, by_seed in counted.items()}
    precision = {loss: f"{100 * c.average_precision:.2f}" for loss, c in summed.items()}
    return Figure(
        title=f"Precision and recall{output}",
        caption="Across: recall. Up: precision, on test, for all thresholds on the "
        "probability of a class; of single elements (words, texts), not of whole "
        "entities. AP: average precision, in percent.",
        key=(("mean", "all seeds together"), ("seed", "each seed"), BASELINE_KEY),
        panels=_curves(counted, baseline, x, y, recall_precision, "AP", precision),
        numbers=table_of_seeds(
            f"Average precision on test{output}, in percent",
            counted,
            precision,
            lambda number: 100 * score_counts.curve(number).average_precision,
        ),
    )


def _f1_by_threshold(
    counted: Mapping[str, Mapping[int, np.ndarray]], output: str, baseline: str
) -> Figure:
    x, y = Axis(label="threshold", **SHARE), Axis(label="F1", **SHARE)
    summed = {loss: summed_curve(by_seed) for loss, by_seed in counted.items()}
    at_default = {loss: f"{100 * f1_at(c):.2f}" for loss, c in summed.items()}
    rows = []
    for loss, found in summed.items():
        best = int(found.f1.argmax())
        rows.append(
            (
                loss,
                at_default[loss],
                f"{100 * found.f1[best]:.2f}",
                f"{found.thresholds[best]:.3f}",
            )
        )
    return Figure(
        title=f"F1 by threshold{output}",
        caption="Across: an element counts as found where the probability of a class "
        f"is at least this. Up: F1 of elements on test. {DEFAULT_THRESHOLD} is the "
        "default where there are two classes; of more, the most probable is taken. A "
        "threshold chosen by this picture would be chosen on test.",
        key=(
            ("mean", "all seeds together"),
            ("seed", "each seed"),
            BASELINE_KEY,
            ("rule", f"threshold {DEFAULT_THRESHOLD}"),
        ),
        panels=_curves(
            counted,
            baseline,
            x,
            y,
            f1_thresholds,
            f"at {DEFAULT_THRESHOLD}",
            at_default,
            rules=(DEFAULT_THRESHOLD,),
        ),
        numbers=Table(
            caption=f"F1 of elements by threshold{output}, all seeds, in percent",
            columns=("loss", f"at {DEFAULT_THRESHOLD}", "at best", "best threshold"),
            rows=tuple(rows),
        ),
    )


def _curves(
    counted: Mapping[str, Mapping[int, np.ndarray]],
    baseline: str,
    x: Axis,
    y: Axis,
    points: Callable[[score_counts.Curve], list[Point]],
    what: str,
    told: Mapping[str, str],
    rules: tuple[float, ...] = (),
) -> tuple[Panel, ...]:
    """A panel for each loss: a thin line per seed, one of all, the baseline's."""
    placed = {
        loss: joined(x, y, points(summed_curve(by_seed)), thin=True)
        for loss, by_seed in counted.items()
    }
    panels = []
    for loss, by_seed in counted.items():
        lines = [
            Line("seed", joined(x, y, points(score_counts.curve(one)), thin=True))
            for one in by_seed.values()
            if len(by_seed) > 1
        ]
        if baseline in placed and loss != baseline:
            lines.append(Line("baseline", placed[baseline]))
        lines.append(Line("mean", placed[loss]))
        panels.append(
            Panel(
                name=loss,
                told=beside(what, told, loss, baseline),
                x=x,
                y=y,
                lines=tuple(lines),
                rules=tuple(x.place(rule) for rule in rules),
            )
        )
    return tuple(panels)


def summed_curve(by_seed: Mapping[int, np.ndarray]) -> score_counts.Curve:
    """Return the curve of all seeds' elements together."""
    return score_counts.curve(np.sum(list(by_seed.values()), axis=0))


def recall_precision(curve: score_counts.Curve) -> list[Point]:
    """Return pairs for all thresholds that find anything, from the lowest."""
    found = curve.predicted > 0
    pairs = zip(curve.recall[found], curve.precision[found], strict=True)
    return [(float(r), float(p)) for r, p in pairs]


def f1_thresholds(curve: score_counts.Curve) -> list[Point]:
    """Return pairs of a threshold and its F1."""
    pairs = zip(curve.thresholds, curve.f1, strict=True)
    return [(float(t), float(f1)) for t, f1 in pairs]


def f1_at(curve: score_counts.Curve, threshold: float = DEFAULT_THRESHOLD) -> float:
    """Return the F1 at a threshold: the first edge of a bin that is not below it."""
    place = int(np.searchsorted(curve.thresholds, threshold - 1e-12))
    return float(curve.f1[place])
