"""Column files: a word and its label per line, a blank line between sentences."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from collections.abc import Callable, Iterator

from dicejax.data.readers import text
from dicejax.data.readers.skipping import Flaw, OnError, report
from dicejax.errors import InputError

_DOCUMENT_START = "-DOCSTART-"


@dataclasses.dataclass(frozen=True)
class Rows:
    """The rows of one sentence.

    Attributes:
      line: of the first row, counted from 1.
      words: as the file has them.
      labels: one per word.
    """

    line: int
    words: list[str]
    labels: list[str]


def read(
    path: str | os.PathLike[str],
    *,
    word_column: int,
    label_column: int,
    separator: str | None = None,
    check: Callable[[str], None] | None = None,
    on_error: OnError | None = None,
) -> list[Rows]:
    r"""Read a file of words and labels.

    The text is UTF-8, with or without a byte order mark, with any line ends; a name in
    `.gz` is decompressed. Blank lines and `-DOCSTART-` rows end a sentence and belong
    to none. There are no comments: a line that begins with `#` is a row.

    Args:
      path: local, or anything etils.epath opens (gs://, s3://).
      word_column: counted from 0; negative counts from the end.
      label_column: the same.
      separator: what stands between columns, exactly once. None: any run of ASCII
        spaces and tabs. Other white space never separates, because it can be a word:
        where each character has a tag, as in Chinese, so have the ideographic space
        U+3000 and the no-break space U+00A0.
      check: raises `Flaw` for a label that may not be; asked once of each.
      on_error: is told of each sentence that is left out, with its first flaw; None
        raises the first.

    Returns:
      The sentences in the order of the file; at least one.

    Raises:
      InputError: the file is missing, empty, a folder, or not UTF-8 text; a row has
        more or fewer columns than the first or none at the place asked for; a label is
        refused.
    """
    columns = _Columns(word_column, label_column)
    known = _Known(check)
    found: list[Rows] = []
    in_sentence = broken = False
    intern = sys.intern

    def leave_out(error: InputError) -> None:
        nonlocal broken
        if not broken:  # the first flaw of a sentence speaks for it
            report(error, on_error)
        broken = True

    def close() -> None:
        if in_sentence and broken:
            found.pop()

    for number, fields in _rows(path, separator, leave_out):
        if not fields:
            close()
            in_sentence = broken = False
            continue
        if not in_sentence:
            words, labels = [], []
            found.append(Rows(number, words, labels))
            in_sentence = True
        try:
            word, label = columns.pick(number, fields)
            if label not in known:
                known.check(label)
        except Flaw as flaw:
            leave_out(flaw.at(path, number))
            continue
        # A corpus repeats its words; interned, each is kept in memory once.
        words.append(intern(word))
        labels.append(intern(label))
    close()
    if not found:
        raise InputError.at(
            path,
            None,
            "holds no sentences",
            "put one word and its label on each line",
        )
    return found


class _Known(set):
    """The labels that were checked and found good."""

    def __init__(self, check: Callable[[str], None] | None):
        super().__init__()
        self._check = check

    def check(self, label: str) -> None:
        if self._check is not None:
            self._check(label)
        self.add(label)


@dataclasses.dataclass
class _Columns:
    """Takes word and label from a row; the first row says how many columns all have."""

    word: int
    label: int
    width: int = 0
    first: int = 0

    def pick(self, line: int, fields: list[str]) -> tuple[str, str]:
        if len(fields) != self.width:
            self._check_width(line, len(fields))
        word = fields[self.word]
        if not word:  # only where a separator is named
            raise Flaw("the word is empty", "mend the row")
        return word, fields[self.label]

    def _check_width(self, line: int, width: int) -> None:
        columns = "1 column" if width == 1 else f"{width} columns"
        if self.width:
            raise Flaw(
                f"{columns} where {self.width} are expected, as in line {self.first}",
                "mend the row, or name the separator if words hold spaces",
            )
        for name, column in (("word", self.word), ("tag", self.label)):
            if not -width <= column < width:
                raise Flaw(
                    f"{columns}, but the {name} is asked from column {column}",
                    "columns count from 0, or from the end: -1",
                )
        if self.word % width == self.label % width:
            raise Flaw(
                f"{columns}, so word and tag would be the same one",
                "name other columns or the separator",
            )
        self.width, self.first = width, line


def _rows(
    path, separator: str | None, on_error: OnError
) -> Iterator[tuple[int, list[str]]]:
    """Give each line's number and columns; no columns where a sentence ends."""
    split = _splitter(path, separator)
    for number, line in text.lines(path, on_error):
        # The marker's row often has other columns than the rest, so it is not split.
        if _DOCUMENT_START in line and _DOCUMENT_START in line.split():
            yield number, []
        else:
            yield number, split(line) if line.strip(" \t") else []


def _splitter(path, separator: str | None) -> Callable[[str], list[str]]:
    if separator is None:
        return re.compile(r"[^ \t]+").findall  # not str.split(): see `read`
    if not separator:
        raise InputError.at(path, None, "the separator is empty", "name a character")
    return lambda line: line.split(separator)
