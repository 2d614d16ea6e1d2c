"""Texts and pairs with a class: CSV, tab-separated as in GLUE, or label first."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from dicejax.data.examples import LabelledText
from dicejax.data.readers import separated
from dicejax.data.readers.skipping import (
    OnError,
    check_label,
    count,
    did_you_mean,
    report,
)
from dicejax.errors import Flaw, InputError, quote
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
    r"""Read a file of columns, an example per row.

    Columns are named as in the file's header, or numbered from 0 without one. Texts are
    stripped, blank lines skipped.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "dev.tsv"
    >>> _ = path.write_text("sentence\tlabel\nso \"good\" \t1\n")
    >>> [example] = read(path, first="sentence", label="label")
    >>> example.first, example.label
    ('so "good"', '1')

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
    layout = _Layout(path, columns, separator, quoted, labels)

    def rows(skip: OnError) -> Iterator[tuple[int, list[str]]]:
        result = separated.rows(path, separator, quoted=quoted, on_error=skip)
        line, names = separated.header(result)
        if names:
            layout.find(line, names)
        if not isinstance(label, str):
            return itertools.chain([(line, names)] if names else (), result)
        return result

    return _examples(path, rows, layout.example, on_error)


def _examples(
    path: str | os.PathLike[str],
    rows: Callable[[OnError], Iterator[tuple[int, Row]]],
    make: Callable[[Row, int, int], LabelledText | None],
    on_error: OnError | None,
) -> list[LabelledText]:
    """Make an example of each row; flawed rows count in the numbers of the others."""
    flawed = 0

    def skip(error: InputError) -> None:
        nonlocal flawed
        flawed += 1
        report(error, on_error)

    examples = []
    for number, (line, content) in enumerate(rows(skip)):
        try:
            example = make(content, number + flawed, line)
        except Flaw as flaw:
            report(flaw.at(path, line), on_error)
            continue
        if example is not None:
            examples.append(example)
    if not examples:
        raise InputError.at(path, None, "holds no examples", "put one on each line")
    return examples


@dataclasses.dataclass
class _Layout:
    """The columns of a file; the first row has their places."""

    path: str | os.PathLike[str]
    columns: Mapping[str, Any]
    separator: str
    quoted: bool
    labels: Sequence[str]
    places: dict[str, int] = dataclasses.field(default_factory=dict)
    width: int = 0
    first_line: int = 0

    def find(self, line: int, names: Sequence[str]) -> None:
        """Find the columns in the first row."""
        self.width, self.first_line = len(names), line
        for part, column in self.columns.items():
            is_name = isinstance(column, str)
            if is_name and column not in names:
                do = did_you_mean(column, names)
                what = f"the header has no column {quote(column)}"
                raise InputError.at(self.path, line, what, do)
            if not is_name and not 0 <= column < self.width:
                what = f"but the {part} is asked from column {column}"
                what = f"{count(self.width, 'column')}, {what}"
                between = "tabs" if self.separator == "\t" else repr(self.separator)
                do = f"columns count from 0 and are separated by {between}"
                raise InputError.at(self.path, line, what, do)
            self.places[part] = names.index(column) if is_name else column

    def example(self, fields: list[str], row: int, line: int) -> LabelledText:
        """Return the example in a row, which is numbered from 0 below the header."""
        if len(fields) != self.width:
            what = f"{self.width} are expected, as in line {self.first_line}"
            do = "mend the line; a text may hold no tab"
            if self.quoted:
                do = f"mend the row; put a text that holds {self.separator!r} in quotes"
            raise Flaw(f"{count(len(fields), 'column')} where {what}", do)
        part = {name: fields[place].strip() for name, place in self.places.items()}
        for name in ("first", "second"):
            if part.get(name) == "":
                which = f"{name} text" if "second" in part else "text"
                raise Flaw(f"the {which} is empty", "add it or remove the line")
        check_label(part["label"], self.labels or None)
        id_ = part.get("id", str(row))
        return LabelledText(part["first"], part.get("second"), part["label"], id_, line)


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

    def make(text: str, row: int, line: int) -> LabelledText | None:
        if not text.strip():
            return None
        label, *rest = _BLANK.split(text.strip(" \t"), maxsplit=1)
        first = rest[0].strip() if rest else ""
        if not first:
            raise Flaw("no text behind the label", "add it or remove the line")
        return LabelledText(first, None, label, str(row), line)

    def rows(skip: OnError) -> Iterator[tuple[int, str]]:
        return ((n, text) for n, text in files.lines(path, skip) if text.strip(" "))

    return _examples(path, rows, make, on_error)
