"""Synonyms from WordNet or a file of pairs, and their substitution in texts."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dicejax.errors import InputError
from dicejax.io.files import lines

__all__ = ["Replacer", "SynonymPairs", "Synonyms", "WordNet"]

Lookup = Callable[[str], tuple[str, ...]]
"""Returns the synonyms of a word in lower case, in a fixed order; maybe none."""

# Letters and digits, joined by apostrophes and hyphens; an accent that is a character
# of its own belongs to its letter. No part of an address, a path, a tag or a formula.
_LETTERS = r"(?:[^\W_][\u0300-\u036f]*+)++"
_WORD = re.compile(
    r"(?<![\w\u0300-\u036f@#/\\$%&=+])(?<!\w[.’'-])"
    rf"{_LETTERS}(?:['’-]{_LETTERS})*+"
    r"(?![\w@/\\=&+]|[.’'-]\w)"
)
# Words that carry grammar, for which WordNet has other senses: "in" is an inch there.
_GRAMMAR = """
a about above across after again all am an and any are as at be because been
before being below between both but by can could did do does doing down each either
every few for from had has have having he her here hers him his how i if in into is
it its just least less many may me might mine more most much must my near neither
no nor not of off on one or other our out over own same shall she should so some
such than that the their them then there these they this those through to too under
until up us very was we were what when where which while who whom why will with
would you your two three four five six seven eight nine ten
"""
_STOP_WORDS = frozenset(_GRAMMAR.split())


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordNet:
    """Princeton's WordNet or its successors, read by the package `wn`.

    An inflected form has no synonyms, and neither have words such as "in" and "two".

    Args:
      senses: number of senses of a word to use, the commonest first.
      lexicon: lexicon of wn, such as "oewn:2024"; None takes all English ones.
    """

    senses: int = 1
    lexicon: str | None = None

    def __post_init__(self):
        if self.senses < 1:
            raise ValueError(f"senses is {self.senses}; want at least 1")

    def load(self) -> Lookup:
        """Open the lexicon.

        Raises:
          InputError: the package or its data is missing.
        """
        try:
            import wn

            words = wn.Wordnet(self.lexicon, lang=None if self.lexicon else "en")
        except ImportError:
            reason = "the package wn is not installed"
        except wn.Error as error:
            reason = f"no data: {error}"
        else:
            return functools.cache(functools.partial(self._look_up, words))
        raise InputError(
            f"WordNet cannot be used ({reason}); pip install 'dicejax[wordnet]' and "
            "python -m wn download oewn:2024, or give a file of pairs: "
            "augmentation.synonyms=SynonymPairs(path=...)"
        )

    def _look_up(self, words, word: str) -> tuple[str, ...]:
        if word in _STOP_WORDS:
            return ()
        # wn finds the base form of an inflected word too: such senses lack the word.
        senses = (synset.lemmas() for synset in words.synsets(word))
        own = [lemmas for lemmas in senses if word in lemmas][: self.senses]
        lemmas = dict.fromkeys(lemma for sense in own for lemma in sense)
        return tuple(lemma for lemma in lemmas if lemma != word and _is_plain(lemma))


@dataclasses.dataclass(frozen=True, kw_only=True)
class SynonymPairs:
    r"""A text file with a pair of synonyms per line, separated by a tab.

    Pairs are symmetric; a word may occur in several. Case is ignored.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "pairs.tsv"
    >>> _ = path.write_text("quick\tfast\nfast\trapid\n")
    >>> SynonymPairs(path=str(path)).load()("fast")
    ('quick', 'rapid')

    Args:
      path: file; local, or anything etils.epath opens.
    """

    path: str

    def load(self) -> Lookup:
        """Read the file.

        Raises:
          InputError: it is missing, empty or not text, or a line is not a pair.
        """
        found: dict[str, dict[str, None]] = {}
        for number, line in lines(self.path):
            if not line.strip():
                continue
            pair = [" ".join(word.split()) for word in line.split("\t")]
            if len(pair) != 2 or "" in pair or _key(pair[0]) == _key(pair[1]):
                do = "write two words with a tab between them"
                raise InputError.at(self.path, number, "is not a pair of synonyms", do)
            for word, other in (pair, pair[::-1]):
                found.setdefault(_key(word), {})[other] = None
        return lambda word: tuple(found.get(word, ()))


Synonyms = WordNet | SynonymPairs


class _Slot(NamedTuple):
    """A word that can be replaced."""

    text: int
    start: int
    end: int
    synonyms: list[str]  # in the word's case


class Replacer:
    """Replacement of words by synonyms in the same letter case.

    Spaces, punctuation and words in mixed case (iPhone) are kept.

    >>> replacer = Replacer({"easy": ("simple",)}.get, share=1.0)
    >>> replacer(("Is it EASY?", "Easy!"), np.random.default_rng(0))
    ('Is it SIMPLE?', 'Simple!')

    Args:
      lookup: returns a word's synonyms.
      share: share of an example's words to replace, rounded, but at least one word and
        at most those that have synonyms.
    """

    def __init__(self, lookup: Lookup, share: float):
        self._lookup = lookup
        self._share = share

    def __call__(
        self, texts: tuple[str, ...], random: np.random.Generator
    ) -> tuple[str, ...] | None:
        """Replace words drawn from all texts of an example; None if none can be."""
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
        """Return whether any word can be replaced."""
        return bool(self._slots(texts)[0])

    def _slots(self, texts: tuple[str, ...]) -> tuple[list[_Slot], int]:
        """Find the words that can be replaced, and count all."""
        slots, words = [], 0
        for number, text in enumerate(texts):
            for match in _WORD.finditer(text):
                words += 1
                found = self._lookup(_key(match[0])) or ()
                cased = (_in_case_of(match[0], synonym) for synonym in found)
                synonyms = [one for one in cased if one and one != match[0]]
                if synonyms:
                    slots.append(_Slot(number, *match.span(), synonyms))
        return slots, words


def _key(word: str) -> str:
    return word.lower().replace("’", "'")


def _is_plain(lemma: str) -> bool:
    letters = lemma.replace(" ", "").replace("-", "")
    return letters.isalpha() and lemma == lemma.lower() and lemma not in _STOP_WORDS


def _in_case_of(word: str, synonym: str) -> str | None:
    """Write the synonym in the word's letter case; None where that is mixed."""
    if word == word.lower():
        return synonym
    if word[1:] == word[1:].lower():
        return synonym[0].upper() + synonym[1:]
    return synonym.upper() if word == word.upper() else None
