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

    def build(
        self, width: int, *, dropout_rate: float, scale: float, rngs: nnx.Rngs
    ) -> TokenClassifier:
        """Make the module that computes these logits from hidden states `width` wide."""
        return TokenClassifier(
            width, self.classes, dropout_rate=dropout_rate, scale=scale, rngs=rngs
        )


class TokenClassifier(nnx.Module):
    """Dropout and one dense layer: `[B, T, D] -> float32 [B, T, C]`."""

    def __init__(
        self,
        width: int,
        classes: int,
        *,
        dropout_rate: float,
        scale: float,
        rngs: nnx.Rngs,
    ):
        # Float32 whatever the encoder computes in: the logits feed the loss.
        self.dense = Dense(width, classes, dtype=jnp.float32, scale=scale, rngs=rngs)
        self.dropout_rate = dropout_rate

    def __call__(self, hidden: Array, rng: Array | None) -> Array:
        return self.dense(dropout(hidden, self.dropout_rate, rng))
