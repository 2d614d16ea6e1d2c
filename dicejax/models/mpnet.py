"""MPNet (Song et al., 2020, https://arxiv.org/abs/2004.09297) in flax.nnx.

Its layers are BERT's, with a bias of each score by the distance from query to key, in
buckets as in T5. All layers share it. Token types are unused.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import Array

from dicejax.models.attention import attend, by_position, segment_mask
from dicejax.models.bert import BertEmbeddings, BertLayer, PostNormConfig
from dicejax.models.dropout import Keys, dropout
from dicejax.models.encoder import Encoder, Prepared, SequenceSummary
from dicejax.models.layers import wide
from dicejax.models.settings import Remat

BUCKETS = 32
"""Half of them are of keys in front of the query, half of keys behind it."""
FARTHEST = 128
"""The distance from which all share the last bucket."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MPNetConfig(PostNormConfig):
    """The architecture of an MPNet encoder, in the words of a `config.json`."""

    model_types: ClassVar[tuple[str, ...]] = ("mpnet",)

    model_type: str = "mpnet"
    # PyTorch's code has these two numbers whatever the file says.
    relative_attention_num_buckets: Literal[32] = 32
    pad_token_id: Literal[1] = 1
    embedding_size: Literal[None] = None

    type_vocab_size = property(lambda self: 1)
    first_position = property(lambda self: self.pad_token_id + 1)

    @property
    def summary(self) -> SequenceSummary:
        """The first token's vector, by a dense layer between two dropouts."""
        rate = self.hidden_dropout_prob
        return SequenceSummary(dropout_before=rate, dropout_after=rate)

    def build(self, *, dtype: jnp.dtype, remat: Remat, rngs: nnx.Rngs) -> MPNet:
        """Make the module with initial parameters."""
        return MPNet(self, dtype=dtype, remat=remat, rngs=rngs)

    def to_json(self) -> dict[str, Any]:
        """Return the content of a `config.json`, which has no `embedding_size`."""
        return {k: v for k, v in super().to_json().items() if v is not None}


def relative_buckets(distances: np.ndarray) -> np.ndarray:
    r"""Return the bucket of each distance, a query's place minus its key's.

    Distances up to 7 have a bucket each; larger ones share buckets by their logarithm,
    up to 128. Those of keys behind the query come after the 16 of keys in front:

    .. math::
       \operatorname{bucket}(\delta) = \min\left(15, 8 + \left\lfloor 8
         \log_{16}(|\delta| / 8) \right\rfloor\right) + 16 \, [\delta < 0]

    >>> relative_buckets(np.array([0, 7, 8, 11, 12, 500, -1, -500]))
    array([ 0,  7,  8,  8,  9, 15, 17, 31])
    """
    half, exact = BUCKETS // 2, BUCKETS // 4
    size = np.abs(distances)
    # In float32 as the models were trained: some buckets begin at whole numbers.
    far = np.maximum(size, exact).astype(np.float32) / np.float32(exact)
    share = np.log(far) / np.float32(np.log(FARTHEST / exact))
    bucket = exact + (share * np.float32(half - exact)).astype(np.int64)
    bucket = np.where(size < exact, size, np.minimum(bucket, half - 1))
    return bucket + half * (distances < 0)


class MPNetEmbeddings(BertEmbeddings):
    """Embeddings of words and positions, and the biases of the buckets."""

    def __init__(self, config: MPNetConfig, *, dtype: jnp.dtype, rngs: nnx.Rngs):
        super().__init__(config, projects_first=False, dtype=dtype, rngs=rngs)
        draw = nnx.initializers.normal(config.initializer_range, jnp.float32)
        shape = BUCKETS, config.num_attention_heads
        self.relative_bias = nnx.Param(draw(rngs.params(), shape))


@dataclasses.dataclass(frozen=True)
class MPNetContext:
    """Inputs of all layers besides the hidden states."""

    mask: Array  # bool [B, 1, T, T], whether a token may attend to another
    bias: Array  # [1, N, T, T], added to the scores


class MPNetLayer(BertLayer[MPNetConfig]):
    """BERT's layer with a bias by distance."""

    def attend(
        self, query: Array, key: Array, value: Array, shared: MPNetContext, keys: Keys
    ) -> Array:
        """Attend within segments, with arrays `[B, T, N, H]`."""
        rate = self.config.attention_probs_dropout_prob
        part = functools.partial(attend, dropout_rate=rate, rng=keys[0])
        return part(query, key, value, shared.mask, bias=shared.bias)


class MPNet(Encoder[MPNetConfig, MPNetEmbeddings]):
    """The encoder: token ids in, hidden states out.

    Token types are not looked at.
    """

    layer: ClassVar[Callable[..., nnx.Module]] = MPNetLayer

    def embed(self, *, dtype: jnp.dtype, rngs: nnx.Rngs) -> MPNetEmbeddings:
        """Make the embeddings and the biases."""
        return MPNetEmbeddings(self.config, dtype=dtype, rngs=rngs)

    def prepare(self, ids: Mapping[str, Array], keys: Keys) -> Prepared:
        """Embed; layers share the mask and the biases."""
        embeddings, config = self.embeddings, self.config
        # The distance of two tokens of a segment is that of their places in the row.
        length, heads = ids["input_ids"].shape[1], config.num_attention_heads
        rows = relative_buckets(np.arange(length, -length, -1))
        by_distance = embeddings.relative_bias[...].astype(wide(self.dtype))[rows].T
        shape = heads, length, 2 * length
        bias = by_position(jnp.broadcast_to(by_distance[:, None], shape))
        x = embeddings.add_up(
            word=ids["input_ids"], position=ids["position_ids"] + config.first_position
        )
        x = dropout(embeddings.normed(x), config.hidden_dropout_prob, keys[0])
        return x, MPNetContext(segment_mask(ids["segment_ids"]), bias[None]), ()
