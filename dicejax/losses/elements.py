"""Inputs of a formula: masked, upcast, class axis last."""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array


class Elements(NamedTuple):
    """Checked inputs of a loss, lined up.

    Attributes:
      logits: float32 or float64, `[..., C]`, or `[...]` in the binary form. Finite
        zeros where masked.
      labels: hard ones int32: `[...]` (softmax and binary) or `[..., C]` (multi-label),
        0 where masked. Soft ones: probabilities like the logits, zeros where masked.
      where: bool, shaped like hard labels; False where masked by the caller, by a label
        of -100 or by any other label out of range.
      form: "softmax" over the last axis; "binary", a sigmoid without a class axis;
        "multi_label", a sigmoid for each class of the last axis.
      hard: whether labels are integers.
      axes: label axes that form a set, sorted and not negative.
      axis_name: axes of a `shard_map` that the set is spread over.
    """

    logits: Array
    labels: Array
    where: Array
    form: Literal["softmax", "binary", "multi_label"]
    hard: bool
    axes: tuple[int, ...]
    axis_name: str | tuple[str, ...] | None

    @property
    def targets(self) -> Array:
        """Probabilities shaped like the logits; zeros where masked."""
        if not self.hard:
            return self.labels
        softmax = self.form == "softmax"
        gold = one_hot(self.labels, self.logits.shape[-1]) if softmax else self.labels
        return self.mask(gold).astype(self.logits.dtype)

    def mask(self, values: Array) -> Array:
        """Return `values` (`[...]` or `[..., C]`) with exact zeros where masked."""
        where = self.where
        if values.ndim > where.ndim:
            where = where[..., None]
        return jnp.where(where, values, 0)

    def total(self, *values: Array) -> tuple[Array, ...]:
        """Return the sums of values over the set, on all devices."""
        sums = tuple(jnp.sum(value, axis=self.axes) for value in values)
        return sums if self.axis_name is None else jax.lax.psum(sums, self.axis_name)


def prepare(
    logits: Array,
    labels: Array,
    where: Array | None,
    class_axis: int | None,
    multi_label: bool = False,
    axis: int | tuple[int, ...] | None = None,
    axis_name: str | tuple[str, ...] | None = None,
) -> Elements:
    """Mask, upcast and line up inputs that the contract has checked."""
    form = form_of(class_axis, multi_label)
    hard = not jnp.issubdtype(labels.dtype, jnp.floating)
    dtype = compute_dtype(logits.dtype)
    if class_axis is not None:
        logits = jnp.moveaxis(logits, class_axis, -1)
        if multi_label or not hard:
            labels = jnp.moveaxis(labels, class_axis, -1)
    mask_shape = logits.shape[:-1] if form == "softmax" else logits.shape
    if where is None:
        where = jnp.ones(mask_shape, bool)
    elif form == "multi_label":
        where = jnp.broadcast_to(where[..., None], mask_shape)

    if hard:
        labels = labels.astype(jnp.int32)
        classes = logits.shape[-1] if form == "softmax" else 2
        where = where & (labels >= 0) & (labels < classes)
    # Masked values are replaced before the maths, not multiplied by 0 after it: a NaN
    # or an infinity would survive the product, and its gradient too.
    axes = set_axes(axis, where.ndim - (form == "multi_label"))
    elements = Elements(logits, labels, where, form, hard, axes, axis_name)
    return elements._replace(
        logits=elements.mask(logits).astype(dtype),
        labels=elements.mask(labels).astype(labels.dtype if hard else dtype),
    )


def one_hot(labels: Array, classes: int) -> Array:
    """Return one-hot bools `[..., C]` of ints `[...]`."""
    return labels[..., None] == jnp.arange(classes)


def form_of(
    class_axis: int | None, multi_label: bool
) -> Literal["softmax", "binary", "multi_label"]:
    """Return "binary", "multi_label" or "softmax"."""
    if class_axis is None:
        return "binary"
    return "multi_label" if multi_label else "softmax"


def compute_dtype(dtype: Any) -> Any:
    """Return the type to compute in: float64 stays, everything else is float32."""
    return jnp.float64 if dtype == jnp.float64 else jnp.float32


def set_axes(axis: int | tuple[int, ...] | None, ndim: int) -> tuple[int, ...]:
    """Return `axis` as sorted non-negative axes of labels with `ndim` axes."""
    if axis is None:
        return tuple(range(ndim))
    axes = axis if isinstance(axis, tuple) else (axis,)
    if any(not -ndim <= index < ndim for index in axes):
        raise ValueError(f"axis is {axis} but labels has {ndim} axes")
    axes = tuple(index % ndim for index in axes)
    if len(set(axes)) < len(axes):
        raise ValueError(f"axis is {axis} but names an axis twice")
    return tuple(sorted(axes))
