"""JSON lines: texts with a class or labels."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from dicejax.data.examples import LabelledText, MultiLabelText
from dicejax.errors import Flaw, quote
from dicejax.formats import containers, tables
from dicejax.formats.mapping import LABELS, columns_of
from dicejax.formats.records import (
    Example,
    FileRecord,
    read_examples,
)
from dicejax.formats.sample import MOST, FileSample
from dicejax.formats.skipping import (
    OnError,
    check_label,
)
from dicejax.formats.source import FileSource
from dicejax.io import json_text


def read_texts(
    path: str | os.PathLike[str],
    *,
    first: str = "text",
    second: str | None = None,
    label: str = "label",
    names: Sequence[str] = (),
    on_error: OnError | None = None,
) -> list[LabelledText]:
    r"""Read texts or pairs with a class; a missing or null one is None.

    Texts are stripped, blank lines skipped.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "dev.jsonl"
    >>> _ = path.write_text('{"id": 7, "text": "a fine film", "label": 1}\n')
    >>> [example] = read_texts(path, names=["bad", "good"])
    >>> example.id, example.first, example.label
    ('7', 'a fine film', 'good')

    Raises:
      InputError: a record lacks a text; a label is no text or number, or has no name.
    """

    def gold(fields: dict) -> str | None:
        return class_of(fields.get(label), label, names)

    return _read_texts(path, LabelledText, first, second, gold, on_error)


def read_multi_label(
    path: str | os.PathLike[str],
    *,
    first: str = "text",
    second: str | None = None,
    labels: str = "labels",
    names: Sequence[str] = (),
    on_error: OnError | None = None,
) -> list[MultiLabelText]:
    """Read texts or pairs with any number of labels; None if missing or null.

    Raises:
      InputError: a record lacks a text; labels are no list; one is no text or number,
        occurs twice or has no name.
    """

    def gold(fields: dict) -> tuple[str, ...] | None:
        return _labels(fields, labels, names)

    return _read_texts(path, MultiLabelText, first, second, gold, on_error)


def _read_texts(
    path: str | os.PathLike[str],
    kind: Callable[..., Example],
    first: str,
    second: str | None,
    gold: Callable[[dict], object],
    on_error: OnError | None,
) -> list[Example]:
    def make(record: FileRecord, row: int) -> Example:
        fields = record.fields()
        texts = [_text(fields, name) if name else None for name in (first, second)]
        id_ = fields.get("id")
        id_ = str(id_) if type(id_) in (int, str) else str(row)
        return kind(*texts, gold(fields), id_, record.number)

    rows = containers.records(path, on_error)
    return read_examples(path, rows, make, on_error, empty="holds no texts")


def _text(record: dict, name: str) -> str:
    text = json_text.field(record, name, str).strip()
    if not text:
        raise Flaw(f"{quote(name)} is empty", "remove the line")
    return text


def class_of(value: object, field: str, names: Sequence[str]) -> str | None:
    """Return the class that a value names; None where it is null."""
    if value is None:
        return None
    if type(value) is int:
        if not names:
            return str(value)
        if not 0 <= value < len(names):
            what = f"{quote(field)} is {quote(value)}, but names are given for 0 to"
            raise Flaw(f"{what} {len(names) - 1}", "correct it or name all")
        return names[value]
    if type(value) is float:
        what = f"{quote(field)} is {quote(value)}, a number and no class"
        raise Flaw(what, "name classes: regression is not for this tool")
    try:
        label = json_text.value_of(value, str)
    except Flaw as flaw:
        raise Flaw(f"{quote(field)} {flaw.what}", flaw.do) from None
    check_label(label, names or None)
    return label


def _labels(record: dict, field: str, names: Sequence[str]) -> tuple[str, ...] | None:
    if record.get(field) is None:
        return None
    labels: dict[str, None] = {}
    for place, value in enumerate(json_text.field(record, field, list)):
        where = f"{field}[{place}]"
        if value is None or (isinstance(value, str) and not value.strip()):
            what = "null" if value is None else "blank"
            raise Flaw(f"{quote(where)} is {what}", "remove it")
        label = class_of(value, where, names) or ""
        if label in labels:
            raise Flaw(f"{quote(field)} has {quote(label)} twice", "remove one")
        labels[label] = None
    return tuple(labels)


@dataclasses.dataclass(frozen=True, kw_only=True)
class JsonTexts(FileSource):
    """Texts or pairs with a class, a JSON object per line.

    Args:
      first: field of the text, or of the first of a pair.
      second: field of the second of a pair.
      label: field of the class: text, or a whole number.
      names: names of classes that are whole numbers, from 0; empty keeps the numbers.
    """

    several: ClassVar[str] = "texts"
    reader = staticmethod(read_texts)

    train: str = "train.jsonl"
    dev: str | None = "dev.jsonl"
    test: str | None = "test.jsonl"
    first: str = "text"
    second: str | None = None
    label: str = "label"
    names: tuple[str, ...] = ()

    @classmethod
    def fits(cls, file: FileSample) -> bool:
        """Return whether a file has records."""
        return file.has_records

    @classmethod
    def looks(cls, file: FileSample) -> str:
        """Return what such a file looks like."""
        return f"is {tables.describe(file.path)}" if file.is_arrow else "is JSON lines"

    @classmethod
    def settings(cls, file: FileSample) -> dict[str, Any]:
        """Return the fields of texts and classes."""
        return columns_of(file.path, file.records(), file.named)


@dataclasses.dataclass(frozen=True, kw_only=True)
class JsonMultiLabelTexts(FileSource):
    """Texts or pairs with any number of labels, a JSON object per line.

    Args:
      first: field of the text, or of the first of a pair.
      second: field of the second of a pair.
      labels: field of the labels: a list of texts or of whole numbers.
      names: names of labels that are whole numbers, from 0; empty keeps the numbers.
    """

    several: ClassVar[str] = "texts"
    reader = staticmethod(read_multi_label)

    train: str = "train.jsonl"
    dev: str | None = "dev.jsonl"
    test: str | None = "test.jsonl"
    first: str = "text"
    second: str | None = None
    labels: str = "labels"
    names: tuple[str, ...] = ()

    @classmethod
    def fits(cls, file: FileSample) -> bool:
        """Return whether a file has records that list their labels."""
        return file.has_records and _list_of_labels(file) is not None

    @classmethod
    def looks(cls, file: FileSample) -> str:
        """Return what such a file looks like."""
        return f"is {tables.describe(file.path)}" if file.is_arrow else "is JSON lines"

    @classmethod
    def settings(cls, file: FileSample) -> dict[str, Any]:
        """Return the fields of texts and labels."""
        named = dataclasses.replace(file.named, label=_list_of_labels(file))
        fields = columns_of(file.path, file.records(), named)
        return fields | {"labels": fields.pop("label")}


def _list_of_labels(file: FileSample) -> str | None:
    """Return the field that lists labels; None where no field does."""
    lists: dict[str, bool] = {}
    for record in itertools.islice(file.records(), MOST):
        for name, value in record.items():
            if value is not None:
                lists.setdefault(name, isinstance(value, list))
    names = [file.named.label] if file.named.label else ["labels", *LABELS]
    return next((n for n, is_list in lists.items() if is_list and n in names), None)
