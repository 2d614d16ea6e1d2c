"""BERT with rotary positions in flax.nnx: GTE, Nomic BERT and Jina embeddings 3.

GTE (https://arxiv.org/abs/2407.19669) and Nomic BERT (https://arxiv.org/abs/2402.01613)
have gated feed-forward parts; Jina's (https://arxiv.org/abs/2409.10173) is that of
BERT. Positions are rotations of queries and keys, https://arxiv.org/abs/2104.09864.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import Array

from dicejax.errors import quote
from dicejax.mesh import platform
from dicejax.models.bert import Bert, BertLayer, ClassifierConfig
from dicejax.models.dropout import Keys, dropout
from dicejax.models.encoder import ACTIVATIONS, Prepared, SequenceSummary
from dicejax.models.layers import Dense, apply_dense, matmul, recompute, wide
from dicejax.models.settings import Between, Remat

Theta = Annotated[float, Between(1, 1e12)]
GTE, NOMIC, JINA = "gte", "nomic_bert", "jina_embeddings_v3"
ATTENDING = ("query", "key", "value", "attention_output")
GATED = ("intermediate", "gate")
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    GTE: {
        "attention_probs_dropout_prob": 0.0,
        "max_position_embeddings": 8192,
        "pad_token_id": 1,
    },
    NOMIC: {
        "hidden_act": "silu",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "max_position_embeddings": 2048,
        "type_vocab_size": 2,
        "rope_theta": 1000.0,
    },
    JINA: {
        "layer_norm_eps": 1e-5,
        "max_position_embeddings": 8194,
        "pad_token_id": 1,
        "rope_theta": 20_000.0,
    },
}
"""Defaults of a `config.json` that differ from those of GTE or BERT."""
_ELSEWHERE = ("n_embd", "lora_adaptations", "rope_scaling", "num_experts")
"""Settings of the code in a model's own folder, which transformers does not follow."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RotaryConfig(ClassifierConfig):
    """The architecture of a BERT with rotary positions, in the words of transformers.

    A file says `rope_parameters` instead of `rope_theta`.
    """

    model_types: ClassVar[tuple[str, ...]] = (GTE, NOMIC, JINA)

    model_type: str = GTE
    type_vocab_size: Annotated[int, Between(0, 2**31 - 1)] = 1
    rope_theta: Theta = 160_000.0
    embedding_size: Literal[None] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden_size % (2 * self.num_attention_heads):
            raise ValueError(
                f"hidden_size {self.hidden_size} is not a multiple of twice "
                f"num_attention_heads {self.num_attention_heads}"
            )

    is_gated = property(lambda self: self.model_type != JINA)

    @classmethod
    def fields_of(cls, content: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields that a `config.json` sets, in either spelling."""
        for name in _ELSEWHERE:
            if content.get(name) is not None:
                raise ValueError(
                    f"{name} is {quote(content[name])}, for code of the model's own "
                    "folder; supported: what save_pretrained of transformers' own "
                    f"class writes for model_type {quote(content['model_type'])}"
                )
        defaults = _DEFAULTS.get(content["model_type"], {})
        fields = super().fields_of({**defaults, **content})
        rope = content.get("rope_parameters") or {}
        plain = isinstance(rope, Mapping) and rope.keys() <= {"rope_type", "rope_theta"}
        if not plain or rope.get("rope_type", "default") != "default":
            raise ValueError(
                f"rope_parameters is {quote(rope)}; supported: rope_type 'default' "
                "with a rope_theta"
            )
        theta = fields.get("rope_theta", cls.rope_theta)
        fields["rope_theta"] = rope.get("rope_theta", theta)
        width = content.get("head_dim")
        if width not in (None, cls(**fields).head_width):
            raise ValueError(
                f"head_dim is {quote(width)}; supported: hidden_size / "
                f"num_attention_heads = {cls(**fields).head_width}"
            )
        return fields

    def to_json(self) -> dict[str, Any]:
        """Return the content of a `config.json`."""
        content = super().to_json()
        del content["embedding_size"]
        theta = content.pop("rope_theta")
        rope = {"rope_type": "default", "rope_theta": theta}
        return content | {"rope_parameters": rope}

    @property
    def unbiased(self) -> tuple[str, ...]:
        """The dense layers without a bias, where there is a gate."""
        return GATED if self.model_type == GTE else (*ATTENDING, *GATED, "output")

    @property
    def summary(self) -> SequenceSummary:
        """The first token's vector, by a dense layer, which Jina drops out before."""
        rate = self.head_dropout
        before = 0.0 if self.is_gated else rate
        return SequenceSummary(dropout_before=before, dropout_after=rate)

    def build(self, *, dtype: jnp.dtype, remat: Remat, rngs: nnx.Rngs) -> nnx.Module:
        """Make the module with initial parameters."""
        return _RotaryBert(self, dtype=dtype, remat=remat, rngs=rngs)

    @property
    def tables(self) -> dict[str, int]:
        """The embedding tables, each with its number of entries."""
        types = {"token_type": self.type_vocab_size} if self.type_vocab_size else {}
        return {"word": self.vocab_size} | types


@dataclasses.dataclass(frozen=True)
class _RotaryContext:
    """Inputs of all layers besides the hidden states."""

    segment_ids: Array  # int [B, T]
    cos: Array  # of the angles, see `turns`
    sin: Array


def angles(positions: Array, width: int, theta: float) -> Array:
    """Return `p theta^(-2 i / H)` in float32, `[B, T, 1, H / 2]` of int `[B, T]`."""
    exponents = np.arange(0, width, 2, dtype=np.float32) / np.float32(width)
    rates = 1 / np.float32(theta) ** exponents
    return positions[..., None, None].astype(jnp.float32) * rates


def turns(angles: Array) -> tuple[Array, Array]:
    """Return cosine and sine of the angles; on CPUs twice, for both halves of a head.

    Joined there, they are computed once. XLA would compute them again in each product.
    """
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    if platform() == "cpu":
        joined = jnp.concatenate([cos, cos, sin, sin], axis=-1)
        cos, sin = jnp.split(joined, 2, axis=-1)
    return cos, sin


def rotate(x: Array, cos: Array, sin: Array) -> Array:
    """Rotate each pair of a first and a second half of `[B, T, N, H]` by its angle."""
    # XLA joins bfloat16 halves on CPUs number by number: a product is 4 times as fast.
    if x.dtype == jnp.bfloat16 and platform() == "cpu":
        return _rotate_by_product(x, cos, sin)
    half = x.shape[-1] // 2
    cos, sin = cos[..., :half], sin[..., :half]
    first, second = jnp.split(x.astype(wide(x.dtype)), 2, axis=-1)
    halves = [first * cos - second * sin, second * cos + first * sin]
    return jnp.concatenate(halves, axis=-1).astype(x.dtype)


@jax.custom_vjp
def _rotate_by_product(x: Array, cos: Array, sin: Array) -> Array:
    """Rotate with angles for both halves; each number is moved by an exact product."""
    width = x.shape[-1]
    move = jnp.asarray(np.kron([[0, 1], [-1, 0]], np.eye(width // 2)), x.dtype)
    moved = matmul(x.reshape(-1, width), move).reshape(x.shape)
    return (x.astype(jnp.float32) * cos + moved * sin).astype(x.dtype)


_rotate_by_product.defvjp(
    lambda x, cos, sin: (_rotate_by_product(x, cos, sin), (cos, sin)),
    lambda turn, g: (_rotate_by_product(g, turn[0], -turn[1]), None, None),
)


class _RotaryLayer(BertLayer[RotaryConfig]):
    """BERT's layer with rotated queries and keys, and a gate where there is one."""

    draws: ClassVar[int] = 4

    def __init__(self, config: RotaryConfig, *, dtype: jnp.dtype, rngs: nnx.Rngs):
        super().__init__(config, dtype=dtype, rngs=rngs)
        if not config.is_gated:
            return
        width, inner = config.hidden_size, config.intermediate_size
        scale = config.initializer_range
        self.gate = Dense(width, inner, dtype=dtype, scale=scale, rngs=rngs)
        for name in config.unbiased:
            getattr(self, name).bias = None

    def feed_forward(self, x: Array, keys: Keys) -> Array:
        """Compute the update of each token by itself, `[B, T, D]`."""
        config = self.config
        if not config.is_gated:
            return super().feed_forward(x, keys)
        # GTE alone drops out the product.
        rate = config.hidden_dropout_prob if config.model_type == GTE else 0.0

        def multiply(inner: Array, gate: Array) -> Array:
            return dropout(ACTIVATIONS[config.hidden_act](gate) * inner, rate, keys[3])

        inner, gate = apply_dense(x, self.intermediate, self.gate)
        return self.output(recompute(multiply)(inner, gate))

    def attend(
        self, query: Array, key: Array, value: Array, shared: _RotaryContext, keys: Keys
    ) -> Array:
        """Attend within segments, with arrays `[B, T, N, H]`."""
        turn = recompute(rotate)
        query, key = (turn(x, shared.cos, shared.sin) for x in (query, key))
        return super().attend(query, key, value, shared.segment_ids, keys)


class _RotaryBert(Bert[RotaryConfig]):
    """The encoder: token ids in, hidden states out."""

    layer: ClassVar[Callable[..., nnx.Module]] = _RotaryLayer

    def prepare(self, ids: Mapping[str, Array], keys: Keys) -> Prepared:
        """Embed; layers share segments and angles."""
        x, segment_ids, rest = super().prepare(ids, keys)
        config = self.config
        by = angles(ids["position_ids"], config.head_width, config.rope_theta)
        return x, _RotaryContext(segment_ids, *turns(by)), rest
