"""BERT with the norm in front of each part of a layer, in flax.nnx.

Megatron-BERT (Shoeybi et al., 2019, https://arxiv.org/abs/1909.08053) has none behind
the embeddings. RoBERTa-PreLayerNorm, of fairseq's `normalize_before`, has one there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax.numpy as jnp
from flax import nnx
from jax import Array

from dicejax.models.bert import Bert, BertConfig, BertLayer, PostNorm
from dicejax.models.dropout import DropoutKeys, Keys, dropout
from dicejax.models.layers import recompute
from dicejax.models.settings import Remat


@dataclasses.dataclass(frozen=True, kw_only=True)
class PreNormConfig(BertConfig):
    """The architecture of a pre-normalised BERT, in the words of a `config.json`."""

    model_types: ClassVar[tuple[str, ...]] = ("megatron-bert", "roberta-prelayernorm")

    model_type: str = "megatron-bert"

    norms_embeddings = property(lambda self: self.model_type != "megatron-bert")

    @property
    def head_dropout(self) -> float:
        """Share of the hidden states set to zero in front of a token head."""
        # Megatron-BERT has no other rate for its heads.
        return (
            super().head_dropout if self.norms_embeddings else self.hidden_dropout_prob
        )

    def build(self, *, dtype: jnp.dtype, remat: Remat, rngs: nnx.Rngs) -> nnx.Module:
        """Make the module with initial parameters."""
        return _PreNormBert(self, dtype=dtype, remat=remat, rngs=rngs)


class _PreNormLayer(BertLayer[PostNorm]):
    """One transformer layer: self-attention and feed-forward, each pre-normalised."""

    def __call__(self, x: Array, shared: Any, rng: DropoutKeys | None) -> Array:
        """Transform `[B, T, D]`, with what `attend` needs besides."""
        rate = self.config.hidden_dropout_prob
        keys: Keys = (None,) * self.draws if rng is None else rng.split(self.draws)
        update = self.attention(recompute(self.attention_norm)(x), shared, keys)
        x = x + dropout(update, rate, keys[1])
        update = self.feed_forward(recompute(self.output_norm)(x), keys)
        return x + dropout(update, rate, keys[2])


class _PreNormBert(Bert[PostNorm]):
    """The encoder: token ids in, hidden states out."""

    layer: ClassVar[Callable[..., nnx.Module]] = _PreNormLayer

    def __init__(
        self, config: PostNorm, *, dtype: jnp.dtype, remat: Remat, rngs: nnx.Rngs
    ):
        super().__init__(config, dtype=dtype, remat=remat, rngs=rngs)
        self.final_norm = config.norm(dtype=dtype)

    def finish(self, x: Array, keys: Keys) -> Array:
        """Normalise the output, as no layer did."""
        return self.final_norm(x)
