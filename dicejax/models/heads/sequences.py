"""Logits of each sequence: classification, and whether a question has an answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from dicejax.models.dropout import DropoutKeys, dropout
from dicejax.models.encoder import ACTIVATIONS, EncoderConfig, SequenceSummary
from dicejax.models.heads.head import Batch, Head, Projection, dense
from dicejax.models.layers import wide
from dicejax.models.settings import check_choice


class _Summarizer(Projection):
    # [B, D] or [B, S, D]
    def __call__(self, hidden: Array, batch: Batch, rng: DropoutKeys | None) -> Array:
        if self.settings.of_each:
            return summary_state(self.project(hidden), batch, self.settings)
        vector = summary_state(hidden, batch, self.settings)
        return self.project(dropout(vector, self.settings.dropout_before, rng))


class _SequenceClassifier(nnx.Module):
    def __init__(self, head: SequenceHead, encoder: EncoderConfig, **options: Any):
        settings = encoder.text_summary
        self.summary = _Summarizer(encoder, settings, **options)
        self.dense = dense(encoder.width, head.classes, encoder, **options)
        self.dropout_rate = settings.dropout_after

    def __call__(self, hidden: Array, batch: Batch, rng: DropoutKeys | None) -> Array:
        keys = (None, None) if rng is None else rng.split(2)
        vector = self.summary(hidden, batch, keys[0])
        return self.dense(dropout(vector, self.dropout_rate, keys[1]))


@dataclasses.dataclass(frozen=True, kw_only=True)
class SequenceHead(Head):
    """Logits over `classes` for each sequence: `W dropout(summary) + b`.

    The summary is the architecture's own (`encoder.SequenceSummary`), as BERT's pooler
    or XLNet's summary of the last token, or by the encoder's `pooling` a state, the
    mean or the maximum of the states as they are. Logits are `[B, C]`, one row one
    sequence; `[B, S, C]` if the batch has `summary_positions` (see `heads`).

    Args:
      classes: number of classes, C.
      multi_label: whether each class has its own sigmoid; the logits are the same, but
        not what they mean to a reader of the exported model.
    """

    classes: int
    multi_label: bool = False

    module = _SequenceClassifier
    biases = (("dense", "bias"),)


class _AnswerabilityClassifier(nnx.Module):
    def __init__(self, head: AnswerabilityHead, encoder: EncoderConfig, **more: Any):
        width = encoder.width
        self.summary = _Summarizer(encoder, encoder.summary, **more)
        self.dense = dense(width, width, encoder, **more)
        self.out = dense(width, 1, encoder, **more)
        self.activation = head.activation

    def __call__(self, hidden: Array, batch: Batch, rng: DropoutKeys | None) -> Array:
        inner = self.dense(self.summary(hidden, batch, rng))
        return self.out(ACTIVATIONS[self.activation](inner))[..., 0]


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnswerabilityHead(Head):
    """One logit for each sequence: whether the question has an answer in its context.

    The published form, an MLP on the summary (BERT's pooled [CLS]), in which nothing is
    dropped out behind the summary: `v . activation(W summary + b) + c`. Logits are
    `[B]`, or `[B, S]` if the batch has `summary_positions` (see `heads`).

    Args:
      activation: a name of `ACTIVATIONS`.

    Source: `BertForQueryNER` of https://github.com/ShannonAI/dice_loss_for_NLP.
    """

    activation: str = "gelu"

    module = _AnswerabilityClassifier
    biases = (("out", "bias"),)

    def __post_init__(self) -> None:
        check_choice("activation", self.activation, sorted(ACTIVATIONS))


def summary_state(
    hidden: Array, batch: Mapping[str, Array], settings: SequenceSummary
) -> Array:
    """Return the hidden state that represents each sequence: `[B, D]`.

    It is that of a token of the row, or the mean or the maximum of all. If the batch
    has `summary_positions` it is `[B, S, D]`, of each segment, or at those places.
    """
    segment_ids, places = batch["segment_ids"], batch.get("summary_positions")
    position = settings.position
    if places is None:
        return _state_of(hidden, (segment_ids > 0)[:, None], position)[:, 0]
    if position in ("first", "last") and settings.named:
        return states_at(hidden, places)
    return _state_of(hidden, segment_masks(segment_ids, places.shape[1]), position)


def _state_of(hidden: Array, member: Array, position: str) -> Array:
    """Return `[B, S, D]` of `[B, T, D]` at the tokens that bool `[B, S, T]` marks."""
    if position == "mean":
        return _mean(hidden, member)
    if position == "max":
        return _maximum(hidden, member)
    if position == "first":
        return states_at(hidden, jnp.argmax(member, axis=-1))
    last = member.shape[-1] - 1 - jnp.argmax(member[..., ::-1], axis=-1)
    return states_at(hidden, last)


def states_at(hidden: Array, places: Array) -> Array:
    """Take `[B, S, D]` of hidden states `[B, T, D]` at int `[B, S]`, clipped."""
    places = jnp.maximum(places, 0)[..., None]
    return jnp.take_along_axis(hidden, places, axis=1, mode="clip")


def segment_masks(segment_ids: Array, segments: int) -> Array:
    """Return bool `[B, S, T]`: whether a token belongs to segment s + 1."""
    return segment_ids[:, None, :] == jnp.arange(1, segments + 1)[:, None]


def weighted_sum(hidden: Array, weights: Array) -> Array:
    """Sum `[B, T, D]` over the tokens by weights `[B, S, T]`: `[B, S, D]`."""
    return jnp.einsum(
        "bst,btd->bsd", weights, hidden, precision=jax.lax.Precision.HIGHEST
    )


def _mean(hidden: Array, member: Array) -> Array:
    """Average `[B, T, D]` over the tokens that bool `[B, S, T]` marks: `[B, S, D]`."""
    # At least float32: a sum of hundreds of bfloat16 numbers keeps no digit.
    kind = wide(hidden.dtype)
    total = weighted_sum(hidden.astype(kind), member.astype(kind))
    tokens = jnp.maximum(member.sum(-1), 1)[..., None]
    return (total / tokens).astype(hidden.dtype)


def _maximum(hidden: Array, member: Array) -> Array:
    """Take the largest of `[B, T, D]` at the tokens that `[B, S, T]` marks."""
    # By its place: no array [B, S, T, D] is kept for the gradient, and of equal ones
    # the first has all of it, as in PyTorch.
    others = jnp.finfo(hidden.dtype).min
    each = jnp.where(member[..., None], hidden[:, None], others)  # [B, S, T, D]
    places = jnp.argmax(jax.lax.stop_gradient(each), axis=2)
    return jnp.take_along_axis(hidden, places, axis=1)
