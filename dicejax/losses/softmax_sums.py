"""Sums over sets of softmax probabilities, by class: what count-based losses cost.

With integer labels and sets larger than an element, I = sum f y and P = sum f (or f^2)
need each probability once forwards and once backwards. Left to automatic
differentiation they take twice as long on a CPU, and five arrays of the logits' size
instead of two, so the gradient is written out here.
"""

import functools
import math

import jax
import jax.numpy as jnp
from jax import Array

from dicejax.losses.probabilities import at_label
from dicejax.losses.softmax_factor import factor_and_rows, masked, pull_back


def label_sums(
    values: Array, labels: Array, classes: int, axes: tuple[int, ...]
) -> Array:
    """Returns the sums of `values` by label over the set axes: `[kept..., C]`.

    Args:
      values: floats `[...]`.
      labels: ints `[...]` in 0..C-1.
      classes: C.
      axes: the axes to sum over.
    """

    def scatter(values, labels):
        kept, where = _cells(labels, classes, axes)
        cells = math.prod(kept) * classes
        sums = jax.ops.segment_sum(values.ravel(), where.ravel(), cells)
        return sums.reshape(*kept, classes)

    def select(values, labels):
        one_hot = labels[..., None] == jnp.arange(classes)
        return jnp.sum(jnp.where(one_hot, values[..., None], 0), axis=axes)

    # A GPU adds scattered values in no fixed order, and a TPU one by one.
    return jax.lax.platform_dependent(values, labels, cpu=scatter, default=select)


@functools.partial(jax.custom_vjp, nondiff_argnums=(4, 5, 6))
def softmax_sums(
    logits: Array,
    labels: Array,
    where: Array,
    alpha: Array | None,
    axes: tuple[int, ...],
    squared: bool,
    constant_factor: bool,
) -> tuple[Array, Array]:
    """Returns sum f y and sum f (squared: f^2), each `[kept..., C]`.

    Differentiable in reverse mode, with respect to the logits and alpha.

    Args:
      logits: `[..., C]`, of any float type, anything where masked.
      labels: ints `[...]` in 0..C-1.
      where: bool `[...]`, False where masked.
      alpha: exponent of the factor (1-p)^alpha, a scalar; None for f = p.
      axes: the label axes that form a set; at least one.
      squared: whether the second sum is of squares.
      constant_factor: whether the factor is a constant for gradients.
    """
    return _forward(logits, labels, where, alpha, axes, squared, constant_factor)[0]


def _forward(logits, labels, where, alpha, axes, squared, constant_factor):
    z = masked(logits, where)
    if alpha is None:
        factor, rows, apart = jax.nn.softmax(z), None, None
    else:
        factor, rows, apart = factor_and_rows(z, alpha)
    weights = where.astype(z.dtype)
    gold = at_label(factor, labels) * weights
    terms = factor * factor if squared else factor
    sums = (
        label_sums(gold, labels, z.shape[-1], axes),
        jnp.sum(terms * weights[..., None], axis=axes),
    )
    return sums, (logits, labels, where, alpha, rows, apart, factor, gold)


def _backward(axes, squared, constant_factor, residuals, cotangents):
    logits, labels, where, alpha, rows, apart, factor, gold = residuals
    of_intersection, of_predicted = cotangents
    classes = logits.shape[-1]
    weights = where.astype(factor.dtype)
    of_cells = functools.partial(_cells, classes=classes, axes=axes)
    slope_gold = of_intersection.ravel()[of_cells(labels)[1]] * weights
    slope = jnp.expand_dims(of_predicted, axes) * weights[..., None]
    terms = factor * (2 * factor * slope if squared else slope)
    is_gold = labels[..., None] == jnp.arange(classes)
    u = terms + jnp.where(is_gold, factor * slope_gold[..., None], 0)
    # Summed apart from the gold class, whose selection would not fuse.
    total = (jnp.sum(terms, axis=-1) + slope_gold * gold)[..., None]
    if alpha is None:
        return (u - factor * total).astype(logits.dtype), None, None, None

    slope_largest = of_predicted.ravel()[of_cells(rows.largest)[1]] * weights
    slope_largest = slope_largest[..., None] * (2 * apart if squared else 1)
    is_right = (rows.largest == labels)[..., None]
    slope_largest += jnp.where(is_right, slope_gold[..., None], 0)
    u_apart = jnp.where(rows.has_apart, apart * slope_largest, 0)
    of_logits, of_alpha = pull_back(
        u, total, u_apart, logits, where, alpha, rows, constant_factor
    )
    return of_logits, None, None, of_alpha


softmax_sums.defvjp(_forward, _backward)


def _cells(
    labels: Array, classes: int, axes: tuple[int, ...]
) -> tuple[tuple[int, ...], Array]:
    """Returns the kept axes' lengths and each element's index into `[kept..., C]`."""
    kept = [axis for axis in range(labels.ndim) if axis not in axes]
    lengths = tuple(labels.shape[axis] for axis in kept)
    index = jnp.zeros_like(labels)
    for axis, length in zip(kept, lengths, strict=True):
        index = index * length + jax.lax.broadcasted_iota(
            labels.dtype, labels.shape, axis
        )
    return lengths, index * classes + labels
