"""EuroBERT (Boizard et al., 2025, https://arxiv.org/abs/2503.05500) in flax.nnx.

It is a decoder without its causal mask: RMSNorm in front of each part of a layer, gated
feed-forward parts, and fewer heads of keys and values than of queries.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal

import jax.numpy as jnp
from flax import nnx

from dicejax.errors import quote
from dicejax.models.encoder import SequenceSummary
from dicejax.models.layers import LayerNorm
from dicejax.models.prenorm import _PreNormBert, _PreNormLayer
from dicejax.models.rotary import (
    ATTENDING,
    GATED,
    RotaryConfig,
    Theta,
    _RotaryBert,
    _RotaryLayer,
)
from dicejax.models.settings import (
    Activation,
    Between,
    Epsilon,
    Rate,
    Remat,
    Size,
    TokenId,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EuroBertConfig(RotaryConfig):
    """The architecture of a EuroBERT, in the words of BERT's `config.json`."""

    model_types: ClassVar[tuple[str, ...]] = ("eurobert",)
    hidden_rates: ClassVar[tuple[str, ...]] = ()
    words: ClassVar[Mapping[str, str]] = {
        "attention_dropout": "attention_probs_dropout_prob",
        "rms_norm_eps": "layer_norm_eps",
    }

    model_type: str = "eurobert"
    num_key_value_heads: Size | None = None
    hidden_act: Activation = "silu"
    attention_probs_dropout_prob: Rate = 0.0
    max_position_embeddings: Size = 8192
    layer_norm_eps: Epsilon = 1e-5
    pad_token_id: TokenId = 128_001
    rope_theta: Theta = 10_000.0
    attention_bias: bool = False
    mlp_bias: bool = False
    classifier_pooling: Literal["bos", "mean", "late"] = "late"
    # PyTorch's code has none of these.
    type_vocab_size: Literal[1] = 1
    hidden_dropout_prob: Annotated[float, Between(0, 0)] = 0.0
    classifier_dropout: Literal[None] = None

    norms_embeddings = False
    key_heads = property(lambda self: self.num_key_value_heads)
    key_width = property(lambda self: self.head_width * self.key_heads)

    def __post_init__(self) -> None:
        heads = self.num_attention_heads
        if self.num_key_value_heads is None:  # one spelling for one architecture
            object.__setattr__(self, "num_key_value_heads", heads)
        super().__post_init__()
        if heads % self.key_heads:
            raise ValueError(
                f"num_attention_heads {heads} is not a multiple of "
                f"num_key_value_heads {self.key_heads}"
            )

    @classmethod
    def fields_of(cls, content: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields that a `config.json` sets."""
        fields, word = super().fields_of(content), content.get("clf_pooling")
        if word not in (None, fields.get("classifier_pooling", cls.classifier_pooling)):
            raise ValueError(
                f"clf_pooling is {quote(word)}, for code of the model's own folder; "
                "supported: classifier_pooling, by which transformers' own class goes"
            )
        return fields

    def to_json(self) -> dict[str, Any]:
        """Return the content of a `config.json`."""
        content = super().to_json()
        for name in ("type_vocab_size", "hidden_dropout_prob", "classifier_dropout"):
            del content[name]
        return content

    @property
    def tables(self) -> dict[str, int]:
        """The embedding tables, each with its number of entries."""
        return {"word": self.vocab_size}

    @property
    def unbiased(self) -> tuple[str, ...]:
        """The dense layers without a bias."""
        attending = () if self.attention_bias else ATTENDING
        return attending + (() if self.mlp_bias else (*GATED, "output"))

    @property
    def summary(self) -> SequenceSummary:
        """A dense layer on the first token's vector, on the mean, or in front of it."""
        return SequenceSummary(
            position="first" if self.classifier_pooling == "bos" else "mean",
            of_each=self.classifier_pooling == "late",
            activation="gelu",
        )

    def norm(self, *, dtype: jnp.dtype) -> LayerNorm:
        """Make a norm of hidden states."""
        norm = functools.partial(LayerNorm, bias=False, centred=False)
        return norm(self.hidden_size, epsilon=self.layer_norm_eps, dtype=dtype)

    def build(self, *, dtype: jnp.dtype, remat: Remat, rngs: nnx.Rngs) -> nnx.Module:
        """Make the module with initial parameters."""
        return _EuroBert(self, dtype=dtype, remat=remat, rngs=rngs)


class _EuroBertLayer(_RotaryLayer, _PreNormLayer[RotaryConfig]):
    """One transformer layer: each part pre-normalised, queries and keys rotated."""


class _EuroBert(_RotaryBert, _PreNormBert[RotaryConfig]):
    """The encoder: token ids in, hidden states out."""

    layer: ClassVar[Callable[..., nnx.Module]] = _EuroBertLayer
