"""Texts and pairs with a class or labels in tables: CSV, and TSV as in GLUE."""

from __future__ import annotations

import csv
import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from dicejax.errors import Flaw, InputError, quote
from dicejax.formats import separated
from dicejax.formats.labelled import LabelledSource
from dicejax.formats.layouts import has_tags
from dicejax.formats.mapping import ALL_UNNAMED, columns_of
from dicejax.formats.records import FileRecord
from dicejax.formats.sample import FileSample
from dicejax.formats.skipping import OnError, count, did_you_mean
from dicejax.formats.text import Predictions, Text
from dicejax.io import files

Column = str | int


@dataclasses.dataclass(frozen=True, kw_only=True)
class CsvFiles(LabelledSource):
    """Texts or pairs with a class or labels, CSV as spreadsheets and pandas write it.

    The other fields are those of `LabelledSource`: names of columns in the header, or
    numbers from 0 where there is no header.

    Args:
      id: the column of a unique identifier; None numbers the rows from 0.
      separator: the character between two columns.
      quoted: whether a field may be in quotes.
    """

    form: ClassVar[str] = "csv"

    train: str = "train.csv"
    dev: str | None = "dev.csv"
    test: str | None = "test.csv"
    id: Column | None = None
    separator: str = ","
    quoted: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.separator) != 1 or self.separator in ' "\r\n':
            what = f"separator is {self.separator!r}"
            raise ValueError(f"{what}; want one character, such as a comma")
        used = list(self.columns(labelled=True).values())
        if len({type(column) for column in used}) > 1:
            raise ValueError(f"name all columns or number all, not {used}")
        if len(set(used)) < len(used):
            raise ValueError(f"a column is used twice: {used}")

    def columns(self, labelled: bool) -> dict[str, Column]:
        """Return the columns that a file must have, by what they are for."""
        columns = {"first": self.first, "second": self.second}
        if labelled:
            columns |= self.gold_columns() | {"id": self.id, "weight": self.weight}
        return {part: name for part, name in columns.items() if name is not None}

    def gold_columns(self) -> dict[str, Column]:
        """Return the columns of gold, by what they are for."""
        if isinstance(self.label, tuple):
            return {f"label {name}": name for name in self.label}
        if self.probabilities:
            return {f"probability of {name}": name for name in self.probabilities}
        return {"label": self.label}

    def id_of(self, fields: Mapping[Any, Any]) -> str | None:
        """Return the identifier of a row; None numbers it."""
        return None if self.id is None else fields[self.id].strip()

    def text_of(self, fields: Mapping[Any, Any], name: Column) -> str:
        """Return a text of a row, stripped."""
        return fields[name].strip()

    def records(
        self,
        path: files.Path,
        on_error: OnError | None = None,
        stream: files.Stream = None,
        labelled: bool = True,
    ) -> Iterator[FileRecord]:
        """Yield the rows, their fields by the names in the header or by numbers."""
        form = {"quoted": self.quoted, "on_error": on_error, "stream": stream}
        rows = separated.rows(path, self.separator, **form)
        first_line, header = next(rows, (1, []))
        names: Sequence[Column] = range(len(header))
        if not header:
            return
        if header[-2:] == separated.PREDICTED:
            rows = ((line, list(map(separated.from_text, row))) for line, row in rows)
            header = list(map(separated.from_text, header))
        if isinstance(self.first, int):
            rows = itertools.chain([(first_line, header)], rows)
        else:
            names = _distinct([name.strip() for name in header])
        try:
            self._check(self.columns(labelled), names)
        except Flaw as flaw:
            raise flaw.at(path, first_line) from None
        do = "fix the line; a text may hold no tab"
        if self.quoted:
            do = f"fix the row; put a text that holds {self.separator!r} in quotes"
        expected = f"{len(names)} are expected, as in line {first_line}"
        for line, fields in rows:
            value: Any
            if len(fields) == len(names):
                value = dict(zip(names, fields, strict=True))
            else:
                value = Flaw(f"{count(len(fields), 'column')} where {expected}", do)
            yield FileRecord(value, line, path, line)

    def _check(self, columns: Mapping[str, Column], names: Sequence[Column]) -> None:
        """Refuse a file that lacks a column, or has one of that name twice."""
        for part, column in columns.items():
            if isinstance(column, int) and column not in names:
                what = f"but the {part} is expected in column {column}"
                between = "tabs" if self.separator == "\t" else repr(self.separator)
                do = f"columns count from 0 and are separated by {between}"
                raise Flaw(f"{count(len(names), 'column')}, {what}", do)
            if column not in names:
                what = f"the header has no column {quote(column)}"
                raise Flaw(what, did_you_mean(str(column), list(map(str, names))))
            if f"{column}{AGAIN}" in names:
                raise Flaw(f"the header has {quote(column)} twice", "rename one")

    def lines(self, pairs: Predictions, first: str = "") -> Iterator[str]:
        """Yield the header, if there is one, and a row for each prediction.

        All fields are in quotes where those of the first line are.
        """
        has_header = isinstance(self.first, str)
        if separated.EXCEL.fullmatch(first):
            yield first
        begin = next(csv.reader([first], delimiter=self.separator), [])
        is_quoted = first == self._row(begin, True) != self._row(begin)
        for text, record in pairs:
            fields = self.with_prediction(text.fields, record)
            if has_header:
                yield self._row((name.rstrip(AGAIN) for name in fields), is_quoted)
                has_header = False
            yield self._row(fields.values(), is_quoted)

    def write(self, text: Text, record: Mapping[str, Any]) -> str:
        """Return a row with its prediction in place of gold, or in a new column."""
        return self._row(self.with_prediction(text.fields, record).values())

    def _row(self, fields: Iterable[object], is_quoted: bool = False) -> str:
        values = ["" if field is None else str(field) for field in fields]
        if not self.quoted:
            return self.separator.join(values)
        return separated.row(values, self.separator, is_quoted)

    @classmethod
    def fits(cls, file: FileSample) -> bool:
        """Return whether a file is a table."""
        return _is_table(file)

    @classmethod
    def settings(cls, file: FileSample) -> dict[str, Any]:
        """Return the columns of texts and of classes or labels, and their form."""
        columns = file.columns() if file.lists is None else file.lists
        is_default = file.table.separator == cls.separator
        return columns | ({} if is_default else {"separator": file.table.separator})


@dataclasses.dataclass(frozen=True, kw_only=True)
class TabSeparatedFiles(CsvFiles):
    """Tab-separated texts or pairs with a class or labels, without quotes.

    The fields are those of `CsvFiles`.
    """

    train: str = "train.tsv"
    dev: str | None = "dev.tsv"
    test: str | None = "test.tsv"
    separator: str = "\t"
    quoted: bool = False

    @classmethod
    def fits(cls, file: FileSample) -> bool:
        """Return whether a file is a table between tabs, without quotes."""
        return _is_table(file) and file.table[:2] == ("\t", False)


AGAIN = "\0"  # behind the name of a column that has one before; in no header


def _distinct(names: Sequence[str]) -> list[str]:
    """Make names of columns different, by a mark behind those that come again."""
    counts: Counter[str] = Counter()
    distinct = []
    for name in names:
        distinct.append(name + AGAIN * counts[name])
        counts[name] += 1
    return distinct


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
        rows = file.sample if file.table.flawless else ()
        columns_of(file.path, rows, ALL_UNNAMED, by_name_alone=True)
    except InputError:
        return False
    return True
