"""A loss and its slope over probability, for any loss and any hyper-parameters."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dicejax import losses
from dicejax.objectives import Objective

# The set that is shown for set losses: one positive among negatives.
SIZE = 20
NEGATIVE_P = 0.1
POSITIVE_P = 0.5

Value = Callable[[Array, Array], Array]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Curve:
    """A loss as a function of one logit.

    Attributes:
      name: of the loss.
      value: the loss as a function of a logit and of what varies, an integer.
      label: what a legend says.
      reference: whether it is there for comparison only, thin and grey.
    """

    name: str
    value: Value
    label: str
    reference: bool = False


def of_loss(
    name: str,
    setting: Callable[[Callable], Value],
    label: str = "",
    reference: bool = False,
    **hyperparameters,
) -> Curve:
    """Return the curve of a loss of `dicejax.losses`.

    Args:
      name: of the function.
      setting: among what it stands, such as `one_element` or `one_of_a_set`.
      label: what a legend says behind the name.
      reference: whether it is there for comparison only.
      **hyperparameters: of the loss.
    """
    function = functools.partial(getattr(losses, name), **hyperparameters)
    text = f"{name}, {label}" if label else name
    return Curve(name=name, value=setting(function), label=text, reference=reference)


def of_objective(objective: Objective, *, size: int = SIZE, label: str = "") -> Curve:
    """Return the curve of an objective over a set; sums and schedules' starts too.

    The set is that of `one_of_a_set`: element 0 is positive, and `varied` says which
    element's logit varies. The value is the objective's own, such as a mean over all.

    Args:
      objective: as an experiment has it.
      size: elements of the set.
      label: what a legend says; the objective's short name unless given.
    """
    labels = jnp.zeros(size, int).at[0].set(1)
    others = _others(size)
    outputs = {leaf.output for leaf in objective.terms()} - {None} or {"shown"}
    fitted = objective.bind_outputs(sorted(outputs)).with_class_counts(
        dict.fromkeys(outputs, np.array([size - 1, 1]))
    )

    def value(z: Array, varied: Array) -> Array:
        logits = jnp.stack([jnp.zeros(size), others.at[varied].set(z)], axis=-1)
        inputs = dict.fromkeys(outputs, logits), dict.fromkeys(outputs, labels)
        return fitted(*inputs, fitted.initial_state())[0]

    name = objective.short_name
    return Curve(name=name, value=value, label=label or name)


def one_element(loss: Callable) -> Value:
    """One element, binary form, of label `varied`, by its gold logit."""

    def value(z: Array, varied: Array) -> Array:
        return loss((2 * varied - 1) * z, varied, class_axis=None)

    return value


def one_of_a_set(loss: functools.partial) -> Value:
    """A set whose element 0 is positive, by the logit of element `varied`.

    A loss per class tells that of class 1; one per element, their mean.
    """
    labels = jnp.zeros(SIZE, int).at[0].set(1)
    others = _others(SIZE)

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
    curve: Curve, p: np.ndarray, varied: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return values and slopes dL/dz, `[len(varied), len(p)]`, in one compilation."""
    of_points = jax.vmap(jax.value_and_grad(curve.value), in_axes=(0, None))
    of_both = jax.jit(jax.vmap(of_points, in_axes=(None, 0)))
    values, slopes = of_both(logit(jnp.asarray(p, jnp.float32)), jnp.array(varied))
    return np.asarray(values), np.asarray(slopes)


@dataclasses.dataclass(frozen=True)
class FigureOne:
    r"""A line of the paper's Figure 1, computed through the loss itself.

    .. math:: \frac{d}{dp} \frac{f}{1 + f}, \qquad f = (1 - p)^\alpha p

    which is :math:`-\frac12 dL/dp` of `self_adjusting_dice` without smoothing.

    Source: Li et al., ACL 2020, Figure 1 and eq. 11
    (https://aclanthology.org/2020.acl-main.45); the figure draws alpha 0 and 1.

    Attributes:
      alpha: exponent of the factor.
      p: where, `[n]`.
      derivative: there, `[n]`.
      best_p: p*, where it changes its sign: positives are trained towards it. None
        where it does not.

    >>> figure = figure_one(1.0)
    >>> round(figure.best_p, 3)
    0.5
    """

    alpha: float
    p: np.ndarray
    derivative: np.ndarray
    best_p: float | None


def figure_one(alpha: float, points: int = 256) -> FigureOne:
    """Return the line of the paper's Figure 1 for an alpha."""
    # As the loss sees them: near 1 the rounding to float32 would be that of 1 - p.
    p = probabilities(points).astype(np.float32).astype(float)
    curve = of_loss("self_adjusting_dice", one_element, alpha=alpha, smooth=0.0)
    # L = 1 - 2f / (f + 1), so -dL/dp / 2 is the derivative of f / (1 + f).
    derivative = -evaluate(curve, p, [1])[1][0] / (p * (1 - p)) / 2
    return FigureOne(alpha, p, derivative, crossing(p, derivative))


def probabilities(points: int) -> np.ndarray:
    """Return p from nearly 0 to nearly 1, denser at both ends."""
    return (1 - np.cos(np.pi * (np.arange(points) + 0.5) / points)) / 2


def logit(p: Array) -> Array:
    """Return log(p / (1 - p))."""
    return jnp.log(p) - jnp.log1p(-p)


def crossing(x: np.ndarray, y: np.ndarray) -> float | None:
    """Return where a line first changes its sign, between two of its points."""
    places = np.flatnonzero(y[:-1] * y[1:] < 0)
    if not places.size:
        return None
    one = places[0]
    share = y[one] / (y[one] - y[one + 1])
    return float(x[one] + share * (x[one + 1] - x[one]))


def lowest(x: np.ndarray, slopes: np.ndarray) -> float | None:
    """Return where a line with these slopes is first lowest, between its ends.

    Slopes that are nothing but rounding change their sign for no reason.

    >>> lowest(np.array([0.0, 1.0, 2.0]), np.array([-1.0, 3.0, 5.0]))
    0.25
    """
    noise = 1e-6 * np.abs(slopes).max()
    places = np.flatnonzero((slopes[:-1] < -noise) & (slopes[1:] > noise))
    if not places.size:
        return None
    here = slice(places[0], places[0] + 2)
    return crossing(x[here], slopes[here])


def _others(size: int) -> Array:
    return logit(jnp.full(size, NEGATIVE_P).at[0].set(POSITIVE_P))
