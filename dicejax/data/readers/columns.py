"""Column files: a word and its label per line, a blank line between sentences."""

from __future__ import annotations

import dataclasses
import os
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
    columns = _Columns(path, word_column, label_column, separator, check)
    found: list[Rows] = []
    for start, lines, flaws in _sentences(path):
        try:
            words, labels = columns.take(start, lines)
            if flaws:
                raise flaws[0]
        except InputError as error:  # the first flaw of a sentence speaks for it
            report(error, on_error)
        else:
            found.append(Rows(start, words, labels))
    if not found:
        raise InputError.at(
            path,
            None,
            "holds no sentences",
            "put one word and its label on each line",
        )
    return found


def _sentences(path) -> Iterator[tuple[int, list[str], list[InputError]]]:
    """Give each sentence's first line, its lines, and which others are not text."""
    lines: list[str] = []
    flaws: list[InputError] = []
    start = 1
    for number, line in text.lines(path, flaws.append):
        # The marker's row often has other columns than the rest, so it is not split.
        if not line.strip(" \t") or (
            _DOCUMENT_START in line and _DOCUMENT_START in line.split()
        ):
            if lines or flaws:
                yield start, lines, flaws
                lines = []
                flaws.clear()
            start = number + 1
        elif not flaws:
            lines.append(line)
    if lines or flaws:
        yield start, lines, flaws


class _Columns:
    """Takes words and labels from rows; the first row says how many columns all have.

    What is right is taken a sentence at a time; only a sentence that is not is gone
    through row by row. A corpus has many rows, and few that are wrong.
    """

    def __init__(self, path, word: int, label: int, separator: str | None, check):
        self._path = path
        self._word, self._label = word, label
        self._split = _splitter(path, separator)
        self._check_label = check
        self._known: set[str] = set()  # the labels that were found good
        self._width = self._first = 0

    def take(self, start: int, lines: list[str]) -> tuple[list[str], list[str]]:
        rows = self._split(lines)
        if set(map(len, rows)) != {self._width}:
            self._check_rows(start, rows)
        words = [fields[self._word] for fields in rows]
        labels = [fields[self._label] for fields in rows]
        if not (all(words) and self._known.issuperset(labels)):
            self._check_rows(start, rows)
        # A corpus repeats its words; interned, each is kept in memory once.
        return list(map(sys.intern, words)), list(map(sys.intern, labels))

    def _check_rows(self, start: int, rows: list[list[str]]) -> None:
        """Raise the first flaw; learn width and labels from the rows before it."""
        for line, fields in enumerate(rows, start):
            try:
                self._check(line, fields)
            except Flaw as flaw:
                raise flaw.at(self._path, line) from None

    def _check(self, line: int, fields: list[str]) -> None:
        if len(fields) != self._width:
            self._check_width(line, len(fields))
        if not fields[self._word]:  # only where a separator is named
            raise Flaw("the word is empty", "mend the row")
        label = fields[self._label]
        if label not in self._known:
            if self._check_label is not None:
                self._check_label(label)
            self._known.add(label)

    def _check_width(self, line: int, width: int) -> None:
        columns = "1 column" if width == 1 else f"{width} columns"
        if self._width:
            raise Flaw(
                f"{columns} where {self._width} are expected, as in line {self._first}",
                "mend the row, or name the separator if words hold spaces",
            )
        for name, column in (("word", self._word), ("tag", self._label)):
            if not -width <= column < width:
                raise Flaw(
                    f"{columns}, but the {name} is asked from column {column}",
                    "columns count from 0, or from the end: -1",
                )
        if self._word % width == self._label % width:
            raise Flaw(
                f"{columns}, so word and tag would be the same one",
                "name other columns or the separator",
            )
        self._width, self._first = width, line


def _splitter(path, separator: str | None) -> Callable[[list[str]], list[list[str]]]:
    if separator is None:
        return _split_at_spaces
    if not separator:
        raise InputError.at(path, None, "the separator is empty", "name a character")
    return lambda lines: [line.split(separator) for line in lines]


def _split_at_spaces(lines: list[str]) -> list[list[str]]:
    """Split at runs of ASCII spaces and tabs, and at no other white space: see `read`.

    A pattern says the same and takes twice as long.
    """
    rows = [line.replace("\t", " ").split(" ") for line in lines]
    return [[f for f in fields if f] if "" in fields else fields for fields in rows]
