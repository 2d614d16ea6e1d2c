"""Logits of span starts, span ends, and start-end pairs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array, lax

from dicejax.models.dropout import DropoutKeys, dropout
from dicejax.models.encoder import ACTIVATIONS, EncoderConfig
from dicejax.models.heads.head import Batch, Head, Logits, TokenStates, dense
from dicejax.models.heads.sequences import segment_masks
from dicejax.models.layers import matmul, wide
from dicejax.models.settings import check_choice

IMPOSSIBLE = -1e4
"""The logit of a position that is no candidate: its probability is 0 in any type."""


class _StartEnd(TokenStates):
    def __init__(self, head: StartEndHead, encoder: EncoderConfig, **options: Any):
        super().__init__(encoder, **options)
        self.dense = dense(encoder.width, 2 * head.classes, encoder, **options)
        self.head = head

    def __call__(self, hidden: Array, batch: Batch, rng: DropoutKeys | None) -> Logits:
        # The starts of all classes come first.
        both = self.dense(self.states(hidden, rng))
        halves = jnp.split(both, 2, axis=-1)
        ends: Logits = dict(zip(("start", "end"), halves, strict=True))
        if self.head.classes == 1:
            ends = {name: logits[..., 0] for name, logits in ends.items()}
        if self.head.form == "positions":
            ends = {name: over_positions(x, batch) for name, x in ends.items()}
        return ends


@dataclasses.dataclass(frozen=True, kw_only=True)
class StartEndHead(Head):
    """Logits `start` and `end` of spans.

    `W dropout(h_t) + b`, read by the loss in one of three ways:

    | form | logits | labels | loss |
    | --- | --- | --- | --- |
    | "sigmoid" | `[B, T]`, `[B, T, C]` | 0 or 1, the same | binary, multi-label |
    | "softmax" | `[B, T, C]` | class, `[B, T]` | over the classes |
    | "positions" | `[B, T]` | place in the row, `[B]` | over the positions |
    | "positions", packed | `[B, S, T]` | place in the row, `[B, S]` | over positions |

    Rows are packed if the batch has `summary_positions` (see `heads`); the softmax of
    each segment then runs over its own tokens.

    Args:
      classes: number of classes, C.
      form: "sigmoid": each class independently. "softmax": one of the classes, 0 being
        "none". "positions": one token of the sequence, for one class; others get
        `IMPOSSIBLE`.

    >>> StartEndHead(form="softmax")
    Traceback (most recent call last):
      ...
    ValueError: classes is 1; want at least 2 for form 'softmax', 'none' included
    """

    classes: int = 1
    form: Literal["sigmoid", "softmax", "positions"] = "sigmoid"

    module = _StartEnd
    names = ("start", "end")
    biases = (("dense", "bias"),)

    def __post_init__(self) -> None:
        require_form(self.form, self.classes, ("sigmoid", "softmax", "positions"))


def per_segment(logits: Array, segment_ids: Array, segments: int) -> Array:
    """Split logits `[B, T]` of packed rows by segment, for a softmax over each.

    The result is `[B, S, T]`, `IMPOSSIBLE` outside of segment s + 1.

    >>> per_segment(jnp.array([[1.0, 2, 3, 4]]), jnp.array([[1, 1, 2, 0]]), 2).tolist()
    [[[1.0, 2.0, -10000.0, -10000.0], [-10000.0, -10000.0, 3.0, -10000.0]]]
    """
    masks = segment_masks(segment_ids, segments)
    return jnp.where(masks, logits[:, None, :], IMPOSSIBLE)


def own_log_softmax(logits: Array, segment_ids: Array) -> Array:
    """Return the log-softmax over positions of each token in its own segment, `[B, T]`.

    Logits are `[B, T]`, or `[B, S, T]` of packed rows, as of `over_positions`.
    """
    log_probabilities = jax.nn.log_softmax(logits, axis=-1)
    if logits.ndim == 2:
        return log_probabilities
    segments = jnp.maximum(segment_ids - 1, 0)[:, None]
    return jnp.take_along_axis(log_probabilities, segments, axis=1)[:, 0]


def over_positions(logits: Array, batch: Mapping[str, Array]) -> Array:
    """Prepare logits `[B, T]` for a softmax over the positions of each sequence.

    The result is `[B, S, T]` if the batch has `summary_positions`; it is `IMPOSSIBLE`
    outside of the sequence.
    """
    segment_ids, places = batch["segment_ids"], batch.get("summary_positions")
    if places is None:
        return jnp.where(segment_ids > 0, logits, IMPOSSIBLE)
    return per_segment(logits, segment_ids, places.shape[1])


def require_form(form: str, classes: int, forms: tuple[str, ...]) -> None:
    """Raise a ValueError for a form that is unknown or does not fit the classes."""
    check_choice("form", form, forms)
    if classes < 1:
        raise ValueError(f"classes is {classes}; want at least 1")
    if form == "positions" and classes != 1:
        raise ValueError(f"classes is {classes}; want 1 for form 'positions'")
    if form == "softmax" and classes < 2:
        fault = "want at least 2 for form 'softmax', 'none' included"
        raise ValueError(f"classes is {classes}; {fault}")


class _SpanMatch(nnx.Module):
    def __init__(self, head: SpanMatchHead, encoder: EncoderConfig, **options: Any):
        both = 2 * encoder.width
        width = both if head.width is None else head.width
        self.dense = dense(both, width, encoder, **options)
        self.out = dense(width, 1, encoder, **options)
        self.dropout_rate = encoder.head_dropout
        self.dtype = wide(options["dtype"])
        self.head = head

    def __call__(self, hidden: Array, batch: Batch, rng: DropoutKeys | None) -> Array:
        starts, ends = self._halves(dropout(hidden, self.dropout_rate, rng))
        batch_size, tokens, width = starts.shape
        chunk = min(self.head.chunk, tokens)
        activate = ACTIVATIONS[self.head.activation]
        weights = self.out.kernel[...][:, 0].astype(self.dtype)

        # Without checkpoint, the scan would keep the activations of every chunk.
        def match(starts: Array) -> Array:  # [B, chunk, I] -> [B, chunk, T]
            return activate(starts[:, :, None] + ends[:, None]) @ weights

        chunks = jnp.pad(starts, ((0, 0), (0, -tokens % chunk), (0, 0)))
        chunks = jnp.moveaxis(chunks.reshape(batch_size, -1, chunk, width), 1, 0)
        logits = lax.map(jax.checkpoint(match, prevent_cse=False), chunks)
        # [T / chunk, B, chunk, T] -> [B, T, T]
        logits = jnp.moveaxis(logits, 0, 1).reshape(batch_size, -1, tokens)[:, :tokens]
        logits = (logits + self.out.added()).astype(self.dtype)
        segment_ids = batch["segment_ids"]
        start, end = segment_ids[:, :, None], segment_ids[:, None, :]
        is_span = (start > 0) & (start == end) & jnp.triu(jnp.ones_like(start == end))
        return jnp.where(is_span, logits, IMPOSSIBLE)

    def _halves(self, hidden: Array) -> tuple[Array, Array]:
        """Compute `W_start h + b` and `W_end h`, each `[B, T, I]`."""
        rows = hidden.reshape(-1, hidden.shape[-1]).astype(self.dtype)
        kernels = jnp.split(self.dense.kernel[...].astype(self.dtype), 2)
        shape = (*hidden.shape[:-1], -1)
        starts, ends = (matmul(rows, kernel).reshape(shape) for kernel in kernels)
        return (starts + self.dense.added()).astype(self.dtype), ends


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpanMatchHead(Head):
    """Logits `[B, T, T]`: whether tokens i to j, both included, are a span.

        match_ij = v . activation(W [h_i; h_j] + b) + c
                 = v . activation(W_start h_i + W_end h_j + b) + c

    The second line is computed, a few starts at a time and again in the backward pass,
    so that no array of T * T vectors ever is. Pairs that are no span get `IMPOSSIBLE`:
    j < i, tokens of two segments, padding.

    Args:
      width: width of the hidden layer, I; None: 2 D, as published.
      activation: a name of `ACTIVATIONS`.
      chunk: number of starts at a time; memory holds a few arrays `[B, chunk, T, I]`.

    Source: Li et al., ACL 2020, section 3.3.2
    (https://aclanthology.org/2020.acl-main.519); `BertForQueryNER` of
    https://github.com/ShannonAI/dice_loss_for_NLP.
    """

    width: int | None = None
    activation: str = "gelu"
    chunk: int = 4

    module = _SpanMatch
    biases = (("out", "bias"),)

    def __post_init__(self) -> None:
        check_choice("activation", self.activation, sorted(ACTIVATIONS))
        for name in ("width", "chunk"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"{name} is {value}; want at least 1")
