"""The contract of losses: checked inputs, one jit, one registry.

`loss` turns a formula into a public loss and registers it. The formula sees checked
arrays; `elements.prepare` masks and lines them up.
"""

import difflib
import functools
import inspect
import typing
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from dicejax.losses.declaration import (
    ANY,
    LOSS_WEIGHTS,
    Bounds,
    Declaration,
    Kind,
    check_choice,
    register,
)
from dicejax.losses.elements import form_of

P = ParamSpec("P")
R = TypeVar("R")

MASKED_LABEL = -100

# Soft labels may leave [0, 1] by the rounding of a float16 or bfloat16 producer.
_SOFT_LABEL_SLACK = 1e-2


def loss(
    short_name: str | None = None,
    *,
    kind: Kind,
    class_name: str | None = None,
    multi_label: bool = False,
    initial_state: Callable[..., Any] | None = None,
    **bounds: Bounds,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare a loss: make it public, and register it for experiments.

    The signature stays as it is written. A set loss that takes `exclude_class`,
    `class_weights` or `average` is one that experiments can ask for these.

    Floats and keywords with bounds are hyper-parameters: checked here if their value is
    known, cast to the type of the computation and traced, so that a new value compiles
    nothing. Other keywords are static: axes and choices, of which those of a `Literal`
    are checked. Masks like `where` are arrays.

    Args:
      short_name: the name on the command line; the function's if None.
      kind: how an objective reduces it. "pointwise" and "batch": by the mean over
        elements, where in a "batch" loss they depend on each other; "set": by the mean
        over classes and sets, whose `axis` the experiment's `over` names; "stateful":
        as "batch", with state in and out.
      class_name: the name of its objective; the function's in CamelCase if None.
      multi_label: whether labels have the logits' shape if there is a class axis; else
        the caller's `multi_label` decides, if the formula takes it.
      initial_state: returns the state before the first call of a "stateful" loss.
      **bounds: the interval of every hyper-parameter, by its name, with the range that
        tuning draws from.

    Returns:
      A decorator that keeps a function's type; the result's attribute `jitted` is the
      compiled function behind the checks.

    Raises:
      ValueError, TypeError: what is declared does not fit.
    """

    def decorate(formula: Callable[P, R]) -> Callable[P, R]:
        name, takes = formula.__name__, inspect.signature(formula).parameters
        limits = bounds
        if kind == "set" and "class_weights" in takes:
            limits = {"class_weights": LOSS_WEIGHTS} | bounds
        check = functools.partial(check_inputs, multi_label=multi_label)
        function = jit_checked(check, **limits)(formula)
        declaration = Declaration(
            short_name=short_name or name,
            class_name=class_name or "".join(map(str.capitalize, name.split("_"))),
            kind=kind,
            function=function,
            takes=frozenset(takes),
            bounds=limits,
            multi_label=multi_label,
            initial_state=initial_state,
        )
        register(declaration)
        vars(function)["declaration"] = declaration
        return function

    return decorate


def check_inputs(
    arguments: dict[str, Any], bounds: dict[str, Bounds], *, multi_label: bool = False
) -> None:
    """Check the arguments of a formula `(logits, labels, *, ...)`."""
    logits, labels = arguments["logits"], arguments["labels"]
    where, class_axis = arguments.get("where"), arguments.get("class_axis", -1)
    form = form_of(class_axis, arguments.get("multi_label", multi_label))
    _check_arrays(logits, labels, where, class_axis, form)
    _check_label_values(logits, labels, where, class_axis, form)
    check_hyperparameters(arguments, bounds, logits, form)


def check_counts(arguments: dict[str, Any], bounds: dict[str, Bounds]) -> None:
    """Check and cast the arguments of a formula `(counts, *, ...)`."""
    leaves, structure = jax.tree.flatten(arguments["counts"])
    shapes = [jnp.shape(leaf) for leaf in leaves]
    if len(set(shapes)) > 1:
        raise ValueError(f"counts has arrays of different shapes: {shapes}")
    dtype = jnp.result_type(*leaves, jnp.float32)
    leaves = [jnp.asarray(leaf, dtype) for leaf in leaves]
    arguments["counts"] = jax.tree.unflatten(structure, leaves)
    check_hyperparameters(arguments, bounds, leaves[0])


def jit_checked(
    check: Callable[[dict[str, Any], dict[str, Bounds]], None], **declared: Bounds
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile a formula behind a check, which gets its arguments and their bounds.

    Floats have bounds, if only to be cast; the check may change arguments in place.
    """

    def decorate(formula: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(formula)
        hints = typing.get_type_hints(formula)
        bounds, static = {}, []
        for name, parameter in signature.parameters.items():
            hint = hints.get(name, type(parameter.default))
            if name in declared:
                bounds[name] = declared[name]
            elif float in (hint, *typing.get_args(hint)):
                bounds[name] = ANY
            elif parameter.kind is parameter.KEYWORD_ONLY and name != "where":
                static.append(name)
        jitted = jax.jit(formula, static_argnames=static)
        choices = {
            name: typing.get_args(hint)
            for name, hint in hints.items()
            if typing.get_origin(hint) is typing.Literal
        }

        @functools.wraps(formula)
        def public(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{formula.__name__}: {error}{_hint(kwargs)}") from None
            bound.apply_defaults()
            check(bound.arguments, bounds)
            for name, values in choices.items():
                check_choice(name, bound.arguments[name], values)
            return jitted(*bound.args, **bound.kwargs)

        def _hint(keywords: Iterable[str]) -> str:
            for name in set(keywords) - signature.parameters.keys():
                if name in ("reduction", "reduce"):
                    return "; losses are not reduced: take .mean()"
                close = difflib.get_close_matches(name, signature.parameters, n=1)
                return f"; did you mean {close[0]}?" if close else ""
            return ""

        vars(public)["jitted"] = jitted
        return public

    return decorate


def check_bounds(name: str, value: Any, bounds: Bounds) -> None:
    """Raise a ValueError if a known value, or one in an array, is out of bounds."""
    concrete = concrete_or_none(value)
    if concrete is None:
        return
    bad = concrete[~np.asarray(bounds.holds(concrete))]
    if bad.size:
        raise ValueError(f"{name} is {bad[0]} but must be in {bounds}")


def check_hyperparameters(
    arguments: dict[str, Any], bounds: dict[str, Bounds], array: Any, form: str = ""
) -> None:
    """Check and cast, in place, the arguments that have bounds.

    They get the type that the array is computed in; those of each class have the shape
    that its form needs.
    """
    dtype = jnp.result_type(array, jnp.float32)
    for name, limits in bounds.items():
        value = arguments.get(name)
        if value is None:
            continue
        shape: tuple[int, ...] = () if limits.shape == "scalar" else (2,)
        if limits.shape == "loss" and form == "binary":
            raise ValueError(f"{name} wants a class axis")
        if limits.shape != "scalar" and form != "binary":
            classes = jnp.shape(array)[arguments.get("class_axis", -1)]
            by_label = limits.shape == "class" and form == "multi_label"
            shape = (classes, 2) if by_label else (classes,)
        if np.shape(value) != shape:
            raise ValueError(f"{name} has shape {np.shape(value)}, not {shape}")
        check_bounds(name, value, limits)
        # A number of Python only: an array of another value must compile nothing.
        is_off = isinstance(value, int | float) and value == limits.off
        arguments[name] = None if is_off else jnp.asarray(value, dtype)


def _check_arrays(
    logits: Any, labels: Any, where: Any, class_axis: int | None, form: str
) -> None:
    for name, array in {"logits": logits, "labels": labels, "where": where}.items():
        if isinstance(array, list | tuple):
            raise ValueError(f"{name} is a {type(array).__name__}, not an array")
    shape, label_shape = jnp.shape(logits), jnp.shape(labels)
    label_dtype = jnp.result_type(labels)
    if not jnp.issubdtype(jnp.result_type(logits), jnp.floating):
        raise ValueError(f"logits has dtype {jnp.result_type(logits)}, not a float")

    soft = jnp.issubdtype(label_dtype, jnp.floating)
    elements_shape = shape
    if class_axis is not None:
        if not -len(shape) <= class_axis < len(shape):
            raise ValueError(f"class_axis is {class_axis} but logits has shape {shape}")
        axis = class_axis % len(shape)
        if shape[axis] == 0:
            raise ValueError(f"logits has shape {shape}: no classes on axis {axis}")
        elements_shape = shape[:axis] + shape[axis + 1 :]
    fitting = elements_shape if form == "softmax" and not soft else shape

    integer = jnp.issubdtype(label_dtype, jnp.integer)
    if not (soft or integer or (form != "softmax" and label_dtype == np.bool_)):
        raise ValueError(f"labels has dtype {label_dtype}, not integer or float")
    if label_shape != fitting:
        kind = " for float labels" if soft else ""
        kind = " in the multi-label form" if form == "multi_label" else kind
        if integer and form == "softmax" and label_shape == shape:
            kind = (
                "; one-hot labels are floats; for several labels set multi_label=True"
            )
        raise ValueError(
            f"labels has shape {label_shape} but logits {shape} wants {fitting}{kind}"
        )
    if where is not None:
        check_mask(where, elements_shape, f"logits {shape}")


def check_mask(where: Any, shape: tuple[int, ...], array: str) -> None:
    """Raise a ValueError unless `where` is bool of a shape, that of `array`."""
    if jnp.result_type(where) != np.bool_:
        raise ValueError(f"where has dtype {jnp.result_type(where)}, not bool")
    if jnp.shape(where) != shape:
        raise ValueError(
            f"where has shape {jnp.shape(where)} but {array} wants {shape}"
        )


def _check_label_values(
    logits: Any, labels: Any, where: Any, class_axis: int | None, form: str
) -> None:
    labels = concrete_or_none(labels)
    where = concrete_or_none(True if where is None else where)
    if labels is None or where is None or labels.dtype == bool:
        return
    if class_axis is not None and 0 < where.ndim < labels.ndim:
        where = np.expand_dims(where, class_axis)
    if jnp.issubdtype(labels.dtype, jnp.integer):
        classes = 2
        if class_axis is not None and form == "softmax":
            classes = jnp.shape(logits)[class_axis]
        inside = (labels >= 0) & (labels < classes) | (labels == MASKED_LABEL)
        rule = f"{classes} classes want 0 to {classes - 1}, or -100 for masked"
    else:
        # Written so that a NaN is outside.
        inside = np.abs(labels.astype(np.float32) - 0.5) <= 0.5 + _SOFT_LABEL_SLACK
        rule = "probabilities want 0 to 1"
    outside = where & ~inside
    if outside.any():
        raise ValueError(f"labels has value {labels[outside][0]} but {rule}")


def concrete_or_none(value: Any) -> np.ndarray | None:
    """Return `value` on the host, or None if it is traced or on other hosts."""
    if isinstance(value, Tracer):
        return None
    if isinstance(value, jax.Array) and not value.is_fully_addressable:
        return None
    return np.asarray(jax.device_get(value))
