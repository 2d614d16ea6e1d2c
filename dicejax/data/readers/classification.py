"""Texts and pairs with a class: CSV, tab-separated as in GLUE, or label first."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterator
from typing import TypeVar

from dicejax.data.examples import LabelledText
from dicejax.data.readers import separated
from dicejax.data.readers.skipping import OnError, check_label, did_you_mean, report
from dicejax.errors import Flaw, InputError, shown
from dicejax.io import files

_Row = TypeVar("_Row", str, list[str])


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextColumns:
    """The columns of a file, and what is between them.

    Columns are named as in the file's header, or numbered from 0 without one.

    Args:
      first: the text, or the first of a pair.
      second: the second of a pair; None where there is none.
      label: the class.
      id: unique identifier; None numbers the rows from 0.
      labels: every class there is; None allows any.
      separator: the character between two columns.
      quoted: whether a column may be in quotes; see `separated.rows`.
    """

    first: str | int
    second: str | int | None = None
    label: str | int
    id: str | int | None = None
    labels: tuple[str, ...] | None = None
    separator: str = "\t"
    quoted: bool = False

    def __post_init__(self):
        if len(self.separator) != 1 or self.separator in ' "\r\n':
            what = f"separator is {self.separator!r}"
            raise ValueError(f"{what}; want one character, such as a comma")
        used = list(self.used.values())
        if len({type(column) for column in used}) > 1:
            raise ValueError(f"name all columns or number all, not {used}")
        if len(set(used)) < len(used):
            raise ValueError(f"a column is used twice: {used}")

    @property
    def has_header(self) -> bool:
        """Whether the first line of a file names its columns."""
        return isinstance(self.first, str)

    @property
    def used(self) -> dict[str, str | int]:
        """The columns that are given."""
        given = {name: getattr(self, name) for name in ("first", "second", "label")}
        return {n: c for n, c in (given | {"id": self.id}).items() if c is not None}


def read(
    path: str | os.PathLike[str],
    layout: TextColumns,
    *,
    on_error: OnError | None = None,
) -> list[LabelledText]:
    r"""Read a file of columns, an example per row.

    Texts are stripped, blank lines skipped.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "dev.tsv"
    >>> _ = path.write_text("sentence\tlabel\nso \"good\" \t1\n")
    >>> [example] = read(path, TextColumns(first="sentence", label="label"))
    >>> example.first, example.label
    ('so "good"', '1')

    Args:
      path: see `readers`.
      layout: columns of the file.
      on_error: see `readers`.

    Raises:
      InputError: the header lacks a column; a row has more or fewer columns than the
        first; a text is empty; a label is not in the list; see `separated.rows`.
    """
    columns: _Columns | None = None

    def rows(skip: OnError) -> Iterator[tuple[int, list[str]]]:
        return separated.rows(
            path, layout.separator, quoted=layout.quoted, on_error=skip
        )

    def example(row: int, number: int, fields: list[str]) -> LabelledText | None:
        nonlocal columns
        if columns is None:
            columns = _columns(path, number, fields, layout)
            if layout.has_header:
                return None
        return columns.pick(fields, row, number)

    return _read(path, rows, example, on_error, headers=int(layout.has_header))


def read_label_first(
    path: str | os.PathLike[str], *, on_error: OnError | None = None
) -> list[LabelledText]:
    r"""Read a file with a label, a space or tab, and a sentence on each line.

    Sentences are stripped, blank lines skipped.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "dev.txt"
    >>> _ = path.write_text("4 gorgeous , witty\n0 dull .\n")
    >>> [(example.label, example.first) for example in read_label_first(path)]
    [('4', 'gorgeous , witty'), ('0', 'dull .')]

    Raises:
      InputError: a line has no sentence behind its label.
    """

    def rows(skip: OnError) -> Iterator[tuple[int, str]]:
        return ((n, line) for n, line in files.lines(path, skip) if line.strip(" "))

    def example(row: int, number: int, line: str) -> LabelledText | None:
        if not line.strip():
            return None
        label, *rest = re.split("[ \t]", line.strip(" \t"), maxsplit=1)
        if not (rest and rest[0].strip()):
            raise Flaw("no text behind the label", "add it or remove the line")
        return LabelledText(rest[0].strip(), None, label, str(row), number)

    return _read(path, rows, example, on_error)


def _read(
    path,
    rows: Callable[[OnError], Iterator[tuple[int, _Row]]],
    example: Callable[[int, int, _Row], LabelledText | None],
    on_error: OnError | None,
    headers: int = 0,
) -> list[LabelledText]:
    """Return an example per row; rows are numbered after the header."""
    found: list[LabelledText] = []
    row = -1 - headers

    def skip(error: InputError) -> None:
        nonlocal row
        row += 1
        report(error, on_error)

    for number, content in rows(skip):
        row += 1
        try:
            one = example(row, number, content)
        except Flaw as flaw:
            report(flaw.at(path, number), on_error)
            continue
        if one is not None:
            found.append(one)
    if not found:
        raise InputError.at(path, None, "holds no examples", "put one on each line")
    return found


def _columns(path, number: int, fields: list[str], layout: TextColumns) -> _Columns:
    names = [name.strip() for name in fields]
    for part, column in layout.used.items():
        if layout.has_header and column not in names:
            do = did_you_mean(column, names)
            what = f"the header has no column {shown(column)}"
            raise InputError.at(path, number, what, do)
        if not layout.has_header and not 0 <= column < len(fields):
            what = f"{_count(fields)}, but the {part} is asked from column {column}"
            between = "tabs" if layout.separator == "\t" else repr(layout.separator)
            do = f"columns count from 0 and are separated by {between}"
            raise InputError.at(path, number, what, do)
    places = {
        part: names.index(column) if layout.has_header else column
        for part, column in layout.used.items()
    }
    advice = "mend the line; a text may hold no tab"
    if layout.quoted:
        advice = f"mend the row; put a text that holds {layout.separator!r} in quotes"
    return _Columns(places, layout.labels, len(fields), number, advice)


def _count(fields: list[str]) -> str:
    return "1 column" if len(fields) == 1 else f"{len(fields)} columns"


@dataclasses.dataclass(frozen=True)
class _Columns:
    """Extractor of an example from a row."""

    places: dict[str, int]
    labels: tuple[str, ...] | None
    width: int
    first_line: int
    advice: str

    def pick(self, fields: list[str], row: int, line: int) -> LabelledText:
        if len(fields) != self.width:
            raise Flaw(
                f"{_count(fields)} where {self.width} are expected, as in line "
                f"{self.first_line}",
                self.advice,
            )
        part = {name: fields[place].strip() for name, place in self.places.items()}
        for name in ("first", "second"):
            if part.get(name) == "":
                which = "text" if "second" not in part else f"{name} text"
                raise Flaw(f"the {which} is empty", "add it or remove the line")
        check_label(part["label"], self.labels)
        id_ = part.get("id", str(row))
        return LabelledText(part["first"], part.get("second"), part["label"], id_, line)
