"""Whether probabilities mean what they say: reliability diagrams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dicejax.comparison.report.chart import Axis, Line, Mark, Panel, joined
from dicejax.comparison.report.document import Figure
from dicejax.comparison.report.figures.counted import (
    SHARE,
    beside,
    by_output,
    table_of_seeds,
)
from dicejax.comparison.report.material import Material
from dicejax.metrics import score_counts


def calibration(materials: Sequence[Material]) -> list[Figure]:
    """Draw how often what is given a probability comes true."""
    baseline = materials[0].loss
    figures = []
    for output, counted in by_output(materials).items():
        summed = {
            loss: np.sum(list(by_seed.values()), axis=0)
            for loss, by_seed in counted.items()
        }
        errors = {
            loss: f"{100 * score_counts.calibration_error(number):.2f}"
            for loss, number in summed.items()
        }
        figures.append(
            Figure(
                title=f"Calibration{output}",
                caption="Across: the probability that is given to a class. Up: how "
                "often it is that class, on test. The larger a mark, the more "
                "elements. ECE: expected calibration error, "
                "15 bins, in percent; most elements are surely not of a class, which "
                "keeps it small.",
                key=(
                    ("loss", "this loss"),
                    ("baseline-mark", "the baseline"),
                    ("even", "perfectly calibrated"),
                ),
                panels=tuple(
                    _reliability(loss, summed, baseline, errors) for loss in summed
                ),
                numbers=table_of_seeds(
                    f"Expected calibration error on test{output}, in percent",
                    counted,
                    errors,
                    lambda number: 100 * score_counts.calibration_error(number),
                ),
            )
        )
    return figures


def _reliability(
    loss: str,
    summed: Mapping[str, np.ndarray],
    baseline: str,
    errors: Mapping[str, str],
) -> Panel:
    x, y = Axis(label="probability", **SHARE), Axis(label="comes true", **SHARE)
    lines, marks = [Line("even", ((0.0, 1.0), (1.0, 0.0)))], []
    shown = [(baseline, "baseline", "baseline")] if loss != baseline else []
    for name, line, mark in [*shown, (loss, "mean", "loss")]:
        if name not in summed:
            continue
        found = score_counts.reliability(summed[name])
        points = joined(x, y, [(p, share) for p, share, _ in found])
        lines.append(Line(line, points))
        for point, (p, share, n) in zip(points, found, strict=True):
            told = f"{name}: {p:.2f} comes true in {share:.2f} of {n:,}"
            marks.append(Mark(mark, point, told, 1.5 + 0.6 * float(np.log10(n))))
    told = beside("ECE", errors, loss, baseline)
    return Panel(name=loss, told=told, x=x, y=y, lines=tuple(lines), marks=tuple(marks))
