"""XLNet (Yang et al., 2019, https://arxiv.org/abs/1906.08237) in flax.nnx.

The content stream alone: the query stream serves pretraining only. Positions are
relative, so a sequence may be anywhere in a row, padded on the left or packed behind
others, and has no limit of length.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, ClassVar, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from dicejax.mesh import pin_whole
from dicejax.models.attention import attend, by_position, segment_mask
from dicejax.models.dropout import DropoutKeys, dropout
from dicejax.models.embedding import Embedding
from dicejax.models.encoder import ACTIVATIONS, Encoder, EncoderConfig, SequenceSummary
from dicejax.models.layers import (
    Dense,
    LayerNorm,
    add_and_norm,
    normal,
    project,
    project_all,
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

ClampedLength = Annotated[int, Between(-1, 2**31 - 1)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class XLNetConfig(EncoderConfig):
    """The architecture of an XLNet encoder, in the words of a `config.json`."""

    model_types: ClassVar[tuple[str, ...]] = ("xlnet",)

    model_type: str = "xlnet"
    d_model: Size = 1024
    n_layer: Size = 24
    n_head: Size = 16
    d_head: Size | None = None
    d_inner: Size = 4096
    ff_activation: Activation = "gelu"
    untie_r: Literal[True] = True
    attn_type: Literal["bi", "uni"] = "bi"
    layer_norm_eps: Epsilon = 1e-12
    dropout: Rate = 0.1
    bi_data: Literal[False] = False
    clamp_len: ClampedLength = -1
    same_length: Literal[False] = False
    summary_type: Literal["first", "last", "mean"] = "last"
    summary_use_proj: bool = True
    summary_activation: Activation | Literal[""] | None = "tanh"
    summary_last_dropout: Rate = 0.1
    pad_token_id: TokenId = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.d_model % self.n_head or self.d_model % 2:
            raise ValueError(
                f"d_model {self.d_model} is not a multiple of 2 and of "
                f"n_head {self.n_head}"
            )
        if self.d_head not in (None, self.d_model // self.n_head):
            raise ValueError(
                f"d_head is {self.d_head}; supported: d_model / n_head = "
                f"{self.d_model // self.n_head}"
            )

    @property
    def width(self) -> int:
        """Width of the hidden states."""
        return self.d_model

    @property
    def depth(self) -> int:
        """Number of layers."""
        return self.n_layer

    @property
    def summary(self) -> SequenceSummary:
        """The vector of a sequence for classification."""
        return SequenceSummary(
            position=self.summary_type,
            activation=self.summary_activation or None,
            projected=self.summary_use_proj,
            dropout_after=self.summary_last_dropout,
        )

    def with_dropout(
        self, hidden: float | None, attention: float | None
    ) -> XLNetConfig:
        """Return a copy with another rate of dropout, of which there is one.

        Raises:
          ValueError: the two rates differ.
        """
        rates = {rate for rate in (hidden, attention) if rate is not None}
        if len(rates) > 1:
            raise ValueError(
                f"hidden_dropout_prob is {hidden}, attention_probs_dropout_prob "
                f"{attention}; XLNet has one rate for both"
            )
        return dataclasses.replace(self, dropout=rates.pop()) if rates else self

    def build(self, *, dtype: jnp.dtype, remat: Remat, rngs: nnx.Rngs) -> XLNet:
        """Make the module with initial parameters."""
        return XLNet(
            self, XLNetEmbeddings, XLNetLayer, dtype=dtype, remat=remat, rngs=rngs
        )


class XLNetEmbeddings(nnx.Module):
    """Word embeddings, and the mask embedding of pretraining, kept for export."""

    def __init__(self, config: XLNetConfig, *, dtype: jnp.dtype, rngs: nnx.Rngs):
        width, scale = config.d_model, config.initializer_range
        self.word = Embedding(
            config.vocab_size, width, dtype=dtype, scale=scale, rngs=rngs
        )
        self.mask = nnx.Param(normal(rngs.params(), (1, 1, width), scale))

    def __call__(self, input_ids: Array) -> Array:
        """Embed int `[B, T]` ids: `[B, T, D]`."""
        return self.word(input_ids)


class XLNetLayer(nnx.Module):
    """One transformer layer: relative attention and feed-forward, post-normalised."""

    def __init__(self, config: XLNetConfig, *, dtype: jnp.dtype, rngs: nnx.Rngs):
        width, heads = config.d_model, config.n_head
        scale, epsilon = config.initializer_range, config.layer_norm_eps

        def parameter(*shape: int) -> nnx.Param:
            return nnx.Param(normal(rngs.params(), shape, scale))

        head_width = width // heads
        self.query = parameter(width, heads, head_width)
        self.key = parameter(width, heads, head_width)
        self.value = parameter(width, heads, head_width)
        self.position_key = parameter(width, heads, head_width)
        self.attention_output = parameter(width, heads, head_width)
        self.segment_key = parameter(2, heads, head_width)
        self.content_bias = parameter(heads, head_width)
        self.position_bias = parameter(heads, head_width)
        self.segment_bias = parameter(heads, head_width)
        self.attention_norm = LayerNorm(width, epsilon=epsilon, dtype=dtype)
        self.intermediate = Dense(
            width, config.d_inner, dtype=dtype, scale=scale, rngs=rngs
        )
        self.output = Dense(config.d_inner, width, dtype=dtype, scale=scale, rngs=rngs)
        self.output_norm = LayerNorm(width, epsilon=epsilon, dtype=dtype)
        self.config = config
        self.dtype = dtype

    def __call__(
        self,
        x: Array,
        context: XLNetContext,
        rng: DropoutKeys | None,
    ) -> Array:
        """Transform `[B, T, D]`."""
        config, rate = self.config, self.config.dropout
        keys = (None,) * 4 if rng is None else rng.split(4)
        kernels = (self.query[...], self.key[...], self.value[...])
        query, key, value = project_all(x, kernels, self.dtype)
        attended = attend(
            query + self.content_bias[...].astype(self.dtype),
            key,
            value,
            context.mask,
            bias=self._bias(query, context),
            dropout_rate=rate,
            rng=keys[0],
        )
        kernel = self.attention_output[...].reshape(x.shape[-1], -1).T
        update = project(attended.reshape(x.shape), kernel, self.dtype)
        x = add_and_norm(self.attention_norm, x, update, rate, keys[1])
        inner = ACTIVATIONS[config.ff_activation](self.intermediate(x))
        update = self.output(dropout(inner, rate, keys[2]))
        return add_and_norm(self.output_norm, x, update, rate, keys[3])

    def _bias(self, query: Array, context: XLNetContext) -> Array:
        """Compute the bias of positions and segments: `[B, N, T, T]`."""
        at_least_float32 = jnp.promote_types(self.dtype, jnp.float32)

        def scores(equation: str, bias: nnx.Param, key: Array) -> Array:
            q = query + bias[...].astype(self.dtype)
            return jnp.einsum(equation, q, key, preferred_element_type=at_least_float32)

        distances = project(context.positions, self.position_key[...], self.dtype)
        by_distance = scores("btnh,pnh->bntp", self.position_bias, distances)
        of_positions = by_position(by_distance)
        segments = self.segment_key[...].astype(self.dtype)
        same, other = scores("btnh,snh->sbnt", self.segment_bias, segments)[..., None]
        by_segment = jnp.where(context.other_type[:, None], other, same)
        return (of_positions + by_segment) * query.shape[-1] ** -0.5


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class XLNetContext:
    """Inputs of all layers besides the hidden states.

    Attributes:
      mask: bool `[B, 1, T, T]`, whether a token may attend to another.
      positions: `[2 T, D]`, the encoding of the distances T, T - 1, ... 1 - T.
      other_type: bool `[B, T, T]`, whether two tokens differ in type.
    """

    mask: Array
    positions: Array
    other_type: Array


class XLNet(Encoder):
    """The encoder: token ids in, hidden states out.

    Positions are relative, so `position_ids` are not looked at.
    """

    def __call__(
        self,
        input_ids: Array,
        *,
        segment_ids: Array,
        position_ids: Array,
        token_type_ids: Array,
        rng: DropoutKeys | None = None,
    ) -> tuple[Array, Array]:
        """Encode packed rows, see `encoder.Encoder`."""
        depth, rate = self.config.depth, self.config.dropout
        keys = None if rng is None else rng.split(depth + 3)
        first, second, last = (None,) * 3 if keys is None else keys[depth:]
        shared = None if second is None else second.batch
        words = self.embeddings(input_ids)
        # One draw for the batch, where PyTorch draws for each row, so that positions
        # are projected once.
        context = XLNetContext(
            _visible(segment_ids, self.config),
            # Whole: split by the compiler, it is sent from device to device.
            pin_whole(dropout(self._positions(input_ids.shape[1]), rate, shared)),
            token_type_ids[:, :, None] != token_type_ids[:, None, :],
        )
        output, inputs = self.through_layers(
            dropout(words, rate, first),
            lambda layer, x, key: layer(x, context, key),
            None if keys is None else keys[:depth],
        )
        return dropout(output, rate, last), inputs

    def _positions(self, length: int) -> Array:
        """Encode the distances T, T - 1, ... 1 - T."""
        at_least_float32 = jnp.promote_types(self.dtype, jnp.float32)
        distances = jnp.arange(length, -length, -1, dtype=at_least_float32)
        if self.config.clamp_len > 0:
            distances = jnp.clip(
                distances, -self.config.clamp_len, self.config.clamp_len
            )
        exponents = jnp.arange(0, self.config.d_model, 2, dtype=at_least_float32)
        rates = 1 / 10_000 ** (exponents / self.config.d_model)
        angles = distances[:, None] * rates
        both = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)
        return both.astype(self.dtype)


def _visible(segment_ids: Array, config: XLNetConfig) -> Array:
    """Return the attention mask, bool `[B, 1, T, T]`."""
    mask = segment_mask(segment_ids)
    if config.attn_type == "bi":
        return mask
    length = segment_ids.shape[1]
    return mask & jnp.tril(jnp.ones((length, length), bool))
