"""Sources that read files, and prepared sets of tensorflow-datasets."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable
from typing import ClassVar, Literal

from etils import epath

from dicejax.data.examples import ReadingExample, TaggedWords, by_character
from dicejax.data.source import Corpus, Source
from dicejax.data.tags import Scheme
from dicejax.errors import InputError, quote
from dicejax.formats import classification, conll, conllu, json_lines, squad, tfds
from dicejax.formats.skipping import OnError, Skipped
from dicejax.formats.source import FileSource

Column = str | int


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConllFiles(FileSource):
    """Files with a word and the tag of a span on each line.

    Args:
      word_column: column that holds the word; negative counts from the end.
      tag_column: column that holds the tag; negative counts from the end.
      separator: of columns; None is any run of spaces and tabs.
      scheme: how the tags are written; None detects it from each file.
      comment: how lines to leave out begin, such as "# "; None where there are none.
      context: number of words that the encoder reads before and after each sentence,
        of the same document: neither labelled nor scored.
    """

    several: ClassVar[str] = "sentences"
    reader = staticmethod(conll.read)

    word_column: int = 0
    tag_column: int = -1
    separator: str | None = None
    scheme: Scheme | None = None
    comment: str | None = None
    context: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordLabelFiles(FileSource):
    """Files with a word and its label on each line.

    Args:
      word_column: column that holds the word; negative counts from the end.
      label_column: column that holds the label; negative counts from the end.
      separator: of columns; None is any run of spaces and tabs.
      comment: how lines to leave out begin, such as "# "; None where there are none.
      context: number of words that the encoder reads before and after each sentence,
        of the same document: neither labelled nor scored.
      characters: give characters with spans, for joint segmentation and tagging.
    """

    several: ClassVar[str] = "sentences"
    reader = staticmethod(conll.read_words)

    word_column: int = 0
    label_column: int = -1
    separator: str | None = None
    comment: str | None = None
    context: int = 0
    characters: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConlluFiles(FileSource):
    """CoNLL-U files: words with their part of speech.

    Args:
      column: column of the label, UPOS or XPOS.
      characters: give characters with spans, for joint segmentation and tagging.
    """

    several: ClassVar[str] = "sentences"
    reader = staticmethod(conllu.read)

    train: str = "train.conllu"
    dev: str | None = "dev.conllu"
    test: str | None = "test.conllu"
    column: str = "UPOS"
    characters: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadFiles(FileSource):
    """Questions and contexts in SQuAD's JSON.

    The published test sets are private, so the dev file is the test set, and dev is
    held out of train, all questions of a context together.

    Args:
      several_spans: whether several answers are the spans of one, as in Quoref, or
        different annotators' answers.
      repair: move answers that are not at their offsets; else they are malformed.
    """

    several: ClassVar[str] = "questions"

    train: str = "train.json"
    dev: str | None = None
    test: str | None = "dev.json"
    several_spans: bool = False
    repair: bool = False

    def read(self, path: epath.Path, on_error: OnError | None) -> list[ReadingExample]:
        """Read one file."""
        return self.read_with_notes(path, on_error)[0]

    def read_with_notes(
        self, path: epath.Path, on_error: OnError | None
    ) -> tuple[list[ReadingExample], list[str]]:
        """Read one file; also return a note on answers that were moved."""
        repaired = Skipped(done="repaired", keep=3)
        examples = squad.read(
            path,
            several_spans=self.several_spans,
            on_repair=repaired if self.repair else None,
            on_error=on_error,
        )
        return examples, [str(repaired)] if repaired.count else []

    def unit(self, example: ReadingExample) -> Hashable:
        """Keep the questions of a context together."""
        return example.context


@dataclasses.dataclass(frozen=True, kw_only=True)
class TabSeparatedFiles(FileSource):
    """Tab-separated texts or pairs of texts with a class.

    Args:
      first: the column of the text, or of the first of a pair: its name in the header,
        or its number from 0 where there is no header.
      second: the column of the second of a pair; None where there is none.
      label: the column of the class.
      id: the column of a unique identifier; None numbers the rows from 0.
      labels: every class there is; empty allows any.
    """

    reader = staticmethod(classification.read)

    train: str = "train.tsv"
    dev: str | None = "dev.tsv"
    test: str | None = "test.tsv"
    first: Column = "text"
    second: Column | None = None
    label: Column = "label"
    id: Column | None = None
    labels: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class CsvFiles(FileSource):
    """Texts or pairs of texts with a class, CSV as spreadsheets and pandas write it.

    Args:
      first: the column of the text, or of the first of a pair: its name in the header,
        or its number from 0 where there is no header.
      second: the column of the second of a pair; None where there is none.
      label: the column of the class.
      separator: the character between two columns.
    """

    reader = staticmethod(functools.partial(classification.read, quoted=True))

    train: str = "train.csv"
    dev: str | None = "dev.csv"
    test: str | None = "test.csv"
    first: Column = "text"
    second: Column | None = None
    label: Column = "label"
    separator: str = ","


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelFirstFiles(FileSource):
    """A label, a space or tab and a sentence on each line."""

    several: ClassVar[str] = "sentences"
    reader = staticmethod(classification.read_label_first)


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
    reader = staticmethod(json_lines.read_texts)

    train: str = "train.jsonl"
    dev: str | None = "dev.jsonl"
    test: str | None = "test.jsonl"
    first: str = "text"
    second: str | None = None
    label: str = "label"
    names: tuple[str, ...] = ()


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
    reader = staticmethod(json_lines.read_multi_label)

    train: str = "train.jsonl"
    dev: str | None = "dev.jsonl"
    test: str | None = "test.jsonl"
    first: str = "text"
    second: str | None = None
    labels: str = "labels"
    names: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class JsonSentences(FileSource):
    """Words with tags or texts with entities, a JSON object per line.

    Args:
      names: names of tags that are whole numbers, from 0.
    """

    several: ClassVar[str] = "sentences"
    reader = staticmethod(json_lines.read_sentences)

    train: str = "train.jsonl"
    dev: str | None = "dev.jsonl"
    test: str | None = "test.jsonl"
    names: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class TensorflowDataset(Source):
    """A data set by its name in tensorflow-datasets.

    Splits take tensorflow-datasets' own language: "train[:90%]".

    Args:
      name: data set, such as "squad", "glue/mrpc" or "conll2003".
      train: training split.
      dev: split that selects the best checkpoint.
      test: held-out split.
      dir: folder of prepared sets; None takes tensorflow-datasets' own.
      download: fetch and prepare it where it is missing.
      label: feature of the labels, where there are several.
      characters: write words with labels as characters with spans.
      on_error: "stop" at the first malformed example, or "skip" them.
    """

    name: str
    train: str = "train"
    dev: str = "validation"
    test: str = "test"
    dir: str | None = None
    download: bool = False
    label: str | None = None
    characters: bool = False
    on_error: Literal["stop", "skip"] = "stop"

    def load(self) -> Corpus:
        """Read the three splits."""
        notes: list[str] = []
        splits = []
        for split in (self.train, self.dev, self.test):
            skipped = Skipped() if self.on_error == "skip" else None
            examples: list[tfds.Example] = tfds.read(
                self.name,
                split,
                data_dir=self.dir,
                download=self.download,
                label=self.label,
                on_error=skipped,
            )
            if skipped is not None and skipped.count:
                notes.append(f"{self.name}, {split}: {skipped}")
            if self.characters:
                examples = [
                    by_character(e) if isinstance(e, TaggedWords) else e
                    for e in examples
                ]
            splits.append(tuple(examples))
        return Corpus(*splits, tuple(notes))

    def offline(self) -> TensorflowDataset:
        """Return this source without its download.

        Raises:
          InputError: the name has a namespace or arguments, for which code is fetched.
        """
        if not tfds.PLAIN_NAME.fullmatch(self.name):
            raise InputError(
                f"data set {quote(self.name)} is no plain name: tensorflow-datasets "
                "may fetch code for it and run it"
            )
        return dataclasses.replace(self, download=False)
