"""What every loss promises: checked inputs, masks first, one jit.

`loss` and `counts_loss` turn a formula into a public function; `prepare` gives the
formula its inputs: upcast, class axis last, masked places already replaced.
"""

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

MASKED_LABEL = -100

# Soft labels may leave [0, 1] by the rounding of a float16 or bfloat16 producer.
_SOFT_LABEL_SLACK = 1e-2


class Bounds(NamedTuple):
    """The closed interval in which a hyper-parameter must lie."""

    low: float
    high: float
    per_class: bool = False  # an array [C] instead of a scalar


NON_NEGATIVE = Bounds(0.0, math.inf)
UNIT_INTERVAL = Bounds(0.0, 1.0)
CLASS_WEIGHTS = Bounds(0.0, math.inf, per_class=True)


class Elements(NamedTuple):
    """What a formula computes with.

    Attributes:
        logits: float32 or float64, `[..., C]`, or `[...]` in the binary form. Finite
            zeros where masked.
        targets: probabilities of the same shape and type; zeros where masked.
        where: bool `[...]`, False where masked by the caller or by a label of -100.
        binary: whether there is no class axis.
    """

    logits: Array
    targets: Array
    where: Array
    binary: bool

    def mask(self, values: Array) -> Array:
        """Returns `values` (`[...]` or `[..., C]`) with exact zeros where masked."""
        where = self.where
        if values.ndim > where.ndim:
            where = where[..., None]
        return jnp.where(where, values, 0)


def loss(**bounds: Bounds) -> Callable[[Callable], Callable]:
    """Makes a public loss of a formula `(logits, labels, *, where, ...)`.

    Keywords with bounds are hyper-parameters: checked here if their value is known,
    cast to the type of the computation and traced, so that a new value compiles
    nothing. All other keywords except `where` are static: axes and choices.

    Args:
        **bounds: the interval of every hyper-parameter, by its name.

    Returns:
        A decorator. The decorated function keeps its signature and docstring; its
        attribute `jitted` is the compiled function behind the checks.
    """

    def decorate(formula: Callable) -> Callable:
        jitted = jax.jit(formula, static_argnames=_static_names(formula, bounds))

        @functools.wraps(formula)
        def checked(logits, labels, *, where=None, **settings):
            class_axis = settings.get("class_axis", -1)
            _check_arrays(logits, labels, where, class_axis)
            _check_label_values(logits, labels, where, class_axis)
            shape, dtype = jnp.shape(logits), compute_dtype(jnp.result_type(logits))
            classes = 2 if class_axis is None else shape[class_axis]
            settings = _check_hyperparameters(settings, bounds, dtype, classes)
            return jitted(logits, labels, where=where, **settings)

        checked.jitted = jitted
        return checked

    return decorate


def counts_loss(**bounds: Bounds) -> Callable[[Callable], Callable]:
    """Makes a public loss of a formula `(counts, *, ...)`; otherwise like `loss`."""

    def decorate(formula: Callable) -> Callable:
        jitted = jax.jit(formula, static_argnames=_static_names(formula, bounds))

        @functools.wraps(formula)
        def checked(counts, **settings):
            leaves = jax.tree.leaves(counts)
            shapes = [jnp.shape(leaf) for leaf in leaves]
            if len(set(shapes)) > 1:
                raise ValueError(f"counts has arrays of different shapes: {shapes}")
            dtype = compute_dtype(jnp.result_type(*leaves))
            settings = _check_hyperparameters(settings, bounds, dtype)
            counts = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), counts)
            return jitted(counts, **settings)

        checked.jitted = jitted
        return checked

    return decorate


def prepare(
    logits: Array, labels: Array, where: Array | None, class_axis: int | None
) -> Elements:
    """Masks, upcasts and lines up checked inputs: class axis last, labels as targets.

    A label out of range, which only one unknown at trace time can be, matches no class:
    its targets are a row of zeros, or 0 in the binary form.
    """
    binary = class_axis is None
    dtype = compute_dtype(logits.dtype)
    soft = jnp.issubdtype(labels.dtype, jnp.floating)
    if not binary:
        logits = jnp.moveaxis(logits, class_axis, -1)
        labels = jnp.moveaxis(labels, class_axis, -1) if soft else labels
    label_shape = logits.shape if binary else logits.shape[:-1]
    where = jnp.ones(label_shape, bool) if where is None else where

    if not soft:
        labels = labels.astype(jnp.int32)
        where = where & (labels != MASKED_LABEL)
        classes = 1 if binary else jnp.arange(logits.shape[-1])
        labels = (labels if binary else labels[..., None]) == classes

    # Masked values are replaced before the maths, not multiplied by 0 after it: a NaN
    # or an infinity would survive the product, and its gradient too.
    elements = Elements(logits, labels, where, binary)
    return elements._replace(
        logits=elements.mask(logits).astype(dtype),
        targets=elements.mask(labels).astype(dtype),
    )


def compute_dtype(dtype: Any) -> Any:
    """Returns the type to compute in: float64 stays, everything else is float32."""
    return jnp.float64 if dtype == jnp.float64 else jnp.float32


def set_axes(axis: int | tuple[int, ...] | None, ndim: int) -> tuple[int, ...]:
    """Returns `axis` as a tuple of non-negative axes of labels with `ndim` axes."""
    if axis is None:
        return tuple(range(ndim))
    axes = axis if isinstance(axis, tuple) else (axis,)
    if any(not -ndim <= one < ndim for one in axes):
        raise ValueError(f"axis is {axis} but labels has {ndim} axes")
    axes = tuple(one % ndim for one in axes)
    if len(set(axes)) < len(axes):
        raise ValueError(f"axis is {axis} but names an axis twice")
    return axes


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raises a ValueError unless `value` is one of `choices`."""
    if value not in choices:
        wanted = " or ".join(map(repr, choices))
        raise ValueError(f"{name} is {value!r} but must be {wanted}")


def _static_names(formula: Callable, bounds: dict[str, Bounds]) -> list[str]:
    parameters = inspect.signature(formula).parameters.values()
    keywords = {one.name for one in parameters if one.kind is one.KEYWORD_ONLY}
    if not bounds.keys() <= keywords:
        raise TypeError(f"{formula.__name__} does not take all of {sorted(bounds)}")
    return sorted(keywords - bounds.keys() - {"where"})


def _check_arrays(logits: Any, labels: Any, where: Any, class_axis: int | None):
    shape, label_shape = jnp.shape(logits), jnp.shape(labels)
    label_dtype = jnp.result_type(labels)
    if not jnp.issubdtype(jnp.result_type(logits), jnp.floating):
        raise ValueError(f"logits has dtype {jnp.result_type(logits)}, not a float")

    soft = jnp.issubdtype(label_dtype, jnp.floating)
    wanted = elements_shape = shape
    if class_axis is not None:
        if not -len(shape) <= class_axis < len(shape):
            raise ValueError(f"class_axis is {class_axis} but logits has shape {shape}")
        axis = class_axis % len(shape)
        if shape[axis] == 0:
            raise ValueError(f"logits has shape {shape}: no classes on axis {axis}")
        elements_shape = shape[:axis] + shape[axis + 1 :]
        wanted = shape if soft else elements_shape

    integer = jnp.issubdtype(label_dtype, jnp.integer)
    if not (soft or integer or (class_axis is None and label_dtype == np.bool_)):
        raise ValueError(f"labels has dtype {label_dtype}, not integer or float")
    if label_shape != wanted:
        kind = " for float labels" if soft else ""
        raise ValueError(
            f"labels has shape {label_shape} but logits {shape} wants {wanted}{kind}"
        )
    if where is None:
        return
    if jnp.result_type(where) != np.bool_:
        raise ValueError(f"where has dtype {jnp.result_type(where)}, not bool")
    if jnp.shape(where) != elements_shape:
        raise ValueError(
            f"where has shape {jnp.shape(where)} but logits {shape} wants"
            f" {elements_shape}"
        )


def _check_label_values(logits: Any, labels: Any, where: Any, class_axis: int | None):
    labels, where = _known(labels), _known(True if where is None else where)
    if labels is None or where is None or labels.dtype == bool:
        return
    if jnp.issubdtype(labels.dtype, jnp.integer):
        classes = 2 if class_axis is None else jnp.shape(logits)[class_axis]
        inside = (labels >= 0) & (labels < classes) | (labels == MASKED_LABEL)
        wanted = f"{classes} classes want 0 to {classes - 1}, or -100 for masked"
    else:
        if class_axis is not None and where.ndim > 0:
            where = np.expand_dims(where, class_axis)
        # Written so that a NaN is outside.
        inside = np.abs(labels.astype(np.float32) - 0.5) <= 0.5 + _SOFT_LABEL_SLACK
        wanted = "probabilities want 0 to 1"
    outside = where & ~inside
    if outside.any():
        raise ValueError(f"labels has value {labels[outside][0]} but {wanted}")


def _check_hyperparameters(
    settings: dict[str, Any], bounds: dict[str, Bounds], dtype: Any, classes: int = 0
) -> dict[str, Any]:
    settings = dict(settings)
    for name, (low, high, per_class) in bounds.items():
        value = settings.get(name)
        if value is None:
            continue
        wanted = (classes,) if per_class else ()
        if np.shape(value) != wanted:
            raise ValueError(f"{name} has shape {np.shape(value)}, not {wanted}")
        known = _known(value)
        if known is not None:
            bad = ~(np.isfinite(known) & (low <= known) & (known <= high))
            if bad.any():
                interval = f"[{low:g}, {high:g}" + (")" if math.isinf(high) else "]")
                raise ValueError(f"{name} is {known[bad][0]} but must be in {interval}")
        settings[name] = jnp.asarray(value, dtype)
    return settings


def _known(value: Any) -> np.ndarray | None:
    """Returns `value` on the host, or None if it is traced or on other hosts."""
    if isinstance(value, jax.core.Tracer):
        return None
    if isinstance(value, jax.Array) and not value.is_fully_addressable:
        return None
    return np.asarray(jax.device_get(value))
