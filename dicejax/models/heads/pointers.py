"""Start and end logits of spans, the end conditioned on the start."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from dicejax.models.dropout import DropoutKeys, dropout
from dicejax.models.encoder import EncoderConfig
from dicejax.models.heads.head import Batch, Head, Logits, dense
from dicejax.models.heads.sequences import states_at, summary_state, weighted_sum
from dicejax.models.heads.spans import over_positions, per_segment, require_form
from dicejax.models.layers import LayerNorm, wide
from dicejax.models.settings import check_choice

Teacher = Literal["gold", "predicted"]


class _End(nnx.Module):
    """`W LayerNorm(tanh(U [hidden; start] + u)) + w`, for each token."""

    def __init__(
        self, widths: list[int], encoder: EncoderConfig, epsilon: float, **options: Any
    ):
        fan_in, inner, fan_out = widths
        self.dense = dense(fan_in, inner, encoder, **options)
        self.norm = LayerNorm(inner, epsilon=epsilon, dtype=wide(options["dtype"]))
        self.out = dense(inner, fan_out, encoder, **options)

    def __call__(self, hidden: Array, start: Array) -> Array:
        both = jnp.concatenate([hidden.astype(start.dtype), start], axis=-1)
        return self.out(self.norm(jnp.tanh(self.dense(both))))


class _TwoPointers(nnx.Module):
    def __init__(self, head: TwoPointerHead, encoder: EncoderConfig, **options: Any):
        classes, epsilon = head.classes, head.layer_norm_eps
        both = encoder.width + classes
        self.start = dense(encoder.width, classes, encoder, **options)
        self.end = _End([both, both, classes], encoder, epsilon, **options)
        self.dropout_rate = encoder.head_dropout
        self.head = head

    def __call__(self, hidden: Array, batch: Batch, rng: DropoutKeys | None) -> Logits:
        hidden = dropout(hidden, self.dropout_rate, rng)
        start = self.start(hidden)
        if rng is not None and self.head.teacher == "gold":
            gold = _gold_starts(batch, start.shape[:-1], start.shape)
            classes = jnp.arange(self.head.classes) if self.head.classes > 1 else 1
            hot = gold == 1 if gold.ndim == start.ndim else gold[..., None] == classes
            signal = hot.astype(start.dtype)
        elif self.head.form == "softmax":
            signal = jax.nn.softmax(start, axis=-1)
        else:
            signal = jax.nn.sigmoid(start)
        end = self.end(hidden, signal)
        if self.head.classes == 1:
            start, end = start[..., 0], end[..., 0]
        return {"start": start, "end": end}


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

    module = _TwoPointers
    names = ("start", "end")
    biases = (("start", "bias"), ("end", "out", "bias"))

    def __post_init__(self) -> None:
        require_form(self.form, self.classes, ("sigmoid", "softmax"))
        check_choice("teacher", self.teacher, get_args(Teacher))


class _Answer(nnx.Module):
    def __init__(self, head: AnswerHead, encoder: EncoderConfig, **options: Any):
        width, epsilon = encoder.width, head.layer_norm_eps
        widths = [2 * width, width, 1]
        self.start = dense(width, 1, encoder, **options)
        self.end = _End(widths, encoder, epsilon, **options)
        self.impossible = nnx.Dict(
            dense=dense(2 * width, width, encoder, **options),
            # No bias, as in PyTorch.
            out=dense(width, 1, encoder, bias=False, **options),
        )
        self.dropout_rate = encoder.head_dropout
        self.settings = encoder.summary
        self.head = head

    def __call__(self, hidden: Array, batch: Batch, rng: DropoutKeys | None) -> Logits:
        hidden = dropout(hidden, self.dropout_rate, rng)
        hidden = hidden.astype(wide(hidden.dtype))
        segment_ids, places = batch["segment_ids"], batch.get("summary_positions")
        summary = summary_state(hidden, batch, self.settings)
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
            expected = weighted_sum(hidden, jax.nn.softmax(candidates, axis=-1))
        end = self.end(hidden, states_at(best, segment_ids - 1))[..., 0]
        both = jnp.concatenate([expected, summary], axis=-1)
        inner = jnp.tanh(self.impossible.dense(both))
        impossible = self.impossible.out(inner)[..., 0]
        return {
            "start": over_positions(start, batch),
            "end": over_positions(end, batch),
            "impossible": impossible if places is not None else impossible[:, 0],
        }


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

    module = _Answer
    names = ("start", "end", "impossible")

    def __post_init__(self) -> None:
        check_choice("teacher", self.teacher, get_args(Teacher))


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
