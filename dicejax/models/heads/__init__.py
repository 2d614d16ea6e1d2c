"""Heads: from hidden states to logits.

A `Head` is a description; its `module` computes the logits, which are at least float32,
and have the name of the head, or their own names if several.

| head | logits | shape | of packed rows |
| --- | --- | --- | --- |
| `TokenHead` | the head's name | `[B, T, C]` | the same |
| `SequenceHead` | the head's name | `[B, C]` | `[B, S, C]` |
| `AnswerabilityHead` | the head's name | `[B]` | `[B, S]` |
| `StartEndHead` | `start`, `end` | `[B, T]` or `[B, T, C]` | the same |
| of form "positions" | `start`, `end` | `[B, T]` | `[B, S, T]` |
| `TwoPointerHead` | `start`, `end` | `[B, T]` or `[B, T, C]` | the same |
| `AnswerHead` | `start`, `end` | `[B, T]` | `[B, S, T]` |
| | `impossible` | `[B]` | `[B, S]` |
| `SpanMatchHead` | the head's name | `[B, T, T]` | the same |

Packed rows hold up to S sequences each, numbered 1 to S by `segment_ids`. The array
`summary_positions` of the batch, int `[B, S]`, says S: column s names the token that
represents segment s + 1, -1 where the row has no such segment. Logits of absent
segments are undefined; their label is -100. Without `summary_positions` each row is one
sequence.
"""

from dicejax.models.heads.head import (
    Head,
    HeadModule,
    TokenHead,
    biases_at,
    output_names,
    with_biases,
)
from dicejax.models.heads.pointers import AnswerHead, TwoPointerHead
from dicejax.models.heads.sequences import AnswerabilityHead, SequenceHead
from dicejax.models.heads.spans import (
    IMPOSSIBLE,
    SpanMatchHead,
    StartEndHead,
    own_log_softmax,
    per_segment,
)

__all__ = [
    "IMPOSSIBLE",
    "AnswerHead",
    "AnswerabilityHead",
    "Head",
    "HeadModule",
    "SequenceHead",
    "SpanMatchHead",
    "StartEndHead",
    "TokenHead",
    "TwoPointerHead",
    "biases_at",
    "output_names",
    "own_log_softmax",
    "per_segment",
    "with_biases",
]
