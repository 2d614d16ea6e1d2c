"""BERT (Devlin et al., 2019, https://arxiv.org/abs/1810.04805) in flax.nnx.

RoBERTa (https://arxiv.org/abs/1907.11692), XLM-RoBERTa, CamemBERT and data2vec count
positions from `pad_token_id + 1`; ELECTRA (https://arxiv.org/abs/2003.10555) may embed
words more narrowly than the layers are wide; ERNIE (https://arxiv.org/abs/1907.12412)
may add the vector of a task, of which it has the first. ALBERT
(https://arxiv.org/abs/1909.11942) has the weights of one layer in all. Otherwise all
are the same encoder.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, Literal, TypeVar

import jax.numpy as jnp
from flax import nnx
from jax import Array

from dicejax.models.attention import attend
from dicejax.models.dropout import DropoutKeys, Keys, dropout
from dicejax.models.embedding import Embedding
from dicejax.models.encoder import (
    ACTIVATIONS,
    Encoder,
    EncoderConfig,
    Prepared,
    SequenceSummary,
)
from dicejax.models.layers import (
    Dense,
    LayerNorm,
    add_and_norm,
    apply_dense,
    wide,
)
from dicejax.models.settings import Activation, Epsilon, Rate, Remat, Size, TokenId

ROBERTA_LIKE = ("roberta", "xlm-roberta", "camembert", "data2vec-text")
PAST_PADDING = (*ROBERTA_LIKE, "roberta-prelayernorm")
"""Model types whose positions count from `pad_token_id + 1`, by default from 2."""
POOLING = ("bert", "ernie", "megatron-bert", "albert")
"""Model types whose classifier reads the pooler, which is not dropped out in front."""
_ALBERT_RATE = "classifier_dropout_prob"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PostNormConfig(EncoderConfig):
    """Settings that encoders of post-normalised layers share, BERT's and DeBERTa's."""

    hidden_rates: ClassVar[tuple[str, ...]] = ("hidden_dropout_prob",)
    attention_rates: ClassVar[tuple[str, ...]] = ("attention_probs_dropout_prob",)

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
        if self.max_length is not None and self.max_length < 1:
            raise ValueError(
                f"pad_token_id {self.pad_token_id} leaves no positions of "
                f"max_position_embeddings {self.max_position_embeddings}"
            )

    attended_dropout = property(lambda self: self.hidden_dropout_prob)
    fed_dropout = property(lambda self: self.hidden_dropout_prob)
    first_position = property(lambda self: 0)
    norms_embeddings = True
    is_gated = property(lambda self: False)
    is_projected = property(lambda self: self.embedding_width != self.hidden_size)
    head_width = property(lambda self: self.hidden_size // self.num_attention_heads)
    key_width = property(lambda self: self.hidden_size)

    @property
    def head_dropout(self) -> float:
        """Share of the hidden states set to zero in front of a token head."""
        return self.hidden_dropout_prob

    @property
    def max_length(self) -> int | None:
        """The longest sequence, in tokens."""
        return self.max_position_embeddings - self.first_position

    @property
    def embedding_width(self) -> int:
        """Width of the embedding tables."""
        return self.embedding_size or self.hidden_size

    @property
    def tables(self) -> dict[str, int]:
        """The embedding tables, each with its number of entries."""
        return {"word": self.vocab_size, "position": self.max_position_embeddings}

    def norm(self, *, dtype: jnp.dtype) -> LayerNorm:
        """Make a norm of hidden states."""
        return LayerNorm(self.hidden_size, epsilon=self.layer_norm_eps, dtype=dtype)

    def build(self, *, dtype: jnp.dtype, remat: Remat, rngs: nnx.Rngs) -> nnx.Module:
        """Make the module with initial parameters."""
        return Bert(self, dtype=dtype, remat=remat, rngs=rngs)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassifierConfig(PostNormConfig):
    """Settings of encoders whose heads may have a rate of dropout of their own."""

    classifier_dropout: Rate | None = None

    @property
    def head_dropout(self) -> float:
        """Share of the hidden states set to zero in front of a token head."""
        rate = self.classifier_dropout
        return self.hidden_dropout_prob if rate is None else rate


@dataclasses.dataclass(frozen=True, kw_only=True)
class BertConfig(ClassifierConfig):
    """The architecture of a BERT-like encoder, in the words of a `config.json`."""

    model_types: ClassVar[tuple[str, ...]] = ("bert", "electra", *ROBERTA_LIKE)

    model_type: str = "bert"
    position_embedding_type: Literal["absolute"] = "absolute"
    type_vocab_size: Size = 2
    is_decoder: Literal[False] = False

    @classmethod
    def fields_of(cls, content: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields that the content of a `config.json` sets."""
        fields = {"pad_token_id": int(content.get("model_type") in PAST_PADDING)}
        return fields | super().fields_of(content)

    @property
    def first_position(self) -> int:
        """The row of the position table that a sequence's first token takes."""
        return self.pad_token_id + 1 if self.model_type in PAST_PADDING else 0

    @property
    def summary(self) -> SequenceSummary:
        """Summary of a sequence: BERT pools, others drop out, ELECTRA takes a GELU."""
        rate = self.head_dropout
        return SequenceSummary(
            activation="gelu" if self.model_type == "electra" else "tanh",
            dropout_before=0.0 if self.model_type in POOLING else rate,
            dropout_after=rate,
        )

    @property
    def tables(self) -> dict[str, int]:
        """The embedding tables, each with its number of entries."""
        return super().tables | {"token_type": self.type_vocab_size}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ErnieConfig(BertConfig):
    """The architecture of an ERNIE, in the words of a `config.json`."""

    model_types: ClassVar[tuple[str, ...]] = ("ernie",)

    model_type: str = "ernie"
    task_type_vocab_size: Size = 3
    use_task_id: bool = False

    @property
    def tables(self) -> dict[str, int]:
        """The embedding tables, each with its number of entries."""
        tasks = {"task_type": self.task_type_vocab_size} if self.use_task_id else {}
        return super().tables | tasks


@dataclasses.dataclass(frozen=True, kw_only=True)
class AlbertConfig(BertConfig):
    """The architecture of an ALBERT, in the words of a `config.json`.

    There `classifier_dropout` is `classifier_dropout_prob`.
    """

    model_types: ClassVar[tuple[str, ...]] = ("albert",)

    model_type: str = "albert"
    embedding_size: Size = 128
    hidden_size: Size = 4096
    num_attention_heads: Size = 64
    intermediate_size: Size = 16384
    hidden_act: Activation = "gelu_new"
    hidden_dropout_prob: Rate = 0.0
    attention_probs_dropout_prob: Rate = 0.0
    classifier_dropout: Rate = 0.1
    num_hidden_groups: Literal[1] = 1
    inner_group_num: Literal[1] = 1

    fed_dropout = property(lambda self: 0.0)
    is_projected = property(lambda self: True)

    @property
    def distinct_layers(self) -> int:
        """Number of layers with weights of their own."""
        return 1

    @classmethod
    def fields_of(cls, content: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields that the content of a `config.json` sets."""
        rate = content.get(_ALBERT_RATE, cls.classifier_dropout)
        return super().fields_of({**content, "classifier_dropout": rate})

    def to_json(self) -> dict[str, Any]:
        """Return the content of a `config.json`."""
        content = super().to_json()
        return content | {_ALBERT_RATE: content.pop("classifier_dropout")}


PostNorm = TypeVar("PostNorm", bound=PostNormConfig)


class BertEmbeddings(nnx.Module):
    """The embedding tables of a configuration, a norm, and a projection if narrow.

    One that is in front of the norm has no bias.
    """

    def __init__(
        self,
        config: PostNormConfig,
        *,
        projects_first: bool,
        dtype: jnp.dtype,
        rngs: nnx.Rngs,
    ):
        width, inner = config.embedding_width, config.hidden_size
        embed = functools.partial(Embedding, dtype=dtype, rngs=rngs)
        dense = functools.partial(Dense, width, inner, dtype=dtype, rngs=rngs)
        scale = config.initializer_range
        for name, entries in config.tables.items():
            setattr(self, name, embed(entries, width, scale=scale))
        self.projection = (
            dense(scale=scale, bias=not projects_first) if config.is_projected else None
        )
        width = inner if projects_first else width
        norm = functools.partial(LayerNorm, width, epsilon=config.layer_norm_eps)
        self.norm = norm(dtype=dtype) if config.norms_embeddings else None
        self.names, self.dtype = tuple(config.tables), dtype

    def normed(self, x: Array) -> Array:
        """Normalise sums, if there is a norm."""
        return x.astype(self.dtype) if self.norm is None else self.norm(x)

    def add_up(self, **ids: Array) -> Array:
        """Sum the vectors of int `[B, T]` ids of each table, in at least float32."""
        vectors = (getattr(self, name)(ids[name]) for name in self.names)
        return jnp.asarray(sum(x.astype(wide(x.dtype)) for x in vectors))


class BertLayer(nnx.Module, Generic[PostNorm]):
    """One transformer layer: self-attention and feed-forward, each post-normalised."""

    draws: ClassVar[int] = 3
    """Number of dropout keys; the first three are of the weights and the updates."""

    def __init__(self, config: PostNorm, *, dtype: jnp.dtype, rngs: nnx.Rngs):
        width, inner = config.hidden_size, config.intermediate_size
        dense = functools.partial(Dense, dtype=dtype, rngs=rngs)
        dense = functools.partial(dense, scale=config.initializer_range)
        self.query = dense(width, width)
        self.key = dense(width, config.key_width)
        self.value = dense(width, config.key_width)
        self.attention_output = dense(width, width)
        self.intermediate = dense(width, inner)
        self.output = dense(inner, width)
        self.attention_norm = config.norm(dtype=dtype)
        self.output_norm = config.norm(dtype=dtype)
        self.config = config

    def __call__(self, x: Array, shared: Any, rng: DropoutKeys | None) -> Array:
        """Transform `[B, T, D]`, with what `attend` needs besides."""
        config = self.config
        keys: Keys = (None,) * self.draws if rng is None else rng.split(self.draws)
        update, rate = self.attention(x, shared, keys), config.attended_dropout
        x = add_and_norm(self.attention_norm, x, update, rate, keys[1])
        update, rate = self.feed_forward(x, keys), config.fed_dropout
        return add_and_norm(self.output_norm, x, update, rate, keys[2])

    def attention(self, x: Array, shared: Any, keys: Keys) -> Array:
        """Compute the update by self-attention, `[B, T, D]`."""
        heads = (*x.shape[:-1], -1, self.config.head_width)
        products = apply_dense(x, self.query, self.key, self.value)
        query, key, value = (product.reshape(heads) for product in products)
        attended = self.attend(query, key, value, shared, keys)
        return self.attention_output(attended.reshape(x.shape))

    def feed_forward(self, x: Array, keys: Keys) -> Array:
        """Compute the update of each token by itself, `[B, T, D]`."""
        activate = ACTIVATIONS[self.config.hidden_act]
        return self.output(activate(self.intermediate(x)))

    def attend(
        self, query: Array, key: Array, value: Array, shared: Any, keys: Keys
    ) -> Array:
        """Attend within segments, with arrays `[B, T, N, H]`."""
        rate = self.config.attention_probs_dropout_prob
        part = functools.partial(attend, dropout_rate=rate, rng=keys[0])
        return part(query, key, value, segment_ids=shared)


class Bert(Encoder[PostNorm, BertEmbeddings]):
    """The encoder: token ids in, hidden states out."""

    layer: ClassVar[Callable[..., nnx.Module]] = BertLayer

    def embed(self, *, dtype: jnp.dtype, rngs: nnx.Rngs) -> BertEmbeddings:
        """Make the embeddings, normalised as narrow as they are."""
        return BertEmbeddings(self.config, projects_first=False, dtype=dtype, rngs=rngs)

    def prepare(self, ids: Mapping[str, Array], keys: Keys) -> Prepared:
        """Embed; layers share the segments."""
        embeddings, config = self.embeddings, self.config
        x = embeddings.add_up(
            word=ids["input_ids"],
            position=ids["position_ids"] + config.first_position,
            token_type=ids["token_type_ids"],
            task_type=jnp.zeros_like(ids["input_ids"]),
        )
        x = dropout(embeddings.normed(x), config.hidden_dropout_prob, keys[0])
        if embeddings.projection is not None:
            x = embeddings.projection(x)
        return x, ids["segment_ids"], ()
