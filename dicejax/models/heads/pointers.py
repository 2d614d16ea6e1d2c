"""Start and end logits of spans, the end conditioned on the start."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from dicejax.models.dropout import DropoutKeys, dropout
from dicejax.models.encoder import EncoderConfig
from dicejax.models.heads.head import Head, dense, wide
from dicejax.models.heads.sequences import states_at, summary_state
from dicejax.models.heads.spans import over_positions, per_segment, require_form
from dicejax.models.layers import LayerNorm

Teacher = Literal["gold", "predicted"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TwoPointerHead(Head):
    """Logits `start` and `end` of spans, the end conditioned on the start.

        start_t = W dropout(h_t) + b
        end_t   = V LayerNorm(tanh(U [dropout(h_t); s_t] + u)) + v

    with s_t `[C]` the probabilities of the start logits, or in training the gold start,
    one-hot, zeros where the label is -100. Logits and labels are shaped as those of
    `StartEndHead`; the gold starts are the labels `start` of the batch, int `[B, T]`,
    or `[B, T, C]` of 0 and 1. Prediction, without a PRNG key, never reads gold.

    Args:
      classes: number of classes, C; with form "softmax" 0 is "none".
      form: "softmax": one of the classes. "sigmoid": each class independently.
      teacher: starts given to the end in training: "gold" or "predicted".
      layer_norm_eps: epsilon of the layer normalisation.

    Source: `BertSpanForNer` of https://github.com/lonePatient/BERT-NER-Pytorch, with
    `soft_label`; CLUENER's two-pointer model in NER_loss_compare.
    """

    classes: int
    form: Literal["sigmoid", "softmax"] = "softmax"
    teacher: Teacher = "gold"
    layer_norm_eps: float = 1e-5

    def __post_init__(self):
        require_form(self.form, self.classes, ("sigmoid", "softmax"))
        _require_teacher(self.teacher)

    def outputs(self, name: str) -> tuple[str, ...]:
        """Return `start` and `end`."""
        return ("start", "end")

    def build(self, encoder, *, dtype, rngs) -> TwoPointers:
        """Make the module."""
        return TwoPointers(self, encoder, dtype=dtype, rngs=rngs)


class TwoPointers(nnx.Module):
    """A dense layer for the start, an MLP for the end."""

    def __init__(self, head: TwoPointerHead, encoder: EncoderConfig, *, dtype, rngs):
        width, classes = encoder.width, head.classes
        self.start = dense(width, classes, encoder, dtype=dtype, rngs=rngs)
        self.end = End(
            (width + classes, width + classes, classes),
            encoder,
            epsilon=head.layer_norm_eps,
            dtype=dtype,
            rngs=rngs,
        )
        self.dropout_rate = encoder.head_dropout
        self.head = head

    def __call__(
        self, hidden: Array, batch: Mapping[str, Array], rng: DropoutKeys | None
    ) -> dict[str, Array]:
        """Return the logits; `rng` switches dropout and the gold starts on."""
        hidden = dropout(hidden, self.dropout_rate, rng)
        start = self.start(hidden)
        signal = self._signal(start, batch, rng is not None)
        end = self.end(hidden, signal)
        if self.head.classes == 1:
            start, end = start[..., 0], end[..., 0]
        return {"start": start, "end": end}

    def _signal(
        self, logits: Array, batch: Mapping[str, Array], training: bool
    ) -> Array:
        """Return the start's signal to the end, `[B, T, C]`."""
        if training and self.head.teacher == "gold":
            shapes = (logits.shape[:-1], logits.shape)
            return _one_hot(_gold_starts(batch, *shapes), logits)
        if self.head.form == "softmax":
            return jax.nn.softmax(logits, axis=-1)
        return jax.nn.sigmoid(logits)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnswerHead(Head):
    """Logits of one answer per sequence: `start`, `end` and `impossible`.

    The end sees the hidden state of the start, and so does the answer's absence:

        start_t    = w . h_t + b
        end_t      = v . LayerNorm(tanh(U [h_t; h_start] + u)) + c
        impossible = a . tanh(A [h_start; h_summary] + d)

    In training h_start is the state at the gold start; the labels `start` of the batch
    are places in the row, int `[B]`, and -100 or any negative number means a state
    of zeros. In prediction, where no PRNG key is given and gold is never read, the end
    sees the state at the most probable start, and `impossible` the mean of the states
    weighted by the probability of the start. `h_summary` is the hidden state that
    represents the sequence, XLNet's <cls>.

    `start` and `end` are `[B, T]`, for a softmax over positions, `IMPOSSIBLE` at
    padding; `impossible` is `[B]`, large where there is no answer. If the batch has
    `summary_positions` (see `heads`) they are `[B, S, T]` and `[B, S]`, and the gold
    starts are `[B, S]`, places in the row.

    Args:
      teacher: start given to the end in training: "gold" or "predicted".
      layer_norm_eps: epsilon of the layer normalisation.

    Source: `XLNetForQuestionAnswering` of transformers, with one start in place of its
    beam of the five best.
    """

    teacher: Teacher = "gold"
    layer_norm_eps: float = 1e-12

    def __post_init__(self):
        _require_teacher(self.teacher)

    def outputs(self, name: str) -> tuple[str, ...]:
        """Return `start`, `end` and `impossible`."""
        return ("start", "end", "impossible")

    def build(self, encoder, *, dtype, rngs) -> AnswerModule:
        """Make the module."""
        return AnswerModule(self, encoder, dtype=dtype, rngs=rngs)


class AnswerModule(nnx.Module):
    """A dense layer for the start, MLPs for the end and for `impossible`."""

    def __init__(self, head: AnswerHead, encoder: EncoderConfig, *, dtype, rngs):
        width = encoder.width
        self.start = dense(width, 1, encoder, dtype=dtype, rngs=rngs)
        self.end = End(
            (2 * width, width, 1),
            encoder,
            epsilon=head.layer_norm_eps,
            dtype=dtype,
            rngs=rngs,
        )
        self.impossible = Impossible(encoder, dtype=dtype, rngs=rngs)
        self.dropout_rate = encoder.head_dropout
        self.position = encoder.summary.position
        self.head = head

    def __call__(
        self, hidden: Array, batch: Mapping[str, Array], rng: DropoutKeys | None
    ) -> dict[str, Array]:
        """Return the logits; `rng` switches dropout and the gold starts on."""
        hidden = dropout(hidden, self.dropout_rate, rng)
        hidden = hidden.astype(wide(hidden.dtype))
        segment_ids, places = batch["segment_ids"], batch.get("summary_positions")
        summary = summary_state(hidden, batch, self.position)
        if places is None:
            segment_ids, summary = jnp.minimum(segment_ids, 1), summary[:, None]
        sequences = summary.shape[:2]  # [B, S]

        start = self.start(hidden)[..., 0]
        candidates = per_segment(start, segment_ids, sequences[1])
        if rng is not None and self.head.teacher == "gold":
            shape = sequences if places is not None else sequences[:1]
            gold = _gold_starts(batch, shape).reshape(sequences)
            best = jnp.where(gold[..., None] < 0, 0, states_at(hidden, gold))
            expected = best
        else:
            best = states_at(hidden, jnp.argmax(candidates, axis=-1))
            probabilities = jax.nn.softmax(candidates, axis=-1)
            expected = jnp.einsum(
                "bst,btd->bsd",
                probabilities,
                hidden,
                precision=jax.lax.Precision.HIGHEST,
            )
        end = self.end(hidden, states_at(best, segment_ids - 1))[..., 0]
        impossible = self.impossible(expected, summary)
        return {
            "start": over_positions(start, batch),
            "end": over_positions(end, batch),
            "impossible": impossible if places is not None else impossible[:, 0],
        }


class End(nnx.Module):
    """`W LayerNorm(tanh(U [hidden; start] + u)) + w`, for each token.

    Args:
      widths: of the input, of the layer inside and of the output.
      encoder: gives the scale of initial weights.
      epsilon: of the layer normalisation.
      dtype: in which the encoder computes.
      rngs: source of the initial parameters.
    """

    def __init__(
        self,
        widths: tuple[int, int, int],
        encoder: EncoderConfig,
        *,
        epsilon: float,
        dtype: jnp.dtype,
        rngs: nnx.Rngs,
    ):
        self.dense = dense(widths[0], widths[1], encoder, dtype=dtype, rngs=rngs)
        self.norm = LayerNorm(widths[1], epsilon=epsilon, dtype=wide(dtype))
        self.out = dense(widths[1], widths[2], encoder, dtype=dtype, rngs=rngs)

    def __call__(self, hidden: Array, start: Array) -> Array:
        """Map `[B, T, D]` and the start's signal `[B, T, E]`."""
        both = jnp.concatenate([hidden.astype(start.dtype), start], axis=-1)
        return self.out(self.norm(jnp.tanh(self.dense(both))))


class Impossible(nnx.Module):
    """`a . tanh(A [start; summary] + d)`, for each sequence."""

    def __init__(self, encoder: EncoderConfig, *, dtype, rngs):
        width = encoder.width
        self.dense = dense(2 * width, width, encoder, dtype=dtype, rngs=rngs)
        # No bias, as in PyTorch.
        self.out = dense(width, 1, encoder, dtype=dtype, rngs=rngs, bias=False)

    def __call__(self, start: Array, summary: Array) -> Array:
        """Map two `[B, S, D]` to `[B, S]`."""
        both = jnp.concatenate([start, summary], axis=-1)
        return self.out(jnp.tanh(self.dense(both)))[..., 0]


def _gold_starts(batch: Mapping[str, Array], *shapes: tuple[int, ...]) -> Array:
    """Return the labels `start` of the batch."""
    if "start" not in batch:
        raise ValueError(
            "the batch has no labels 'start', which teacher 'gold' reads in training"
        )
    labels = batch["start"]
    if labels.shape not in shapes:
        expected = " or ".join(map(str, shapes))
        raise ValueError(f"labels 'start' have shape {labels.shape}; want {expected}")
    return labels


def _one_hot(labels: Array, logits: Array) -> Array:
    """Return labels `[B, T]` or `[B, T, C]` as 0 and 1, like the logits."""
    classes = logits.shape[-1]
    if labels.ndim == logits.ndim:
        hot = labels == 1
    elif classes == 1:
        hot = labels[..., None] == 1
    else:
        hot = labels[..., None] == jnp.arange(classes)
    return hot.astype(logits.dtype)


def _require_teacher(teacher: str) -> None:
    if teacher not in ("gold", "predicted"):
        raise ValueError(f"teacher is {teacher!r}; supported: 'gold', 'predicted'")
