"""Losses and their slopes over probability, for any loss and hyper-parameters."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dicejax import losses
from dicejax.objectives import Objective
from dicejax.study import figures
from dicejax.tasks import Target

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Set losses are drawn for a set of one positive among negatives.
SIZE = 20
NEGATIVE_P = 0.1
POSITIVE_P = 0.5

P = "p of the gold class"
OF_POSITIVE = "p, that it is a positive"
SLOPE = "dL/dz, z the gold logit"
OWN_SLOPE = "dL/dz, z its logit"
OF_SET = {0: "the positive varies", 1: "one of the negatives varies"}

Value = Callable[[Array, Array], Array]
"""A loss of a logit, and of the index of the element that varies."""
Loss = functools.partial[Array]
LossCurve = tuple[str, Value]
"""The text in the legend, which begins with the name of the loss, and its value."""


def of_loss(
    name: str,
    setting: Callable[[Loss], Value],
    label: str = "",
    **hyperparameters: Any,
) -> LossCurve:
    """Return the curve of a loss of `dicejax.losses`."""
    value = setting(functools.partial(getattr(losses, name), **hyperparameters))
    return (f"{name}, {label}" if label else name), value


def of_objective(objective: Objective) -> LossCurve:
    """Return the curve of an objective, also a sum, over the set of `one_of_a_set`."""
    others, labels = _set()
    outputs = {leaf.output or "" for leaf in objective.terms()} - {""} or {"output"}
    counts = dict.fromkeys(outputs, np.array([SIZE - 1, 1]))
    target = Target("classes", has_negative=True)
    fitted = objective.bind(dict.fromkeys(sorted(outputs), target), counts)

    def value(z: Array, varied: Array) -> Array:
        logits = jnp.stack([jnp.zeros(SIZE), others.at[varied].set(z)], axis=-1)
        golds = dict.fromkeys(outputs, labels)
        return fitted(dict.fromkeys(outputs, logits), golds, fitted.initial_state())[0]

    return objective.short_name, value


def one_element(loss: Loss) -> Value:
    """One element, binary form, of label `varied`, by its gold logit."""

    def value(z: Array, varied: Array) -> Array:
        return loss((2 * varied - 1) * z, varied, class_axis=None)

    return value


def one_of_a_set(loss: Loss) -> Value:
    """A set whose element 0 is positive, by the logit of element `varied`.

    Losses per class give that of class 1, losses per element their mean.
    """
    others, labels = _set()

    def value(z: Array, varied: Array) -> Array:
        logits = others.at[varied].set(z)
        if "class_axis" in loss.keywords:
            return loss(logits, labels)
        result = loss(jnp.stack([jnp.zeros(SIZE), logits], axis=-1), labels)
        if loss.keywords.get("axis", None) == ():
            result = jnp.mean(result, axis=0)
        return result[1] if result.ndim else result

    return value


def evaluate(
    curve: LossCurve, p: np.ndarray, varied: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return values and slopes dL/dz, `[len(varied), len(p)]`, in one compilation."""
    _, value = curve
    of_points = jax.vmap(jax.value_and_grad(value), in_axes=(0, None))
    of_both = jax.jit(jax.vmap(of_points, in_axes=(None, 0)))
    values, slopes = of_both(logit(jnp.asarray(p, jnp.float32)), jnp.array(varied))
    return np.asarray(values), np.asarray(slopes)


def figure_one(alpha: float, points: int = 256) -> tuple[np.ndarray, np.ndarray]:
    r"""Return a line of the paper's Figure 1, computed through the loss itself.

    .. math:: \frac{d}{dp} \frac{f}{1 + f}, \qquad f = (1 - p)^\alpha p

    which is :math:`-\frac12 dL/dp` of `self_adjusting_dice` without smoothing.
    Positives are trained to the p at which it changes its sign: its `crossing`.

    Source: Li et al., ACL 2020, Figure 1 and eq. 11
    (https://arxiv.org/abs/1911.02855v1); the figure draws alpha 0 and 1.

    >>> round(crossing(*figure_one(1.0)), 3)
    0.5

    Returns:
      Probabilities p and the derivative at each, `[points]`.
    """
    # As the loss sees them: near 1 the rounding to float32 would be that of 1 - p.
    p = probabilities(points).astype(np.float32).astype(float)
    settings: Any = {"alpha": alpha, "smooth": 0.0, "axis": (), "squared": False}
    curve = of_loss("self_adjusting_dice", one_element, **settings)
    # L = 1 - 2f / (f + 1), so -dL/dp / 2 is the derivative of f / (1 + f).
    return p, -evaluate(curve, p, [1])[1][0] / (p * (1 - p)) / 2


def probabilities(points: int) -> np.ndarray:
    """Return p from nearly 0 to nearly 1, denser at both ends."""
    return (1 - np.cos(np.pi * (np.arange(points) + 0.5) / points)) / 2


def logit(p: Array) -> Array:
    """Return log(p / (1 - p))."""
    return jnp.log(p) - jnp.log1p(-p)


def crossing(x: np.ndarray, y: np.ndarray) -> float | None:
    """Return where a line first changes its sign, between two of its points."""
    changes = np.flatnonzero(y[:-1] * y[1:] < 0)
    if not changes.size:
        return None
    left = changes[0]
    share = y[left] / (y[left] - y[left + 1])
    return float(x[left] + share * (x[left + 1] - x[left]))


def lowest(x: np.ndarray, slopes: np.ndarray) -> float | None:
    """Return where a line with these slopes is first lowest, between its ends."""
    noise = 1e-6 * np.abs(slopes).max()  # changes of sign by rounding
    minima = np.flatnonzero((slopes[:-1] < -noise) & (slopes[1:] > noise))
    if not minima.size:
        return None
    around = slice(minima[0], minima[0] + 2)
    return crossing(x[around], slopes[around])


def _set() -> tuple[Array, Array]:
    """Return logits and labels of a set whose element 0 is positive."""
    p = jnp.full(SIZE, NEGATIVE_P).at[0].set(POSITIVE_P)
    return logit(p), jnp.zeros(SIZE, int).at[0].set(1)


def draw_losses(
    curves: Sequence[LossCurve],
    *,
    varied: Mapping[int, str] = OF_SET,
    x: str = OF_POSITIVE,
    loss: str = "L",
    slope: str = OWN_SLOPE,
    top: float | None = None,
    points: int = 128,
    mark_best: bool = True,
    has_reference: bool = False,
) -> Figure:
    """Draw losses left and their slopes right, with a dot at each minimum.

    Draw, and save the figure, within `dicejax.study.figures.look()`.

    Args:
      curves: curves from `of_loss` and `of_objective`.
      varied: index of the element that varies in each row, and title of the row.
      x: label of the x axes.
      loss: label of the y axes of losses.
      slope: label of the y axes of slopes.
      top: upper end of the losses' axes; None to show all.
      points: number of points of each line.
      mark_best: whether minima have a dot.
      has_reference: whether the first curve is drawn thin and grey.
    """
    figure, panels = figures.panels(len(varied), 2)
    sides = list(zip(panels[::2], panels[1::2], strict=True))
    p = probabilities(points)
    for index, curve in enumerate(curves, start=-int(has_reference)):
        look = figures.REFERENCE if index < 0 else figures.style(index)
        of_rows = zip(sides, *evaluate(curve, p, list(varied)), strict=True)
        for (left, right), values, slopes in of_rows:
            left.plot(p, values, **look, label=curve[0])
            right.plot(p, slopes, **look)
            best = lowest(p, slopes) if mark_best else None
            if best is not None:
                mark(left, best, np.interp(best, p, values), look["color"])
                mark(right, best, 0, look["color"])
    for title, (left, right) in zip(varied.values(), sides, strict=True):
        before = f"{title}: " if title else ""
        left.set(title=f"{before}loss", xlabel=x, ylabel=loss)
        right.set(title=f"{before}slope", xlabel=x, ylabel=slope)
        if top is not None:
            left.set_ylim(-top / 40, top)
    figures.legend(figure, panels[0])
    return figure


def draw_figure_one(
    axes: Axes, alphas: Mapping[float, int] = {0.0: 0, 1.0: 1}, points: int = 128
) -> None:
    """Draw the paper's Figure 1 into axes, p* marked, with a style for each alpha."""
    for alpha, index in alphas.items():
        look, line = figures.style(index), figure_one(alpha, points)
        axes.plot(*line, **look, label=f"alpha={alpha:g}")
        if (best := crossing(*line)) is not None:
            mark(axes, best, 0, look["color"])
    axes.axhline(0, **figures.REFERENCE)
    axes.set(
        title="positive: the paper's Figure 1 (smooth=0)",
        xlabel=P,
        ylabel="d/dp of f / (1 + f) = -½ dL/dp",
    )


def mark(axes: Axes, x: float, y: float, color: str) -> None:
    """Draw the dot of an optimum."""
    axes.plot(x, y, marker="o", color=color, markersize=5)
