"""ModernBERT (Warner et al., 2024, https://arxiv.org/abs/2412.13663) in flax.nnx.

Ettin (https://arxiv.org/abs/2507.11412) and mmBERT (https://arxiv.org/abs/2509.06888)
are the same encoder. Positions are rotations of queries and keys. Every third layer
attends to the whole sequence, the others to a window of it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import Array, lax

from dicejax.errors import quote
from dicejax.models.attention import attend, attend_near, segment_mask, within
from dicejax.models.dropout import DropoutKeys, dropout
from dicejax.models.embedding import Embedding
from dicejax.models.encoder import (
    ACTIVATIONS,
    Encoder,
    EncoderConfig,
    SequenceSummary,
    stack,
)
from dicejax.models.layers import Dense, LayerNorm, project_all, recomputed
from dicejax.models.settings import (
    Activation,
    Between,
    Epsilon,
    Rate,
    Remat,
    Size,
    TokenId,
)

Theta = Annotated[float, Between(1, 1e12)]
FULL, WINDOW = "full_attention", "sliding_attention"
BLOCKS_FROM = 5
"""Rows of at least so many blocks have their windows computed block by block.

On a CPU a mask takes 0.92 (256 tokens), 1.15 (384) and 1.86 (512) times as long.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModernBertConfig(EncoderConfig):
    """The architecture of a ModernBERT, in the words of a `config.json`.

    A file may say `layer_types` and `rope_parameters` instead of
    `global_attn_every_n_layers`, `global_rope_theta` and `local_rope_theta`.
    """

    model_types: ClassVar[tuple[str, ...]] = ("modernbert",)

    model_type: str = "modernbert"
    vocab_size: Size = 50368
    hidden_size: Size = 768
    num_hidden_layers: Size = 22
    num_attention_heads: Size = 12
    intermediate_size: Size = 1152
    hidden_activation: Activation = "gelu"
    max_position_embeddings: Size = 8192
    norm_eps: Epsilon = 1e-5
    norm_bias: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    local_attention: Size = 128
    global_attn_every_n_layers: Size = 3
    layer_types: tuple[str, ...] | None = None
    global_rope_theta: Theta = 160_000.0
    local_rope_theta: Theta = 10_000.0
    embedding_dropout: Rate = 0.0
    attention_dropout: Rate = 0.0
    mlp_dropout: Rate = 0.0
    classifier_pooling: Literal["cls", "mean"] = "cls"
    classifier_activation: Activation = "gelu"
    classifier_bias: bool = False
    classifier_dropout: Rate = 0.0
    pad_token_id: TokenId = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        heads = self.num_attention_heads
        if self.hidden_size % (2 * heads):
            raise ValueError(
                f"hidden_size {self.hidden_size} is not a multiple of twice "
                f"num_attention_heads {heads}"
            )
        if self.layer_types is not None:
            self._take_layer_types()

    def _take_layer_types(self) -> None:
        types = self.layer_types
        fits = isinstance(types, list | tuple) and len(types) == self.depth
        if not fits or any(kind not in (FULL, WINDOW) for kind in types):
            raise ValueError(
                f"layer_types is {quote(types)}; want {self.depth} times {FULL!r} or "
                f"{WINDOW!r}"
            )
        # One spelling for one architecture.
        regular = tuple(types) == self._regular
        object.__setattr__(self, "layer_types", None if regular else tuple(types))

    @property
    def _regular(self) -> tuple[str, ...]:
        every = self.global_attn_every_n_layers
        return tuple(WINDOW if n % every else FULL for n in range(self.depth))

    @classmethod
    def fields_of(cls, content: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields that a `config.json` sets, in either spelling."""
        fields = super().fields_of(content)
        parameters = content.get("rope_parameters") or {}
        if content.get("rope_scaling") is not None:
            raise ValueError(
                f"rope_scaling is {quote(content['rope_scaling'])}; supported: null"
            )
        if not isinstance(parameters, Mapping):
            raise ValueError(f"rope_parameters is {quote(parameters)}; want an object")
        for kind, name in ((FULL, "global"), (WINDOW, "local")):
            rope = parameters.get(kind) or {}
            plain = isinstance(rope, Mapping) and not rope.keys() - {
                "rope_type",
                "rope_theta",
            }
            if not plain or rope.get("rope_type", "default") != "default":
                raise ValueError(
                    f"rope_parameters has {quote(rope)} for {kind}; supported: "
                    "rope_type 'default' with a rope_theta"
                )
            if "rope_theta" in rope:
                fields[f"{name}_rope_theta"] = rope["rope_theta"]
        return fields

    @property
    def width(self) -> int:
        """Width of the hidden states."""
        return self.hidden_size

    @property
    def depth(self) -> int:
        """Number of layers."""
        return self.num_hidden_layers

    @property
    def max_length(self) -> int:
        """The longest sequence, in tokens."""
        return self.max_position_embeddings

    @property
    def type_vocab_size(self) -> int:
        """Token types are not told apart."""
        return 1

    @property
    def full_layers(self) -> tuple[bool, ...]:
        """Whether each layer attends to the whole sequence."""
        return tuple(kind == FULL for kind in self.layer_types or self._regular)

    @property
    def window(self) -> int:
        """The farthest token, on either side, that the other layers attend to."""
        return self.local_attention // 2

    @property
    def head_dropout(self) -> float:
        """Share of the states set to zero in front of a classifier."""
        return self.classifier_dropout

    @property
    def summary(self) -> SequenceSummary:
        """The vector of a sequence for classification."""
        return SequenceSummary(
            position="first" if self.classifier_pooling == "cls" else "mean",
            activation=self.classifier_activation,
            bias=self.classifier_bias,
            norm_epsilon=self.norm_eps,
            norm_bias=self.norm_bias,
            dropout_after=self.classifier_dropout,
        )

    @property
    def projects_tokens(self) -> bool:
        """Heads of tokens have the summary's layer too."""
        return True

    def with_dropout(
        self, hidden: float | None, attention: float | None
    ) -> ModernBertConfig:
        """Return a copy with other rates of dropout; None keeps the present one."""
        names = ("embedding_dropout", "mlp_dropout", "classifier_dropout")
        rates = {**dict.fromkeys(names, hidden), "attention_dropout": attention}
        changes = {name: rate for name, rate in rates.items() if rate is not None}
        return dataclasses.replace(self, **changes)

    def build(self, *, dtype: jnp.dtype, remat: Remat, rngs: nnx.Rngs) -> ModernBert:
        """Make the module with initial parameters."""
        return ModernBert(self, dtype=dtype, remat=remat, rngs=rngs)

    def norm(self, *, dtype: jnp.dtype) -> LayerNorm:
        """Make a layer normalisation."""
        return LayerNorm(
            self.hidden_size, epsilon=self.norm_eps, dtype=dtype, bias=self.norm_bias
        )


class ModernBertEmbeddings(nnx.Module):
    """Word embeddings, normalised and dropped out."""

    def __init__(self, config: ModernBertConfig, *, dtype: jnp.dtype, rngs: nnx.Rngs):
        self.word = Embedding(
            config.vocab_size,
            config.hidden_size,
            dtype=dtype,
            scale=config.initializer_range,
            rngs=rngs,
        )
        self.norm = config.norm(dtype=dtype)
        self.rate = config.embedding_dropout

    def __call__(self, input_ids: Array, rng: DropoutKeys | None) -> Array:
        """Embed int `[B, T]` ids: `[B, T, D]`."""
        return dropout(self.norm(self.word(input_ids)), self.rate, rng)


class ModernBertLayer(nnx.Module):
    """One transformer layer: attention and a gated feed-forward part, pre-normalised.

    The norm in front of attention, which the first layer lacks, belongs to the encoder.
    """

    def __init__(self, config: ModernBertConfig, *, dtype: jnp.dtype, rngs: nnx.Rngs):
        width, inner = config.hidden_size, config.intermediate_size
        scale = config.initializer_range
        back = scale / (2 * config.depth) ** 0.5
        of_attention, of_mlp = config.attention_bias, config.mlp_bias
        for name, fan_in, fan_out, deviation, bias in (
            ("query", width, width, scale, of_attention),
            ("key", width, width, scale, of_attention),
            ("value", width, width, scale, of_attention),
            ("attention_output", width, width, back, of_attention),
            ("intermediate", width, inner, scale, of_mlp),
            ("gate", width, inner, scale, of_mlp),
            ("output", inner, width, back, of_mlp),
        ):
            dense = Dense(
                fan_in, fan_out, dtype=dtype, scale=deviation, rngs=rngs, bias=bias
            )
            setattr(self, name, dense)
        self.output_norm = config.norm(dtype=dtype)
        self.config = config

    def __call__(
        self,
        x: Array,
        normed: Array,
        full: Array,
        context: ModernBertContext,
        rng: DropoutKeys | None,
    ) -> Array:
        """Transform `[B, T, D]`.

        Args:
          x: `[B, T, D]`.
          normed: `[B, T, D]`, what attention sees of it.
          full: bool, whether attention is to the whole segment.
          context: inputs of all layers.
          rng: keys for dropout; None switches dropout off.
        """
        config = self.config
        keys = (None,) * 3 if rng is None else rng.split(3)
        heads = (config.num_attention_heads, -1)
        query, key, value = (
            product.reshape(*x.shape[:-1], *heads)
            for product in _together(normed, self.query, self.key, self.value)
        )
        query, key = context.rotate(query, key, full)
        attended = self._attended(query, key, value, full, context, keys[0])
        update = self.attention_output(attended.reshape(x.shape))
        x = x + dropout(update, config.attention_dropout, keys[1])
        inner, gate = _together(
            recomputed(self.output_norm)(x), self.intermediate, self.gate
        )

        def gated(inner: Array, gate: Array) -> Array:
            product = ACTIVATIONS[config.hidden_activation](inner) * gate
            return dropout(product, config.mlp_dropout, keys[2])

        return x + self.output(recomputed(gated)(inner, gate))

    def _attended(self, query, key, value, full, context, rng) -> Array:
        """Attend to the whole segment or to a window of it."""
        window, length = self.config.window, query.shape[1]
        block = block_of(window)
        options = {"dropout_rate": self.config.attention_dropout, "rng": rng}
        within_row = functools.partial(
            attend, segment_ids=context.segment_ids, **options
        )
        if length <= window + 1:
            return within_row(query, key, value)
        if length < BLOCKS_FROM * block:
            mask = segment_mask(context.segment_ids) & (full | within(window, length))
            return attend(query, key, value, mask, **options)
        near = functools.partial(
            attend_near,
            segment_ids=context.segment_ids,
            window=window,
            block=block,
            **options,
        )

        # Stored, scores of all pairs would take room in windowed layers as well.
        def either(*arrays: Array) -> Array:
            return lax.cond(full, within_row, near, *arrays)

        return jax.checkpoint(either, prevent_cse=False)(query, key, value)


def block_of(window: int) -> int:
    """Return the tokens of a block: at least 64, which products want."""
    return max(window, 64)


def _together(x: Array, *layers: Dense) -> list[Array]:
    """Apply dense layers to one input."""
    biases = [None if d.bias is None else d.bias[...] for d in layers]
    return project_all(x, [d.kernel[...] for d in layers], layers[0].dtype, biases)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ModernBertContext:
    """Inputs of all layers besides the hidden states.

    Attributes:
      segment_ids: int `[B, T]`.
      cos: of the angles of windowed and of full layers, `[2, B, T, 1, H / 2]`.
      sin: of the same.
    """

    segment_ids: Array
    cos: Array
    sin: Array

    @classmethod
    def for_batch(
        cls, segment_ids: Array, position_ids: Array, config: ModernBertConfig
    ) -> ModernBertContext:
        """Compute the angles, position times `theta^(-2 i / H)`, in float32."""
        width = config.hidden_size // config.num_attention_heads
        exponents = np.arange(0, width, 2, dtype=np.float32) / np.float32(width)
        thetas = (config.local_rope_theta, config.global_rope_theta)
        rates = [1 / np.float32(theta) ** exponents for theta in thetas]
        positions = position_ids[..., None, None].astype(jnp.float32)
        angles = jnp.stack([positions * rate for rate in rates])
        return cls(segment_ids, jnp.cos(angles), jnp.sin(angles))

    def rotate(self, query: Array, key: Array, full: Array) -> tuple[Array, Array]:
        """Rotate each pair of a first and a second half by its angle."""

        def rotated(cos: Array, sin: Array, full: Array, x: Array) -> Array:
            cos, sin = (jnp.where(full, both[1], both[0]) for both in (cos, sin))
            least = jnp.promote_types(x.dtype, jnp.float32)
            first, second = jnp.split(x.astype(least), 2, axis=-1)
            turned = [first * cos - second * sin, second * cos + first * sin]
            return jnp.concatenate(turned, axis=-1).astype(x.dtype)

        # Angles are chosen again in the backward pass, not stored for each layer.
        turn = functools.partial(recomputed(rotated), self.cos, self.sin, full)
        return turn(query), turn(key)


class ModernBert(Encoder):
    """The encoder: token ids in, hidden states out.

    Token types are not looked at.
    """

    def __init__(
        self,
        config: ModernBertConfig,
        *,
        dtype: jnp.dtype,
        remat: Remat,
        rngs: nnx.Rngs,
    ):
        super().__init__(
            config,
            ModernBertEmbeddings,
            ModernBertLayer,
            dtype=dtype,
            remat=remat,
            rngs=rngs,
        )
        # Of all layers but the first.
        self.attention_norms = (
            stack(lambda _: config.norm(dtype=dtype), config.depth - 1, rngs.params())
            if config.depth > 1
            else None
        )
        self.final_norm = config.norm(dtype=dtype)

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
        config = self.config
        depth = config.depth
        keys = None if rng is None else rng.split(depth + 1)
        context = ModernBertContext.for_batch(segment_ids, position_ids, config)
        graph, norms = self._norms()

        def step(layer: ModernBertLayer, x: Array, part: Any) -> Array:
            first, full, norm, key = part
            normed = recomputed(
                lambda x, norm: jnp.where(first, x, nnx.merge(graph, norm)(x))
            )(x, norm)
            return layer(x, normed, full, context, key)

        per_layer = (
            jnp.arange(depth) == 0,
            jnp.array(config.full_layers),
            norms,
            None if keys is None else keys[:depth],
        )
        words = self.embeddings(input_ids, None if keys is None else keys[depth])
        last, inputs = self.through_layers(words, step, per_layer)
        return self.final_norm(last), inputs

    def _norms(self) -> tuple[nnx.GraphDef, Any]:
        """Return the norms in front of attention, the first layer's never used."""
        graph, unused = nnx.split(self.config.norm(dtype=self.dtype))
        first = jax.tree.map(lambda x: x[None], unused)
        if self.attention_norms is None:
            return graph, first
        _, others = nnx.split(self.attention_norms)
        return graph, jax.tree.map(lambda a, b: jnp.concatenate([a, b]), first, others)
