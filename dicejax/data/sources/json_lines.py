"""Sources of JSON lines."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from etils import epath

from dicejax.data.examples import LabelledText, MultiLabelText, Sentence
from dicejax.data.readers import json_lines
from dicejax.data.readers.skipping import OnError
from dicejax.data.sources.source import FileSource


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

    train: str = "train.jsonl"
    dev: str | None = "dev.jsonl"
    test: str | None = "test.jsonl"
    first: str = "text"
    second: str | None = None
    label: str = "label"
    names: tuple[str, ...] = ()

    def read(
        self, path: epath.Path, on_error: OnError | None, on_repair: OnError
    ) -> list[LabelledText]:
        """Read one file."""
        del on_repair
        return json_lines.read_texts(
            path,
            first=self.first,
            second=self.second,
            label=self.label,
            names=self.names,
            on_error=on_error,
        )


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

    train: str = "train.jsonl"
    dev: str | None = "dev.jsonl"
    test: str | None = "test.jsonl"
    first: str = "text"
    second: str | None = None
    labels: str = "labels"
    names: tuple[str, ...] = ()

    def read(
        self, path: epath.Path, on_error: OnError | None, on_repair: OnError
    ) -> list[MultiLabelText]:
        """Read one file."""
        del on_repair
        return json_lines.read_multi_label(
            path,
            first=self.first,
            second=self.second,
            labels=self.labels,
            names=self.names,
            on_error=on_error,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class JsonSentences(FileSource):
    """Words with tags or texts with entities, a JSON object per line.

    Args:
      names: names of tags that are whole numbers, from 0.
    """

    several: ClassVar[str] = "sentences"

    train: str = "train.jsonl"
    dev: str | None = "dev.jsonl"
    test: str | None = "test.jsonl"
    names: tuple[str, ...] = ()

    def read(
        self, path: epath.Path, on_error: OnError | None, on_repair: OnError
    ) -> list[Sentence]:
        """Read one file."""
        del on_repair
        return json_lines.read_sentences(path, names=self.names, on_error=on_error)
