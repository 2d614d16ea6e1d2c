"""Replacing words of a text by synonyms, with all else as it was."""

from __future__ import annotations

import dataclasses
import re
from typing import NamedTuple

import numpy as np

from dicejax.data.synonym_groups import STOP_WORDS
from dicejax.data.synonyms import BuiltIn, Source, Synonyms, lookup_form

__all__ = ["Replacer", "SynonymReplacement"]

# Letters and digits, joined by apostrophes and hyphens; an accent that is a character
# of its own belongs to its letter. No part of an address, a path, a tag or a formula.
_LETTERS = r"(?:[^\W_][\u0300-\u036f]*+)++"
_WORD = re.compile(
    r"(?<![\w\u0300-\u036f@#/\\$%&=+])(?<!\w[.’'-])"
    rf"{_LETTERS}(?:['’-]{_LETTERS})*+"
    r"(?![\w@/\\=&+]|[.’'-]\w)"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SynonymReplacement:
    """How words are replaced.

    Letter case is kept (Word gives Synonym, WORD gives SYNONYM), spaces and punctuation
    are. Stop words stay, and so do words in mixed case (iPhone). After "a" and "an"
    only synonyms are taken that fit, as far as the first letter tells.

    Args:
      source: of the synonyms.
      share: how many of an example's words are replaced: this share of all of them,
        rounded, but at least one, and at most those that have synonyms.
    """

    source: Source = BuiltIn()
    share: float = 0.1

    def __post_init__(self):
        if not 0 < self.share <= 1:
            raise ValueError(f"share is {self.share}; want above 0, up to 1")

    def load(self) -> Replacer:
        """Read the synonyms.

        Raises:
          InputError: they cannot be had.
        """
        return Replacer(self.source.load(), self.share)


class _Slot(NamedTuple):
    """A word that can be replaced."""

    text: int
    start: int
    end: int
    synonyms: list[str]  # in the word's case


class Replacer:
    """Replaces words by synonyms; see `SynonymReplacement`.

    >>> replacer = SynonymReplacement(share=1.0).load()
    >>> replacer(("Is it EASY?", "Not a big film."), np.random.default_rng(0))
    ('Is it SIMPLE?', 'Not a large movie.')

    Args:
      synonyms: of a word.
      share: of the words to replace.
    """

    def __init__(self, synonyms: Synonyms, share: float):
        self._synonyms = synonyms
        self._share = share

    def __call__(
        self, texts: tuple[str, ...], random: np.random.Generator
    ) -> tuple[str, ...] | None:
        """Replace some words, drawn from all texts together.

        Args:
          texts: of one example.
          random: makes the draws.

        Returns:
          The texts, with synonyms; None where no word can be replaced.
        """
        slots, words = self._slots(texts)
        if not slots:
            return None
        count = min(len(slots), max(1, round(self._share * words)))
        written = list(texts)
        # From the end, so that no replacement moves another word.
        for choice in sorted(random.permutation(len(slots))[:count], reverse=True):
            slot = slots[choice]
            synonym = slot.synonyms[random.integers(len(slot.synonyms))]
            text = written[slot.text]
            written[slot.text] = text[: slot.start] + synonym + text[slot.end :]
        return tuple(written)

    def finds(self, texts: tuple[str, ...]) -> bool:
        """Whether some word can be replaced."""
        return bool(self._slots(texts)[0])

    def _slots(self, texts: tuple[str, ...]) -> tuple[list[_Slot], int]:
        """Find the words that can be replaced, and count all."""
        slots, words = [], 0
        for number, text in enumerate(texts):
            before = ""
            for match in _WORD.finditer(text):
                words += 1
                form = lookup_form(match[0])
                synonyms = self._fitting(match[0], form, before)
                if synonyms:
                    slots.append(_Slot(number, *match.span(), synonyms))
                before = form
        return slots, words

    def _fitting(self, word: str, form: str, before: str) -> list[str]:
        if form in STOP_WORDS:
            return []
        cased = (
            _in_case_of(word, synonym)
            for synonym in self._synonyms(form)
            if _fits(before, synonym)
        )
        return [synonym for synonym in cased if synonym and synonym != word]


def _fits(before: str, word: str) -> bool:
    if before not in ("a", "an"):
        return True
    return (word[0].lower() in "aeiou") == (before == "an")


def _in_case_of(word: str, synonym: str) -> str | None:
    """Write the synonym in the word's letter case; None where that is mixed."""
    if word == word.lower():
        return synonym
    if word[1:] == word[1:].lower():
        return synonym[0].upper() + synonym[1:]
    return synonym.upper() if word == word.upper() else None
