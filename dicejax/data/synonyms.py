"""Where synonyms come from: a built-in list, a file of the user's, or WordNet."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import re
from collections.abc import Callable, Iterable
from typing import Literal

from dicejax.data.readers import text
from dicejax.data.readers.skipping import Flaw
from dicejax.data.synonym_groups import GROUPS, STOP_WORDS
from dicejax.errors import InputError

__all__ = ["BuiltIn", "Source", "Synonyms", "WordList", "WordNet", "lookup_form"]

Synonyms = Callable[[str], tuple[str, ...]]
"""Gives the synonyms of a word in its `lookup_form`, in one order; maybe none."""

_ENTRY = re.compile(r"[^\W\d_]+(?:[ '’-][^\W\d_]+)*")
_NO_DATA = (
    "pip install wn, then python -m wn download oewn:2024; or pip install nltk, then "
    "python -m nltk.downloader wordnet; or give a word list"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuiltIn:
    """A few hundred everyday English words.

    >>> BuiltIn().load()("quickly")
    ('rapidly', 'swiftly', 'speedily')
    """

    def load(self) -> Synonyms:
        """Read the list."""
        found = _table("built-in", enumerate(GROUPS.splitlines(), start=1))
        return lambda word: found.get(word, ())


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordList:
    r"""A text file with a group of synonyms on each line, separated by commas.

    A word may stand in several groups and then has the synonyms of all. Letter case
    does not matter where a word is looked up. An entry of several words can only take
    another's place. Blank lines and lines that begin with `#` are passed over, and so
    are stop words (`synonym_groups.STOP_WORDS`).

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "words.txt"
    >>> _ = path.write_text("# my words\nquick, fast\nfast, firm, made fast\n")
    >>> WordList(path=str(path)).load()("fast")
    ('quick', 'firm', 'made fast')

    Args:
      path: of the file; local, or anything etils.epath opens.
    """

    path: str

    def load(self) -> Synonyms:
        """Read the file.

        Raises:
          InputError: it is missing, empty or not text; or a line is not a group of at
            least two different words.
        """
        found = _table(self.path, text.lines(self.path))
        if not found:
            raise InputError.at(
                self.path, None, "holds no synonyms", "put a group on each line"
            )
        return lambda word: found.get(word, ())


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordNet:
    """WordNet, through the package `wn` or `nltk`, whichever is there with its data.

    Only words in their base form have synonyms, and only such as are written in lower
    case: inflected forms would lose number and tense, and names would turn up.

    Args:
      package: None takes `wn` if it is installed with data, else `nltk`. The two give
        different editions and orders: name one for the same texts everywhere.
      lexicon: of `wn`, such as "oewn:2024"; None takes the English ones installed.
      senses: how many of a word's senses count, the first ones in WordNet's order.
    """

    package: Literal["wn", "nltk"] | None = None
    lexicon: str | None = None
    senses: int = 1

    def __post_init__(self):
        if self.senses < 1:
            raise ValueError(f"senses is {self.senses}; want at least 1")
        if self.package == "nltk" and self.lexicon is not None:
            raise ValueError(f"lexicon {self.lexicon!r} is for wn, not nltk")

    def load(self) -> Synonyms:
        """Open WordNet.

        Raises:
          InputError: no package is installed, or none has its data.
        """
        openers = {"wn": functools.partial(_open_wn, self.lexicon)}
        if self.lexicon is None:
            openers["nltk"] = _open_nltk
        reasons = []
        for package in (self.package,) if self.package else openers:
            try:
                lemmas_of = openers[package]()
            except _Unusable as reason:
                reasons.append(f"{package}: {reason}")
                continue
            return functools.cache(
                lambda word, senses_of=lemmas_of: _from_senses(
                    word, senses_of(word), self.senses
                )
            )
        raise InputError(f"WordNet cannot be used ({'; '.join(reasons)}); {_NO_DATA}")


Source = BuiltIn | WordList | WordNet


def lookup_form(word: str) -> str:
    """Write a word as synonyms and stop words are looked up.

    >>> lookup_form("Don’t")
    "don't"
    """
    return word.lower().replace("’", "'")


class _Unusable(Exception):
    """Why a package cannot be used."""


def _table(path: str, lines: Iterable[tuple[int, str]]) -> dict[str, tuple[str, ...]]:
    """Map each word to the synonyms that its groups give it."""
    found: dict[str, dict[str, None]] = {}
    for number, line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            group = _group(line)
        except Flaw as flaw:
            raise flaw.at(path, number) from None
        for word in group:
            others = (other for other in group if other != word)
            found.setdefault(lookup_form(word), {}).update(dict.fromkeys(others))
    return {word: tuple(synonyms) for word, synonyms in found.items()}


def _group(line: str) -> list[str]:
    entries = [" ".join(entry.split()) for entry in line.split(",")]
    for entry in entries:
        if not entry:
            raise Flaw("a comma with no word beside it", "remove it or add the word")
        if not _ENTRY.fullmatch(entry):
            do = "write letters only, with commas between synonyms"
            raise Flaw(f"{entry!r} is not a word", do)
    if len(entries) < 2:
        do = "separate synonyms by commas"
        raise Flaw(f"{entries[0]!r} stands alone in its group", do)
    forms = [lookup_form(entry) for entry in entries]
    for entry, form in zip(entries, forms, strict=True):
        if forms.count(form) > 1:
            raise Flaw(f"{entry!r} stands twice in its group", "remove one")
    return [e for e, form in zip(entries, forms, strict=True) if form not in STOP_WORDS]


def _open_wn(lexicon: str | None) -> Callable[[str], list[list[str]]]:
    wn = _import("wn")
    try:
        words = wn.Wordnet(lexicon, lang=None if lexicon else "en")
    except wn.Error as error:
        raise _Unusable(f"no data ({error})") from None
    return lambda word: [synset.lemmas() for synset in words.synsets(word)]


def _open_nltk() -> Callable[[str], list[list[str]]]:
    wordnet = _import("nltk.corpus").wordnet
    try:
        wordnet.ensure_loaded()
    except (LookupError, OSError):
        raise _Unusable("no data (corpora/wordnet)") from None
    return lambda word: [
        [lemma.replace("_", " ") for lemma in synset.lemma_names()]
        for synset in wordnet.synsets(word)
    ]


def _import(name: str):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError)
        raise _Unusable("not installed" if missing else str(error)) from None


def _from_senses(word: str, senses: list[list[str]], count: int) -> tuple[str, ...]:
    # A package may look up the base form of an inflected word: such senses lack it.
    own = [lemmas for lemmas in senses if word in lemmas][:count]
    lemmas = dict.fromkeys(lemma for sense in own for lemma in sense)
    return tuple(lemma for lemma in lemmas if _may_replace(lemma, word))


def _may_replace(lemma: str, word: str) -> bool:
    is_word = _ENTRY.fullmatch(lemma) and lemma == lemma.lower()
    return bool(is_word) and lemma != word and lemma not in STOP_WORDS
