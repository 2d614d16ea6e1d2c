"""Logits of pairs of tokens: which start goes with which end."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array, lax

from dicejax.models.dropout import DropoutKeys, dropout
from dicejax.models.encoder import ACTIVATIONS, EncoderConfig
from dicejax.models.heads.head import Head, dense, wide
from dicejax.models.heads.sequences import require_activation
from dicejax.models.heads.spans import IMPOSSIBLE
from dicejax.models.layers import matmul


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpanMatchHead(Head):
    """Logits `[B, T, T]`: whether tokens i to j, both included, are a span.

        match_ij = v . activation(W [h_i; h_j] + b) + c
                 = v . activation(W_start h_i + W_end h_j + b) + c

    The second line is computed, a few starts at a time and again in the backward pass,
    so that no array of T * T vectors ever is. Pairs that are no span get `IMPOSSIBLE`:
    j < i, tokens of two segments, padding.

    Args:
      width: of the layer inside, I; None: 2 D, as published.
      activation: a name of `ACTIVATIONS`.
      chunk: how many starts at a time. Beside the logits, memory holds a few arrays
        `[B, chunk, T, I]`.

    Source: Li et al., ACL 2020, section 3.3.2
    (https://aclanthology.org/2020.acl-main.519); `BertForQueryNER` of
    https://github.com/ShannonAI/dice_loss_for_NLP.
    """

    width: int | None = None
    activation: str = "gelu"
    chunk: int = 4

    def __post_init__(self):
        require_activation(self.activation)
        for name in ("width", "chunk"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"{name} is {value}; want at least 1")

    def build(self, encoder, *, dtype, rngs) -> SpanMatch:
        """Make the module."""
        return SpanMatch(self, encoder, dtype=dtype, rngs=rngs)


class SpanMatch(nnx.Module):
    """Dropout and an MLP of two layers on each pair of hidden states."""

    def __init__(self, head: SpanMatchHead, encoder: EncoderConfig, *, dtype, rngs):
        both = 2 * encoder.width
        width = both if head.width is None else head.width
        self.dense = dense(both, width, encoder, dtype=dtype, rngs=rngs)
        self.out = dense(width, 1, encoder, dtype=dtype, rngs=rngs)
        self.dropout_rate = encoder.head_dropout
        self.dtype = wide(dtype)
        self.head = head

    def __call__(
        self, hidden: Array, batch: Mapping[str, Array], rng: DropoutKeys | None
    ) -> Array:
        """Return the logits; `rng` switches dropout on."""
        starts, ends = self._halves(dropout(hidden, self.dropout_rate, rng))
        logits = self._logits(starts, ends)
        return jnp.where(_spans(batch["segment_ids"]), logits, IMPOSSIBLE)

    def _halves(self, hidden: Array) -> tuple[Array, Array]:
        """`W_start h + b` and `W_end h`, each `[B, T, I]`."""
        rows = hidden.reshape(-1, hidden.shape[-1]).astype(self.dtype)
        kernels = jnp.split(self.dense.kernel[...].astype(self.dtype), 2)
        shape = (*hidden.shape[:-1], -1)
        starts, ends = (matmul(rows, kernel).reshape(shape) for kernel in kernels)
        return (starts + self.dense.bias[...]).astype(self.dtype), ends

    def _logits(self, starts: Array, ends: Array) -> Array:
        """The logits of all pairs, `[B, T, T]`."""
        activate = ACTIVATIONS[self.head.activation]
        weights = self.out.kernel[...][:, 0].astype(self.dtype)

        # Without checkpoint, the scan would keep the activations of every chunk.
        def of_chunk(starts: Array) -> Array:  # [B, chunk, I] -> [B, chunk, T]
            pairs = activate(starts[:, :, None] + ends[:, None])
            return pairs @ weights

        logits = lax.map(
            jax.checkpoint(of_chunk, prevent_cse=False),
            _chunks(starts, min(self.head.chunk, starts.shape[1])),
        )  # [T / chunk, B, chunk, T]
        batch, tokens, _ = starts.shape
        logits = jnp.moveaxis(logits, 0, 1).reshape(batch, -1, tokens)[:, :tokens]
        return (logits + self.out.bias[...]).astype(self.dtype)


def _chunks(x: Array, size: int) -> Array:
    """Cut `[B, T, I]` into `[T / size, B, size, I]`, zeros behind the last token."""
    batch, tokens, width = x.shape
    x = jnp.pad(x, ((0, 0), (0, -tokens % size), (0, 0)))
    return jnp.moveaxis(x.reshape(batch, -1, size, width), 1, 0)


def _spans(segment_ids: Array) -> Array:
    """Whether i to j is a span of real tokens of one segment, bool `[B, T, T]`."""
    start, end = segment_ids[:, :, None], segment_ids[:, None, :]
    return (start > 0) & (start == end) & jnp.triu(jnp.ones_like(start == end))
