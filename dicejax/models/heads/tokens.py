"""Logits of each token: tagging."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from flax import nnx
from jax import Array

from dicejax.models.dropout import DropoutKeys, dropout
from dicejax.models.encoder import EncoderConfig
from dicejax.models.heads.head import Head, dense


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenHead(Head):
    """Logits `[B, T, C]` over `classes` for each token: `W dropout(h_t) + b`."""

    classes: int

    def build(self, encoder, *, dtype, rngs) -> TokenClassifier:
        """Make the module."""
        return TokenClassifier(self, encoder, dtype=dtype, rngs=rngs)


class TokenClassifier(nnx.Module):
    """Dropout and one dense layer: `[B, T, D] -> [B, T, C]`."""

    def __init__(self, head: TokenHead, encoder: EncoderConfig, *, dtype, rngs):
        self.dense = dense(encoder.width, head.classes, encoder, dtype=dtype, rngs=rngs)
        self.dropout_rate = encoder.head_dropout

    def __call__(
        self, hidden: Array, batch: Mapping[str, Array], rng: DropoutKeys | None
    ) -> Array:
        """Return the logits; `rng` switches dropout on."""
        return self.dense(dropout(hidden, self.dropout_rate, rng))
