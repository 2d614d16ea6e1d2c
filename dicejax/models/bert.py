"""BERT (Devlin et al., 2019, https://arxiv.org/abs/1810.04805) in flax.nnx.

The layers are stacked along a leading axis and scanned, so a deeper model does not take
longer to compile.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array, lax

from dicejax.models.attention import attend, segment_mask
from dicejax.models.layers import Dense, Embedding, LayerNorm, dropout

ACTIVATIONS = {
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "gelu_new": jax.nn.gelu,
    "gelu_pytorch_tanh": jax.nn.gelu,
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class BertConfig:
    """The architecture of a BERT encoder, in the words of a `config.json`."""

    vocab_size: int
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int = 0

    def __post_init__(self):
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is not a multiple of "
                f"num_attention_heads {self.num_attention_heads}"
            )
        if self.hidden_act not in ACTIVATIONS:
            raise ValueError(
                f"hidden_act {self.hidden_act!r} is unknown; known: "
                f"{', '.join(sorted(ACTIVATIONS))}"
            )

    @property
    def tables(self) -> dict[str, int]:
        """The embedding tables, each with its number of entries."""
        return {
            "word": self.vocab_size,
            "position": self.max_position_embeddings,
            "token_type": self.type_vocab_size,
        }


class Embeddings(nnx.Module):
    """Word, position and token-type embeddings, summed, normalised, dropped out."""

    def __init__(self, config: BertConfig, *, dtype: jnp.dtype, rngs: nnx.Rngs):
        width, scale = config.hidden_size, config.initializer_range
        for name, entries in config.tables.items():
            setattr(self, name, Embedding(entries, width, scale=scale, rngs=rngs))
        self.norm = LayerNorm(width, epsilon=config.layer_norm_eps, dtype=dtype)
        self.dropout_rate = config.hidden_dropout_prob

    def __call__(
        self,
        input_ids: Array,
        position_ids: Array,
        token_type_ids: Array,
        rng: Array | None,
    ) -> Array:
        """Embed int `[B, T]` ids: `[B, T, D]`."""
        total = (
            self.word(input_ids)
            + self.position(position_ids)
            + self.token_type(token_type_ids)
        )
        return dropout(self.norm(total), self.dropout_rate, rng)


class Layer(nnx.Module):
    """One transformer layer: self-attention and feed-forward, each post-normalised."""

    def __init__(self, config: BertConfig, *, dtype: jnp.dtype, rngs: nnx.Rngs):
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

    def __call__(self, x: Array, mask: Array, rng: Array | None) -> Array:
        """Transform `[B, T, D]`; `mask` as `attention.segment_mask` gives it."""
        config = self.config
        keys = (None,) * 3 if rng is None else jax.random.split(rng, 3)
        heads = (config.num_attention_heads, -1)
        query, key, value = (
            dense(x).reshape(*x.shape[:-1], *heads)
            for dense in (self.query, self.key, self.value)
        )
        context = attend(
            query,
            key,
            value,
            mask,
            dropout_rate=config.attention_probs_dropout_prob,
            rng=keys[0],
        ).reshape(x.shape)
        update = self.attention_output(context)
        x = self.attention_norm(
            x + dropout(update, config.hidden_dropout_prob, keys[1])
        )
        update = self.output(ACTIVATIONS[config.hidden_act](self.intermediate(x)))
        return self.output_norm(
            x + dropout(update, config.hidden_dropout_prob, keys[2])
        )


class Bert(nnx.Module):
    """The encoder: token ids in, hidden states out.

    Args:
      config: the architecture.
      dtype: type of the activations; parameters are float32.
      remat: recompute each layer in the backward pass, which stores only the layers'
        inputs.
      rngs: source of the initial parameters.
    """

    def __init__(
        self,
        config: BertConfig,
        *,
        dtype: jnp.dtype = jnp.float32,
        remat: bool = False,
        rngs: nnx.Rngs,
    ):
        self.embeddings = Embeddings(config, dtype=dtype, rngs=rngs)

        @nnx.vmap(in_axes=0, out_axes=0)
        def stack(key: Array) -> Layer:
            return Layer(config, dtype=dtype, rngs=nnx.Rngs(params=key))

        self.layers = stack(jax.random.split(rngs.params(), config.num_hidden_layers))
        self.config = config
        self.remat = remat

    def __call__(
        self,
        input_ids: Array,
        *,
        segment_ids: Array,
        position_ids: Array,
        token_type_ids: Array,
        rng: Array | None = None,
    ) -> Array:
        """Encode packed rows.

        Args:
          input_ids: int `[B, T]`.
          segment_ids: int `[B, T]`; 1, 2, ... number the sentences packed into a row,
            0 is padding.
          position_ids: int `[B, T]`, restarting at 0 with each segment.
          token_type_ids: int `[B, T]`.
          rng: PRNG key for dropout; None switches dropout off.

        Returns:
          Hidden states `[L + 1, B, T, D]`: the embeddings, then each layer's output.
        """
        depth = self.config.num_hidden_layers
        keys = None if rng is None else jax.random.split(rng, depth + 1)
        first = None if keys is None else keys[depth]
        x = self.embeddings(input_ids, position_ids, token_type_ids, first)
        mask = segment_mask(segment_ids)
        graph, stacked = nnx.split(self.layers)

        def step(x: Array, scanned) -> tuple[Array, Array]:
            parameters, key = scanned
            x = nnx.merge(graph, parameters)(x, mask, key)
            return x, x

        if self.remat:
            step = jax.checkpoint(step, prevent_cse=False)
        scanned = (stacked, None if keys is None else keys[:depth])
        _, outputs = lax.scan(step, x, scanned, unroll=_unroll(depth))
        return jnp.concatenate([x[None], outputs])


def _unroll(depth: int) -> int:
    """The largest divisor of `depth` up to 6: layers written out per turn of the scan.

    Written-out layers run faster (the weights' gradients need no copy into a stacked
    array at each turn), and compile time is that of at most six layers.
    """
    return max(n for n in range(1, min(depth, 6) + 1) if depth % n == 0)
