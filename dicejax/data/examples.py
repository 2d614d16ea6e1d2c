"""Examples of each kind of task."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from dicejax.data.tags import Span

__all__ = [
    "AnswerSpan",
    "LabelledText",
    "ReadingExample",
    "Sentence",
    "Span",
    "SpanQuery",
    "TaggedWords",
    "by_character",
]


@dataclasses.dataclass(frozen=True)
class Sentence:
    """One sentence with its gold spans.

    Attributes:
      words: as the file has them.
      spans: of words, in their order.
      line: where the sentence begins in its file, counted from 1.
    """

    words: tuple[str, ...]
    spans: tuple[Span, ...]
    line: int


@dataclasses.dataclass(frozen=True)
class TaggedWords:
    """One sentence with a label for each word, as in part-of-speech tagging.

    Attributes:
      words: as the file has them.
      labels: one per word.
      line: where the sentence begins in its file, counted from 1.
    """

    words: tuple[str, ...]
    labels: tuple[str, ...]
    line: int


class AnswerSpan(NamedTuple):
    """A part of a context, beginning at `start`.

    >>> span = AnswerSpan(5, "Bede")
    >>> "Adam Bede was a carpenter"[span.start : span.end]
    'Bede'
    """

    start: int  # in characters (code points)
    text: str

    @property
    def end(self) -> int:
        """The first character after it."""
        return self.start + len(self.text)


@dataclasses.dataclass(frozen=True)
class ReadingExample:
    """A question about a text that holds the answer, or does not.

    Attributes:
      id: unlike every other in its file; predictions are keyed by it.
      question: as the file has it.
      context: the text to read.
      answers: of each annotator, one span or several; empty where the context holds
        no answer.
      impossible: whether the context holds no answer.
    """

    id: str
    question: str
    context: str
    answers: tuple[tuple[AnswerSpan, ...], ...]
    impossible: bool


@dataclasses.dataclass(frozen=True)
class SpanQuery:
    """A sentence, asked for the spans of one type: one item of BERT-MRC.

    Attributes:
      id: of the item; sentences share its part before the first dot.
      query: what describes the type.
      words: of the sentence; characters where it is Chinese.
      label: the type.
      spans: all of this type, in the order of the words; they may nest and overlap.
    """

    id: str
    query: str
    words: tuple[str, ...]
    label: str
    spans: tuple[Span, ...]


@dataclasses.dataclass(frozen=True)
class LabelledText:
    """A text or a pair of texts, and their class.

    Attributes:
      first: the text, or the first of the pair.
      second: None where there is no pair.
      label: None where there is none, as in texts to predict.
      id: as the file has it, or the row's number, counted from 0.
      line: of the file, counted from 1.
    """

    first: str
    second: str | None
    label: str | None
    id: str
    line: int


def by_character(example: TaggedWords) -> Sentence:
    """Write words with labels as characters with spans.

    This is the form in which segmentation and tagging are learnt and scored jointly:
    a word counts as right when its borders and its label are.

    >>> sentence = by_character(TaggedWords(("我", "喜欢"), ("PRON", "VERB"), 1))
    >>> sentence.words, [tuple(span) for span in sentence.spans]
    (('我', '喜', '欢'), [('PRON', 0, 1), ('VERB', 1, 3)])

    Args:
      example: words and labels.

    Returns:
      The characters, and one span per word.
    """
    spans, start = [], 0
    for word, label in zip(example.words, example.labels, strict=True):
        spans.append(Span(label, start, start + len(word)))
        start += len(word)
    return Sentence(tuple("".join(example.words)), tuple(spans), example.line)
