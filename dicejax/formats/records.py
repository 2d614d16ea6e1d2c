"""Records of a file, the examples made of them, and the errors of single ones."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from dicejax.data import tags
from dicejax.errors import Flaw, InputError, quote, suggestion, truncate
from dicejax.formats.text import Text
from dicejax.io import files, json_text

_TWO_TAGS = re.compile(r"[|;,+/&\s#][BIESMLU]-")

OnError = Callable[[InputError], None]
"""Called with the error of each example that is skipped."""


def report(error: InputError, on_error: OnError | None) -> None:
    """Raise the error, or pass it to `on_error`."""
    if on_error is None:
        raise error from None
    on_error(error)


class Skipped:
    """Counter of skipped examples, the `on_error` of readers.

    The first `keep` messages are kept. Another, with `done="repaired"`, counts repairs.
    """

    def __init__(self, keep: int = 20, done: str = "left out"):
        self.count = 0
        self.messages: list[str] = []
        self._keep, self._done = keep, done

    def __call__(self, error: InputError) -> None:
        """Count one example."""
        self.count += 1
        if len(self.messages) < self._keep:
            self.messages.append(str(error))

    def __str__(self) -> str:
        """Format the count, then one line per reason."""
        rest = self.count - len(self.messages)
        more = [f"  and {rest} more"] if rest else []
        indented = [f"  {message}" for message in self.messages]
        head = f"{self.count} {self._done}" + ":" * bool(self.count)
        return "\n".join([head, *indented, *more])


def count(number: int, noun: str) -> str:
    """Return a number of things, such as "1 column" or "2 columns"."""
    return f"{number} {noun}{'s' * (number != 1)}"


def check_label(label: str, choices: Collection[str] | None) -> None:
    """Raise `Flaw` if a label is not in a list; None allows any but the empty one."""
    if choices is None:
        if not label:
            raise Flaw("the label is empty", "name one")
    elif label not in choices:
        raise Flaw(f"label {quote(label)} is unknown", did_you_mean(label, choices))


def check_tag(tag: str, scheme: str | None, remedy: str = "correct it") -> None:
    """Raise `Flaw` if a tag names no type or is not of a scheme, of any if None."""
    try:
        prefix, kind = tags.parse(tag, scheme)
    except ValueError as error:
        raise Flaw(str(error), remedy) from None
    if _TWO_TAGS.search(kind):
        fault = f"{quote(tag)} is two tags in one column"
        raise Flaw(fault, "keep one: entities within others are not read")
    if prefix != "O" and not kind:
        raise Flaw(f"tag {quote(tag)} names no type ({tags.forms(scheme)})", remedy)


def did_you_mean(name: str, choices: Collection[str]) -> str:
    """Suggest names that look alike, or list all."""
    names = truncate(", ".join(sorted(choices)), 240)
    otherwise = f"name one of {names}" if choices else "there is none"
    return suggestion(name, choices) or otherwise


Example = TypeVar("Example")
Fields = dict[str, Any]

LOOKED_AT = 200
"""Lines and records by which a format is recognised."""
DOCUMENT = ("document_id", "doc_id", "document")
"""Fields that name the document of an example, which examples may share."""


@dataclasses.dataclass(frozen=True)
class Columns:
    """Columns as the user names them; None where they are to be found."""

    text: str | None = None
    second: str | None = None
    label: str | None = None
    spans: str | None = None
    start: str | None = None
    end: str | None = None

    def fields(self) -> dict[str, str]:
        """Return those that are named, as fields of a source."""
        fields = {"first": self.text, "second": self.second, "label": self.label}
        return {name: value for name, value in fields.items() if value is not None}

    def are_numbers(self, header: Sequence[str]) -> bool:
        """Return whether columns are numbered, as those without a header are."""
        names = self.fields().values()
        are = all(name.isdecimal() for name in names)
        return bool(names) and are and not set(names) <= set(header)


ALL_UNNAMED = Columns()


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

    def fields(self) -> Fields:
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


def fields_of(value: object) -> Fields:
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
    empty: Flaw | None = None,
) -> list[Example]:
    """Make an example of each record, numbered from 0; None makes no example.

    Raises:
      InputError: there is no example, and `empty` is the flaw of that; or a record is
        flawed and there is no `on_error`.
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
        raise empty.at(path, None)
    return examples


def texts_of(
    records: Iterable[FileRecord], make: Callable[[FileRecord], Text]
) -> Iterator[Text]:
    """Make a text to predict of each record, a blank one of a blank line.

    Raises:
      InputError: a record is flawed.
    """
    for record in records:
        with json_text.flaws_at(record.path, record.line, record.where):
            text = Text(record.number, "") if record.is_blank else make(record)
        yield text


def join_pair(parts: Sequence[str]) -> str:
    """Return a text as it is; put a tab between those of a pair, and nowhere else."""
    if len(parts) > 1:
        parts = [" ".join(part.split("\t")) for part in parts]
    return "\t".join(parts)
