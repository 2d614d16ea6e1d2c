"""Heads: from hidden states to logits."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
from flax import nnx
from jax import Array

from dicejax.models.layers import Dense, dropout


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenHead:
    """What a task asks of the network: logits over `classes` for each token."""

    classes: int

    def build(self, width: int, **settings) -> TokenClassifier:
        """Make the module that computes these logits from hidden states `width` wide.

        Args:
          width: of the hidden states.
          **settings: `dropout_rate`, `scale`, `dtype` and `rngs` of the module.
        """
        return TokenClassifier(width, self.classes, **settings)


class TokenClassifier(nnx.Module):
    """Dropout and one dense layer: `[B, T, D] -> [B, T, C]` in at least float32."""

    def __init__(
        self,
        width: int,
        classes: int,
        *,
        dropout_rate: float,
        scale: float,
        dtype: jnp.dtype,
        rngs: nnx.Rngs,
    ):
        # Not in bfloat16, whatever the encoder computes in: the logits feed the loss.
        dtype = jnp.promote_types(dtype, jnp.float32)
        self.dense = Dense(width, classes, dtype=dtype, scale=scale, rngs=rngs)
        self.dropout_rate = dropout_rate

    def __call__(self, hidden: Array, rng: Array | None) -> Array:
        """Return the logits; `rng` switches dropout on."""
        return self.dense(dropout(hidden, self.dropout_rate, rng))
