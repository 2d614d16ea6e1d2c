"""Records of a file, with field names and places, and the examples made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from dicejax.errors import Flaw, InputError
from dicejax.formats.skipping import OnError, report
from dicejax.formats.text import Text
from dicejax.io import files, json_text

Example = TypeVar("Example")

DOCUMENT = ("document_id", "doc_id", "document")
"""Fields that name the document of an example, which examples may share."""


class FileRecord(NamedTuple):
    """One record of a file.

    Attributes:
      value: a JSON value; or the flaw that takes its place.
      number: its line, or its place in a list or table, from 1.
      path: its file.
      line: its line, for messages; None where files have none.
      where: its place within the file, for messages.
      is_blank: whether it is a blank line.
    """

    value: Any
    number: int
    path: files.Path
    line: int | None = None
    where: str = ""
    is_blank: bool = False

    def content(self) -> Any:
        """Return the value, or raise the flaw in its place."""
        if isinstance(self.value, Flaw):
            raise self.value
        return self.value

    def fields(self) -> dict:
        """Return the value by field names; see `fields_of`."""
        return fields_of(self.content())

    def map(self, make: Callable[[Any], Any]) -> FileRecord:
        """Return the record with what is made of its value, or with the flaw of it."""
        try:
            value = make(self.content())
        except Flaw as flaw:
            value = flaw
        return FileRecord(value, *self[1:])  # twice as fast as _replace

    def error(self, flaw: Flaw) -> InputError:
        """Return a flaw with the record's place."""
        return flaw.at(self.path, self.line or flaw.line, self.where)


def fields_of(value: object) -> dict:
    """Return an object, or spaCy 2's pair of a text and an object as one.

    Raises:
      Flaw: the value is neither.
    """
    if isinstance(value, list) and [type(part) for part in value] == [str, dict]:
        return {"text": value[0], **value[1]}
    return json_text.value_of(value, dict)


def document_of(value: object) -> str:
    """Return the name of the document that a record is from; empty without any.

    >>> document_of({"text": "fine", "doc_id": 7}), document_of({"text": "fine"})
    ('7', '')
    """
    if not isinstance(value, Mapping):
        return ""
    names = (value.get(field) for field in DOCUMENT)
    return next((str(x) for x in names if isinstance(x, str | int)), "")


def read_examples(
    path: files.Path,
    records: Iterable[FileRecord],
    make: Callable[[FileRecord, int], Example | None],
    on_error: OnError | None,
    *,
    empty: str | None = None,
    do: str = "",
) -> list[Example]:
    """Make an example of each record, numbered from 0; None makes no example.

    Raises:
      InputError: there is no example, and `empty` says so; or a record is flawed and
        there is no `on_error`.
    """
    examples = []
    for row, record in enumerate(records):
        try:
            example = make(record, row)
        except Flaw as flaw:
            report(record.error(flaw), on_error)
            continue
        if example is not None:
            examples.append(example)
    if not examples and empty is not None:
        raise InputError.at(path, None, empty, do)
    return examples


def texts_of(
    records: Iterable[FileRecord], make: Callable[[FileRecord], Text]
) -> Iterator[Text]:
    """Make a text to predict of each record, a blank one of a blank line.

    Raises:
      InputError: a record is flawed.
    """
    for record in records:
        try:
            text = Text(record.number, "") if record.is_blank else make(record)
        except Flaw as flaw:
            raise record.error(flaw) from None
        yield text


def join_pair(parts: Sequence[str]) -> str:
    """Return a text as it is; put a tab between those of a pair, and nowhere else."""
    if len(parts) > 1:
        parts = [" ".join(part.split("\t")) for part in parts]
    return "\t".join(parts)
