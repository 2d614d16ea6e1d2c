"""Examples of each kind of task."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dicejax.data.tags import Span as Span

ROUNDING = 0.02
"""By how much a sum of probabilities may miss 1, as three of 0.33 do."""


@dataclasses.dataclass(frozen=True)
class Sentence:
    """One sentence with its gold spans.

    Attributes:
      words: words in the file.
      spans: entity spans, sorted.
      line: first line in the file, from 1.
      before: words of the document in front of it that are read as context.
      after: the same, behind it.
      prompt: the text to which the words are the answer, if any. It has no labels, and
        words, spans and characters are counted without it.
      weight: factor of its loss in training, from 0 on.
      document: name of the document that it is from, no part of equality; empty where
        that is unknown.
    """

    words: tuple[str, ...]
    spans: tuple[Span, ...]
    line: int
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    prompt: str = ""
    weight: float = 1.0
    document: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass(frozen=True)
class TaggedWords:
    """One sentence with a label for each word, as in part-of-speech tagging.

    The other attributes are those of `Sentence`.

    Attributes:
      labels: one label per word.
    """

    words: tuple[str, ...]
    labels: tuple[str, ...]
    line: int
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    prompt: str = ""
    weight: float = 1.0
    document: str = dataclasses.field(default="", compare=False)


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
      id: unique identifier, the key of predictions.
      question: text of the question.
      context: the text to read.
      answers: spans of each annotator's answer; empty without an answer.
      impossible: whether the context holds no answer.
      unlocated: texts of answers whose places are unknown: scored, not trained on.
      weight: factor of its loss in training, from 0 on.
    """

    id: str
    question: str
    context: str
    answers: tuple[tuple[AnswerSpan, ...], ...]
    impossible: bool
    unlocated: tuple[str, ...] = ()
    weight: float = 1.0


@dataclasses.dataclass(frozen=True)
class LabelledText:
    """A text or a pair of texts, and their class.

    Attributes:
      first: the text, or the first of the pair.
      second: second of the pair, or None.
      label: class, or None, as in texts to predict.
      id: identifier in the file, or row number from 0.
      line: line of the file, from 1.
      probabilities: the soft label, classes with their probabilities, of which `label`
        is the most probable; None where the label is sure. Classes left out have 0.
        Training uses it where the loss can; scores are of `label`.
      weight: factor of its loss in training, from 0 on.
      document: name of the document that it is from, no part of equality; empty where
        that is unknown.
    """

    first: str
    second: str | None
    label: str | None
    id: str
    line: int
    probabilities: tuple[tuple[str, float], ...] | None = None
    weight: float = 1.0
    document: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass(frozen=True)
class MultiLabelText:
    """A text or a pair of texts, and any number of labels.

    The other attributes are those of `LabelledText`.

    Attributes:
      labels: labels that hold, in the order of the file, perhaps none; or None where
        they are unknown, as in texts to predict.
    """

    first: str
    second: str | None
    labels: tuple[str, ...] | None
    id: str
    line: int
    weight: float = 1.0
    document: str = dataclasses.field(default="", compare=False)


def groups_of(examples: Sequence[Any]) -> np.ndarray | None:
    """Number the groups of examples that are not independent of one another.

    Examples of a document are a group, and questions on one context.

    >>> texts = [LabelledText("a", None, "x", "0", 1, document=d) for d in "sst"]
    >>> groups_of(texts).tolist()
    [0, 0, 1]

    Returns:
      int `[N]`; None where documents are unknown, or all examples are of one, or each
      is of another.
    """
    names = [
        x.context if isinstance(x, ReadingExample) else getattr(x, "document", "")
        for x in examples
    ]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    if not all(names) or not 1 < len(numbers) < len(names):
        return None
    return np.array([numbers[name] for name in names])


def labels_of(example: Any) -> Sequence[str]:
    """Return the gold labels of an example: its class, or those of words or spans.

    >>> labels_of(TaggedWords(("Ada", "slept"), ("PROPN", "VERB"), 1))
    ('PROPN', 'VERB')
    """
    match example:
        case TaggedWords() | MultiLabelText():
            return example.labels or ()
        case Sentence():
            return [span.type for span in example.spans]
        case LabelledText(label=str(label)):
            return (label,)
    return ()


def by_character(example: TaggedWords) -> Sentence:
    """Write words with labels as characters with spans.

    In joint segmentation and tagging a word is correct if its borders and label are.

    >>> sentence = by_character(TaggedWords(("我", "喜欢"), ("PRON", "VERB"), 1))
    >>> sentence.words, [tuple(span) for span in sentence.spans]
    (('我', '喜', '欢'), [('PRON', 0, 1), ('VERB', 1, 3)])
    """
    spans, start = [], 0
    for word, label in zip(example.words, example.labels, strict=True):
        spans.append(Span(label, start, start + len(word)))
        start += len(word)
    words, before, after = (
        tuple("".join(words))
        for words in (example.words, example.before, example.after)
    )
    names = "prompt", "weight", "document"
    rest = {name: getattr(example, name) for name in names}
    return Sentence(words, tuple(spans), example.line, before, after, **rest)
