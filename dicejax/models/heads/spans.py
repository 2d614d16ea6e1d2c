"""Logits of where spans start and where they end, each by itself."""

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
from dicejax.models.heads.head import Head, dense
from dicejax.models.heads.sequences import segment_masks

IMPOSSIBLE = -1e4
"""The logit of a position that is no candidate: its probability is 0 in any type."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class StartEndHead(Head):
    """Logits for where spans start and where they end, as `start` and `end`.

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
      classes: kinds of spans, C.
      form: "sigmoid": each kind by itself. "softmax": one choice among the classes, of
        which 0 then stands for "none". "positions": one choice among the tokens of the
        sequence, for one kind; all others get `IMPOSSIBLE`.

    >>> StartEndHead(form="softmax")
    Traceback (most recent call last):
      ...
    ValueError: classes is 1; want at least 2 for form 'softmax', 'none' included
    """

    classes: int = 1
    form: Literal["sigmoid", "softmax", "positions"] = "sigmoid"

    def __post_init__(self):
        require_form(self.form, self.classes, ("sigmoid", "softmax", "positions"))

    def outputs(self, name: str) -> tuple[str, ...]:
        """Return `start` and `end`, whatever the head is called."""
        return ("start", "end")

    def build(self, encoder, *, dtype, rngs) -> StartEnd:
        """Make the module."""
        return StartEnd(self, encoder, dtype=dtype, rngs=rngs)


class StartEnd(nnx.Module):
    """One dense layer for both ends, the starts of all kinds first."""

    def __init__(self, head: StartEndHead, encoder: EncoderConfig, *, dtype, rngs):
        outputs = 2 * head.classes
        self.dense = dense(encoder.width, outputs, encoder, dtype=dtype, rngs=rngs)
        self.dropout_rate = encoder.head_dropout
        self.head = head

    def __call__(
        self, hidden: Array, batch: Mapping[str, Array], rng: DropoutKeys | None
    ) -> dict[str, Array]:
        """Return the logits by end; `rng` switches dropout on."""
        both = self.dense(dropout(hidden, self.dropout_rate, rng))
        ends = dict(zip(("start", "end"), jnp.split(both, 2, axis=-1), strict=True))
        if self.head.classes == 1:
            ends = {name: logits[..., 0] for name, logits in ends.items()}
        if self.head.form == "positions":
            ends = {name: over_positions(x, batch) for name, x in ends.items()}
        return ends


def per_segment(logits: Array, segment_ids: Array, segments: int) -> Array:
    """Spread logits of packed rows out, so that a softmax sees one segment's tokens.

    Args:
      logits: `[B, T]`.
      segment_ids: int `[B, T]`; 1, 2, ... number the segments, 0 is padding.
      segments: S, how many a row has at most.

    Returns:
      `[B, S, T]`: the logits of segment s + 1 where its tokens are, `IMPOSSIBLE`
      elsewhere; that alone where a row has no such segment.

    >>> per_segment(jnp.array([[1.0, 2, 3, 4]]), jnp.array([[1, 1, 2, 0]]), 2).tolist()
    [[[1.0, 2.0, -10000.0, -10000.0], [-10000.0, -10000.0, 3.0, -10000.0]]]
    """
    return jnp.where(
        segment_masks(segment_ids, segments), logits[:, None, :], IMPOSSIBLE
    )


def own_log_softmax(logits: Array, segment_ids: Array) -> Array:
    """Take the log-softmax over positions, and of each token that in its own segment.

    Args:
      logits: `[B, T]`, or of packed rows `[B, S, T]`, as `over_positions` gives them.
      segment_ids: int `[B, T]`.

    Returns:
      `[B, T]`.
    """
    log_probabilities = jax.nn.log_softmax(logits, axis=-1)
    if logits.ndim == 2:
        return log_probabilities
    own = jnp.maximum(segment_ids - 1, 0)[:, None]
    return jnp.take_along_axis(log_probabilities, own, axis=1)[:, 0]


def over_positions(logits: Array, batch: Mapping[str, Array]) -> Array:
    """Make logits `[B, T]` ready for a softmax over the positions of each sequence.

    Returns:
      `[B, T]`, or `[B, S, T]` if the batch has `summary_positions`; `IMPOSSIBLE`
      outside the sequence.
    """
    segment_ids, places = batch["segment_ids"], batch.get("summary_positions")
    if places is None:
        return jnp.where(segment_ids > 0, logits, IMPOSSIBLE)
    return per_segment(logits, segment_ids, places.shape[1])


def require_form(form: str, classes: int, forms: tuple[str, ...]) -> None:
    """Raises a ValueError for a form that is unknown or does not fit the classes."""
    if form not in forms:
        raise ValueError(f"form is {form!r}; supported: {', '.join(map(repr, forms))}")
    if classes < 1:
        raise ValueError(f"classes is {classes}; want at least 1")
    if form == "positions" and classes != 1:
        raise ValueError(f"classes is {classes}; want 1 for form 'positions'")
    if form == "softmax" and classes < 2:
        raise ValueError(
            f"classes is {classes}; want at least 2 for form 'softmax', 'none' included"
        )
