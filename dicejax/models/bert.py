"""BERT (Devlin et al., 2019, https://arxiv.org/abs/1810.04805) in flax.nnx.

RoBERTa (https://arxiv.org/abs/1907.11692) and XLM-RoBERTa count positions from
`pad_token_id + 1`; ELECTRA (https://arxiv.org/abs/2003.10555) may embed words more
narrowly than the layers are wide. Otherwise the three are the same encoder.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal, Self

import jax.numpy as jnp
from flax import nnx
from jax import Array

from dicejax.models.attention import attend
from dicejax.models.dropout import DropoutKeys, dropout
from dicejax.models.embedding import Embedding
from dicejax.models.encoder import ACTIVATIONS, Encoder, EncoderConfig, SequenceSummary
from dicejax.models.layers import Dense, LayerNorm, add_and_norm, project_all
from dicejax.models.settings import Activation, Epsilon, Rate, Remat, Size, TokenId

ROBERTA_LIKE = ("roberta", "xlm-roberta")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PostNormConfig(EncoderConfig):
    """Settings that encoders of post-normalised layers share, BERT's and DeBERTa's."""

    hidden_size: Size = 768
    num_hidden_layers: Size = 12
    num_attention_heads: Size = 12
    intermediate_size: Size = 3072
    hidden_act: Activation = "gelu"
    hidden_dropout_prob: Rate = 0.1
    attention_probs_dropout_prob: Rate = 0.1
    max_position_embeddings: Size = 512
    layer_norm_eps: Epsilon = 1e-12
    pad_token_id: TokenId = 0
    embedding_size: Size | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is not a multiple of "
                f"num_attention_heads {self.num_attention_heads}"
            )

    @property
    def width(self) -> int:
        """Width of the hidden states."""
        return self.hidden_size

    @property
    def depth(self) -> int:
        """Number of layers."""
        return self.num_hidden_layers

    @property
    def embedding_width(self) -> int:
        """Width of the embedding tables."""
        return self.embedding_size or self.hidden_size

    @property
    def head_dropout(self) -> float:
        """Share of the hidden states set to zero in front of a token head."""
        return self.hidden_dropout_prob

    def with_dropout(self, hidden: float | None, attention: float | None) -> Self:
        """Return a copy with other rates of dropout; None keeps the present one."""
        changes = {
            "hidden_dropout_prob": hidden,
            "attention_probs_dropout_prob": attention,
        }
        return dataclasses.replace(
            self, **{name: rate for name, rate in changes.items() if rate is not None}
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class BertConfig(PostNormConfig):
    """The architecture of a BERT-like encoder, in the words of a `config.json`."""

    model_types: ClassVar[tuple[str, ...]] = ("bert", "electra", *ROBERTA_LIKE)

    model_type: str = "bert"
    classifier_dropout: Rate | None = None
    position_embedding_type: Literal["absolute"] = "absolute"
    type_vocab_size: Size = 2
    is_decoder: Literal[False] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_length < 1:
            raise ValueError(
                f"pad_token_id {self.pad_token_id} leaves no positions of "
                f"max_position_embeddings {self.max_position_embeddings}"
            )

    @property
    def first_position(self) -> int:
        """The row of the position table that a sequence's first token takes."""
        return self.pad_token_id + 1 if self.model_type in ROBERTA_LIKE else 0

    @property
    def max_length(self) -> int:
        """The longest sequence, in tokens."""
        return self.max_position_embeddings - self.first_position

    @property
    def head_dropout(self) -> float:
        """Share of the hidden states set to zero in front of a token head."""
        if self.classifier_dropout is not None:
            return self.classifier_dropout
        return super().head_dropout

    @property
    def summary(self) -> SequenceSummary:
        """Summary of a sequence: BERT pools, others drop out, ELECTRA takes a GELU."""
        rate = self.head_dropout
        return SequenceSummary(
            activation="gelu" if self.model_type == "electra" else "tanh",
            dropout_before=0.0 if self.model_type == "bert" else rate,
            dropout_after=rate,
        )

    def build(self, *, dtype: jnp.dtype, remat: Remat, rngs: nnx.Rngs) -> Bert:
        """Make the module with initial parameters."""
        return Bert(
            self, BertEmbeddings, BertLayer, dtype=dtype, remat=remat, rngs=rngs
        )

    @property
    def tables(self) -> dict[str, int]:
        """The embedding tables, each with its number of entries."""
        return {
            "word": self.vocab_size,
            "position": self.max_position_embeddings,
            "token_type": self.type_vocab_size,
        }


class BertEmbeddings(nnx.Module):
    """Word, position and token-type embeddings, summed, normalised, dropped out."""

    def __init__(self, config: BertConfig, *, dtype: jnp.dtype, rngs: nnx.Rngs):
        width, scale = config.embedding_width, config.initializer_range
        for name, entries in config.tables.items():
            table = Embedding(entries, width, dtype=dtype, scale=scale, rngs=rngs)
            setattr(self, name, table)
        self.norm = LayerNorm(width, epsilon=config.layer_norm_eps, dtype=dtype)
        self.projection = (
            Dense(width, config.hidden_size, dtype=dtype, scale=scale, rngs=rngs)
            if width != config.hidden_size
            else None
        )
        self.config = config

    def __call__(
        self,
        input_ids: Array,
        position_ids: Array,
        token_type_ids: Array,
        rng: DropoutKeys | None,
    ) -> Array:
        """Embed int `[B, T]` ids: `[B, T, D]`."""
        parts = (
            self.word(input_ids),
            self.position(position_ids + self.config.first_position),
            self.token_type(token_type_ids),
        )
        at_least_float32 = jnp.promote_types(self.norm.dtype, jnp.float32)
        total = sum(part.astype(at_least_float32) for part in parts)
        x = dropout(self.norm(total), self.config.hidden_dropout_prob, rng)
        return x if self.projection is None else self.projection(x)


class BertLayer(nnx.Module):
    """One transformer layer: self-attention and feed-forward, each post-normalised."""

    def __init__(self, config: PostNormConfig, *, dtype: jnp.dtype, rngs: nnx.Rngs):
        width, inner = config.hidden_size, config.intermediate_size
        sizes = {
            "query": (width, width),
            "key": (width, width),
            "value": (width, width),
            "attention_output": (width, width),
            "intermediate": (width, inner),
            "output": (inner, width),
        }
        for name, (fan_in, fan_out) in sizes.items():
            dense = Dense(
                fan_in, fan_out, dtype=dtype, scale=config.initializer_range, rngs=rngs
            )
            setattr(self, name, dense)
        epsilon = config.layer_norm_eps
        self.attention_norm = LayerNorm(width, epsilon=epsilon, dtype=dtype)
        self.output_norm = LayerNorm(width, epsilon=epsilon, dtype=dtype)
        self.config = config

    def __call__(self, x: Array, segment_ids: Array, rng: DropoutKeys | None) -> Array:
        """Transform `[B, T, D]`; attention stays within segments."""
        keys = (None,) * 3 if rng is None else rng.split(3)
        query, key, value = self.projected(x)
        attended = attend(
            query,
            key,
            value,
            segment_ids=segment_ids,
            dropout_rate=self.config.attention_probs_dropout_prob,
            rng=keys[0],
        )
        return self.updated(x, attended, keys[1], keys[2])

    def projected(self, x: Array) -> list[Array]:
        """Return query, key and value of `[B, T, D]`: `[B, T, N, H]` each."""
        of_x = (self.query, self.key, self.value)
        kernels = [dense.kernel[...] for dense in of_x]
        biases = [dense.bias[...] for dense in of_x]
        heads = (*x.shape[:-1], self.config.num_attention_heads, -1)
        products = project_all(x, kernels, self.query.dtype, biases)
        return [product.reshape(heads) for product in products]

    def updated(
        self,
        x: Array,
        attended: Array,
        first: DropoutKeys | None,
        second: DropoutKeys | None,
    ) -> Array:
        """Add attention's and the feed-forward update to `[B, T, D]`.

        Args:
          x: input of the layer.
          attended: `[B, T, N, H]`, as `attend` returns it.
          first: keys for dropout of attention's update.
          second: those of the feed-forward update.
        """
        config = self.config
        rate = config.hidden_dropout_prob
        update = self.attention_output(attended.reshape(x.shape))
        x = add_and_norm(self.attention_norm, x, update, rate, first)
        update = self.output(ACTIVATIONS[config.hidden_act](self.intermediate(x)))
        return add_and_norm(self.output_norm, x, update, rate, second)


class Bert(Encoder):
    """The encoder: token ids in, hidden states out."""

    def __call__(
        self,
        input_ids: Array,
        *,
        segment_ids: Array,
        position_ids: Array,
        token_type_ids: Array,
        rng: DropoutKeys | None = None,
    ) -> tuple[Array, Array]:
        """Encode packed rows, as `encoder.Encoder` says."""
        depth = self.config.depth
        keys = None if rng is None else rng.split(depth + 1)
        first = None if keys is None else keys[depth]
        return self.through_layers(
            self.embeddings(input_ids, position_ids, token_type_ids, first),
            lambda layer, x, key: layer(x, segment_ids, key),
            None if keys is None else keys[:depth],
        )
