"""Files of records: JSON lines, a list in JSON, tables of `datasets`, brat."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from dicejax.errors import Flaw
from dicejax.formats import brat, tables
from dicejax.formats.records import FileRecord, fields_of
from dicejax.formats.skipping import OnError
from dicejax.io import files, json_text


def records(
    path: files.Path,
    on_error: OnError | None = None,
    stream: files.Stream = None,
    blanks: bool = False,
) -> Iterator[FileRecord]:
    """Yield the records of a file: an object on each line, or one list of them.

    Rows of a table of `datasets` and documents of brat are such records too. A stream
    is read in the place of the path. With `blanks`, blank lines are records.
    """
    if stream is None and tables.is_table(path):
        yield from tables.records(path)
        return
    if stream is None and brat.is_folder(path):
        yield from brat.records(path, on_error)
        return
    lines = files.lines(path, on_error, stream)
    begin: list[tuple[int, str]] = []  # to the first line that is not blank
    while not (begin and begin[-1][1].strip()) and (pair := next(lines, None)):
        begin.append(pair)
    if begin and begins_a_list(begin[-1][1]):
        rest = (line for _, line in itertools.chain(begin, lines))
        content = files.read_text(path) if stream is None else "\n".join(rest)
        try:
            values = json_text.value_of(json_text.parse(content), list)
        except Flaw as flaw:
            raise flaw.at(path, flaw.line) from None
        for place, value in enumerate(values):
            yield FileRecord(value, place + 1, path, where=f"[{place}]")
        return
    for number, line in itertools.chain(begin, lines):
        if line.strip():
            yield FileRecord(line, number, path, number).map(json_text.parse)
        elif blanks:
            yield FileRecord(None, number, path, number, is_blank=True)


def begins_a_list(line: str) -> bool:
    """Return whether a line begins a list of records, and is no record itself."""
    if line.lstrip().startswith("["):
        try:
            fields_of(json_text.parse(line))
        except Flaw:
            return True
    return False


def first_line(path: files.Path) -> str:
    """Return the first line of a file that is not blank; empty if all are."""
    return next((line for _, line in files.lines(path) if line.strip()), "")


def is_document(first: str) -> bool:
    """Return whether a file is one JSON object, such as SQuAD's, by its first line."""
    if first.strip() == "{":
        return True
    try:
        value = json_text.parse(first)
    except Flaw:
        return False
    return isinstance(value, dict) and isinstance(value.get("data"), list)
