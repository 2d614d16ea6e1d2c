"""Attention on CPUs, in products that XLA multiplies fast there.

XLA multiplies bfloat16 as such where operands lie by rows, and otherwise as float32;
a transposed left operand costs most. On a core of an EPYC (Zen 5), heads of 32, rows of
128 and 512 tokens, `p^T g` takes bfloat16 85 and 27 GFLOP/s as it stands, 279 and 198
as `(g^T p)^T` with `g^T` and the result written out; float32 114 and 37, or 195 and
149. Here operands are written out so.

Arrays of tokens x tokens are few and narrow, and read by few operations: the gradient
of the softmax is spelled out, scales are applied to the small results of products, and
sums of bfloat16 ones are products of small arrays. On a core of an EPYC (Zen 4),
forward and backward with dropout, 12 heads of 32, in bfloat16: 4 rows of 384 take 49 ms
instead of 69, 8 rows of 128 take 10.4 instead of 14.5.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import Array, lax

from dicejax.models.dropout import keep_below
from dicejax.models.layers import dot, dot_of_columns, wide, written

FEW = 128
"""Up to so many queries float32 is not worth writing out."""
# Query, key and value; weights before and after dropout; output; bias; dropout mask.
_Residuals = tuple[tuple[Array, ...], Array, Array, Array, Array | None, Array | None]


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def attention(
    arrays: tuple[Array, ...],
    mask: Array,
    bias: Array | None,
    keep: Array | None,
    rate: float,
) -> Array:
    """Compute `attend` of query, key and value with heads in front, `[B, N, T, H]`.

    `bias` is `[B, N, T, S]` or `[1, N, T, S]` or None; `keep` is None or true where
    weights are not dropped out; the mask is broadcast.
    """
    return _forward(arrays, mask, bias, keep, rate)[0]


def _forward(
    arrays: tuple[Array, ...],
    mask: Array,
    bias: Array | None,
    keep: Array | None,
    rate: float,
) -> tuple[Array, _Residuals]:
    query, key, value = arrays = tuple(map(_by_rows, arrays))
    scores = dot(query, key, (-1, -1)) * query.shape[-1] ** -0.5
    scores = scores if bias is None else scores + bias
    scores = jnp.where(mask, scores, jnp.finfo(scores.dtype).min)
    weights = _as_bits(jax.nn.softmax(scores, axis=-1).astype(value.dtype))
    dropped = weights if keep is None else jnp.where(keep, weights, 0)
    dropped = lax.bitcast_convert_type(dropped, value.dtype)
    out = dot(dropped, value, (-1, -2)) * _scale(keep, rate)
    residuals = arrays, weights, dropped, out, bias, keep
    return out.astype(value.dtype), residuals


def _backward(
    rate: float, residuals: _Residuals, g: Array
) -> tuple[tuple[Array, ...], None, Array | None, None]:
    (query, key, value), weights, dropped, out, bias, keep = residuals
    g, scale = _by_rows(g), _scale(keep, rate)
    of_weights = dot(g, value, (-1, -1)) * scale
    of_weights = of_weights if keep is None else jnp.where(keep, of_weights, 0)
    weights = _widened(weights, value.dtype)
    # The mean of the gradients by the weights is `g . out` too, in fewer passes. Their
    # sum is exactly theirs where one key has all the weight.
    if value.dtype == jnp.bfloat16:
        mean = _row_sums(g * out)
    else:
        mean = (weights * of_weights).sum(-1, keepdims=True)
    of_scores = weights * (of_weights - mean)
    of_bias = None if bias is None else of_scores.astype(bias.dtype)
    of_scores, root = of_scores.astype(query.dtype), query.shape[-1] ** -0.5
    if bias is not None and len(bias) < len(of_scores):
        of_bias = _sum_of_rows(of_scores).astype(bias.dtype)
    of_query = (dot(of_scores, key, (-1, -2)) * root).astype(query.dtype)
    of_key = _transposed_dot(of_scores, query, root)
    of_value = _transposed_dot(dropped, g, scale)
    return (of_query, of_key, of_value), None, of_bias, None


attention.defvjp(_forward, _backward)


def _as_bits(x: Array) -> Array:
    """Return the bits of bfloat16 numbers, and others as they are.

    XLA would store bfloat16 as float32 where pointwise operations read it.
    """
    is_narrow = x.dtype == jnp.bfloat16
    return lax.bitcast_convert_type(x, jnp.uint16) if is_narrow else x


def _widened(x: Array, dtype: jnp.dtype) -> Array:
    """Return numbers in at least float32, given the bits of bfloat16 ones."""
    if dtype != jnp.bfloat16:
        return x.astype(wide(dtype))
    return lax.bitcast_convert_type(x.astype(jnp.uint32) << 16, jnp.float32)


def _row_sums(x: Array) -> Array:
    """Sum over the last axis by a product with ones, which costs fewer passes."""
    ones = jnp.ones((x.shape[-1], 1), x.dtype)
    sums = dot(x.reshape(-1, x.shape[-1]), ones, (-1, -2))
    return sums.reshape(*x.shape[:-1], 1)


def _sum_of_rows(x: Array) -> Array:
    """Sum over the first axis by a product with ones, `[1, ...]`.

    XLA would fuse such sums of all layers into one operation that runs on one core, a
    tenth of a step of MPNet on two.
    """
    ones = jnp.ones((1, 1, len(x)), x.dtype)
    return dot(ones, x.reshape(1, len(x), -1), (-1, -2)).reshape(1, *x.shape[1:])


def _scale(keep: Array | None, rate: float) -> float:
    return 1.0 if keep is None else 65536 / keep_below(rate)


def _transposed_dot(large: Array, small: Array, scale: float) -> Array:
    """Compute `large^T small * scale` in their type."""
    if large.dtype != jnp.bfloat16 and large.shape[-2] <= FEW:
        return (dot(large, small, (-2, -2)) * scale).astype(small.dtype)
    turned = (dot_of_columns(small, large) * scale).astype(small.dtype)
    return written(turned).swapaxes(-1, -2)


def _by_rows(x: Array) -> Array:
    return written(x) if x.dtype == jnp.bfloat16 else x
