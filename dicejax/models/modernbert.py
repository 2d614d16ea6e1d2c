"""ModernBERT (Warner et al., 2024, https://arxiv.org/abs/2412.13663) in flax.nnx.

Ettin (https://arxiv.org/abs/2507.11412) and mmBERT (https://arxiv.org/abs/2509.06888)
are the same encoder. Positions are rotations of queries and keys. Every third layer
attends to the whole sequence, the others to a window of it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array, lax

from dicejax.errors import quote
from dicejax.models.attention import attend, attend_near, fits_kernel
from dicejax.models.dropout import DropoutKeys, Keys, dropout
from dicejax.models.embedding import Embedding
from dicejax.models.encoder import (
    ACTIVATIONS,
    Encoder,
    EncoderConfig,
    Prepared,
    SequenceSummary,
    State,
)
from dicejax.models.layers import Dense, LayerNorm, apply_dense, recompute
from dicejax.models.rotary import Theta, angles, rotate, turns
from dicejax.models.settings import (
    Activation,
    Epsilon,
    Rate,
    Remat,
    Size,
    TokenId,
)

FULL, WINDOW = "full_attention", "sliding_attention"
BLOCK = 64
"""The tokens of a block, which products want, unless the window is larger."""
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
    hidden_rates: ClassVar[tuple[str, ...]] = (
        "embedding_dropout",
        "mlp_dropout",
        "classifier_dropout",
    )
    attention_rates: ClassVar[tuple[str, ...]] = ("attention_dropout",)

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
        types = self.layer_types
        if types is None:
            return
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
        supported = {"rope_type", "rope_theta"}
        for kind, name in ((FULL, "global"), (WINDOW, "local")):
            rope = parameters.get(kind) or {}
            plain = isinstance(rope, Mapping) and rope.keys() <= supported
            if not plain or rope.get("rope_type", "default") != "default":
                raise ValueError(
                    f"rope_parameters has {quote(rope)} for {kind}; supported: "
                    "rope_type 'default' with a rope_theta"
                )
            if "rope_theta" in rope:
                fields[f"{name}_rope_theta"] = rope["rope_theta"]
        return fields

    type_vocab_size = property(lambda self: 1)
    projects_tokens = True

    @property
    def max_length(self) -> int | None:
        """The longest sequence, in tokens."""
        return self.max_position_embeddings

    @property
    def head_dropout(self) -> float:
        """Share of the hidden states set to zero in front of a token head."""
        return self.classifier_dropout

    @property
    def full_layers(self) -> tuple[bool, ...]:
        """Whether each layer attends to the whole sequence."""
        return tuple(kind == FULL for kind in self.layer_types or self._regular)

    @property
    def window(self) -> int:
        """The farthest token, on either side, that the other layers attend to."""
        return self.local_attention // 2

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

    def build(self, *, dtype: jnp.dtype, remat: Remat, rngs: nnx.Rngs) -> ModernBert:
        """Make the module with initial parameters."""
        return ModernBert(self, dtype=dtype, remat=remat, rngs=rngs)

    def norm(self, *, dtype: jnp.dtype) -> LayerNorm:
        """Make a layer normalisation."""
        return LayerNorm(
            self.hidden_size, epsilon=self.norm_eps, dtype=dtype, bias=self.norm_bias
        )


class ModernBertLayer(nnx.Module):
    """One transformer layer: attention and a gated feed-forward part, pre-normalised.

    The norm in front of attention, which the first layer lacks, belongs to the encoder.
    """

    def __init__(self, config: ModernBertConfig, *, dtype: jnp.dtype, rngs: nnx.Rngs):
        width, inner = config.hidden_size, config.intermediate_size
        scale = config.initializer_range
        drawn = functools.partial(Dense, dtype=dtype, rngs=rngs)
        dense = functools.partial(drawn, bias=config.attention_bias)
        self.query = dense(width, width, scale=scale)
        self.key = dense(width, width, scale=scale)
        self.value = dense(width, width, scale=scale)
        back = scale / (2 * config.depth) ** 0.5
        self.attention_output = dense(width, width, scale=back)
        dense = functools.partial(drawn, bias=config.mlp_bias)
        self.intermediate = dense(width, inner, scale=scale)
        self.gate = dense(width, inner, scale=scale)
        self.output = dense(inner, width, scale=back)
        self.output_norm = config.norm(dtype=dtype)
        self.config = config

    def __call__(
        self,
        x: Array,
        context: ModernBertContext,
        first: Array,
        full: Array,
        norm: State,
        rng: DropoutKeys | None,
    ) -> Array:
        """Transform `[B, T, D]`.

        `first` and `full` tell whether this is the first layer, and whether attention
        is to the whole segment; `norm` parametrises the norm in front of attention.
        """
        config = self.config
        keys: Keys = (None,) * 3 if rng is None else rng.split(3)

        def normalise(x: Array, norm: State) -> Array:
            return jnp.where(first, x, nnx.merge(context.norm, norm)(x))

        normed = recompute(normalise)(x, norm)
        query, key, value = (
            product.reshape(*x.shape[:-1], config.num_attention_heads, -1)
            for product in apply_dense(normed, self.query, self.key, self.value)
        )
        query, key = context.rotate(query, key, full)
        attended = self._attend(query, key, value, full, context, keys[0])
        update = self.attention_output(attended.reshape(x.shape))
        x = x + dropout(update, config.attention_dropout, keys[1])
        normed = recompute(self.output_norm)(x)
        inner, gate = apply_dense(normed, self.intermediate, self.gate)

        def multiply(inner: Array, gate: Array) -> Array:
            product = ACTIVATIONS[config.hidden_activation](inner) * gate
            return dropout(product, config.mlp_dropout, keys[2])

        return x + self.output(recompute(multiply)(inner, gate))

    def _attend(
        self,
        query: Array,
        key: Array,
        value: Array,
        full: Array,
        context: ModernBertContext,
        rng: DropoutKeys | None,
    ) -> Array:
        """Attend to the whole segment or to a window of it."""
        window, length = self.config.window, query.shape[1]
        block = max(window, BLOCK)
        rate = self.config.attention_dropout
        whole = functools.partial(attend, dropout_rate=rate, rng=rng)
        whole = functools.partial(whole, segment_ids=context.segment_ids)
        if length <= window + 1:
            return whole(query, key, value)
        # Dropout by blocks has other keys.
        skips = rng is None or rate == 0.0
        skips = skips and fits_kernel(query.shape, query.dtype, windowed=True)
        if skips or length < BLOCKS_FROM * block:
            reach = jnp.where(full, length, window)
            return whole(query, key, value, window=reach)
        part = functools.partial(attend_near, dropout_rate=rate, rng=rng)
        part = functools.partial(part, window=window, block=block)
        part = functools.partial(part, segment_ids=context.segment_ids)
        either = functools.partial(lax.cond, full, whole, part)
        # Stored, scores of all pairs would take room in windowed layers as well.
        return jax.checkpoint(either, prevent_cse=False)(query, key, value)


@dataclasses.dataclass(frozen=True)
class ModernBertContext:
    """Inputs of all layers besides the hidden states."""

    segment_ids: Array  # int [B, T]
    cos: Array  # of the angles of windowed and of full layers, [2, ...], see `turns`
    sin: Array
    norm: nnx.GraphDef[
        LayerNorm
    ]  # the norm in front of attention, without its parameters

    def rotate(self, query: Array, key: Array, full: Array) -> tuple[Array, Array]:
        """Rotate each pair of a first and a second half by its angle."""

        def turn(cos: Array, sin: Array, full: Array, x: Array) -> Array:
            cos, sin = (jnp.where(full, both[1], both[0]) for both in (cos, sin))
            return rotate(x, cos, sin)

        # Angles are chosen again in the backward pass, not stored for each layer.
        turn = functools.partial(recompute(turn), self.cos, self.sin, full)
        return turn(query), turn(key)


class ModernBert(Encoder[ModernBertConfig, nnx.Dict[Any]]):
    """The encoder: token ids in, hidden states out.

    Token types are not looked at.
    """

    layer: ClassVar[Callable[..., nnx.Module]] = ModernBertLayer

    def __init__(
        self,
        config: ModernBertConfig,
        *,
        dtype: jnp.dtype,
        remat: Remat,
        rngs: nnx.Rngs,
    ):
        super().__init__(config, dtype=dtype, remat=remat, rngs=rngs)
        if config.depth > 1:  # of all layers but the first
            keys = jax.random.split(rngs.params(), config.depth - 1)
            norms = nnx.vmap(lambda _: config.norm(dtype=dtype))(keys)
            self.attention_norms: LayerNorm | None = norms
        else:
            self.attention_norms = None
        self.final_norm = config.norm(dtype=dtype)

    def embed(self, *, dtype: jnp.dtype, rngs: nnx.Rngs) -> nnx.Dict[Any]:
        """Make the word embeddings and their norm."""
        config = self.config
        sizes, scale = (config.vocab_size, config.hidden_size), config.initializer_range
        word = Embedding(*sizes, dtype=dtype, scale=scale, rngs=rngs)
        return nnx.Dict(word=word, norm=config.norm(dtype=dtype))

    def prepare(self, ids: Mapping[str, Array], keys: Keys) -> Prepared:
        """Embed; layers share segments and angles, each has its norm and its reach."""
        config = self.config
        width = config.hidden_size // config.num_attention_heads
        thetas = (config.local_rope_theta, config.global_rope_theta)
        both = jnp.stack([angles(ids["position_ids"], width, t) for t in thetas])
        graph, unused = nnx.split(config.norm(dtype=self.dtype))
        norms = jax.tree.map(lambda x: x[None], unused)  # the first layer's
        if self.attention_norms is not None:
            _, others = nnx.split(self.attention_norms)
            norms = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), norms, others)
        context = ModernBertContext(ids["segment_ids"], *turns(both), graph)
        first = jnp.arange(config.depth) == 0
        words = self.embeddings.norm(self.embeddings.word(ids["input_ids"]))
        x = dropout(words, config.embedding_dropout, keys[0])
        return x, context, (first, jnp.array(config.full_layers), norms)

    def finish(self, x: Array, keys: Keys) -> Array:
        """Normalise the output, as no layer did."""
        return self.final_norm(x)
