"""JSON lines: texts with a class or labels."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from dicejax.formats import annotations, containers, label_studio
from dicejax.formats.labelled import (
    ClassSource,
    FlawCounter,
    LabelledSource,
    LabelsSource,
)
from dicejax.formats.records import FileRecord, fields_of
from dicejax.formats.sample import FileSample
from dicejax.formats.skipping import OnError
from dicejax.formats.text import Text
from dicejax.io import files


@dataclasses.dataclass(frozen=True, kw_only=True)
class JsonRecords(LabelledSource):
    """Texts or pairs in JSON lines, in one list of objects, or in a saved table."""

    form: ClassVar[str] = "jsonl"

    train: str = "train.jsonl"
    dev: str | None = "dev.jsonl"
    test: str | None = "test.jsonl"
    first: str = "text"
    second: str | None = None
    weight: str | None = None
    names: tuple[str, ...] = ()

    def records(
        self,
        path: files.Path,
        on_error: OnError | None = None,
        stream: files.Stream = None,
        labelled: bool = True,
    ) -> Iterator[FileRecord]:
        """Yield the objects of a file."""
        is_read = labelled and isinstance(on_error, FlawCounter)
        lost = on_error.left_out if is_read else None
        name = None if self.first == "text" else self.first

        def fields_or_reason(content: object) -> dict | str:
            fields = fields_of(content)
            if lost is not None and (reason := annotations.left_out(fields)):
                return reason
            task = label_studio.with_classes(fields, name, self.lists_labels)
            is_empty = label_studio.is_task(fields) and task["label"] is None
            return "without a choice" if is_empty and lost is not None else task

        for record in containers.records(path, on_error, stream, blanks=not labelled):
            if not record.is_blank:
                record = record.map(fields_or_reason)
            if isinstance(record.value, str):
                lost[record.value] += 1
            else:
                yield record

    def write(self, text: Text, record: Mapping[str, Any]) -> str:
        """Return the object with its prediction in place of gold."""
        if not text.fields:
            return ""
        fields = {**text.fields, **self.predicted(text.fields, record)}
        if label_studio.is_task(fields):
            task = {n: v for n, v in fields.items() if n not in (self.first, "label")}
            names = record.get("labels", [record["label"]] if "label" in record else [])
            fields = label_studio.write_classes(task, names)
        return json.dumps(fields, ensure_ascii=False)


@dataclasses.dataclass(frozen=True, kw_only=True)
class JsonTexts(JsonRecords, ClassSource):
    r"""Texts or pairs with a class, a JSON object per line.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "dev.jsonl"
    >>> _ = path.write_text('{"id": 7, "text": "a fine film", "label": 1}\n')
    >>> [example] = JsonTexts.read_file(path, names=("bad", "good"))
    >>> example.id, example.first, example.label
    ('7', 'a fine film', 'good')

    Args:
      first: field of the text, or of the first of a pair.
      second: field of the second of a pair; None where there is none.
      label: field of the class: text, a whole number, true or false, or an object with
        the probability of each class; missing or null, the class is unknown.
      names: names of classes that are whole numbers, from 0; empty keeps the numbers.
      probabilities: fields of the probability of each class, in place of `label`.
      weight: field of the factor of a text's loss; None weighs all alike.
    """

    label: str = "label"

    @property
    def classes(self) -> tuple[str, ...]:
        """All classes, in the order of their numbers; empty allows any."""
        return self.names

    @classmethod
    def fits(cls, file: FileSample) -> bool:
        """Return whether a file has records."""
        return file.has_records

    @classmethod
    def settings(cls, file: FileSample) -> dict[str, Any]:
        """Return the fields of texts and classes."""
        return file.columns()


@dataclasses.dataclass(frozen=True, kw_only=True)
class JsonMultiLabelTexts(JsonRecords, LabelsSource):
    """Texts or pairs with any number of labels, a JSON object per line.

    Missing or null labels are unknown.

    Args:
      first: field of the text, or of the first of a pair.
      second: field of the second of a pair; None where there is none.
      labels: field of the labels: a list of texts or of whole numbers, or text; or a
        field for each label that is 1 where it holds, else 0.
      names: names of labels that are whole numbers, from 0; empty keeps the numbers.
      between: character between the labels in a text; empty where it is a list.
      indicators: whether lists have a 0 or 1 for each label, in the order of `names`.
      weight: field of the factor of a text's loss; None weighs all alike.
    """

    labels: str | tuple[str, ...] = "labels"

    @classmethod
    def fits(cls, file: FileSample) -> bool:
        """Return whether a file has records that list their labels."""
        return file.has_records and file.lists is not None

    @classmethod
    def settings(cls, file: FileSample) -> dict[str, Any]:
        """Return the fields of texts and labels."""
        return file.lists or {}
