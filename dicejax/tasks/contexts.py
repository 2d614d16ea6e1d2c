"""A question and its context in windows, and the best spans in them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from dicejax.data.examples import ReadingExample
from dicejax.data.tokenize import EncodedText
from dicejax.errors import InputError, quote
from dicejax.tasks.windows import cut

HINDRANCES = {
    "beyond": (
        "lie in no window wholly, or are of characters that the tokenizer drops",
        "; raise --task.stride",
    ),
    "long": ("have more pieces than max_answer", "; raise --task.max_answer"),
    "several": ("have spans that overlap, or several where one is predicted", ""),
    "inexact": ("begin or end inside a piece", ""),
}
"""Why an answer cannot be predicted, and the remedy, by the reason."""


@dataclasses.dataclass(frozen=True, eq=False)
class ContextPart:
    """A question, and the part of its context in one window.

    Attributes:
      encoded: the pieces; the question is text 0, the context text 1.
      starts: bool `[n]`, where a predicted answer may start: pieces of the context with
        at least one character, unless another window shows more of their surroundings.
      gold: first and last pieces of the answer's spans, None for one that is not wholly
        inside; empty without an answer, None without gold.
    """

    encoded: EncodedText
    starts: np.ndarray
    gold: list[tuple[int, int] | None] | None

    @property
    def candidates(self) -> np.ndarray:
        """Return which pieces have a character of the context, bool `[n]`."""
        starts, ends = self.encoded.offsets.T
        return (self.encoded.texts == 1) & (starts < ends)

    def characters(
        self, first: np.ndarray, last: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return where spans of candidates start and end, see `EncodedText.span`."""
        return self.encoded.offsets[first, 0], self.encoded.offsets[last, 1]


def cut_context(
    example: ReadingExample,
    encoded: EncodedText,
    max_length: int,
    overlap: int,
    max_question: int,
) -> list[ContextPart]:
    """Cut a question with its context into windows; all lengths are in pieces.

    Neighbouring windows overlap, at most by half. Questions longer than `max_question`
    are truncated.

    Raises:
      InputError: the context has no room.
    """
    whole = encoded.window(0, len(encoded), ahead=max_question)
    taken = int((whole.texts != 1).sum())
    if max_length <= taken:
        raise InputError(
            f"question {quote(example.id)}: max_length {max_length} leaves no room for "
            f"the text to read, question and special pieces take {taken}; raise it, or "
            "lower max_question"
        )
    gold: list[tuple[int, int] | None] | None = None
    if example.impossible:
        gold = []
    elif example.answers:
        gold = [whole.pieces(s.start, s.end, text=1) for s in example.answers[0]]
    context_parts = []
    pieces = np.arange(len(whole))  # each counts as a word
    for part, window in cut(whole, max_length, overlap, text=1, words=pieces):
        starts = np.zeros(len(part), bool)
        starts[window.words[window.decided_words()]] = True
        inside = gold and [
            tuple(window.words[list(span)].tolist())
            if span and window.holds([span]).all()
            else None
            for span in gold
        ]
        context_part = ContextPart(part, starts, inside)
        starts &= context_part.candidates
        context_parts.append(context_part)
    return context_parts


def best_spans(
    part: ContextPart, start: np.ndarray, end: np.ndarray, *, longest: int, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the largest sums start_i + end_j, and their first and last pieces.

    All spans are compared that begin at one of `part.starts`, and end at a candidate at
    most `longest` - 1 pieces further on; the best is first, of equals the earlier.
    """
    rows = np.flatnonzero(part.starts)
    ends = np.full(len(end) + longest - 1, -np.inf, end.dtype)
    ends[: len(end)] = np.where(part.candidates, end, -np.inf)
    sums = sliding_window_view(ends, longest)[rows] + start[rows, None]
    sums = sums.ravel()  # of all starts and lengths
    best = np.arange(len(sums))
    if count < len(sums):
        # All above the last place and the first of those that share it: what
        # `argpartition` takes of equals differs between processors.
        last = np.partition(sums, len(sums) - count)[-count]
        above, level = np.flatnonzero(sums > last), np.flatnonzero(sums == last)
        best = np.sort(np.concatenate([above, level[: count - len(above)]]))
    best = best[np.argsort(-sums[best], kind="stable")]
    best = best[sums[best] > -np.inf]
    first = rows[best // longest]
    return sums[best], first, first + best % longest


def covered_characters(
    context_parts: Sequence[ContextPart], count: int, *, longest: int
) -> tuple[Literal["beyond", "long", "several"] | None, list[tuple[int, int]]]:
    """Return the characters that the pieces of an answer's first spans give.

    First is the reason of `HINDRANCES` why they cannot be predicted, or None: the
    window that may predict a start does not hold the span wholly, a span has more
    pieces than `longest`, or two overlap.
    """
    spans = []
    for number in range(count):
        held = [(part, part.gold[number]) for part in context_parts]
        held = [(part, ends) for part, ends in held if ends and part.starts[ends[0]]]
        if not held:
            return "beyond", []
        ((part, ends),) = held  # one alone shows most around the start
        if ends[1] - ends[0] >= longest:
            return "long", []
        start, end = part.characters(*ends)
        spans.append((int(start), int(end)))
    crossed = any(a[1] > b[0] for a, b in pairwise(sorted(spans)))
    return "several" if crossed else None, spans
