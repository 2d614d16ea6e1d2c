"""Sources of raw texts: questions with contexts, texts and pairs with a class."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from typing import ClassVar, Literal

from etils import epath

from dicejax.data.examples import LabelledText, ReadingExample
from dicejax.data.readers import classification, squad
from dicejax.data.readers.skipping import OnError
from dicejax.data.sources.source import FileSource

Column = str | int


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadFiles(FileSource):
    """Questions and contexts in SQuAD's JSON.

    The published test sets are kept back. So the dev file is reported, and what selects
    the checkpoint is held out of train, all questions of a context together.

    Args:
      several_spans: whether several answers are the spans of one, as in Quoref, or what
        different people answered.
      repair: move answers that are not at their offsets, as 50 of Quoref's; else they
        are malformed.
    """

    several: ClassVar[str] = "questions"

    train: str = "train.json"
    dev: str | None = None
    test: str | None = "dev.json"
    several_spans: bool = False
    repair: bool = False

    def read(
        self, path: epath.Path, on_error: OnError | None, on_repair: OnError
    ) -> list[ReadingExample]:
        """Read one file."""
        return squad.read(
            path,
            several_spans=self.several_spans,
            on_repair=on_repair if self.repair else None,
            on_error=on_error,
        )

    def unit(self, example: ReadingExample) -> Hashable:
        """Keep the questions of a context together."""
        return example.context


@dataclasses.dataclass(frozen=True, kw_only=True)
class TabSeparatedFiles(FileSource):
    """Tab-separated texts or pairs of texts with a class.

    Args:
      layout: of a published set, or "columns" for those named below.
      first: with "columns", the column of the text, or of the first of a pair: its name
        in the header, or its number from 0 where there is no header.
      second: the column of the second of a pair; None where there is none.
      label: the column of the class.
    """

    train: str = "train.tsv"
    dev: str | None = "dev.tsv"
    test: str | None = "test.tsv"
    layout: Literal["mrpc", "qqp", "glue_qqp", "sst2", "columns"] = "columns"
    first: Column = "text"
    second: Column | None = None
    label: Column = "label"

    def read(
        self, path: epath.Path, on_error: OnError | None, on_repair: OnError
    ) -> list[LabelledText]:
        """Read one file."""
        del on_repair
        return classification.read(path, self._layout(), on_error=on_error)

    def _layout(self) -> classification.TextColumns:
        if self.layout != "columns":
            return getattr(classification, self.layout.upper())
        return classification.TextColumns(
            first=self.first, second=self.second, label=self.label
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelFirstFiles(FileSource):
    """A label, a space or tab and a sentence on each line."""

    several: ClassVar[str] = "sentences"

    def read(
        self, path: epath.Path, on_error: OnError | None, on_repair: OnError
    ) -> list[LabelledText]:
        """Read one file."""
        del on_repair
        return classification.read_label_first(path, on_error=on_error)
