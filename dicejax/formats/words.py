"""Words of texts, and entities by characters as spans of words."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import regex

from dicejax.data.tags import Span
from dicejax.errors import Flaw, quote

Align = Literal["strict", "expand", "skip"]
Place = tuple[int, int]

_BY_CHARACTER = r"[\p{Han}\p{Hiragana}\p{Katakana}]"
_WORD = regex.compile(
    rf"{_BY_CHARACTER}\p{{M}}*"
    rf"|(?:(?!{_BY_CHARACTER})[\w\p{{M}}\p{{N}}\u200c\u200d])+"
    r"|[^\w\s]\p{M}*"
)


class Entity(NamedTuple):
    """A labelled part of a text, in characters from 0.

    Attributes:
      place: its place in the file, for errors.
      text: what the file says that it is; None where it does not say.
    """

    start: int
    end: int
    label: str
    place: str
    text: str | None = None


def places(text: str) -> list[Place]:
    """Return the characters of each word of a text.

    A word is a run of letters and digits with their marks, one character of Chinese or
    Japanese, or one other sign.

    >>> [text[i:j] for text in ["(Di)", "मैं दिल्ली", "住在北京"] for i, j in places(text)]
    ['(', 'Di', ')', 'मैं', 'दिल्ली', '住', '在', '北', '京']
    """
    return [match.span() for match in _WORD.finditer(text)]


@dataclasses.dataclass
class Aligner:
    """Divider of texts that finds the words of their entities.

    Attributes:
      align: what becomes of an entity that cuts a word, has no words or overlaps one
        before it: "strict" is an error, "expand" takes whole words and keeps the longer
        of two that overlap, "skip" leaves it out, the text stays.
      counts: entities that were changed or left out, by what was done.
    """

    align: Align
    counts: Counter[str] = dataclasses.field(default_factory=Counter)

    def spans(
        self, text: str, words: Sequence[Place], entities: Sequence[Entity]
    ) -> tuple[Span, ...]:
        """Return the spans of words of a text's entities.

        Raises:
          Flaw: an entity is outside of the text; with "strict" also one that cuts a
            word, has no words or overlaps another.
        """
        spans: list[Span] = []
        for entity in self._distinct(entities):
            start, end, label, place, _ = entity
            if not 0 <= start < end <= len(text):
                fault = f"{place} is at {quote(start)} to {quote(end)} of {len(text)}"
                remedy = "correct it: offsets count characters from 0, end excluded"
                self._refuse(Flaw(f"{fault} characters", remedy), "outside of the text")
                continue
            head = bisect.bisect_right(words, start, key=operator.itemgetter(1))
            tail = bisect.bisect_left(words, end, key=operator.itemgetter(0))
            part = text[start:end]
            if head >= tail:
                flaw = Flaw(f"{place} is {quote(part)}, no word", "remove it")
                self._refuse(flaw, "without words")
                continue
            first, last = words[head][0], words[tail - 1][1]
            if text[first:last] != part.strip():
                fault = f"{place} is {quote(part)}, which cuts a word"
                remedy = "correct its offsets, or see --data.align (of init: --align)"
                if self.align != "expand":
                    self._refuse(Flaw(fault, remedy), "that cut a word")
                    continue
                self.counts["widened to whole words"] += 1
            spans.append(Span(label, head, tail))

        def text_of(span: Span) -> str:
            return text[words[span.start][0] : words[span.end - 1][1]]

        return self.without_overlaps(spans, text_of)

    def without_overlaps(
        self, spans: Iterable[Span], text_of: Callable[[Span], str]
    ) -> tuple[Span, ...]:
        """Return spans in order, none of which overlaps another.

        Raises:
          Flaw: two overlap, with "strict".
        """
        flat: list[Span] = []
        for span in sorted(spans, key=lambda span: (span.start, span.end)):
            if not flat or flat[-1].end <= span.start:
                flat.append(span)
                continue
            before = flat[-1]
            first, other = (
                f"{quote(s.type)} ({quote(text_of(s))})" for s in (before, span)
            )
            remedy = "keep one of them, or see --data.align (of init: --align)"
            flaw = Flaw(f"entities {first} and {other} overlap", remedy)
            self._refuse(flaw, "that overlap")
            is_longer = span.end - span.start > before.end - before.start
            if self.align == "expand" and is_longer:
                flat[-1] = span
        return tuple(flat)

    def notes(self) -> Iterator[str]:
        """Yield what was done with entities, a line for each kind."""
        for reason, count in self.counts.items():
            yield f"{count} {'entity' if count == 1 else 'entities'} {reason}"

    def _refuse(self, flaw: Flaw, reason: str) -> None:
        if self.align == "strict":
            raise flaw
        self.counts[f"{reason} left out"] += 1

    def _distinct(self, entities: Sequence[Entity]) -> Iterator[Entity]:
        """Yield entities, each place and label once."""
        seen = set()
        for entity in entities:
            if entity[:3] in seen:
                self.counts["given twice merged"] += 1
            else:
                seen.add(entity[:3])
                yield entity


def are_words(words: Sequence[Place], entities: Sequence[Entity]) -> bool:
    """Return whether each entity is whole words."""
    starts, ends = {i for i, _ in words}, {j for _, j in words}
    return all(e.start in starts and e.end in ends for e in entities)


def from_utf16(text: str, entities: Sequence[Entity]) -> list[Entity]:
    """Return entities whose places count UTF-16 units with places in characters.

    >>> from_utf16("😀 Ada", [Entity(3, 6, "PER", "")])
    [Entity(start=2, end=5, label='PER', place='', text=None)]
    """
    places = {unit: place for place, unit in enumerate(_units(text))}
    return [
        e._replace(start=places.get(e.start, -1), end=places.get(e.end, -1))
        for e in entities
    ]


def to_utf16(text: str, entities: Sequence[Entity]) -> list[Entity]:
    """Return entities whose places count characters with places in UTF-16 units."""
    units = _units(text)
    return [e._replace(start=units[e.start], end=units[e.end]) for e in entities]


def _units(text: str) -> list[int]:
    """Return how many UTF-16 units are before each character, and in the text."""
    widths = (1 + (character > "\uffff") for character in text)
    return [*itertools.accumulate(widths, initial=0)]
