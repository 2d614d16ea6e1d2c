"""CoNLL-U files: the treebanks of Universal Dependencies."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
import sys
from collections.abc import Iterator, Mapping
from typing import IO, Any, ClassVar

from dicejax.data.examples import Sentence, TaggedWords, by_character
from dicejax.errors import Flaw, InputError, quote, truncate
from dicejax.formats.rows import labels_of
from dicejax.formats.sample import FileSample
from dicejax.formats.skipping import OnError, count, did_you_mean, report
from dicejax.formats.source import FileSource
from dicejax.formats.text import Text
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
                word = _word(line.split("\t"), len(words) + 1)
                if word is not None and not _label(word, column):
                    do = "add it, or name another column"
                    raise Flaw(f"the word has no {column}", do)
            except Flaw as flaw:
                leave_out(flaw.at(path, number))
                continue
            if word is not None:
                # A corpus repeats its words; interned, each is in memory once.
                words.append(sys.intern(word[1]))
                labels.append(sys.intern(_label(word, column)))


def _label(fields: list[str], column: str) -> str:
    """Return the label of a word; empty where it was not annotated."""
    label = fields[COLUMNS.index(column)]
    return "" if label == "_" and column in _NEVER_BLANK else label


def _word(fields: list[str], next_id: int) -> list[str] | None:
    """Return the fields of a word; None for a range or an empty node."""
    if len(fields) != len(COLUMNS):
        what = f"{count(len(fields), 'column')} where CoNLL-U has {len(COLUMNS)}"
        raise Flaw(what, "separate them with one tab each and mark empty ones by _")
    id_, word = fields[:2]
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
    return fields


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConlluFiles(FileSource):
    """CoNLL-U files: words with their part of speech.

    Args:
      column: column of the label, UPOS or XPOS.
      characters: give characters with spans, for joint segmentation and tagging.
    """

    looks: ClassVar[str] = "is CoNLL-U"

    several: ClassVar[str] = "sentences"
    parted_by: ClassVar[str] = "a blank line"
    form: ClassVar[str] = "conll"
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
    def settings(cls, file: FileSample) -> dict[str, Any]:
        """Return no fields: all are as they are by default."""
        if "\t" not in file.first:
            what = "is CoNLL-U, but with spaces between its columns"
            raise InputError.at(file.path, None, what, "put tabs there")
        return {}

    def texts(
        self, path: str | os.PathLike[str], stream: IO[bytes] | None = None
    ) -> list[Text]:
        """Read sentences to predict, whose labels may be missing.

        Raises:
          InputError: see `read`.
        """
        result: list[Text] = []
        before: list[str] = []
        rows: list[str] = []
        words: list[str] = []
        start = 0
        for number, line in itertools.chain(
            files.lines(path, stream=stream), [(0, "")]
        ):
            if not line.strip(" \t") or (line.startswith("#") and not words):
                if words:
                    text, head = " ".join(words), () if result else tuple(before)
                    parts = "".join(words) if self.characters else words
                    result.append(
                        Text(start, text, tuple(parts), rows=tuple(rows), before=head)
                    )
                    before, rows, words, start = [], [], [], 0
                if number:
                    before += [*rows, line]
                    rows = []
                if result:
                    result[-1] = dataclasses.replace(result[-1], after=tuple(before))
                continue
            start = start or number
            rows.append(line)
            if not line.startswith("#"):
                try:
                    word = _word(line.split("\t"), len(words) + 1)
                except Flaw as flaw:
                    raise flaw.at(path, number) from None
                if word is not None:
                    words.append(word[1])
        if not result:
            do = "name a CoNLL-U file with words"
            raise InputError.at(path, None, "holds no sentences", do)
        return result

    def write(self, text: Text, record: Mapping[str, Any]) -> str:
        """Return the rows with predicted labels; those of no word as they are.

        Raises:
          InputError: the prediction has no label for each word.
        """
        rows = [row.split("\t") for row in text.rows]
        words = [fields for fields in rows if _WORD.fullmatch(fields[0])]
        for fields, label in zip(words, labels_of(record, len(words)), strict=True):
            fields[COLUMNS.index(self.column)] = label
        return "\n".join([*text.before, *map("\t".join, rows), *text.after])
