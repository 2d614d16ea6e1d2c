"""Base class of sources whose records hold a text or a pair, and a class or labels."""

from __future__ import annotations

import abc
import dataclasses
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from dicejax.data.examples import LabelledText, MultiLabelText
from dicejax.errors import Flaw, InputError, quote
from dicejax.formats import annotations, labels
from dicejax.formats.records import (
    FileRecord,
    document_of,
    join_pair,
    read_examples,
    texts_of,
)
from dicejax.formats.skipping import OnError, report
from dicejax.formats.source import FileSource, Noted
from dicejax.formats.text import Text
from dicejax.io import files, json_text

LEAVE_OUT = "add it, remove the line, or leave such lines out with --on_error skip"


@dataclasses.dataclass
class FlawCounter:
    """Counter of lines that make no record, which have numbers too."""

    on_error: OnError | None
    count: int = 0
    left_out: Counter[str] = dataclasses.field(default_factory=Counter)

    def __call__(self, error: InputError) -> None:
        """Count the error and pass it on."""
        self.count += 1
        report(error, self.on_error)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelledSource(FileSource):
    """Texts or pairs of texts with a class or labels, in records with fields.

    Each format documents the fields, which are columns in some.
    """

    several: ClassVar[str] = "texts"
    example: ClassVar[Callable[..., LabelledText | MultiLabelText]]

    first: str | int = "text"
    second: str | int | None = None
    weight: str | int | None = None

    @abc.abstractmethod
    def records(
        self,
        path: files.Path,
        on_error: OnError | None = None,
        stream: files.Stream = None,
        labelled: bool = True,
    ) -> Iterator[FileRecord]:
        """Yield the records; `labelled` where gold must be there."""

    @abc.abstractmethod
    def gold(self, fields: Mapping[Any, Any]) -> dict[str, Any]:
        """Return the attributes of an example that are gold."""

    @abc.abstractmethod
    def predicted(
        self, fields: Mapping[Any, Any], record: Mapping[str, Any]
    ) -> dict[Any, Any]:
        """Return the fields that hold gold, with a prediction in their form."""

    def id_of(self, fields: Mapping[Any, Any]) -> str | None:
        """Return the identifier of a record; None numbers it."""
        id_ = fields.get("id")
        return str(id_) if type(id_) in (int, str) else None

    def text_of(self, fields: Mapping[Any, Any], name: str | int) -> str:
        """Return a text of a record, stripped."""
        return json_text.field(fields, str(name), str).strip()

    def read_with_notes(self, path: files.Path, on_error: OnError | None) -> Noted:
        """Read one file; also return notes on what its annotators left out."""
        lost, first_name, name = FlawCounter(on_error), self.first, self.second

        def make(record: FileRecord, row: int) -> LabelledText | MultiLabelText:
            fields = record.content()
            first = self.text_of(fields, first_name)
            second = None if name is None else self.text_of(fields, name)
            if not first or second == "":
                which = "second " if first else "first " * (second is not None)
                raise Flaw(f"the {which}text is empty", LEAVE_OUT)
            more = self.gold(fields)
            if self.weight is not None:
                if self.weight not in fields:
                    raise Flaw(f"has no {quote(self.weight)}", "add the weight")
                weight = labels.number(fields[self.weight], str(self.weight))
                more["weight"] = weight
            id_ = self.id_of(fields)
            if id_ is None:
                id_ = str(row + lost.count)
            more["document"] = document_of(fields)
            return self.example(
                first=first, second=second, id=id_, line=record.number, **more
            )

        rows = self.records(path, lost)
        examples = read_examples(path, rows, make, on_error)
        notes = annotations.notes(lost.left_out)
        if not examples:
            what, do = ", ".join(["holds no texts", *notes]), "put one on each line"
            if self.form == "csv":
                do = "add rows below the header; a share of train is held out where "
                do += "there is no dev or test file"
            raise InputError.at(path, None, what, do)
        return examples, notes

    def texts(self, path: files.Path, stream: files.Stream = None) -> Iterator[Text]:
        """Read the texts of a file to predict, a tab between those of a pair."""
        names = [self.first] if self.second is None else [self.first, self.second]

        def make(record: FileRecord) -> Text:
            fields = record.content()
            text = join_pair([self.text_of(fields, name) for name in names])
            return Text(record.number, text, fields=fields)

        return texts_of(self.records(path, stream=stream, labelled=False), make)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassSource(LabelledSource):
    """Texts with a class, or with the probability of each."""

    example: ClassVar = LabelledText

    label: str | int = "label"
    probabilities: tuple[str, ...] = ()

    @property
    def classes(self) -> tuple[str, ...]:
        """All classes, in the order of their numbers; empty allows any."""
        return ()

    def gold(self, fields: Mapping[Any, Any]) -> dict[str, Any]:
        """Return the class, perhaps with probabilities."""
        if self.probabilities:
            return labels.soft(_all(fields, self.probabilities), "probabilities")
        value = fields.get(self.label)
        if isinstance(value, dict):
            return labels.soft(value, str(self.label))
        return {"label": labels.class_of(value, str(self.label), self.classes)}

    def predicted(
        self, fields: Mapping[Any, Any], record: Mapping[str, Any]
    ) -> dict[Any, Any]:
        """Return the class or the probabilities."""
        by_class = record.get("probabilities", {})
        if self.probabilities and by_class:
            return {name: by_class.get(name, 0.0) for name in self.probabilities}
        if self.probabilities:  # a blank text has no prediction
            return dict.fromkeys(self.probabilities)
        label, before = record.get("label"), fields.get(self.label)
        if isinstance(before, dict):
            return {self.label: by_class}
        if type(before) is int and label in self.classes:
            return {self.label: self.classes.index(label)}
        number = re.compile(r"true|false" if type(before) is bool else r"-?\d+")
        if type(before) in (bool, int) and number.fullmatch(label or ""):
            return {self.label: json.loads(label)}
        return {self.label: label}


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelsSource(LabelledSource):
    """Texts with any number of labels."""

    example: ClassVar = MultiLabelText

    labels: str | int | tuple[str, ...] = "labels"
    names: tuple[str, ...] = ()
    between: str = ""
    indicators: bool = False

    @property
    def lists_labels(self) -> bool:
        """Whether texts may have any number of labels."""
        return True

    def gold(self, fields: Mapping[Any, Any]) -> dict[str, Any]:
        """Return the labels."""
        if isinstance(self.labels, tuple):
            columns = _all(fields, self.labels).items()
            return {"labels": labels.chosen((n, n, value) for n, value in columns)}
        value = fields.get(self.labels)
        how = (self.names, self.between, self.indicators)
        return {"labels": labels.labels_of(value, str(self.labels), *how)}

    def predicted(
        self, fields: Mapping[Any, Any], record: Mapping[str, Any]
    ) -> dict[Any, Any]:
        """Return the labels in the form of their field or fields."""
        columns = self.labels if isinstance(self.labels, tuple) else (self.labels,)
        if "labels" not in record:  # a blank text has no prediction
            return dict.fromkeys(columns)
        names = record["labels"]
        if isinstance(self.labels, tuple):
            return {name: int(name in names) for name in self.labels}
        before = fields.get(self.labels)
        if self.indicators:
            order = self.names or labels.places(before, record.get("probabilities", ()))
            names = [int(name in names) for name in order]
        return {self.labels: labels.join(names, before, self.between)}


def _all(fields: Mapping[Any, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return the values of fields that must be there."""
    absent = next((name for name in names if name not in fields), None)
    if absent is not None:
        raise Flaw(f"has no {quote(absent)}", "add it")
    return {name: fields[name] for name in names}
