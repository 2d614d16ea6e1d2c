"""XLNet (Yang et al., 2019, https://arxiv.org/abs/1906.08237) in flax.nnx.

The content stream alone: the query stream serves pretraining only. Positions are
relative, so a sequence may be anywhere in a row, padded on the left or packed behind
others, and has no limit of length.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import jax.numpy as jnp
from flax import nnx
from jax import Array

from dicejax.mesh import pin_whole
from dicejax.models.attention import attend, by_position, segment_mask
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
    Kernel,
    LayerNorm,
    add_and_norm,
    project,
    wide,
)
from dicejax.models.settings import (
    Activation,
    Epsilon,
    OptionalSize,
    Rate,
    Remat,
    Size,
    TokenId,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class XLNetConfig(EncoderConfig):
    """The architecture of an XLNet encoder, in the words of a `config.json`."""

    model_types: ClassVar[tuple[str, ...]] = ("xlnet",)
    sizes: ClassVar[tuple[str, str]] = ("d_model", "n_layer")
    hidden_rates: ClassVar[tuple[str, ...]] = ("dropout",)
    attention_rates: ClassVar[tuple[str, ...]] = ("dropout",)

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
    clamp_len: OptionalSize = -1
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
    def summary(self) -> SequenceSummary:
        """The vector of a sequence for classification."""
        return SequenceSummary(
            position=self.summary_type,
            activation=self.summary_activation or None,
            projected=self.summary_use_proj,
            dropout_after=self.summary_last_dropout,
        )

    def build(self, *, dtype: jnp.dtype, remat: Remat, rngs: nnx.Rngs) -> XLNet:
        """Make the module with initial parameters."""
        return XLNet(self, dtype=dtype, remat=remat, rngs=rngs)


class XLNetLayer(nnx.Module):
    """One transformer layer: relative attention and feed-forward, post-normalised."""

    def __init__(self, config: XLNetConfig, *, dtype: jnp.dtype, rngs: nnx.Rngs):
        width, heads = config.d_model, config.n_head
        scale, epsilon = config.initializer_range, config.layer_norm_eps
        draw = nnx.initializers.normal(scale, jnp.float32)

        def parameter(*leading: int) -> Kernel:
            shape = (*leading, heads, width // heads)
            return Kernel(draw(rngs.params(), shape))

        self.query, self.key, self.value = (parameter(width) for _ in range(3))
        self.position_key, self.attention_output = parameter(width), parameter(width)
        self.segment_key = parameter(2)
        self.content_bias = parameter()
        self.position_bias = parameter()
        self.segment_bias = parameter()
        self.attention_norm = LayerNorm(width, epsilon=epsilon, dtype=dtype)
        dense = functools.partial(Dense, dtype=dtype, scale=scale, rngs=rngs)
        self.intermediate = dense(width, config.d_inner)
        self.output = dense(config.d_inner, width)
        self.output_norm = LayerNorm(width, epsilon=epsilon, dtype=dtype)
        self.config = config
        self.dtype = dtype

    def __call__(
        self, x: Array, context: XLNetContext, rng: DropoutKeys | None
    ) -> Array:
        """Transform `[B, T, D]`."""
        config, rate = self.config, self.config.dropout
        keys: Keys = (None,) * 4 if rng is None else rng.split(4)
        kernels = [kernel[...] for kernel in (self.query, self.key, self.value)]
        query, key, value = project(x, kernels, self.dtype)

        def scores(equation: str, bias: Kernel, key: Array) -> Array:
            q = query + bias[...].astype(self.dtype)
            kind = wide(self.dtype)
            return jnp.einsum(equation, q, key, preferred_element_type=kind)

        kernel = self.position_key[...]
        (distances,) = project(context.positions, [kernel], self.dtype)
        by_distance = scores("btnh,pnh->bntp", self.position_bias, distances)
        segments = self.segment_key[...].astype(self.dtype)
        same, other = scores("btnh,snh->sbnt", self.segment_bias, segments)[..., None]
        by_segment = jnp.where(context.other_type[:, None], other, same)
        attended = attend(
            query + self.content_bias[...].astype(self.dtype),
            key,
            value,
            context.mask,
            bias=(by_position(by_distance) + by_segment) * query.shape[-1] ** -0.5,
            dropout_rate=rate,
            rng=keys[0],
        )
        kernel = self.attention_output[...].reshape(x.shape[-1], -1).T
        (update,) = project(attended.reshape(x.shape), [kernel], self.dtype)
        x = add_and_norm(self.attention_norm, x, update, rate, keys[1])
        inner = ACTIVATIONS[config.ff_activation](self.intermediate(x))
        update = self.output(dropout(inner, rate, keys[2]))
        return add_and_norm(self.output_norm, x, update, rate, keys[3])


@dataclasses.dataclass(frozen=True)
class XLNetContext:
    """Inputs of all layers besides the hidden states."""

    mask: Array  # bool [B, 1, T, T], whether a token may attend to another
    positions: Array  # [2 T, D], the encoding of the distances T, T - 1, ... 1 - T
    other_type: Array  # bool [B, T, T], whether two tokens differ in type


class XLNet(Encoder[XLNetConfig, nnx.Dict[Any]]):
    """The encoder: token ids in, hidden states out.

    Positions are relative, so `position_ids` are not looked at.
    """

    layer: ClassVar[Callable[..., nnx.Module]] = XLNetLayer
    draws = 3

    def embed(self, *, dtype: jnp.dtype, rngs: nnx.Rngs) -> nnx.Dict[Any]:
        """Make the word embeddings, and pretraining's mask embedding, for export."""
        width, scale = self.config.d_model, self.config.initializer_range
        embed = functools.partial(Embedding, dtype=dtype, scale=scale, rngs=rngs)
        word = embed(self.config.vocab_size, width)
        draw = nnx.initializers.normal(scale, jnp.float32)
        mask = nnx.Param(draw(rngs.params(), (1, 1, width)))
        return nnx.Dict(word=word, mask=mask)

    def prepare(self, ids: Mapping[str, Array], keys: Keys) -> Prepared:
        """Embed; layers share the mask, the distances and which types differ."""
        segment_ids, types = ids["segment_ids"], ids["token_type_ids"]
        config, length = self.config, segment_ids.shape[1]
        rate, kind = config.dropout, wide(self.dtype)
        mask = segment_mask(segment_ids)
        if config.attn_type == "uni":
            mask &= jnp.tril(jnp.ones((length, length), bool))
        distances = jnp.arange(length, -length, -1, dtype=kind)
        if config.clamp_len > 0:
            distances = jnp.clip(distances, -config.clamp_len, config.clamp_len)
        exponents = jnp.arange(0, config.d_model, 2, dtype=kind) / config.d_model
        angles = distances[:, None] * (1 / 10_000**exponents)
        waves = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)
        # One draw for the batch, where PyTorch draws for each row, so that positions
        # are projected once. Whole: split by the compiler, it is sent from device to
        # device.
        of_all = keys[1]
        shared = None if of_all is None else of_all.batch
        positions = pin_whole(dropout(waves.astype(self.dtype), rate, shared))
        context = XLNetContext(mask, positions, types[:, :, None] != types[:, None, :])
        x = dropout(self.embeddings.word(ids["input_ids"]), rate, keys[0])
        return x, context, ()

    def finish(self, x: Array, keys: Keys) -> Array:
        """Drop out the output."""
        return dropout(x, self.config.dropout, keys[2])
