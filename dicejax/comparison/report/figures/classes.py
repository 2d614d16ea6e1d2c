"""Whether rare classes gain: the F1 of each class by its frequency."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from dicejax.comparison.report.chart import (
    Axis,
    Line,
    Mark,
    Panel,
    axis_for,
    decades,
    joined,
)
from dicejax.comparison.report.document import Figure, Table
from dicejax.comparison.report.material import Material


def by_class(materials: Sequence[Material]) -> list[Figure]:
    """Draw the F1 of each class against how often it occurs."""
    known = [m for m in materials if m.classes]
    if not known:
        return []
    baseline = materials[0]
    supports = {name: n for m in known for name, (n, _) in m.classes.items()}
    order = sorted(supports, key=lambda name: (-supports[name], name))
    x = decades(supports.values(), "times in test")
    shown = [_mean_f1(m, name) for m in known for name in m.classes]
    y = axis_for(shown, "F1", least=0.0, most=100.0)
    rows = tuple(
        (
            name,
            f"{supports[name]:,}",
            *(f"{_mean_f1(m, name):.2f}" if name in m.classes else "-" for m in known),
        )
        for name in order
    )
    return [
        Figure(
            title="F1 of each class by its frequency",
            caption="Across: how often a class occurs in test, on a log scale. Up: its "
            "F1 on test, in percent, mean over seeds. A line joins the two marks of a "
            "class.",
            key=(("loss", "this loss"), ("baseline-mark", "the baseline")),
            panels=tuple(_classes(m, baseline, x, y) for m in known),
            numbers=Table(
                caption="F1 of each class on test, mean over seeds, in percent",
                columns=("class", "times in test", *(m.loss for m in known)),
                rows=rows,
            ),
        )
    ]


def _classes(material: Material, baseline: Material, x: Axis, y: Axis) -> Panel:
    lines, marks, gained = [], [], 0
    beside = baseline.classes if material.loss != baseline.loss else {}
    for name, (support, _) in material.classes.items():
        ours = _mean_f1(material, name)
        (point,) = joined(x, y, [(support, ours)])
        told = f"{name}, {support:,} times: {material.loss} {ours:.2f}"
        if name in beside:
            theirs = _mean_f1(baseline, name)
            gained += ours > theirs
            told += f", {baseline.loss} {theirs:.2f}"
            (other,) = joined(x, y, [(support, theirs)])
            lines.append(Line("seed", (other, point)))
            marks.append(Mark("baseline", other, told))
        marks.append(Mark("loss", point, told))
    told = f"{gained} of {len(beside)} classes above {baseline.loss}" if beside else ""
    return Panel(
        name=material.loss, told=told, x=x, y=y, lines=tuple(lines), marks=tuple(marks)
    )


def _mean_f1(material: Material, name: str) -> float:
    return 100 * statistics.fmean(material.classes[name][1])
