"""Texts or pairs of texts with a class or labels: tables, JSON, lines."""

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Literal

from dicejax.data.examples import LabelledText, MultiLabelText
from dicejax.errors import Flaw, InputError, quote
from dicejax.formats import annotations, audit, containers, label_studio, labels
from dicejax.formats.records import (
    Fields,
    FileRecord,
    OnError,
    document_of,
    fields_of,
    join_pair,
    read_examples,
    report,
    texts_of,
)
from dicejax.formats.separated import Column, SeparatedTable
from dicejax.formats.source import FileSource, Form, Noted
from dicejax.formats.text import Predictions, Text, Texts
from dicejax.io import files, json_text

LEAVE_OUT = "add it, remove the line, or leave such lines out with --on_error skip"
PREFIX = "__label__"
LABEL = re.compile(rf"(?:^|(?<=\s)){PREFIX}(\S*)(?:\s+|$)")  # of fastText
_BLANK = re.compile("[ \t]")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextFiles(FileSource):
    r"""Texts or pairs of texts with a class or labels.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "dev.jsonl"
    >>> _ = path.write_text('{"id": 7, "text": "a fine film", "label": 1}\n')
    >>> [example] = TextFiles.read_file(path, layout="json", names=("bad", "good"))
    >>> example.id, example.first, example.label
    ('7', 'a fine film', 'good')

    Args:
      layout: "table" is CSV or another table; "json" an object on each line, a list of
        them, or a table that `datasets` saved; "label-first" a label, a space or tab
        and a text on each line; "fasttext" a text with `__label__NAME` before or behind
        it, once or several times.
      first: field of the text, or of the first of a pair. Of a table the fields are
        names in its header, or numbers from 0 where it has none.
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
      id: field of a unique identifier; None takes `id` in JSON, else numbers texts
        from 0.
      separator: the character between two columns of a table.
      quoted: whether a field of a table may be in quotes.
    """

    noun: ClassVar[str] = "texts"

    layout: Literal["table", "json", "label-first", "fasttext"] = "table"
    first: Column = "text"
    second: Column | None = None
    label: Column | tuple[str, ...] = "label"
    names: tuple[str, ...] = ()
    probabilities: tuple[str, ...] = ()
    multi_label: bool = False
    between: str = ""
    indicators: bool = False
    weight: Column | None = None
    id: Column | None = None
    separator: str = ","
    quoted: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.separator) != 1 or self.separator in ' "\r\n':
            fault = f"separator is {self.separator!r}"
            raise ValueError(f"{fault}; want one character, such as a comma")
        used = list(self.columns(labelled=True).values())
        if len({type(column) for column in used}) > 1:
            raise ValueError(f"name all columns or number all, not {used}")
        if len(set(used)) < len(used):
            raise ValueError(f"a column is used twice: {used}")

    @property
    def form(self) -> Form:
        """The form of files to predict that are like its own."""
        form: Form = "csv" if self.layout == "table" else "text"
        return "jsonl" if self.layout == "json" else form

    @property
    def table(self) -> SeparatedTable:
        """The columns of its files, if they are tables."""
        return SeparatedTable(self.separator, self.quoted, isinstance(self.first, str))

    def columns(self, labelled: bool) -> dict[str, Column]:
        """Return the columns that a file must have, by what they are for."""
        columns = {"first": self.first, "second": self.second}
        if labelled:
            gold: dict[str, Any] = {"label": self.label}
            if isinstance(self.label, tuple):
                gold = {f"label {name}": name for name in self.label}
            elif self.probabilities:
                gold = {f"probability of {name}": name for name in self.probabilities}
            columns |= gold | {"id": self.id, "weight": self.weight}
        return {part: name for part, name in columns.items() if name is not None}

    def records(
        self,
        path: files.Path,
        on_error: OnError | None = None,
        stream: files.Stream = None,
        left_out: Counter[str] | None = None,
    ) -> Iterator[FileRecord]:
        """Yield the records, with gold where those are counted that lack it.

        It counts what their annotator left out, by the reason; None: texts to predict.
        """
        if self.layout == "table":
            columns = self.columns(labelled=left_out is not None)
            return self.table.records(path, columns, on_error, stream)
        if self.layout == "json":
            return self._objects(path, on_error, stream, left_out)
        lines = files.lines(path, on_error, stream)
        records = (FileRecord(x, n, path, n) for n, x in lines if x.strip())
        return (record.map(self._of_line) for record in records)

    def _objects(
        self,
        path: files.Path,
        on_error: OnError | None,
        stream: files.Stream,
        lost: Counter[str] | None,
    ) -> Iterator[FileRecord]:
        """Yield the objects of a file but for those that their annotator left out."""
        name = None if self.first == "text" else str(self.first)

        def fields_or_reason(content: object) -> Fields | str:
            fields = fields_of(content)
            reason = None if lost is None else annotations.left_out(fields, self.label)
            if reason is not None:
                return reason
            task = label_studio.with_classes(fields, name, self.multi_label)
            is_empty = label_studio.is_task(fields) and task["label"] is None
            return "without a choice" if is_empty and lost is not None else task

        blanks = lost is None
        for record in containers.records(path, on_error, stream, blanks=blanks):
            if not record.is_blank:
                record = record.map(fields_or_reason)
            if lost is not None and isinstance(record.value, str):
                lost[record.value] += 1
            else:
                yield record

    def _of_line(self, line: str) -> dict[Any, Any]:
        """Return the text and the gold of a line as fields."""
        if self.layout == "label-first":
            label, text = _first_word(line)
            if not text:
                raise Flaw("no text behind the label", LEAVE_OUT)
            return {self.first: text, self.label: label}
        names, text = LABEL.findall(line), LABEL.sub("", line).strip()
        if not text:
            raise Flaw("the text is empty", LEAVE_OUT)
        if "" in names:
            raise Flaw(f"the label behind {PREFIX} is empty", "name it")
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise Flaw(f"label {quote(twice)} is there twice", "remove one")
        if not self.multi_label and len(names) != 1:
            remedy = "give it one, on the same line, or set multi_label=True"
            raise Flaw(f"the text has {len(names)} labels", remedy)
        return {self.first: text, self.label: names if self.multi_label else names[0]}

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
        if type(before) in (bool, int) and (match := number.fullmatch(label or "")):
            return {self.label: json.loads(match[0])}
        return {self.label: label}

    def with_prediction(
        self, fields: Mapping[Any, Any], record: Mapping[str, Any]
    ) -> dict[Any, Any]:
        """Return the fields with a prediction in place of gold, if it is another."""
        try:
            gold = self.gold(fields)
        except Flaw:
            gold = {}
        name = "labels" if self.multi_label else "label"
        are_equal = name in record and gold.get(name) is not None
        if are_equal and "probabilities" not in gold:
            before, after = gold[name], record[name]
            if before == after or (self.multi_label and {*before} == {*after}):
                return dict(fields)
        return {**fields, **self.predicted(fields, record)}

    def _id(self, fields: Mapping[Any, Any]) -> str | None:
        """Return the identifier of a record; None numbers it."""
        name = "id" if self.layout == "json" and self.id is None else self.id
        value = fields.get(name)
        return str(value).strip() if type(value) in (int, str) else None

    def read_with_notes(self, path: files.Path, on_error: OnError | None) -> Noted:
        """Read one file; also return notes on what its annotators left out."""
        first_name, name = self.first, self.second
        fields_of_all: dict[Any, Any] = {}
        left_out: Counter[str] = Counter()
        flaws = 0  # in lines that make no record, which have numbers too

        def note(error: InputError) -> None:
            nonlocal flaws
            flaws += 1
            report(error, on_error)

        def make(record: FileRecord, row: int) -> LabelledText | MultiLabelText:
            fields = record.content()
            if not label_studio.is_task(fields):
                fields_of_all.update(fields)
            first = _text(fields, first_name)
            second = None if name is None else _text(fields, name)
            if not first or second == "":
                which = "second " if first else "first " * (second is not None)
                raise Flaw(f"the {which}text is empty", LEAVE_OUT)
            more = self.gold(fields)
            if self.weight is not None:
                if self.weight not in fields:
                    raise Flaw(f"has no {quote(self.weight)}", "add the weight")
                weight = labels.number(fields[self.weight], str(self.weight))
                more["weight"] = weight
            id_ = self._id(fields)
            more["id"] = str(row + flaws) if id_ is None else id_
            more["document"] = document_of(fields)
            make_one = MultiLabelText if self.multi_label else LabelledText
            return make_one(first=first, second=second, line=record.number, **more)

        rows = self.records(path, note, left_out=left_out)
        examples = read_examples(path, rows, make, on_error)
        notes = annotations.notes(left_out)
        used = {*self.columns(labelled=True).values(), f"{self.label}.status"}
        notes += audit.unread(fields_of_all, used, "text")
        if not examples:
            fault, remedy = "holds no texts", "put one on each line"
            if self.layout == "table":
                remedy = "add rows below the header; a share of train is held out "
                remedy += "where there is no dev or test file"
            raise InputError.at(path, None, ", ".join([fault, *notes]), remedy)
        return examples, notes

    def texts(self, path: files.Path, stream: files.Stream = None) -> Iterable[Text]:
        """Read the texts of a file to predict, a tab between those of a pair."""
        lines = super().texts(path, stream)
        if self.layout == "label-first":
            return lines
        if self.layout == "fasttext":
            return (Text(x.line, LABEL.sub("", x.text).strip()) for x in lines)
        names = [self.first] if self.second is None else [self.first, self.second]

        def make(record: FileRecord) -> Text:
            fields = record.content()
            text = join_pair([_text(fields, name) for name in names])
            return Text(record.number, text, fields=fields)

        return texts_of(self.records(path, stream=stream), make)

    def without_gold(
        self, texts: Iterable[Text], labels: Collection[str]
    ) -> Iterable[Text]:
        """Remove the first words if each is a label, with a text behind it."""
        if self.layout != "label-first":
            return texts
        parts = (_first_word(text.text) for text in texts)
        if not all(label in labels and text for label, text in filter(any, parts)):
            return texts
        return Texts(lambda: (Text(x.line, _first_word(x.text)[1]) for x in texts))

    def fields_with(self, text: Text, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return the object with its prediction in place of gold."""
        fields = self.with_prediction(text.fields, record)
        if label_studio.is_task(fields):
            task = {n: v for n, v in fields.items() if n not in (self.first, "label")}
            fields = label_studio.write_classes(task, _predicted(record))
        return fields

    def lines(self, pairs: Predictions, first: str = "") -> Iterator[str]:
        """Yield the lines of a file like the training files, gold replaced."""
        if self.layout != "table":
            return super().lines(pairs, first)
        records = (self.with_prediction(text.fields, record) for text, record in pairs)
        return self.table.lines(records, first)

    def adds_fields(self, text: Text, record: Mapping[str, Any]) -> bool:
        """Return whether a prediction is in columns that a file does not have."""
        made = self.with_prediction(text.fields, record)
        return self.layout == "table" and made.keys() != text.fields.keys()

    def over(self, text: Text, record: Mapping[str, Any], before: str) -> str:
        """Return a row with its prediction; as it was where that is the gold."""
        if self.layout == "table":
            made = self.with_prediction(text.fields, record)
            is_quoted = before == self.table.line(text.fields.values(), True)
            is_same = made == text.fields
            return before if is_same else self.table.line(made.values(), is_quoted)
        predicted = _predicted(record)
        label, rest = _first_word(before)
        if self.layout == "label-first" and rest == text.text and predicted:
            return before.replace(label, predicted[0], 1)
        is_same = {*LABEL.findall(before)} == {*predicted}
        return before if is_same or text.is_blank else self.write(text, record)

    def write(self, text: Text, record: Mapping[str, Any]) -> str:
        """Return a line with its prediction in place of gold."""
        if self.layout == "json":
            return super().write(text, record)
        prefix = PREFIX if self.layout == "fasttext" else ""
        return " ".join([*(prefix + name for name in _predicted(record)), text.text])


def _text(fields: Mapping[Any, Any], name: Column) -> str:
    """Return a text of a record, stripped."""
    return json_text.field(fields, name, str).strip()


def _first_word(line: str) -> tuple[str, str]:
    """Return the first word of a line, and the text behind it."""
    label, *rest = _BLANK.split(line.strip(" \t"), maxsplit=1)
    return label, rest[0].strip() if rest else ""


def _predicted(record: Mapping[str, Any]) -> list[str]:
    """Return the predicted class or labels; none of a blank text."""
    return record.get("labels", [record["label"]] if "label" in record else [])


def _all(fields: Mapping[Any, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return the values of fields that must be there."""
    absent = next((name for name in names if name not in fields), None)
    if absent is not None:
        raise Flaw(f"has no {quote(absent)}", "add it")
    return {name: fields[name] for name in names}
