"""Texts and pairs with a class: CSV, tab-separated as in GLUE, or label first."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from dicejax.data.examples import LabelledText
from dicejax.errors import Flaw, InputError, quote
from dicejax.formats import separated
from dicejax.formats.conll import has_tags
from dicejax.formats.mapping import ALL_UNNAMED, columns_of
from dicejax.formats.sample import FileSample
from dicejax.formats.skipping import (
    OnError,
    check_label,
    count,
    did_you_mean,
    report,
)
from dicejax.formats.source import FileSource
from dicejax.io import files

Row = TypeVar("Row", str, list[str])
_BLANK = re.compile("[ \t]")


def read(
    path: str | os.PathLike[str],
    *,
    first: str | int,
    second: str | int | None = None,
    label: str | int,
    id: str | int | None = None,
    labels: Sequence[str] = (),
    separator: str = "\t",
    quoted: bool = False,
    on_error: OnError | None = None,
) -> list[LabelledText]:
    """Read a file of columns, by the names in its header or by numbers without one.

    Texts are stripped, blank lines skipped.

    Raises:
      InputError: the header lacks a column; a row has more or fewer columns than the
        first; a text is empty; a label is not in the list; see `separated.rows`.
      ValueError: the columns or the separator cannot be those of any file.
    """
    if len(separator) != 1 or separator in ' "\r\n':
        what = f"separator is {separator!r}"
        raise ValueError(f"{what}; want one character, such as a comma")
    columns = {"first": first, "second": second, "label": label, "id": id}
    columns = {part: column for part, column in columns.items() if column is not None}
    used = list(columns.values())
    if len({type(column) for column in used}) > 1:
        raise ValueError(f"name all columns or number all, not {used}")
    if len(set(used)) < len(used):
        raise ValueError(f"a column is used twice: {used}")
    flawed = _FlawCounter(on_error)
    rows = separated.rows(path, separator, quoted=quoted, on_error=flawed)
    first_line, names = separated.header(rows)
    width, places = len(names), {}
    if names:
        between = "tabs" if separator == "\t" else repr(separator)
        try:
            places = _places(columns, names, between)
        except Flaw as flaw:
            raise flaw.at(path, first_line) from None
        if not isinstance(label, str):
            rows = itertools.chain([(first_line, names)], rows)
    do = "mend the line; a text may hold no tab"
    if quoted:
        do = f"mend the row; put a text that holds {separator!r} in quotes"

    def make(fields: list[str], row: int, line: int) -> LabelledText:
        if len(fields) != width:
            what = f"{width} are expected, as in line {first_line}"
            raise Flaw(f"{count(len(fields), 'column')} where {what}", do)
        part = {name: fields[place].strip() for name, place in places.items()}
        for name in ("first", "second"):
            if part.get(name) == "":
                which = f"{name} text" if "second" in part else "text"
                raise Flaw(f"the {which} is empty", "add it or remove the line")
        check_label(part["label"], labels or None)
        id_ = part.get("id", str(row))
        return LabelledText(part["first"], part.get("second"), part["label"], id_, line)

    return _examples(path, rows, make, flawed)


def _places(
    columns: Mapping[str, str | int], names: Sequence[str], between: str
) -> dict[str, int]:
    """Find the columns in the first row, by name or number."""
    places = {}
    for part, column in columns.items():
        if isinstance(column, str):
            if column not in names:
                what = f"the header has no column {quote(column)}"
                raise Flaw(what, did_you_mean(column, names))
            column = names.index(column)
        elif not 0 <= column < len(names):
            what = f"but the {part} is asked from column {column}"
            do = f"columns count from 0 and are separated by {between}"
            raise Flaw(f"{count(len(names), 'column')}, {what}", do)
        places[part] = column
    return places


@dataclasses.dataclass
class _FlawCounter:
    """Counter of rows that cannot be read, which have numbers too."""

    on_error: OnError | None
    count: int = 0

    def __call__(self, error: InputError) -> None:
        self.count += 1
        report(error, self.on_error)


def _examples(
    path: str | os.PathLike[str],
    rows: Iterable[tuple[int, Row]],
    make: Callable[[Row, int, int], LabelledText | None],
    flawed: _FlawCounter,
) -> list[LabelledText]:
    """Make an example of each row; there are too many for a `FileRecord` of each."""
    examples = []
    for number, (line, content) in enumerate(rows):
        try:
            example = make(content, number + flawed.count, line)
        except Flaw as flaw:
            report(flaw.at(path, line), flawed.on_error)
            continue
        if example is not None:
            examples.append(example)
    if not examples:
        raise InputError.at(path, None, "holds no examples", "put one on each line")
    return examples


def read_label_first(
    path: str | os.PathLike[str], *, on_error: OnError | None = None
) -> list[LabelledText]:
    """Read a file with a label, a space or tab, and a sentence on each line.

    Sentences are stripped, blank lines skipped; one without a sentence is an error.
    """
    flawed = _FlawCounter(on_error)

    def make(text: str, row: int, line: int) -> LabelledText | None:
        if not text.strip():
            return None
        label, *rest = _BLANK.split(text.strip(" \t"), maxsplit=1)
        first = rest[0].strip() if rest else ""
        if not first:
            raise Flaw("no text behind the label", "add it or remove the line")
        return LabelledText(first, None, label, str(row), line)

    rows = ((n, text) for n, text in files.lines(path, flawed) if text.strip(" "))
    return _examples(path, rows, make, flawed)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TabSeparatedFiles(FileSource):
    """Tab-separated texts or pairs of texts with a class.

    Args:
      first: the column of the text, or of the first of a pair: its name in the header,
        or its number from 0 where there is no header.
      second: the column of the second of a pair; None where there is none.
      label: the column of the class.
      id: the column of a unique identifier; None numbers the rows from 0.
      labels: every class there is; empty allows any.
    """

    reader = staticmethod(read)

    train: str = "train.tsv"
    dev: str | None = "dev.tsv"
    test: str | None = "test.tsv"
    first: str | int = "text"
    second: str | int | None = None
    label: str | int = "label"
    id: str | int | None = None
    labels: tuple[str, ...] = ()

    @classmethod
    def fits(cls, file: FileSample) -> bool:
        """Return whether a file is a table between tabs, without quotes."""
        return _is_table(file) and file.table[:2] == ("\t", False)

    @classmethod
    def looks(cls, file: FileSample) -> str:
        """Return what such a file looks like."""
        assert file.table is not None
        return f"is a table of columns between {file.table.separator!r}"

    @classmethod
    def settings(cls, file: FileSample) -> dict[str, Any]:
        """Return the columns of texts and classes."""
        return columns_of(file.path, file.rows(), file.named)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CsvFiles(FileSource):
    """Texts or pairs of texts with a class, CSV as spreadsheets and pandas write it.

    Args:
      first: the column of the text, or of the first of a pair: its name in the header,
        or its number from 0 where there is no header.
      second: the column of the second of a pair; None where there is none.
      label: the column of the class.
      separator: the character between two columns.
    """

    reader = staticmethod(functools.partial(read, quoted=True))

    train: str = "train.csv"
    dev: str | None = "dev.csv"
    test: str | None = "test.csv"
    first: str | int = "text"
    second: str | int | None = None
    label: str | int = "label"
    separator: str = ","

    @classmethod
    def fits(cls, file: FileSample) -> bool:
        """Return whether a file is a table."""
        return _is_table(file)

    @classmethod
    def looks(cls, file: FileSample) -> str:
        """Return what such a file looks like."""
        assert file.table is not None
        return f"is a table of columns between {file.table.separator!r}"

    @classmethod
    def settings(cls, file: FileSample) -> dict[str, Any]:
        """Return the columns of texts and classes."""
        fields = columns_of(file.path, file.rows(), file.named)
        return fields | {"separator": file.table.separator}


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelFirstFiles(FileSource):
    """A label, a space or tab and a sentence on each line."""

    several: ClassVar[str] = "sentences"
    reader = staticmethod(read_label_first)

    @classmethod
    def fits(cls, file: FileSample) -> bool:
        """Return whether a file may have a label and a text on each line."""
        return file.is_text and not has_tags(file)

    @classmethod
    def looks(cls, file: FileSample) -> str:
        """Return what such a file looks like."""
        return "holds a label and a text on each line"


def _is_table(file: FileSample) -> bool:
    """Return whether a file is a table: by its ending, the user, or its header."""
    if not file.is_text or has_tags(file):
        return False
    is_table = file.ending in ("csv", "tsv", "tab")
    if file.table is None:
        if not is_table:
            return False
        what = "has one column alone"
        do = "give it a text and a label in each row"
        raise InputError.at(file.path, 1, what, do)
    if is_table or file.named.fields():
        return True
    try:  # whether the first line is a header
        rows = file.rows() if file.table.flawless else ()
        columns_of(file.path, rows, ALL_UNNAMED, by_name_alone=True)
    except InputError:
        return False
    return True
