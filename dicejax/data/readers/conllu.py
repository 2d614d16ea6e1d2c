"""CoNLL-U files: the treebanks of Universal Dependencies."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator

from dicejax.data.examples import Sentence, TaggedWords, by_character
from dicejax.data.readers.skipping import OnError, did_you_mean, report
from dicejax.errors import Flaw, InputError, shortened, shown
from dicejax.io import files

_NAMES = "ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC"
COLUMNS = tuple(_NAMES.split())
"""The columns of the format, by the names its definition gives them."""

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
    r"""Read the words of a treebank with one column as their label.

    Syntactic words are read: ranges of multiword tokens (`3-4`) and empty nodes (`8.1`)
    are passed over, and so are comments, which a file need not have.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "dev.conllu"
    >>> rows = ["# text = au lit", "1-2 au _ _ _ _ _ _ _ _", "1 à à ADP _ _ 3 case _ _",
    ...         "2 le le DET _ _ 3 det _ _", "3 lit lit NOUN _ _ 0 root _ _"]
    >>> _ = path.write_text("\n".join(rows).replace(" ", "\t"), "utf-8")
    >>> [example] = read(path)
    >>> example.words, example.labels
    (('à', 'le', 'lit'), ('ADP', 'DET', 'NOUN'))

    Args:
      path: see `readers`.
      column: of the labels, one of `COLUMNS`. In FEATS, DEPS, MISC and LEMMA `_` is a
        value like others; elsewhere it means a missing label.
      characters: give characters with spans instead, see `by_character`.
      on_error: see `readers`.

    Raises:
      InputError: a row has not ten columns, an id that is malformed or out of turn, or
        no label; the column is unknown.
    """
    if column not in COLUMNS[2:]:
        do = did_you_mean(column, COLUMNS[2:])
        raise InputError.at(path, None, f"no column {shown(column)} has labels", do)
    sentences = list(_sentences(path, column, on_error))
    if not sentences:
        raise InputError.at(
            path, None, "holds no sentences", "name a CoNLL-U file with words"
        )
    return list(map(by_character, sentences)) if characters else sentences


def _sentences(path, column, on_error) -> Iterator[TaggedWords]:
    sentence = _Sentence(column)
    broken = False

    def leave_out(error: InputError) -> None:
        nonlocal broken
        if not broken:  # the first flaw of a sentence speaks for it
            report(error, on_error)
        broken = True

    for number, line in files.lines(path, leave_out):
        if not line.strip(" \t"):
            if sentence.words and not broken:
                yield sentence.finish()
            sentence, broken = _Sentence(column), False
        elif not line.startswith("#") and not broken:
            try:
                sentence.add(number, line.split("\t"))
            except Flaw as flaw:
                leave_out(flaw.at(path, number))
    if sentence.words and not broken:
        yield sentence.finish()


class _Sentence:
    """Rows of one sentence."""

    def __init__(self, column: str):
        self.words: list[str] = []
        self._labels: list[str] = []
        self._name, self._column = column, COLUMNS.index(column)
        self._line = 0

    def add(self, number: int, fields: list[str]) -> None:
        self._line = self._line or number
        if len(fields) != len(COLUMNS):
            columns = "1 column" if len(fields) == 1 else f"{len(fields)} columns"
            raise Flaw(
                f"{columns} where CoNLL-U has {len(COLUMNS)}",
                "separate them with one tab each and mark empty ones by _",
            )
        id_, word, label = fields[0], fields[1], fields[self._column]
        if not _WORD.fullmatch(id_):
            if _NO_WORD.fullmatch(id_):
                return
            raise Flaw(
                f"id {shown(id_)} is no number, range or empty node", "correct it"
            )
        if id_ != str(len(self.words) + 1):
            raise Flaw(
                f"id {shortened(id_, 40)} where {len(self.words) + 1} is next",
                "mend the numbering, or put a blank line between sentences",
            )
        if not word:
            raise Flaw("the word is empty", "mend the row")
        if not label or (label == "_" and self._name in _NEVER_BLANK):
            do = "add it, or name another column"
            raise Flaw(f"the word has no {self._name}", do)
        # A corpus repeats its words; interned, each is kept in memory once.
        self.words.append(sys.intern(word))
        self._labels.append(sys.intern(label))

    def finish(self) -> TaggedWords:
        return TaggedWords(tuple(self.words), tuple(self._labels), self._line)
