"""JSON lines: texts with a class or labels."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from dicejax.formats import annotations, containers, label_studio
from dicejax.formats.labelled import FlawCounter, LabelledSource
from dicejax.formats.records import FileRecord, fields_of
from dicejax.formats.sample import FileSample
from dicejax.formats.skipping import OnError
from dicejax.formats.text import Text
from dicejax.io import files


@dataclasses.dataclass(frozen=True, kw_only=True)
class JsonTexts(LabelledSource):
    r"""Texts or pairs with a class or labels: JSON lines, a list, or a saved table.

    The fields are those of `LabelledSource`.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "dev.jsonl"
    >>> _ = path.write_text('{"id": 7, "text": "a fine film", "label": 1}\n')
    >>> [example] = JsonTexts.read_file(path, names=("bad", "good"))
    >>> example.id, example.first, example.label
    ('7', 'a fine film', 'good')
    """

    form: ClassVar[str] = "jsonl"

    train: str = "train.jsonl"
    dev: str | None = "dev.jsonl"
    test: str | None = "test.jsonl"

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
            reason = None if lost is None else annotations.left_out(fields, self.label)
            if reason is not None:
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

    def fields_with(self, text: Text, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return the object with its prediction in place of gold."""
        fields = self.with_prediction(text.fields, record)
        if label_studio.is_task(fields):
            task = {n: v for n, v in fields.items() if n not in (self.first, "label")}
            names = record.get("labels", [record["label"]] if "label" in record else [])
            fields = label_studio.write_classes(task, names)
        return fields

    @classmethod
    def fits(cls, file: FileSample) -> bool:
        """Return whether a file has records."""
        return file.has_records

    @classmethod
    def settings(cls, file: FileSample) -> dict[str, Any]:
        """Return the fields of texts and of classes or labels, and their form.

        Where all have one label, accepted or rejected as in Prodigy's binary
        annotation, the class is the answer.
        """
        columns = file.columns() if file.lists is None else file.lists
        labels = {str(row.get(columns.get("label"))) for row in file.sample}
        answers = {row.get("answer") for row in file.sample}
        if len(labels) == 1 and {"accept", "reject"} <= answers:
            texts = {n: x for n, x in columns.items() if n in ("first", "second")}
            return texts | {"label": "answer"}
        return columns
