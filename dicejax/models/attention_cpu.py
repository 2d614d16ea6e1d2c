"""Attention on CPUs, in products that XLA multiplies fast there.

XLA multiplies bfloat16 as such where operands lie by rows, and otherwise as float32;
a transposed left operand costs most. On a core of an EPYC (Zen 5), heads of 32, rows of
128 and 512 tokens, `p^T g` takes bfloat16 85 and 27 GFLOP/s as it stands, 279 and 198
as `(g^T p)^T` with `g^T` and the result written out; float32 114 and 37, or 195 and
149. Here operands are written out so, and the gradient of the softmax is spelled out,
which keeps the arrays of tokens x tokens few and narrow.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import Array

from dicejax.models.dropout import scale_masked
from dicejax.models.layers import dot, dot_of_columns, written

FEW = 128
"""Up to so many queries float32 is not worth writing out."""


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def attention(
    arrays: tuple[Array, ...],
    mask: Array,
    bias: Array | None,
    keep: Array | None,
    rate: float,
) -> Array:
    """Compute `attend` of query, key and value with heads in front, `[B, N, T, H]`.

    `bias` is `[B, N, T, S]` or None, and so is `keep`, true where weights are not
    dropped out; the mask is broadcast.
    """
    return _forward(arrays, mask, bias, keep, rate)[0]


def _forward(arrays, mask, bias, keep, rate):
    query, key, value = arrays = tuple(map(_by_rows, arrays))
    scores = dot(query, key, (-1, -1)) * query.shape[-1] ** -0.5
    scores = scores if bias is None else scores + bias
    scores = jnp.where(mask, scores, jnp.finfo(scores.dtype).min)
    weights = jax.nn.softmax(scores, axis=-1).astype(value.dtype)
    dropped = weights if keep is None else scale_masked(weights, keep, rate)
    out = dot(dropped, value, (-1, -2)).astype(value.dtype)
    return out, (arrays, weights, dropped, bias, keep)


def _backward(rate, residuals, g):
    (query, key, value), weights, dropped, bias, keep = residuals
    g = _by_rows(g)
    of_weights = dot(g, value, (-1, -1))
    if keep is not None:
        of_weights = scale_masked(of_weights, keep, rate)
    of_value = _transposed_dot(dropped, g)
    mean = (weights * of_weights).sum(-1, keepdims=True)
    of_scores = weights * (of_weights - mean)
    of_bias = None if bias is None else of_scores.astype(bias.dtype)
    of_scores = (of_scores * query.shape[-1] ** -0.5).astype(query.dtype)
    of_query = dot(of_scores, key, (-1, -2)).astype(query.dtype)
    return (of_query, _transposed_dot(of_scores, query), of_value), None, of_bias, None


attention.defvjp(_forward, _backward)


def _transposed_dot(large: Array, small: Array) -> Array:
    """Compute `large^T small` in their type."""
    if large.dtype != jnp.bfloat16 and large.shape[-2] <= FEW:
        return dot(large, small, (-2, -2)).astype(small.dtype)
    turned = dot_of_columns(small, large).astype(small.dtype)
    return written(turned).swapaxes(-1, -2)


def _by_rows(x: Array) -> Array:
    return written(x) if x.dtype == jnp.bfloat16 else x
