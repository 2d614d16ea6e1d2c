"""CoNLL-U files: the treebanks of Universal Dependencies."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
import sys
from collections.abc import Iterator
from typing import Any, ClassVar

from dicejax.data.examples import Sentence, TaggedWords, by_character
from dicejax.errors import Flaw, InputError, quote, truncate
from dicejax.formats.sample import FileSample
from dicejax.formats.skipping import OnError, count, did_you_mean, report
from dicejax.formats.source import FileSource
from dicejax.io import files

_NAMES = "ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC"
COLUMNS = tuple(_NAMES.split())

# In these, "_" means that nothing was annotated; in the others it is a value.
_NEVER_BLANK = ("UPOS", "XPOS", "HEAD", "DEPREL")
_WORD = re.compile(r"[1-9][0-9]*")
_NO_WORD = re.compile(r"[1-9][0-9]*-[1-9][0-9]*|[0-9]+\.[1-9][0-9]*")


def read(
    path: str | os.PathLike[str],
    *,
    column: str = "UPOS",
    characters: bool = False,
    on_error: OnError | None = None,
) -> list[TaggedWords] | list[Sentence]:
    """Read the words of a treebank with one column as their label.

    Ranges of multiword tokens (`3-4`), empty nodes (`8.1`) and comments are passed
    over. In FEATS, DEPS, MISC and LEMMA `_` is a label like others; elsewhere it means
    a missing one. With `characters` see `by_character`.

    Raises:
      InputError: a row has not ten columns, an id that is malformed or out of turn, or
        no label; the column is unknown.
    """
    if column not in COLUMNS[2:]:
        do = did_you_mean(column, COLUMNS[2:])
        raise InputError.at(path, None, f"no column {quote(column)} has labels", do)
    sentences = list(_sentences(path, column, on_error))
    if not sentences:
        do = "name a CoNLL-U file with words"
        raise InputError.at(path, None, "holds no sentences", do)
    return list(map(by_character, sentences)) if characters else sentences


def _sentences(
    path: str | os.PathLike[str], column: str, on_error: OnError | None
) -> Iterator[TaggedWords]:
    words: list[str] = []
    labels: list[str] = []
    start = 0
    broken = False

    def leave_out(error: InputError) -> None:
        nonlocal broken
        if not broken:  # the first flaw of a sentence speaks for it
            report(error, on_error)
        broken = True

    lines = files.lines(path, leave_out)
    for number, line in itertools.chain(lines, [(0, "")]):
        if not line.strip(" \t"):
            if words and not broken:
                yield TaggedWords(tuple(words), tuple(labels), start)
            words, labels, start, broken = [], [], 0, False
        elif not line.startswith("#") and not broken:
            start = start or number
            try:
                word = _word(line.split("\t"), len(words) + 1, column)
            except Flaw as flaw:
                leave_out(flaw.at(path, number))
                continue
            if word is not None:
                # A corpus repeats its words; interned, each is in memory once.
                words.append(sys.intern(word[0]))
                labels.append(sys.intern(word[1]))


def _word(fields: list[str], next_id: int, column: str) -> tuple[str, str] | None:
    """Return a row's word and label; None for a range or an empty node."""
    if len(fields) != len(COLUMNS):
        what = f"{count(len(fields), 'column')} where CoNLL-U has {len(COLUMNS)}"
        raise Flaw(what, "separate them with one tab each and mark empty ones by _")
    id_, word, label = fields[0], fields[1], fields[COLUMNS.index(column)]
    if not _WORD.fullmatch(id_):
        if _NO_WORD.fullmatch(id_):
            return None
        what = f"id {quote(id_)} is no number, range or empty node"
        raise Flaw(what, "correct it")
    if id_ != str(next_id):
        what = f"id {truncate(id_, 40)} where {next_id} is next"
        do = "mend the numbering, or put a blank line between sentences"
        raise Flaw(what, do)
    if not word:
        raise Flaw("the word is empty", "mend the row")
    if not label or (label == "_" and column in _NEVER_BLANK):
        raise Flaw(f"the word has no {column}", "add it, or name another column")
    return word, label


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConlluFiles(FileSource):
    """CoNLL-U files: words with their part of speech.

    Args:
      column: column of the label, UPOS or XPOS.
      characters: give characters with spans, for joint segmentation and tagging.
    """

    several: ClassVar[str] = "sentences"
    reader = staticmethod(read)

    train: str = "train.conllu"
    dev: str | None = "dev.conllu"
    test: str | None = "test.conllu"
    column: str = "UPOS"
    characters: bool = False

    @classmethod
    def fits(cls, file: FileSample) -> bool:
        """Return whether a file has the ten columns of CoNLL-U."""
        return file.is_conllu

    @classmethod
    def looks(cls, file: FileSample) -> str:
        """Return what such a file looks like."""
        return "is CoNLL-U"

    @classmethod
    def settings(cls, file: FileSample) -> dict[str, Any]:
        """Return no fields: all are as they are by default."""
        if "\t" not in file.first:
            what = "is CoNLL-U, but with spaces between its columns"
            raise InputError.at(file.path, None, what, "put tabs there")
        return {}
