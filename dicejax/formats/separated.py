r"""Tables between separators: CSV as in RFC 4180, and TSV without quotes.

Rows are lists of fields, or records by the names in a header, and are written back.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from dicejax.errors import Flaw, quote
from dicejax.formats.records import FileRecord, OnError, count, did_you_mean, report
from dicejax.io import files, json_text, limits

SEPARATORS = (",", "\t", ";", "|")  # those that are recognised
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
EXCEL = re.compile("sep=.")  # the line before a header by which Excel separates columns

Column = str | int
AGAIN = "\0"  # behind the name of a column that has one before; in no header

csv.field_size_limit(limits.FIELD.most)  # of a document; it is 131,072 else


def rows(
    path: files.Path,
    separator: str = ",",
    *,
    quoted: bool = True,
    on_error: OnError | None = None,
    stream: files.Stream = None,
) -> Iterator[tuple[int, list[str]]]:
    r"""Yield the first line and the fields of each row; blank lines are skipped.

    So is a first line `sep=;`, which is for Excel.

    With quotes, a field that begins with `"` ends at the next single one: it may hold
    separators, line breaks, and quotes that are doubled. `on_error` is called with the
    error of a malformed row; reading resumes at the line behind the row's first.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "dev.csv"
    >>> _ = path.write_text('text,label\n"so ""fine"",\nreally",good\n')
    >>> list(rows(path))
    [(1, ['text', 'label']), (2, ['so "fine",\nreally', 'good'])]

    Raises:
      InputError: see `files.lines`; or a quote is not closed, or closed within a field.
    """
    lines = files.lines(path, on_error, stream)
    first = next(lines, None)
    if first is not None and not EXCEL.fullmatch(first[1]):
        lines = itertools.chain([first], lines)
    if not quoted:
        for number, line in lines:
            if line.strip(" "):
                fields = line.split(separator)
                limits.COLUMNS.require(len(fields), f"{path}:{number}")
                yield number, fields
        return
    ahead: list[tuple[int, str]] = []  # read by a row that turned out to be malformed
    while True:
        taken: list[tuple[int, str]] = []
        texts = _texts(itertools.chain(ahead, lines), taken)
        try:
            fields = next(csv.reader(texts, delimiter=separator, strict=True), [])
        except csv.Error as error:
            first, *ahead = [*taken, *ahead[len(taken) :]]
            report(flaw(error).at(path, first[0]), on_error)
            continue
        ahead = ahead[len(taken) :]
        if not taken:
            return
        if fields and (len(fields) > 1 or fields[0].strip()):
            limits.COLUMNS.require(len(fields), f"{path}:{taken[0][0]}")
            yield taken[0][0], fields


def row(fields: Iterable[object], separator: str = ",", is_quoted: bool = False) -> str:
    """Return a row as CSV, without the end of its line; `is_quoted`: each field."""
    written = io.StringIO()
    quoting: Literal[0, 1] = csv.QUOTE_ALL if is_quoted else csv.QUOTE_MINIMAL
    # Its own end, CR LF, which is taken off again, makes the writer quote line breaks.
    csv.writer(written, delimiter=separator, quoting=quoting).writerow(fields)
    return written.getvalue()[:-2]


class SeparatedTable(NamedTuple):
    """A table as a container of records, by columns or, without a header, numbers.

    Attributes:
      separator: the character between columns.
      quoted: whether a field may be in quotes.
      has_header: whether the first row has the names of columns.
      flawless: whether all rows have equally many fields, if that is known.
    """

    separator: str
    quoted: bool
    has_header: bool = True
    flawless: bool = True

    @property
    def form(self) -> dict[str, Any]:
        """How it is written, as settings of a source."""
        return {"separator": self.separator, "quoted": self.quoted}

    def rows(self, path: files.Path, **more: Any) -> Iterator[tuple[int, list[str]]]:
        """Yield the first line and the fields of each row; see the function `rows`."""
        return rows(path, **self.form, **more)

    def records(
        self,
        path: files.Path,
        columns: Mapping[str, Column],
        on_error: OnError | None = None,
        stream: files.Stream = None,
    ) -> Iterator[FileRecord]:
        """Yield the rows, which have the columns, by what these are for."""
        table = self.rows(path, on_error=on_error, stream=stream)
        first_line, first = next(table, (1, []))
        names: Sequence[Column] = range(len(first))
        if not first:
            return
        if first[-2:] == PREDICTED:
            table = ((line, list(map(from_text, fields))) for line, fields in table)
            first = list(map(from_text, first))
        if self.has_header:
            names = _distinct([name.strip() for name in first])
        else:
            table = itertools.chain([(first_line, first)], table)
        with json_text.flaws_at(path, first_line):
            self._check(columns, names)
        remedy = "fix the line; a text may hold no tab"
        if self.quoted:
            remedy = f"fix the row; put a text that holds {self.separator!r} in quotes"
        expected = f"{len(names)} are expected, as in line {first_line}"
        for line, fields in table:
            value: Any
            if len(fields) == len(names):
                value = dict(zip(names, fields, strict=True))
            else:
                value = Flaw(f"{count(len(fields), 'column')} where {expected}", remedy)
            yield FileRecord(value, line, path, line)

    def _check(self, columns: Mapping[str, Column], names: Sequence[Column]) -> None:
        """Refuse a file that lacks a column, or has one of that name twice."""
        for part, column in columns.items():
            if isinstance(column, int) and column not in names:
                fault = f"but the {part} is expected in column {column}"
                between = "tabs" if self.separator == "\t" else repr(self.separator)
                remedy = f"columns count from 0 and are separated by {between}"
                raise Flaw(f"{count(len(names), 'column')}, {fault}", remedy)
            if column not in names:
                fault = f"the header has no column {quote(column)}"
                raise Flaw(fault, did_you_mean(str(column), list(map(str, names))))
            if f"{column}{AGAIN}" in names:
                raise Flaw(f"the header has {quote(column)} twice", "rename one")

    def lines(
        self, records: Iterable[Mapping[Any, object]], first: str = ""
    ) -> Iterator[str]:
        """Yield the header, if there is one, and the rows of records.

        All fields are in quotes where those of the first line of a file are.
        """
        if EXCEL.fullmatch(first):
            yield first
        begin = next(csv.reader([first], delimiter=self.separator), [])
        is_quoted = first == self.line(begin, True) != self.line(begin)
        for number, fields in enumerate(records):
            if self.has_header and number == 0:
                yield self.line((name.rstrip(AGAIN) for name in fields), is_quoted)
            yield self.line(fields.values(), is_quoted)

    def line(self, fields: Iterable[object], is_quoted: bool = False) -> str:
        """Return a row without its end; `is_quoted`: each field."""
        values = ["" if field is None else str(field) for field in fields]
        if not self.quoted:
            return self.separator.join(values)
        return row(values, self.separator, is_quoted)


def _distinct(names: Sequence[str]) -> list[str]:
    """Make names of columns different, by a mark behind those that come again."""
    counts: Counter[str] = Counter()
    distinct = []
    for name in names:
        distinct.append(name + AGAIN * counts[name])
        counts[name] += 1
    return distinct


PREDICTED = ["prediction", "probability"]
"""The last columns of a table of predictions, whose texts `as_text` has quoted."""


def as_text(cell: object) -> object:
    """Put an apostrophe before a text that a spreadsheet would take for a formula.

    Numbers stay; `from_text` returns any text as it was.

    >>> [as_text(x) for x in ("=1+1", "'=1", "-0.5", "- no", -0.5, "'tis")]
    ["'=1+1", "''=1", '-0.5', "'- no", -0.5, "'tis"]
    """
    text = cell if isinstance(cell, str) else ""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else cell


def from_text(cell: str) -> str:
    """Return what `as_text` was given."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def header(rows: Iterator[tuple[int, list[str]]]) -> tuple[int, list[str]]:
    """Take the first row; return its line and fields, stripped, if there is one."""
    line, fields = next(rows, (1, []))
    return line, [field.strip() for field in fields]


def _texts(
    lines: Iterator[tuple[int, str]], taken: list[tuple[int, str]]
) -> Iterator[str]:
    """Yield lines with their ends; keep those that were asked for in `taken`."""
    for number, line in lines:
        taken.append((number, line))
        yield f"{line}\n"


def flaw(error: csv.Error, line: int | None = None) -> Flaw:
    """Return what an error of the library says of quotes."""
    message, remedy = str(error), "fix the row"
    if "expected after" in message:
        message = "text follows the quote that ends a field"
        remedy = 'double the quotes within a field: ""'
    elif "field larger" in message:
        message = f"more than {csv.field_size_limit():,} {limits.FIELD.noun}"
        remedy = limits.FIELD.remedy
    elif "end of data" in message:
        message = "a quote begins a field and is not closed"
        remedy = 'close it; a quote as text is written """"'
    return Flaw(message, remedy, line)
