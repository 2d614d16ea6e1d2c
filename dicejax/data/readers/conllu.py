"""CoNLL-U files: the treebanks of Universal Dependencies."""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Iterator

from dicejax.data.examples import Sentence, TaggedWords, by_character
from dicejax.data.readers.skipping import OnError, count, did_you_mean, report
from dicejax.errors import Flaw, InputError, quote, truncate
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
    are passed over, and so are comments, which a file need not have. In FEATS, DEPS,
    MISC and LEMMA `_` is a label like others; elsewhere it means a missing one. With
    `characters` the words become characters with spans, see `by_character`.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "dev.conllu"
    >>> rows = ["# text = au lit", "1-2 au _ _ _ _ _ _ _ _", "1 à à ADP _ _ 3 case _ _",
    ...         "2 le le DET _ _ 3 det _ _", "3 lit lit NOUN _ _ 0 root _ _"]
    >>> _ = path.write_text("\n".join(rows).replace(" ", "\t"), "utf-8")
    >>> [example] = read(path)
    >>> example.words, example.labels
    (('à', 'le', 'lit'), ('ADP', 'DET', 'NOUN'))

    Raises:
      InputError: a row has not ten columns, an id that is malformed or out of turn, or
        no label; the column is unknown.
    """
    if column not in COLUMNS[2:]:
        do = did_you_mean(column, COLUMNS[2:])
        raise InputError.at(path, None, f"no column {quote(column)} has labels", do)
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

    lines = files.lines(path, leave_out)
    for number, line in itertools.chain(lines, [(0, "")]):
        if not line.strip(" \t"):
            if sentence.words and not broken:
                words, labels = tuple(sentence.words), tuple(sentence.labels)
                yield TaggedWords(words, labels, sentence.line)
            sentence, broken = _Sentence(column), False
        elif not line.startswith("#") and not broken:
            try:
                sentence.add(number, line.split("\t"))
            except Flaw as flaw:
                leave_out(flaw.at(path, number))


class _Sentence:
    """Rows of one sentence."""

    def __init__(self, column: str):
        self.words: list[str] = []
        self.labels: list[str] = []
        self.line = 0
        self._name, self._column = column, COLUMNS.index(column)

    def add(self, number: int, fields: list[str]) -> None:
        self.line = self.line or number
        if len(fields) != len(COLUMNS):
            columns = count(len(fields), "column")
            do = "separate them with one tab each and mark empty ones by _"
            raise Flaw(f"{columns} where CoNLL-U has {len(COLUMNS)}", do)
        id_, word, label = fields[0], fields[1], fields[self._column]
        if not _WORD.fullmatch(id_):
            if _NO_WORD.fullmatch(id_):
                return
            what = f"id {quote(id_)} is no number, range or empty node"
            raise Flaw(what, "correct it")
        if id_ != str(len(self.words) + 1):
            what = f"id {truncate(id_, 40)} where {len(self.words) + 1} is next"
            do = "mend the numbering, or put a blank line between sentences"
            raise Flaw(what, do)
        if not word:
            raise Flaw("the word is empty", "mend the row")
        if not label or (label == "_" and self._name in _NEVER_BLANK):
            do = "add it, or name another column"
            raise Flaw(f"the word has no {self._name}", do)
        # A corpus repeats its words; interned, each is kept in memory once.
        self.words.append(sys.intern(word))
        self.labels.append(sys.intern(label))
