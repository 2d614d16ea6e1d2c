"""Draws losses and their slopes over probability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dicejax.analysis import figures
from dicejax.analysis.gradients.curves import (
    Curve,
    evaluate,
    figure_one,
    lowest,
    probabilities,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

P = "p of the gold class"
OF_POSITIVE = "p, that it is a positive"
SLOPE = "dL/dz, z the gold logit"
OWN_SLOPE = "dL/dz, z its logit"
OF_ELEMENT: Mapping[int, str] = {1: ""}
OF_SET: Mapping[int, str] = {
    0: "the positive varies",
    1: "one of the negatives varies",
}


def draw_losses(
    curves: Sequence[Curve],
    *,
    varied: Mapping[int, str] = OF_SET,
    x: str = OF_POSITIVE,
    slope: str = OWN_SLOPE,
    top: float | None = None,
    points: int = 128,
) -> Figure:
    """Draw losses left and their slopes right, with a dot where one is lowest.

    Call it, and save what it returns, within `dicejax.analysis.figures.look()`.

    Args:
      curves: as `curves.of_loss` and `curves.of_objective` make them.
      varied: what varies in each row, and its title.
      x: what stands below.
      slope: what stands beside the slopes.
      top: end of the losses' axes; None for all of them.
      points: values of each line.
    """
    figure, panels = figures.panels(len(varied), 2)
    draw_rows(panels, curves, points, varied, mark_best=True)
    describe(panels, x=x, loss="L", slope=slope, top=top)
    figures.legend(figure, panels[0])
    return figure


def draw_figure_one(
    axes: Axes,
    alphas: Mapping[float, int] | Sequence[float] = (0.0, 1.0),
    points: int = 128,
) -> None:
    """Draw the paper's Figure 1 into axes, p* marked.

    Args:
      axes: of any figure.
      alphas: exponents of the factor, and the number of each line's style.
      points: values of each line.
    """
    if not isinstance(alphas, Mapping):
        alphas = {alpha: index for index, alpha in enumerate(alphas)}
    for alpha, index in alphas.items():
        look, found = figures.style(index), figure_one(alpha, points)
        axes.plot(found.p, found.derivative, **look, label=f"alpha={alpha:g}")
        if found.best_p is not None:
            mark(axes, found.best_p, 0, look["color"])
    axes.axhline(0, **figures.REFERENCE)
    axes.set(
        title="positive: the paper's Figure 1 (smooth=0)",
        xlabel=P,
        ylabel="d/dp of f / (1 + f) = -½ dL/dp",
    )


def draw_rows(
    panels: Sequence[Axes],
    curves: Sequence[Curve],
    points: int,
    titles: Mapping[int, str],
    *,
    mark_best: bool = False,
) -> None:
    """Draw a row, loss and slope, for each thing that varies."""
    p = probabilities(points)
    index = 0
    for one in curves:
        look = figures.REFERENCE if one.reference else figures.style(index)
        index += not one.reference
        values, slopes = evaluate(one, p, list(titles))
        for row in range(len(titles)):
            loss, slope = panels[2 * row : 2 * row + 2]
            loss.plot(p, values[row], **look, label=one.label)
            slope.plot(p, slopes[row], **look)
            best = lowest(p, slopes[row]) if mark_best else None
            if best is not None:
                mark(loss, best, np.interp(best, p, values[row]), look["color"])
                mark(slope, best, 0, look["color"])
    for row, title in enumerate(titles.values()):
        before = f"{title}: " if title else ""
        panels[2 * row].set_title(f"{before}loss")
        panels[2 * row + 1].set_title(f"{before}slope")


def describe(
    panels: Sequence[Axes], x: str, loss: str, slope: str, top: float | None = None
) -> None:
    """Label the axes of rows of loss and slope."""
    for axes in panels:
        axes.set_xlabel(x)
    for axes in panels[::2]:
        axes.set_ylabel(loss)
        if top is not None:
            axes.set_ylim(-top / 40, top)
    for axes in panels[1::2]:
        axes.set_ylabel(slope)


def mark(axes: Axes, x: float, y: float, color: str) -> None:
    """Draw the dot of an optimum."""
    axes.plot(x, y, marker="o", color=color, markersize=5)
