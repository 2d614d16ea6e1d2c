"""Windows on a text that is longer than the input."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from dicejax.data.tokenize import EncodedText
from dicejax.errors import InputError
from dicejax.tasks.task import Examples, Items


@dataclasses.dataclass(frozen=True, eq=False)
class Window:
    """The part of a text that an item shows; the whole text where it is short.

    Attributes:
      words: place in the window of each word's first piece, -1 where it has none.
      shift: added to a place in the whole text, it gives the place in the window.
      bounds: `[start, end)` of all windows, in pieces of the whole text.
      number: index of this window.
    """

    words: np.ndarray
    shift: int = 0
    bounds: Sequence[tuple[int, int]] = ((0, 0),)
    number: int = 0

    def decides(self, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Return whether spans of a first to a last word are decided here, bool `[n]`.

        A span is decided in the window that shows most of its surroundings, of those
        that show all of it. A span of one word is decided where the word is.
        """
        starts, ends = self.words[first], self.words[last]
        decided = (starts >= 0) & (ends >= 0)
        if len(self.bounds) > 1:
            starts, ends = (x[decided] - self.shift for x in (starts, ends))
            decided[decided] = widest_of(self.bounds, starts, ends)[self.number]
        return decided

    def decided_words(self) -> np.ndarray:
        """Return which words are decided here, bool `[n]`; each is in one window."""
        words = np.arange(len(self.words))
        return self.decides(words, words)

    def trained_words(self, spans: Iterable[tuple[int, int]]) -> np.ndarray:
        """Return the places of the words to train here.

        These are the words that are decided here, and both ends of each gold span that
        is decided here or has an end that is: no span loses an end to another window.
        A span is its first and its last word.
        """
        chosen = self.decided_words()
        if len(self.bounds) > 1:
            both = np.array(list(spans), int).reshape(-1, 2)
            whole = (self.words[both] >= 0).all(axis=1)
            near = chosen[both].any(axis=1) | self.decides(*both.T)
            chosen[both[whole & near]] = True
        return self.words[chosen]


def cut(
    encoded: EncodedText,
    max_length: int,
    overlap: int,
    *,
    text: int = 0,
    words: np.ndarray | None = None,
) -> Iterator[tuple[EncodedText, Window]]:
    """Yield a text with its window, or where it is too long parts that overlap.

    Args:
      encoded: its pieces.
      max_length: pieces per window, the special ones included.
      overlap: overlap of neighbouring windows in pieces, at most half of the room.
      text: index of the text in a pair; each window has the other one whole.
      words: place of each word's first piece in the whole text, -1 for none.

    Raises:
      InputError: the text has no room.
    """
    words = np.zeros(0, np.int32) if words is None else words
    if len(encoded) <= max_length:
        yield encoded, Window(words)
        return
    content = np.flatnonzero(encoded.texts == text)
    special = len(encoded) - len(content)
    room = max_length - special
    if room < 1:
        raise InputError(
            f"max_length {max_length} leaves no room: {special} pieces are special; "
            "make it larger"
        )
    begin = int(content[0])  # the other text and special pieces do not interrupt it
    bounds = [
        (begin + start, begin + end)
        for start, end in parts(len(content), room, overlap)
    ]
    for number, (start, end) in enumerate(bounds):
        part = encoded.window(start, end - 1, text=text)
        shift = int(np.argmax(part.texts == text)) - start
        inside = (words >= start) & (words < end)
        places = np.where(inside, words + shift, -1)
        yield part, Window(places, shift, bounds, number)


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
    start, end = np.array(bounds).T[..., None]
    seen = np.minimum(first - start, end - 1 - last)
    score = np.where(seen >= 0, seen + 0.01 * (end - start), -np.inf)
    best = np.arange(len(bounds))[:, None] == score.argmax(axis=0)
    return best & (seen >= 0)


def remark(
    split: str, examples: Examples, items: Items, *, reads: int = 1
) -> list[str]:
    """Return a line that tells how many texts are read in windows, if any are.

    Each text is encoded `reads` times, as for several queries.
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
