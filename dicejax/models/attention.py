"""Multi-head attention over packed rows."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from dicejax.models.dropout import DropoutKeys, dropout
from dicejax.models.layers import matmul


def segment_mask(segment_ids: Array) -> Array:
    """Mask attention across segments: `[B, T] -> bool [B, 1, T, T]`.

    A position sees the positions of its own segment and no other. Padding (segment 0)
    sees padding, so that no softmax runs over an empty set.

    >>> import jax.numpy as jnp
    >>> segment_mask(jnp.array([[1, 1, 2]]))[0, 0].astype(int).tolist()
    [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    """
    return (segment_ids[:, None, :, None] == segment_ids[:, None, None, :]).astype(bool)


def attend(
    query: Array,
    key: Array,
    value: Array,
    mask: Array,
    *,
    bias: Array | None = None,
    dropout_rate: float = 0.0,
    rng: DropoutKeys | None = None,
) -> Array:
    """Compute scaled dot-product attention with a softmax in at least float32.

    Args:
      query: `[B, T, N, H]`.
      key: `[B, S, N, H]`.
      value: `[B, S, N, H]`.
      mask: bool, broadcastable to `[B, N, T, S]`; true where a position may be seen.
      bias: added to the scaled scores; broadcastable to `[B, N, T, S]`.
      dropout_rate: share of the attention weights set to zero.
      rng: keys for dropout; None switches dropout off.

    Returns:
      `[B, T, N, H]` in the type of `value`.
    """
    undropped = rng is None or dropout_rate == 0.0
    if undropped and query.dtype in (jnp.float32, jnp.bfloat16):
        return jax.nn.dot_product_attention(query, key, value, bias, mask)
    # dot_product_attention drops no attention weights, rounds its softmax to float32,
    # and of float16 wants products that CPUs do not have, so this path is spelled out.
    scale = query.shape[-1] ** -0.5
    # Heads to the front: one transposed copy is cheaper than strided batched products.
    query, key, value = (x.swapaxes(1, 2) for x in (query * scale, key, value))
    scores = matmul(query, key.swapaxes(2, 3))
    if bias is not None:
        scores += bias
    scores = jnp.where(mask, scores, jnp.finfo(scores.dtype).min)
    weights = jax.nn.softmax(scores, axis=-1).astype(value.dtype)
    weights = dropout(weights, dropout_rate, rng, axis=-1)
    return matmul(weights, value).astype(value.dtype).swapaxes(1, 2)
