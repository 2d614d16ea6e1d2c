"""Base class of sources whose records hold a text or a pair, and a class or labels."""

from __future__ import annotations

import abc
import dataclasses
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
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

    Args:
      first: field or column of the text, or of the first of a pair.
      second: that of the second of a pair; None where there is none.
      label: that of the class: text, a whole number, true or false, or an object with
        the probability of each class; missing or null, it is unknown. With
        `multi_label` that of a list, also in text; or a field for each label that is 1
        where it holds, else 0.
      names: every class there is, or names of those that are whole numbers, from 0;
        empty allows any.
      probabilities: fields of the probability of each class, in place of `label`.
      multi_label: whether a text may have any number of labels; else it has one.
      between: character between labels in a text; empty where it is a list.
      indicators: whether lists have a 0 or 1 for each label, in the order of `names`.
      weight: field of the factor of a text's loss; None weighs all alike.
    """

    several: ClassVar[str] = "texts"

    first: str | int = "text"
    second: str | int | None = None
    label: str | int | tuple[str, ...] = "label"
    names: tuple[str, ...] = ()
    probabilities: tuple[str, ...] = ()
    multi_label: bool = False
    between: str = ""
    indicators: bool = False
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

    @property
    def lists_labels(self) -> bool:
        """Whether texts may have any number of labels."""
        return self.multi_label

    def gold(self, fields: Mapping[Any, Any]) -> dict[str, Any]:
        """Return the class, perhaps with probabilities, or the labels."""
        if self.probabilities:
            return labels.soft(_all(fields, self.probabilities), "probabilities")
        if isinstance(self.label, tuple):
            columns = _all(fields, self.label).items()
            return {"labels": labels.chosen((n, n, value) for n, value in columns)}
        value, name = fields.get(self.label), str(self.label)
        if self.multi_label:
            how = (self.names, self.between, self.indicators)
            return {"labels": labels.labels_of(value, name, *how)}
        if isinstance(value, dict):
            return labels.soft(value, name)
        return {"label": labels.class_of(value, name, self.names)}

    def predicted(
        self, fields: Mapping[Any, Any], record: Mapping[str, Any]
    ) -> dict[Any, Any]:
        """Return the fields that hold gold, with a prediction in their form."""
        by_class = record.get("probabilities", {})
        columns = self.label if isinstance(self.label, tuple) else (self.label,)
        if not record.keys() & {"label", "labels"}:  # of a blank text
            return dict.fromkeys(self.probabilities or columns)
        if self.probabilities:
            return {name: by_class.get(name, 0.0) for name in self.probabilities}
        if isinstance(self.label, tuple):
            return {name: int(name in record["labels"]) for name in self.label}
        before = fields.get(self.label)
        if self.multi_label:
            names = record["labels"]
            if self.indicators:
                order = self.names or labels.places(before, by_class)
                names = [int(name in names) for name in order]
            return {self.label: labels.join(names, before, self.between)}
        if isinstance(before, dict):
            return {self.label: by_class}
        label = record.get("label")
        if type(before) is int and label in self.names:
            return {self.label: self.names.index(label)}
        number = re.compile(r"true|false" if type(before) is bool else r"-?\d+")
        if type(before) in (bool, int) and number.fullmatch(label or ""):
            return {self.label: json.loads(label)}
        return {self.label: label}

    def with_prediction(
        self, fields: Mapping[Any, Any], record: Mapping[str, Any]
    ) -> dict[Any, Any]:
        """Return the fields with a prediction in place of gold, if it is another."""
        try:
            gold = self.gold(fields)
        except Flaw:
            gold = {}
        name = "labels" if self.lists_labels else "label"
        are_equal = name in record and gold.get(name) is not None
        if are_equal and "probabilities" not in gold:
            before, after = gold[name], record[name]
            if before == after or (self.lists_labels and {*before} == {*after}):
                return dict(fields)
        return {**fields, **self.predicted(fields, record)}

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
            make_one = MultiLabelText if self.multi_label else LabelledText
            return make_one(
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


def _all(fields: Mapping[Any, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return the values of fields that must be there."""
    absent = next((name for name in names if name not in fields), None)
    if absent is not None:
        raise Flaw(f"has no {quote(absent)}", "add it")
    return {name: fields[name] for name in names}
