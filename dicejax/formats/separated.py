r"""Rows of fields between separators: CSV as in RFC 4180, and TSV without quotes."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterable, Iterator

from dicejax.errors import Flaw
from dicejax.formats.skipping import OnError, report
from dicejax.io import files, limits

SEPARATORS = (",", "\t", ";", "|")  # those that are recognised
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
EXCEL = re.compile("sep=.")  # the line before a header by which Excel separates columns

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
            fields = next(csv.reader(texts, delimiter=separator, strict=True), None)
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
    written, quoting = io.StringIO(), csv.QUOTE_ALL if is_quoted else csv.QUOTE_MINIMAL
    form = {"delimiter": separator, "lineterminator": "", "quoting": quoting}
    csv.writer(written, **form).writerow(fields)
    return written.getvalue()


PREDICTED = ["prediction", "probability"]
"""The last columns of a table of predictions, whose texts `as_text` has quoted."""


def as_text(cell: object) -> object:
    """Put an apostrophe before a text that a spreadsheet would take for a formula.

    Numbers stay; `from_text` returns any text as it was.

    >>> [as_text(x) for x in ("=1+1", "'=1", "-0.5", "- no", -0.5, "'tis")]
    ["'=1+1", "''=1", '-0.5', "'- no", -0.5, "'tis"]
    """
    is_formula = isinstance(cell, str) and _FORMULA.match(cell)
    return f"'{cell}" if is_formula and not _NUMBER.fullmatch(cell) else cell


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
    message, do = str(error), "fix the row"
    if "expected after" in message:
        message = "text follows the quote that ends a field"
        do = 'double the quotes within a field: ""'
    elif "field larger" in message:
        message = f"more than {csv.field_size_limit():,} {limits.FIELD.noun}"
        do = limits.FIELD.do
    elif "end of data" in message:
        message = "a quote begins a field and is not closed"
        do = 'close it; a quote as text is written """"'
    return Flaw(message, do, line)
