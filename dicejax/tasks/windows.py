"""Windows on a text longer than the input, and the best spans in them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from dicejax.data.examples import ReadingExample
from dicejax.data.tokenize import EncodedText
from dicejax.errors import Cut, InputError, quote
from dicejax.tasks.task import Examples, Items, Task

Places = tuple[int, int]
"""The first and the last piece of a span."""

_HINDRANCES = {
    "beyond": "lie in no window wholly, or are of characters that the tokenizer drops",
    "long": "have more pieces than max_answer",
    "several": "have spans that overlap, or several where one is predicted",
    "inexact": "begin or end inside a piece",
}
"""Why an answer cannot be predicted, by the reason."""

_REMEDIES = {"beyond": "--task.stride", "long": "--task.max_answer"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowTask(Task):
    """Base class of tasks that cut texts longer than `max_length` into windows.

    Args:
      stride: overlap of neighbouring windows in pieces, at most half of a window.
    """

    stride: int = 64

    def __post_init__(self):
        if self.stride < 0:
            raise ValueError(f"stride is {self.stride}; want 0 or more")


@dataclasses.dataclass(frozen=True, eq=False)
class Window:
    """A question, and a part of its context.

    Attributes:
      encoded: the pieces; the question is text 0, the context text 1.
      starts: bool `[n]`, where a predicted answer may start: pieces of the context with
        at least one character, unless another window shows more of their surroundings.
      gold: places of the answer's spans, None for one that is not wholly inside; empty
        without an answer, None without gold.
      cuts_question: whether the end of the question is cut off.
    """

    encoded: EncodedText
    starts: np.ndarray
    gold: list[Places | None] | None
    cuts_question: bool = False

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


def cut(
    example: ReadingExample,
    encoded: EncodedText,
    *,
    max_length: int,
    overlap: int,
    max_question: int,
) -> list[Window]:
    """Cut a question with its context into windows.

    Args:
      example: the question.
      encoded: its pieces and those of the context.
      max_length: pieces per window.
      overlap: overlap of neighbouring windows in pieces, at most half of the room.
      max_question: maximum pieces of a question; longer ones are truncated.

    Raises:
      InputError: the context has no room.
    """
    context = np.flatnonzero(encoded.texts == 1)
    question = int((encoded.texts == 0).sum())
    asked = len(encoded) - len(context) - question + min(question, max_question)
    room = max_length - asked
    if room < 1:
        raise InputError(
            f"question {quote(example.id)}: max_length {max_length} leaves no room for "
            f"the text to read, question and special pieces take {asked}; raise it, or "
            "lower max_question"
        )
    gold = _gold(example, encoded)
    bounds = parts(len(context), room, overlap)
    windows = []
    places = np.arange(len(context))
    for (start, end), widest in zip(
        bounds, widest_of(bounds, places, places), strict=True
    ):
        kept = context[start:end]
        first, last = (int(kept[0]), int(kept[-1])) if len(kept) else (0, -1)
        part = encoded.window(first, last, ahead=max_question)
        shift = int(np.argmax(part.texts == 1)) - first
        inside = gold and [
            (span[0] + shift, span[1] + shift)
            if span and first <= span[0] and span[1] <= last
            else None
            for span in gold
        ]
        starts = np.zeros(len(part), bool)
        starts[part.texts == 1] = widest[start:end]
        starts &= part.offsets[:, 0] < part.offsets[:, 1]
        windows.append(Window(part, starts, inside, question > max_question))
    return windows


def unanswerable_warnings(split: str, why: Sequence[str | None]) -> list[str]:
    """Return warnings of the answers that cannot be predicted.

    >>> unanswerable_warnings("dev", [None, "several"])[0]  # doctest: +ELLIPSIS
    'dev: 1 of 2 answers have spans that overlap, or several ...: no exact match'

    Args:
      split: name of the split.
      why: of each answer, why it cannot be predicted; None if it can.
    """
    count, said = Counter(why), []
    for what, because in _HINDRANCES.items():
        text = f"{split}: {count[what]} of {len(why)} answers {because}: no exact match"
        if count[what]:
            remedy = _REMEDIES.get(what)
            said.append(Cut(f"{text}; raise {remedy}") if remedy else text)
    return said


def too_long(split: str, items: Items) -> list[str]:
    """Return a warning of the questions that are cut off, if any are."""
    cut = {item.example for item in items if item.detail.cuts_question}
    if not cut:
        return []
    of = len({item.example for item in items})
    text = f"{split}: {len(cut)} of {of} questions are cut off"
    return [Cut(f"{text}; raise --task.max_question")]


class Part(NamedTuple):
    """A part of a text that is longer than the input.

    Attributes:
      encoded: its pieces and the special ones.
      shift: offset added to a position in the whole text.
      decided: bool, one for each piece of the whole text: those of which no other part
        shows more surroundings. Each piece of the text is decided in one part.
      bounds: `[start, end)` of all parts, in pieces of the whole text.
      number: index of this part.
    """

    encoded: EncodedText
    shift: int
    decided: np.ndarray
    bounds: Sequence[tuple[int, int]]
    number: int

    def words(self, first_pieces: np.ndarray) -> SeenWords:
        """Return the words that have their first piece here.

        Args:
          first_pieces: place of each word's first piece in the whole text, -1 for none.
        """
        start, end = self.bounds[self.number]
        here = (first_pieces >= start) & (first_pieces < end)
        places = np.where(here, first_pieces + self.shift, -1)
        return SeenWords(places, self.shift, self.bounds, self.number)


@dataclasses.dataclass(frozen=True, eq=False)
class SeenWords:
    """The words of a text that a part of it shows.

    Attributes:
      first_pieces: place of each word's first piece in the part, -1 where it has none.
      shift: see `Part`.
      bounds: see `Part`; by default the part is the whole text.
      number: see `Part`.
    """

    first_pieces: np.ndarray
    shift: int = 0
    bounds: Sequence[tuple[int, int]] = ((0, 0),)
    number: int = 0

    def decides(self, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Return whether spans are decided here, bool `[n]`.

        A span is decided in the part that shows most of its surroundings, of those that
        show all of it. A span of one word is decided where the word is.

        Args:
          first: the first word of each span.
          last: the last one.
        """
        places = self.first_pieces[first], self.first_pieces[last]
        seen = (places[0] >= 0) & (places[1] >= 0)
        if len(self.bounds) == 1:
            return seen
        starts, ends = (place - self.shift for place in places)
        return seen & widest_of(self.bounds, starts, ends)[self.number]

    def trained_words(self, spans: Iterable[tuple[int, int]]) -> np.ndarray:
        """Return the places of the words to train here.

        These are the words that are decided here, and both ends of each gold span that
        is decided here or has an end that is: so no span loses an end to another part.

        Args:
          spans: the first and the last word of each gold span.
        """
        words = np.arange(len(self.first_pieces))
        chosen = self.decides(words, words)
        if len(self.bounds) > 1:
            both = np.array(list(spans), int).reshape(-1, 2)
            whole = (self.first_pieces[both] >= 0).all(axis=1)
            near = chosen[both].any(axis=1) | self.decides(*both.T)
            chosen[both[whole & near]] = True
        return self.first_pieces[chosen]


def of_text(
    encoded: EncodedText, max_length: int, overlap: int, *, text: int = 0
) -> Iterator[Part]:
    """Yield a text, or where it is too long parts of it that overlap.

    Args:
      encoded: its pieces.
      max_length: pieces per part, the special ones included.
      overlap: overlap of neighbouring parts in pieces, at most half of the room.
      text: index of the text in a pair; each part has the other one whole.

    Raises:
      InputError: the text has no room.
    """
    content = np.flatnonzero(encoded.texts == text)
    if len(encoded) <= max_length:
        yield Part(encoded, 0, encoded.texts == text, [(0, len(encoded))], 0)
        return
    special = len(encoded) - len(content)
    room = max_length - special
    if room < 1:
        what = f"max_length {max_length} leaves no room: {special} pieces are special"
        raise InputError(f"{what}; make it larger")
    begin = int(content[0])  # the other text and special pieces do not interrupt it
    bounds = [
        (begin + start, begin + end)
        for start, end in parts(len(content), room, overlap)
    ]
    for number, ((start, end), widest) in enumerate(
        zip(bounds, widest_of(bounds, content, content), strict=True)
    ):
        part = encoded.window(start, end - 1, text=text)
        shift = int(np.argmax(part.texts == text)) - start
        decided = np.zeros(len(encoded), bool)
        decided[content] = widest
        yield Part(part, shift, decided, bounds, number)


def remark(
    split: str, examples: Examples, items: Items, *, reads: int = 1
) -> list[str]:
    """Return a line that tells how many texts are read in windows, if any are.

    Args:
      split: name of the split.
      examples: its texts.
      items: encoded items.
      reads: how often each text is read, as for several queries.
    """
    counts = np.bincount([item.example for item in items], minlength=len(examples))
    several = int((counts > reads).sum())
    if not several:
        return []
    return [
        f"{several} of {len(examples)} {split} texts ({several / len(examples):.0%}) "
        f"are longer than {max(map(len, items))} tokens and read in windows; "
        "--training.max_length sets their length"
    ]


def parts(count: int, room: int, overlap: int) -> list[tuple[int, int]]:
    """Return `[start, end)` of parts that cover `count` pieces, the last one shorter.

    >>> parts(10, room=6, overlap=2)
    [(0, 6), (4, 10)]
    >>> parts(11, room=6, overlap=2)
    [(0, 6), (4, 10), (8, 11)]

    Args:
      count: number of pieces; 0 gives one empty part.
      room: pieces per part.
      overlap: overlap of neighbouring parts, at most half of the room.
    """
    step = room - min(overlap, room // 2)
    starts = range(0, max(count - room, 0) + step, step)
    return [(start, min(start + room, count)) for start in starts]


def _gold(example: ReadingExample, encoded: EncodedText) -> list[Places | None] | None:
    """Return the places of the first answer's spans; see `Window.gold`."""
    if example.impossible:
        return []
    if not example.answers:
        return None
    return [encoded.pieces(s.start, s.end, text=1) for s in example.answers[0]]


def widest_of(
    bounds: Sequence[tuple[int, int]], first: np.ndarray, last: np.ndarray
) -> np.ndarray:
    """Mark the part with the most context around each span, bool `[parts, n]`.

    The score is min(pieces before, pieces behind) + 0.01 pieces, as in run_squad.py. A
    span that no part holds wholly has none.

    >>> first, last = np.array([1, 4, 4, 0]), np.array([1, 4, 8, 9])
    >>> widest_of([(0, 6), (4, 10)], first, last).astype(int)
    array([[1, 1, 0, 0],
           [0, 0, 1, 0]])

    Args:
      bounds: `[start, end)` of each part.
      first: the first piece of each span, `[n]`.
      last: the last one, which is included.
    """
    if len(bounds) == 1:
        return np.ones((1, len(first)), bool)
    start, end = np.array(bounds).T[..., None]
    seen = np.minimum(first - start, end - 1 - last)
    score = np.where(seen >= 0, seen + 0.01 * (end - start), -np.inf)
    best = np.arange(len(bounds))[:, None] == score.argmax(axis=0)
    return best & (seen >= 0)


def best_spans(
    window: Window, start: np.ndarray, end: np.ndarray, *, longest: int, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find the spans with the largest start_i + end_j, exactly.

    All spans are compared that begin at one of `window.starts`, and end at a candidate
    at most `longest` - 1 pieces further on.

    Args:
      window: window to search.
      start: `[n]`, the log-probability that the answer starts at a piece.
      end: `[n]`, the log-probability that it ends there.
      longest: maximum pieces of a span.
      count: number of spans.

    Returns:
      The sums, first and last pieces; the best span first, of equals the earlier.
    """
    rows = np.flatnonzero(window.starts)
    ends = np.full(len(end) + longest - 1, -np.inf, end.dtype)
    ends[: len(end)] = np.where(window.candidates, end, -np.inf)
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
    windows: Sequence[Window], numbers: Iterable[int], *, longest: int
) -> tuple[Literal["beyond", "long", "several"] | None, list[tuple[int, int]]]:
    """Return the characters that the pieces of an answer's spans give.

    Args:
      windows: of one question.
      numbers: of the spans.
      longest: maximum pieces of a span.

    Returns:
      The reason why they cannot be predicted, or None, and the characters. "beyond":
      the window that may predict the start does not hold the span wholly. "long": it
      has more pieces than `longest`. "several": two overlap.
    """
    spans = []
    for number in numbers:
        held = [(w, w.gold[number]) for w in windows if w.gold[number]]
        held = [(window, ends) for window, ends in held if window.starts[ends[0]]]
        if not held:
            return "beyond", []
        ((window, ends),) = held  # one alone shows most around the start
        if ends[1] - ends[0] >= longest:
            return "long", []
        start, end = window.characters(*ends)
        spans.append((int(start), int(end)))
    crossed = any(a[1] > b[0] for a, b in pairwise(sorted(spans)))
    return "several" if crossed else None, spans
