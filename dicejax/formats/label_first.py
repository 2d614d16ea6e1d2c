"""A label and a text on each line, as in SST-2 and in fastText's files."""

from __future__ import annotations

import abc
import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, ClassVar

from dicejax.data.examples import LabelledText, MultiLabelText
from dicejax.errors import Flaw, quote
from dicejax.formats.labelled import LEAVE_OUT, FlawCounter
from dicejax.formats.layouts import has_tags
from dicejax.formats.records import FileRecord, read_examples
from dicejax.formats.sample import FileSample
from dicejax.formats.skipping import OnError
from dicejax.formats.source import FileSource
from dicejax.formats.text import Text, Texts
from dicejax.io import files

_BLANK = re.compile("[ \t]")
_PREFIX = "__label__"
_LABEL = re.compile(rf"(?:^|(?<=\s)){_PREFIX}(\S*)(?:\s+|$)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class LineSource(FileSource):
    """A text and its gold on each line."""

    several: ClassVar[str] = "sentences"
    second: ClassVar[None] = None  # a tab does not separate two texts

    @abc.abstractmethod
    def example(self, line: str, id: str, number: int) -> LabelledText | MultiLabelText:
        """Return the example on a line."""

    def read(self, path: files.Path, on_error: OnError | None) -> list[Any]:
        """Read one file; see `FileSource.read`."""
        lost = FlawCounter(on_error)
        lines = files.lines(path, lost)
        rows = (FileRecord(x, n, path, n) for n, x in lines if x.strip(" "))

        def make(record: FileRecord, row: int) -> LabelledText | MultiLabelText | None:
            if not record.value.strip():
                return None
            return self.example(record.value, str(row + lost.count), record.number)

        empty, do = "holds no examples", "put one on each line"
        return read_examples(path, rows, make, on_error, empty=empty, do=do)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelFirstFiles(LineSource):
    """A label, a space or tab and a sentence on each line."""

    looks: ClassVar[str] = "holds a label and a text on each line"

    def example(self, line: str, id: str, number: int) -> LabelledText:
        """Take the first word for the label."""
        label, text = self._parts(line)
        if not text:
            raise Flaw("no text behind the label", LEAVE_OUT)
        return LabelledText(text, None, label, id, number)

    def _parts(self, line: str) -> tuple[str, str]:
        label, *rest = _BLANK.split(line.strip(" \t"), maxsplit=1)
        return label, rest[0].strip() if rest else ""

    def without_gold(
        self, texts: Iterable[Text], labels: Collection[str]
    ) -> Iterable[Text]:
        """Remove the first words if each is a label, with a text behind it."""
        parts = (self._parts(text.text) for text in texts)
        if not all(label in labels and text for label, text in filter(any, parts)):
            return texts
        return Texts(
            lambda: (Text(text.line, self._parts(text.text)[1]) for text in texts)
        )

    def write(self, text: Text, record: Mapping[str, Any]) -> str:
        """Return the predicted label and the text."""
        return f"{record['label']} {text.text}" if "label" in record else text.text

    @classmethod
    def fits(cls, file: FileSample) -> bool:
        """Return whether a file may have a label and a text on each line."""
        return file.is_text and not has_tags(file)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FastTextFiles(LineSource):
    r"""Texts with `__label__NAME` before or behind them, as fastText reads them.

    >>> source = FastTextFiles(dir="", multi_label=True)
    >>> source.example("__label__a __label__b so fine", "0", 1).labels
    ('a', 'b')

    Args:
      multi_label: whether a text may have any number of labels; else it has one.
    """

    looks: ClassVar[str] = f"has {_PREFIX} before labels"

    multi_label: bool = False

    @property
    def lists_labels(self) -> bool:
        """Whether texts may have any number of labels."""
        return self.multi_label

    def example(self, line: str, id: str, number: int) -> LabelledText | MultiLabelText:
        """Take the labels out of a line."""
        labels, text = _LABEL.findall(line), _LABEL.sub("", line).strip()
        if not text:
            raise Flaw("the text is empty", LEAVE_OUT)
        if "" in labels:
            raise Flaw(f"the label behind {_PREFIX} is empty", "name it")
        twice = next((name for name in labels if labels.count(name) > 1), None)
        if twice is not None:
            raise Flaw(f"label {quote(twice)} is there twice", "remove one")
        if self.multi_label:
            return MultiLabelText(text, None, tuple(labels), id, number)
        if len(labels) != 1:
            what = f"the text has {len(labels)} labels"
            do = "give it one, on the same line, or set multi_label=True"
            raise Flaw(what, do)
        return LabelledText(text, None, labels[0], id, number)

    def texts(self, path: files.Path, stream: files.Stream = None) -> Iterator[Text]:
        """Read lines to predict, without their labels."""
        for number, line in files.lines(path, stream=stream):
            yield Text(number, _LABEL.sub("", line).strip())

    def write(self, text: Text, record: Mapping[str, Any]) -> str:
        """Return the predicted labels and the text."""
        labels = record.get("labels", [record["label"]] if "label" in record else [])
        return " ".join([*(_PREFIX + label for label in labels), text.text])

    @classmethod
    def fits(cls, file: FileSample) -> bool:
        """Return whether the first line has a label."""
        return file.is_text and _LABEL.search(file.first) is not None

    @classmethod
    def settings(cls, file: FileSample) -> dict[str, Any]:
        """Return whether a line has several labels.

        Where none has, a line without a label is a flaw: the rest of a broken one.
        """
        lines = (line for _, line in files.lines(file.path))
        return {"multi_label": any(len(_LABEL.findall(x)) > 1 for x in lines)}
