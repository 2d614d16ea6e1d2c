"""What happens while a loss trains: the dev score and the loss itself, by step."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from dicejax.comparison.report.chart import (
    Axis,
    Line,
    Panel,
    Point,
    axis_for,
    band,
    joined,
)
from dicejax.comparison.report.document import Figure, Table
from dicejax.comparison.report.figures.counted import BASELINE_KEY
from dicejax.comparison.report.material import Curve, Material
from dicejax.metrics.scores import heading


def learning(materials: Sequence[Material], primary_metric: str) -> list[Figure]:
    """Draw the dev score and the training loss by step."""
    score = heading(primary_metric)
    of_dev = {m.loss: _percent(m.dev) for m in materials if any(m.dev.values())}
    of_loss = {m.loss: m.training for m in materials if any(m.training.values())}
    baseline = materials[0].loss
    figures = []
    if of_dev:
        values = [y for by_seed in of_dev.values() for y in _numbers(by_seed)]
        y = axis_for(values, f"dev {score}", least=0.0, most=100.0)
        figures.append(
            Figure(
                title=f"{score} on dev while training",
                caption=f"Across: updates. Up: {score} on the dev split, in percent.",
                key=(("mean", "mean over seeds"), ("band", "± one sd"), BASELINE_KEY),
                panels=tuple(
                    _learning(loss, of_dev, y, beside=baseline) for loss in of_dev
                ),
                numbers=_learning_table(of_dev, f"dev {score}", "best"),
            )
        )
    if of_loss:
        figures.append(
            Figure(
                title="Training loss",
                caption="Across: updates. Up: the loss that is minimised; each has a "
                "scale of its own, so their heights cannot be compared.",
                key=(("mean", "mean over seeds"), ("band", "± one sd")),
                panels=tuple(
                    _learning(loss, of_loss, axis_for(_numbers(by_seed), "loss"))
                    for loss, by_seed in of_loss.items()
                ),
                numbers=_learning_table(of_loss, "loss", "lowest"),
            )
        )
    return figures


def _learning(
    loss: str,
    curves: Mapping[str, Mapping[int, Curve]],
    y: Axis,
    beside: str | None = None,
) -> Panel:
    steps = [
        step for seeds in curves.values() for one in seeds.values() for step, _ in one
    ]
    x = axis_for([0, *steps], "updates", wanted=2)
    mean, low, high = mean_and_band(curves[loss])
    lines = [Line("band", band(x, y, low, high))]
    if beside in curves and beside != loss:
        of_baseline, *_ = mean_and_band(curves[beside])
        lines.append(Line("baseline", joined(x, y, of_baseline)))
    lines.append(Line("mean", joined(x, y, mean)))
    told = f"at the end {mean[-1][1]:.4g}"
    return Panel(name=loss, told=told, x=x, y=y, lines=tuple(lines))


def mean_and_band(
    by_seed: Mapping[int, Curve],
) -> tuple[list[Point], list[Point], list[Point]]:
    """Return mean, mean - sd and mean + sd at each step that a seed has."""
    at: dict[int, list[float]] = {}
    for curve in by_seed.values():
        for step, value in curve:
            at.setdefault(step, []).append(value)
    found: tuple[list[Point], list[Point], list[Point]] = ([], [], [])
    for step, values in sorted(at.items()):
        mean = statistics.fmean(values)
        sd = statistics.stdev(values) if len(values) > 1 else 0.0
        for points, value in zip(found, (mean, mean - sd, mean + sd), strict=True):
            points.append((step, value))
    return found


def _learning_table(
    curves: Mapping[str, Mapping[int, Curve]], what: str, extreme: str
) -> Table:
    rows = []
    for loss, by_seed in curves.items():
        mean, *_ = mean_and_band(by_seed)
        values = [value for _, value in mean]
        best = max(values) if extreme == "best" else min(values)
        rows.append(
            (
                loss,
                f"{values[0]:.4g}",
                f"{best:.4g}",
                f"{values[-1]:.4g}",
                str(mean[-1][0]),
            )
        )
    columns = ("loss", "first", extreme, "last", "updates")
    return Table(caption=f"{what}, mean over seeds", columns=columns, rows=tuple(rows))


def _percent(by_seed: Mapping[int, Curve]) -> dict[int, Curve]:
    return {
        seed: tuple((step, 100 * value) for step, value in curve)
        for seed, curve in by_seed.items()
    }


def _numbers(by_seed: Mapping[int, Curve]) -> list[float]:
    """What a panel must hold: the mean and its band."""
    return [value for points in mean_and_band(by_seed) for _, value in points]
