"""Windows on texts that are longer than the input, and counts of what is cut off."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from dicejax.data.tokenize import EncodedText
from dicejax.errors import InputError


@dataclasses.dataclass(frozen=True, eq=False)
class Window:
    """The part of a text that an item shows; the whole text where it is short.

    Spans are pairs of a first and a last word.

    Attributes:
      words: place in the window of each word's first piece, -1 where it has none.
      shift: added to a place in the whole text, it gives the place in the window.
      bounds: `[start, end)` of all windows, in pieces of the whole text.
      number: index of this window.
      kind: type of the spans that are asked for; None: all.
    """

    words: np.ndarray
    shift: int = 0
    bounds: Sequence[tuple[int, int]] = ((0, 0),)
    number: int = 0
    kind: str | None = None

    def holds(self, spans: Iterable[tuple[int, int]]) -> np.ndarray:
        """Return whether both ends of each span have a piece here, bool `[n]`."""
        ends = np.array(list(spans), int).reshape(-1, 2)
        return np.all(self.words[ends] >= 0, axis=1)

    def decides(self, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Return whether spans of a first to a last word are decided here, bool `[n]`.

        A span is decided in the window with the largest min(pieces before, pieces
        behind) + 0.01 pieces, as in run_squad.py, of those that show all of it. A span
        of one word is decided where the word is.
        """
        starts, ends = self.words[first], self.words[last]
        decided = (starts >= 0) & (ends >= 0)
        if len(self.bounds) > 1:
            starts, ends = (places[decided] - self.shift for places in (starts, ends))
            # They overlap by half at most: the next but one shows nothing of this one.
            before = max(self.number - 1, 0)
            near = self.bounds[before : self.number + 2]
            low, high = np.array(near).T[..., None]
            around = np.minimum(starts - low, high - 1 - ends)
            score = np.where(around >= 0, around + 0.01 * (high - low), -np.inf)
            decided[decided] = score.argmax(axis=0) == self.number - before
        return decided

    def decided_words(self) -> np.ndarray:
        """Return which words are decided here, bool `[n]`; each is in one window."""
        words = np.arange(len(self.words))
        return self.decides(words, words)

    def trained_words(self, spans: Sequence[tuple[int, int]]) -> np.ndarray:
        """Return the places of the words to train here.

        These are the words that are decided here, and both ends of each gold span that
        is decided here or has an end that is: no span loses an end to another window.
        """
        chosen = self.decided_words()
        if len(self.bounds) > 1:
            both = np.array(spans, int).reshape(-1, 2)
            near = chosen[both].any(axis=1) | self.decides(*both.T)
            chosen[both[self.holds(spans) & near]] = True
        return self.words[chosen]


def cut(
    encoded: EncodedText,
    max_length: int,
    overlap: int,
    *,
    text: int = 0,
    words: np.ndarray | None = None,
    kind: str | None = None,
) -> Iterator[tuple[EncodedText, Window]]:
    """Yield a text with its window, or where it is too long parts that overlap.

    Lengths are in pieces, the special ones included, and neighbours overlap by at most
    half of the room. Of a pair `text` is cut, and each window has the other one whole.
    `words` are the places of the words' first pieces, -1 for none; `kind` is that of
    `Window`.

    Raises:
      InputError: the text has no room.
    """
    words = np.zeros(0, np.int32) if words is None else words
    if len(encoded) <= max_length:
        yield encoded, Window(words, kind=kind)
        return
    is_content = encoded.texts == text
    content, others = np.flatnonzero(is_content), np.flatnonzero(~is_content)
    special = len(encoded) - len(content)
    room = max_length - special
    if room < 1:
        which = "special or of the prompt" if text else "special"
        raise InputError(
            f"max_length {max_length} leaves no room: {special} pieces are {which}; "
            "make it larger"
        )
    # The other text and special pieces do not interrupt it.
    begin, end = int(content[0]), int(content[0]) + len(content)
    step = room - min(overlap, room // 2)
    starts = range(begin, max(end - room, begin) + step, step)
    bounds = [(start, min(start + room, end)) for start in starts]
    for number, (start, end) in enumerate(bounds):
        part = encoded.select(np.sort(np.append(others, np.arange(start, end))))
        shift = int(np.argmax(part.texts == text)) - start
        inside = (words >= start) & (words < end)
        places = np.where(inside, words + shift, -1)
        yield part, Window(places, shift, bounds, number, kind)


@dataclasses.dataclass(frozen=True)
class Cuts:
    """Counts of inputs that are cut off; of parts of a data set they are added.

    >>> Cuts(1, 4, 32) + Cuts(0, 6, 30)
    Cuts(count=1, total=10, longest=32)

    Attributes:
      count: inputs that are cut off.
      total: all inputs.
      longest: tokens of the longest, where they are cut off.
    """

    count: int = 0
    total: int = 0
    longest: int = 0

    def __add__(self, other: Cuts) -> Cuts:
        longest = max(self.longest, other.longest)
        return Cuts(self.count + other.count, self.total + other.total, longest)

    @property
    def share(self) -> float:
        """Share of all inputs that is cut off; 0 of none."""
        return self.count / max(self.total, 1)
