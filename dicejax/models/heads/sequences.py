"""Logits of each sequence: classification, and whether a question has an answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from dicejax.models.dropout import dropout
from dicejax.models.encoder import ACTIVATIONS, EncoderConfig
from dicejax.models.heads.head import Head, Projection, dense
from dicejax.models.layers import wide
from dicejax.models.settings import check_choice


class _Summarizer(Projection):
    def __call__(self, hidden, batch, rng) -> Array:  # [B, D] or [B, S, D]
        vector = summary_state(hidden, batch, self.settings.position)
        return self.project(dropout(vector, self.settings.dropout_before, rng))


class _SequenceClassifier(nnx.Module):
    def __init__(self, head: SequenceHead, encoder: EncoderConfig, **options):
        self.summary = _Summarizer(encoder, **options)
        self.dense = dense(encoder.width, head.classes, encoder, **options)
        self.dropout_rate = encoder.summary.dropout_after

    def __call__(self, hidden, batch, rng) -> Array:
        keys = (None, None) if rng is None else rng.split(2)
        vector = self.summary(hidden, batch, keys[0])
        return self.dense(dropout(vector, self.dropout_rate, keys[1]))


@dataclasses.dataclass(frozen=True, kw_only=True)
class SequenceHead(Head):
    """Logits over `classes` for each sequence: `W dropout(summary) + b`.

    The summary is the encoder's (`encoder.SequenceSummary`): BERT's pooler, XLNet's
    summary of the last token. Logits are `[B, C]`, one row one sequence; `[B, S, C]` if
    the batch has `summary_positions` (see `heads`).

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
    def __init__(self, head: AnswerabilityHead, encoder: EncoderConfig, **options):
        width = encoder.width
        self.summary = _Summarizer(encoder, **options)
        self.dense = dense(width, width, encoder, **options)
        self.out = dense(width, 1, encoder, **options)
        self.activation = head.activation

    def __call__(self, hidden, batch, rng) -> Array:
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

    def __post_init__(self):
        check_choice("activation", self.activation, sorted(ACTIVATIONS))


def summary_state(
    hidden: Array,
    batch: Mapping[str, Array],
    position: Literal["first", "last", "mean"],
) -> Array:
    """Return the hidden state that represents each sequence: `[B, D]`.

    If the batch has `summary_positions` it is `[B, S, D]`: the states at those places,
    or the mean of each segment. Otherwise `position` is a token of the row or its mean.
    """
    segment_ids, places = batch["segment_ids"], batch.get("summary_positions")
    if places is not None:
        if position == "mean":
            return _mean(hidden, segment_masks(segment_ids, places.shape[1]))
        return states_at(hidden, places)
    real = segment_ids > 0
    if position == "mean":
        return _mean(hidden, real[:, None])[:, 0]
    if position == "first":
        place = jnp.argmax(real, axis=1)
    else:
        place = real.shape[1] - 1 - jnp.argmax(real[:, ::-1], axis=1)
    return states_at(hidden, place[:, None])[:, 0]


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
