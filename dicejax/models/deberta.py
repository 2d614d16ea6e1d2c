"""DeBERTa-v3 (He et al., 2021, https://arxiv.org/abs/2111.09543) in flax.nnx.

Its layers are BERT's, but for disentangled attention (https://arxiv.org/abs/2006.03654):
a score is the sum of content to content, content to position ("c2p") and position to
content ("p2c"). Positions are relative, so a sequence may be anywhere in a row. The
configuration covers DeBERTa-v2 without its convolution.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import Array

from dicejax.errors import quote
from dicejax.mesh import pin_whole
from dicejax.models.attention import attend, by_position, segment_mask
from dicejax.models.bert import BertEmbeddings, BertLayer, PostNormConfig
from dicejax.models.dropout import Keys, dropout
from dicejax.models.encoder import Encoder, Prepared, SequenceSummary
from dicejax.models.layers import Dense, LayerNorm, matmul
from dicejax.models.settings import (
    Activation,
    Between,
    Epsilon,
    OptionalSize,
    Rate,
    Remat,
)

TERMS = ("c2p", "p2c")
# What the absence of a setting means in a `config.json`.
_ABSENT = {
    "relative_attention": False,
    "position_buckets": -1,
    "norm_rel_ebd": "none",
    "share_att_key": False,
    "pos_att_type": None,
    "position_biased_input": True,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class DebertaConfig(PostNormConfig):
    """The architecture of a DeBERTa encoder, in the words of a `config.json`.

    Defaults are those of DeBERTa-v3-base.
    """

    model_types: ClassVar[tuple[str, ...]] = ("deberta-v2",)

    model_type: str = "deberta-v2"
    layer_norm_eps: Epsilon = 1e-7
    relative_attention: Literal[True] = True
    position_buckets: OptionalSize = 256
    max_relative_positions: OptionalSize = -1
    norm_rel_ebd: Literal["layer_norm", "none"] = "layer_norm"
    share_att_key: bool = True
    pos_att_type: str = "p2c|c2p"
    position_biased_input: bool = False
    type_vocab_size: Annotated[int, Between(0, 2**31 - 1)] = 0
    pooler_dropout: Rate = 0.0
    pooler_hidden_act: Activation = "gelu"
    cls_dropout: Rate | None = None
    conv_kernel_size: Literal[0] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        unknown = set(self.pos_att_type.split("|")) - {*TERMS, ""}
        if unknown:
            raise ValueError(
                f"pos_att_type is {quote(self.pos_att_type)}; want 'c2p', 'p2c', both "
                "joined by '|', or neither"
            )
        middle, last = self.position_buckets // 2, self.distances - 1
        if self.position_buckets > 0 and not 0 < middle < last:
            raise ValueError(
                f"position_buckets is {self.position_buckets}; want from 2 to "
                f"{2 * last - 1}, for distances up to {last}, or -1 for none"
            )

    @classmethod
    def fields_of(cls, content: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields that the content of a `config.json` sets."""
        content = _ABSENT | dict(content)
        terms = content["pos_att_type"]
        if isinstance(terms, list) and all(isinstance(term, str) for term in terms):
            content["pos_att_type"] = "|".join(terms)
        elif terms is None:
            content["pos_att_type"] = ""
        return super().fields_of(content)

    def to_json(self) -> dict[str, Any]:
        """Return the content of a `config.json`; transformers takes no null in it."""
        return {k: v for k, v in super().to_json().items() if v is not None}

    @property
    def distances(self) -> int:
        """The number of distances on either side that are told apart, 0 included."""
        if self.max_relative_positions < 1:
            return self.max_position_embeddings
        return self.max_relative_positions

    @property
    def span(self) -> int:
        """Half the number of rows of the relative table."""
        return self.position_buckets if self.position_buckets > 0 else self.distances

    @property
    def terms(self) -> tuple[str, ...]:
        """The terms of a score that positions take part in."""
        return tuple(term for term in TERMS if term in self.pos_att_type.split("|"))

    @property
    def max_length(self) -> int | None:
        """The longest sequence; relative positions alone set no limit."""
        return self.max_position_embeddings if self.position_biased_input else None

    @property
    def summary(self) -> SequenceSummary:
        """Summary of a sequence: the first token's, dropped out, dense, activated."""
        rate = self.cls_dropout
        return SequenceSummary(
            activation=self.pooler_hidden_act,
            dropout_before=self.pooler_dropout,
            dropout_after=self.hidden_dropout_prob if rate is None else rate,
        )

    def build(self, *, dtype: jnp.dtype, remat: Remat, rngs: nnx.Rngs) -> Deberta:
        """Make the module with initial parameters."""
        return Deberta(self, dtype=dtype, remat=remat, rngs=rngs)

    @property
    def tables(self) -> dict[str, int]:
        """The embedding tables, each with its number of entries."""
        position = self.max_position_embeddings * self.position_biased_input
        tables = {"position": position, "token_type": self.type_vocab_size}
        return {"word": self.vocab_size} | {k: v for k, v in tables.items() if v}


def relative_rows(distances: np.ndarray, config: DebertaConfig) -> np.ndarray:
    r"""Return the row of the relative table for each distance from query to key.

    Distances up to m = `position_buckets` / 2 have a row each; larger ones share rows
    by their logarithm, up to the largest distance M = `config.distances` - 1:

    .. math::
       \operatorname{bucket}(\delta) = \operatorname{sign}(\delta) \left( m +
         \left\lceil (m - 1) \log_{M / m}(|\delta| / m) \right\rceil \right)
    """
    if config.position_buckets > 0:
        middle = config.position_buckets // 2
        # In float32 as the models were trained: some buckets begin at whole numbers.
        far = np.maximum(np.abs(distances), middle).astype(np.float32)
        last = np.float32((config.distances - 1) / middle)
        share = np.log(far / np.float32(middle)) / np.log(last)
        bucket = middle + np.ceil(share * np.float32(middle - 1)).astype(np.int64)
        far_away = np.abs(distances) > middle
        distances = np.where(far_away, np.sign(distances) * bucket, distances)
    return np.clip(distances + config.span, 0, 2 * config.span - 1)


class DebertaEmbeddings(BertEmbeddings):
    """Embeddings of words, and of positions and types if wanted; the relative table."""

    def __init__(self, config: DebertaConfig, *, dtype: jnp.dtype, rngs: nnx.Rngs):
        super().__init__(config, projects_first=True, dtype=dtype, rngs=rngs)
        draw = nnx.initializers.normal(config.initializer_range, jnp.float32)
        shape = 2 * config.span, config.hidden_size
        self.relative = nnx.Param(draw(rngs.params(), shape))
        self.relative_norm = (
            LayerNorm(config.hidden_size, epsilon=config.layer_norm_eps, dtype=dtype)
            if config.norm_rel_ebd == "layer_norm"
            else None
        )


@dataclasses.dataclass(frozen=True)
class DebertaContext:
    """Inputs of all layers besides the hidden states."""

    mask: Array  # bool [B, 1, T, T], whether a token may attend to another
    table: Array  # [R, D], embeddings of distances
    rows: np.ndarray  # the one of each distance -T, 1 - T, ... T, int [2 T + 1]


class DebertaLayer(BertLayer[DebertaConfig]):
    """BERT's layer with disentangled attention; its fourth key is of the distances."""

    draws = 4
    position_key: Dense
    position_query: Dense

    def __init__(self, config: DebertaConfig, *, dtype: jnp.dtype, rngs: nnx.Rngs):
        super().__init__(config, dtype=dtype, rngs=rngs)
        width, scale = config.hidden_size, config.initializer_range
        if config.share_att_key:
            return
        names = {"c2p": "position_key", "p2c": "position_query"}
        for term in config.terms:
            dense = Dense(width, width, dtype=dtype, scale=scale, rngs=rngs)
            setattr(self, names[term], dense)

    def attend(
        self, query: Array, key: Array, value: Array, shared: DebertaContext, keys: Keys
    ) -> Array:
        """Attend by content and by distance, with arrays `[B, T, N, H]`."""
        config, terms = self.config, self.config.terms
        # `attend` divides scores by sqrt(H), the paper by sqrt(H (1 + terms)).
        factor = (1 + len(terms)) ** -0.5
        query = query * factor
        # One draw for the batch, as in PyTorch; whole: split by the compiler, it is
        # sent from device to device.
        of_all = keys[3]
        rng = None if of_all is None else of_all.batch
        table = pin_whole(dropout(shared.table, config.hidden_dropout_prob, rng))
        heads = (-1, config.num_attention_heads, query.shape[-1])
        scores = []
        if "c2p" in terms:
            dense = self.key if config.share_att_key else self.position_key
            distances = dense(table).reshape(heads)[shared.rows[:0:-1]]  # T, ... 1 - T
            scores.append(_scores(query, distances).swapaxes(0, 1))
        if "p2c" in terms:
            dense = self.query if config.share_att_key else self.position_query
            distances = dense(table).reshape(heads)[shared.rows[:-1]]  # -T, ... T - 1
            scores.append(_scores(key, distances * factor).transpose(1, 0, 3, 2))
        return attend(
            query,
            key,
            value,
            shared.mask,
            bias=sum(scores) * query.shape[-1] ** -0.5 if scores else None,
            dropout_rate=config.attention_probs_dropout_prob,
            rng=keys[0],
        )


def _scores(x: Array, of_distances: Array) -> Array:
    """Multiply content `[B, T, N, H]` by that of distances `[2 T, N, H]`, shifted.

    One product for each head takes all rows: `[N, B, T, T]`.
    """
    rows, length, heads, width = x.shape
    x = x.transpose(2, 0, 1, 3).reshape(heads, rows * length, width)
    by_distance = matmul(x, of_distances.transpose(1, 2, 0))
    return by_position(by_distance.reshape(heads, rows, length, -1))


class Deberta(Encoder[DebertaConfig, DebertaEmbeddings]):
    """The encoder: token ids in, hidden states out."""

    layer: ClassVar[Callable[..., nnx.Module]] = DebertaLayer

    def embed(self, *, dtype: jnp.dtype, rngs: nnx.Rngs) -> DebertaEmbeddings:
        """Make the embeddings and the relative table."""
        return DebertaEmbeddings(self.config, dtype=dtype, rngs=rngs)

    def prepare(self, ids: Mapping[str, Array], keys: Keys) -> Prepared:
        """Embed: the sum is projected, normalised, zero at padding, dropped out."""
        embeddings, segment_ids = self.embeddings, ids["segment_ids"]
        # The distance of two tokens of a segment is that of their places in the row.
        length = segment_ids.shape[1]
        distances = np.arange(-length, length + 1).clip(1 - length, length - 1)
        rows = relative_rows(distances, self.config)
        table = embeddings.relative[rows[0] : rows[-1] + 1]
        if embeddings.relative_norm is not None:
            table = embeddings.relative_norm(table)
        table = table.astype(self.dtype)
        x = embeddings.add_up(
            word=ids["input_ids"],
            position=ids["position_ids"],
            token_type=ids["token_type_ids"],
        )
        if embeddings.projection is not None:
            x = embeddings.projection(x)
        x = embeddings.normed(x) * (segment_ids > 0)[..., None]
        x = dropout(x, self.config.hidden_dropout_prob, keys[0])
        context = DebertaContext(segment_mask(segment_ids), table, rows - rows[0])
        return x, context, ()
