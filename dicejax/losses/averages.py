"""Arguments that `loss` adds to formulas: arrays, class weights, excluded classes.

Those of arrays are documented by each loss, the others here.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from dicejax.losses.declaration import Average, Kind
from dicejax.losses.elements import log_probabilities, prepare, set_axes
from dicejax.losses.ranking import whole

_ADDED = {
    "class_weights": """
  class_weights: floats `[C]` that multiply the losses of classes, before any mean.""",
    "exclude_class": """
  exclude_class: class, or a tuple of them, left out: O for the F1 of tagging. The
    others keep their probabilities.""",
    "average": """
  average: "none"; "macro" for the mean over classes, with `absent="skip"` over those
    with gold in their set; "micro" for one set of all classes, in which an element
    occurs once for each. Without effect in the binary form.""",
}


def with_arrays(
    formula: Callable, kind: Kind, multi_label: bool | None = False
) -> Callable:
    """Give a formula of `Elements` the arguments that they are prepared from.

    `multi_label` is whether labels have the logits' shape: never if None, always if
    True, else where the caller says so.
    """

    def of_arrays(
        logits: Array,
        labels: Array,
        *state: Any,
        where: Array | None = None,
        axis: int | tuple[int, ...] | None = None,
        class_axis: int | None = -1,
        multi_label: bool = bool(multi_label),
        axis_name: str | tuple[str, ...] | None = None,
        **settings: Any,
    ) -> Array:
        layout = class_axis, multi_label, axis, axis_name
        elements = prepare(logits, labels, where, *layout)
        return formula(elements, *state, **settings)

    shared = {**inspect.signature(of_arrays).parameters}
    del shared["state"], shared["settings"]
    if kind != "set":
        del shared["axis"]
    if kind == "pointwise":
        del shared["axis_name"]
    if multi_label is not False:
        del shared["multi_label"]
    _, *others = inspect.signature(formula).parameters.values()
    # In the order of the documentation: arrays of the caller, layout, settings.
    front = [shared.pop("logits"), shared.pop("labels")]
    back = [shared.pop("axis_name")] if "axis_name" in shared else []
    required = [each for each in others if each.default is each.empty]
    optional = [each for each in others if each.default is not each.empty]
    _present(
        of_arrays, formula, [*front, *required, *shared.values(), *optional, *back]
    )
    return of_arrays


def _present(
    function: Callable, formula: Callable, parameters: list[inspect.Parameter]
) -> None:
    """Give a function the name and the documentation of a formula, and parameters."""
    functools.update_wrapper(function, formula)
    hints = {parameter.name: parameter.annotation for parameter in parameters}
    function.__annotations__ = formula.__annotations__ | hints
    function.__annotations__.pop("elements", None)
    signature = inspect.signature(formula).replace(parameters=parameters)
    vars(function)["__signature__"] = signature


def with_classes(formula: Callable, average: Average | None) -> Callable:
    """Add class_weights, exclude_class and an average of this default to a formula.

    With None it has a single value for all classes: only exclude_class is added. A
    formula that cannot take each class as a binary problem stays as it is.
    """
    signature = inspect.signature(formula)
    added = {"class_weights": None, "exclude_class": None, "average": average}
    if average is None:
        added = {"exclude_class": None}
    if taken := [name for name in added if name in signature.parameters]:
        raise TypeError(
            f"{formula.__name__} takes {taken[0]}, which `loss` adds to set losses; "
            "leave it to `loss`, or declare average=None"
        )

    def averaged(
        logits: Array,
        labels: Array,
        *,
        class_weights: Array | None = None,
        exclude_class: int | tuple[int, ...] | None = None,
        average: Average = "none",
        **settings: Any,
    ) -> Array:
        class_axis = settings.get("class_axis", -1)
        if class_axis is None:
            if exclude_class is not None:
                raise ValueError("exclude_class wants a class axis")
            return formula(logits, labels, **settings)
        remaining = _without(exclude_class, logits.shape[class_axis])
        if exclude_class is not None or average == "micro":
            logits, labels = _as_problems(logits, labels, settings)
            settings |= {"class_axis": -1, "multi_label": True}
            settings = {x: settings[x] for x in settings.keys() & signature.parameters}
        if exclude_class is not None:
            logits, labels = (whole(x, -1)[..., remaining] for x in (logits, labels))
        if average == "micro":
            if class_weights is not None or "class_axis" not in settings:
                wish = "no class_weights, and a class axis"
                raise ValueError(f"average is 'micro', but needs {wish}")
            return formula(logits, labels, **_as_one_set(settings, logits.shape))
        losses = formula(logits, labels, **settings)
        if average == "none" and class_weights is None:
            return losses

        axes = set_axes(settings.get("axis"), logits.ndim - 1)
        if losses.ndim != logits.ndim - len(axes):
            raise ValueError(
                "class_weights and average need a loss for each class, but with these "
                "settings there is a single value for all classes"
            )
        if class_weights is not None:
            losses = losses * class_weights[remaining]
        return losses if average == "none" else _macro(losses, logits, labels, settings)

    parameters = inspect.signature(averaged).parameters
    new = [parameters[name].replace(default=default) for name, default in added.items()]
    _present(averaged, formula, [*signature.parameters.values(), *new])
    description = "".join(map(_ADDED.__getitem__, added))
    text = inspect.getdoc(formula) or ""
    averaged.__doc__ = text.replace("\n\nReturns:", f"{description}\n\nReturns:")
    return averaged


def _without(exclude_class: int | tuple[int, ...] | None, classes: int) -> np.ndarray:
    """Return the numbers of the other classes."""
    excluded = exclude_class if isinstance(exclude_class, tuple) else (exclude_class,)
    excluded = tuple(number for number in excluded if number is not None)
    remaining = np.setdiff1d(np.arange(classes), np.array(excluded))
    if not all(0 <= number < classes for number in excluded) or not remaining.size:
        raise ValueError(
            f"exclude_class is {exclude_class} but there are {classes} classes, and "
            "at least 1 must remain"
        )
    return remaining


def _as_problems(
    logits: Array, labels: Array, settings: dict[str, Any]
) -> tuple[Array, Array]:
    """Return logits and labels of 0 and 1 of each class, which is the last axis.

    The classes of a softmax keep their probabilities.
    """
    class_axis, where = settings.get("class_axis", -1), settings.get("where")
    if settings.get("multi_label", True):
        logits, labels = (jnp.moveaxis(x, class_axis, -1) for x in (logits, labels))
        return logits, labels
    if settings.get("form") == "gold":
        raise ValueError("form='gold' has a single value for all classes")
    elements = prepare(logits, labels, where, class_axis)
    log_p, log_q = log_probabilities(elements)
    labels = elements.targets
    if elements.hard:  # a label below 0 is masked
        labels = jnp.where(elements.where[..., None], labels.astype(jnp.int32), -1)
    return log_p - log_q, labels


def _as_one_set(settings: dict[str, Any], shape: tuple[int, ...]) -> dict[str, Any]:
    """Return settings with the class axis as one more axis of the set."""
    where, axis, last = settings.get("where"), settings.get("axis"), len(shape) - 1
    if where is not None:
        settings = settings | {"where": jnp.broadcast_to(where[..., None], shape)}
    if axis is not None:
        settings = settings | {"axis": (*set_axes(axis, last), last)}
    return settings | {"class_axis": None}


def _macro(
    losses: Array, logits: Array, labels: Array, settings: dict[str, Any]
) -> Array:
    """Return the mean over classes, of which some may be skipped."""
    if settings.get("absent") != "skip":
        return jnp.mean(losses, axis=-1)
    layout: dict[str, Any] = {"where": None, "class_axis": -1, "multi_label": True}
    names = layout.keys() | {"axis", "axis_name"}
    layout |= {name: settings[name] for name in names & settings.keys()}
    elements = prepare(logits, labels, **layout)
    (actual,) = elements.total(elements.targets)
    return jnp.sum(losses, axis=-1) / jnp.maximum(jnp.sum(actual > 0, axis=-1), 1)
