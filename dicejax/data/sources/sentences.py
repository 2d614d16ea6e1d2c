"""Sources of sentences: with spans, or with a label per word."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from etils import epath

from dicejax.data.examples import Sentence, Span, SpanQuery, TaggedWords, by_character
from dicejax.data.readers import bert_mrc, cluener, conll, conllu
from dicejax.data.readers.skipping import OnError
from dicejax.data.sources.source import FileSource
from dicejax.data.tags import Scheme
from dicejax.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConllFiles(FileSource):
    """Files with a word and the tag of a span on each line.

    Args:
      word_column: column that holds the word; negative counts from the end.
      tag_column: column that holds the tag; negative counts from the end.
      separator: what stands between columns; None is any run of spaces and tabs.
      scheme: how the tags are written; None detects it from each file.
    """

    several: ClassVar[str] = "sentences"

    word_column: int = 0
    tag_column: int = -1
    separator: str | None = None
    scheme: Scheme | None = None

    def read(
        self, path: epath.Path, on_error: OnError | None, on_repair: OnError
    ) -> list[Sentence]:
        """Read one file."""
        del on_repair
        return conll.read(
            path,
            word_column=self.word_column,
            tag_column=self.tag_column,
            separator=self.separator,
            scheme=self.scheme,
            on_error=on_error,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class CluenerFiles(FileSource):
    """CLUENER2020 as released: its test file has no labels, so dev is reported.

    The split that selects the checkpoint is held out of train.
    """

    several: ClassVar[str] = "sentences"

    train: str = "train.json"
    dev: str | None = None
    test: str | None = "dev.json"

    def read(
        self, path: epath.Path, on_error: OnError | None, on_repair: OnError
    ) -> list[Sentence]:
        """Read one file."""
        del on_repair
        return cluener.read(path, on_error=on_error)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BertMrcFiles(FileSource):
    """BERT-MRC's JSON as its authors released it, items of a sentence merged.

    The queries in the files are not used: the task names its own.

    Args:
      labels: every type there is; empty allows any.
    """

    several: ClassVar[str] = "sentences"

    train: str = "mrc-ner.train"
    dev: str | None = "mrc-ner.dev"
    test: str | None = "mrc-ner.test"
    labels: tuple[str, ...] = ()

    def read(
        self, path: epath.Path, on_error: OnError | None, on_repair: OnError
    ) -> list[Sentence]:
        """Read one file."""
        del on_repair
        queries = bert_mrc.read(path, labels=self.labels or None, on_error=on_error)
        return merged(path, queries)


def merged(path: epath.Path, queries: Sequence[SpanQuery]) -> list[Sentence]:
    """Gather the items of each sentence: those whose id begins alike.

    >>> spans = [("PER", Span("PER", 0, 1)), ("LOC", Span("LOC", 2, 3))]
    >>> words = ("Ada", "in", "London")
    >>> items = [SpanQuery(f"7.{n}", "?", words, label, (span,))
    ...     for n, (label, span) in enumerate(spans)]
    >>> [sentence] = merged("dev.json", items)
    >>> [span.type for span in sentence.spans]
    ['PER', 'LOC']

    Raises:
      InputError: items of one sentence have different words.
    """
    sentences: dict[str, tuple[tuple[str, ...], list[Span]]] = {}
    for item in queries:
        key = item.id.partition(".")[0]
        words, spans = sentences.setdefault(key, (item.words, []))
        if words != item.words:
            raise InputError.at(
                path,
                None,
                f"items of sentence {key!r} have different words, {item.id!r} among "
                "them",
                "give the items of each sentence an id of their own, as 'SENTENCE.N'",
            )
        spans += item.spans
    return [
        Sentence(words, tuple(sorted(spans, key=lambda s: (s.start, s.end))), number)
        for number, (words, spans) in enumerate(sentences.values(), start=1)
    ]


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordLabelFiles(FileSource):
    """Files with a word and its label on each line.

    Args:
      word_column: column that holds the word; negative counts from the end.
      label_column: column that holds the label; negative counts from the end.
      separator: what stands between columns; None is any run of spaces and tabs.
      characters: give characters with spans, for joint segmentation and tagging.
    """

    several: ClassVar[str] = "sentences"

    word_column: int = 0
    label_column: int = -1
    separator: str | None = None
    characters: bool = False

    def read(
        self, path: epath.Path, on_error: OnError | None, on_repair: OnError
    ) -> list[TaggedWords] | list[Sentence]:
        """Read one file."""
        del on_repair
        found = conll.read_words(
            path,
            word_column=self.word_column,
            label_column=self.label_column,
            separator=self.separator,
            on_error=on_error,
        )
        return list(map(by_character, found)) if self.characters else found


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConlluFiles(FileSource):
    """CoNLL-U files: words with their part of speech.

    Args:
      column: what is the label, UPOS or XPOS.
      characters: give characters with spans, for joint segmentation and tagging.
    """

    several: ClassVar[str] = "sentences"

    train: str = "train.conllu"
    dev: str | None = "dev.conllu"
    test: str | None = "test.conllu"
    column: str = "UPOS"
    characters: bool = False

    def read(
        self, path: epath.Path, on_error: OnError | None, on_repair: OnError
    ) -> list[TaggedWords] | list[Sentence]:
        """Read one file."""
        del on_repair
        found = conllu.read(path, column=self.column, on_error=on_error)
        return list(map(by_character, found)) if self.characters else found
