"""Part-of-speech tagging of words, or jointly with word segmentation."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
from tokenizers import Tokenizer

from dicejax.data import tags
from dicejax.data.examples import Sentence, Span, TaggedWords, by_character
from dicejax.data.tags import Scheme
from dicejax.errors import quote
from dicejax.metrics import classification, segmentation
from dicejax.metrics.scores import Scores
from dicejax.metrics.spans import TypeCounts
from dicejax.tasks import windows
from dicejax.tasks.spans import Sentences, f1_shares, show_spans
from dicejax.tasks.tagging import (
    Tagging,
    TokenTask,
    encode_words,
    word_labels,
)
from dicejax.tasks.task import IGNORED, Examples, Item, Items, Labels, Outputs, Scored

TaggedTexts = Sequence[TaggedWords]

NONE = ""
"""The label of a word without a piece."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordTagging(TokenTask):
    """A label for each word, such as its part of speech.

    A word is a span of its own, so precision is correct / labelled words, recall
    correct / all words. They differ only for words without a piece. Accuracy is recall.
    """

    takes: ClassVar[tuple[type, ...]] = (TaggedWords,)

    def label_names(self, examples: TaggedTexts) -> tuple[str, ...]:
        """Return the labels that occur, sorted."""
        return tuple(sorted({label for one in examples for label in one.labels}))

    def texts(self, examples: TaggedTexts) -> Iterable[str]:
        """Yield all words."""
        return (word for sentence in examples for word in sentence.words)

    def encode(
        self,
        examples: TaggedTexts,
        tokenizer: Tokenizer,
        labels: Labels,
        max_length: int,
    ) -> list[Item]:
        """Encode sentences; see `tagging.encode_words`.

        Unknown labels are left out of the loss.
        """
        index = {label: number for number, label in enumerate(labels)}
        return encode_words(
            [sentence.words for sentence in examples],
            ([index.get(label, IGNORED) for label in one.labels] for one in examples),
            tokenizer,
            max_length,
            self.stride,
            [(sentence.before, sentence.after) for sentence in examples],
        )

    def decode(
        self,
        example: TaggedWords,
        items: Items,
        outputs: Sequence[Outputs],
        labels: Labels,
    ) -> Scored:
        """Return the label of each word, `NONE` for a word without a piece."""
        return word_labels(items, outputs, labels, otherwise=NONE)

    def score(
        self,
        examples: TaggedTexts,
        predictions: Sequence[Sequence[str]],
        labels: Labels,
    ) -> Scores:
        """Compute micro precision, recall and F1 of words, and macro F1."""
        gold = [label for one in examples for label in one.labels]
        found = [label for words in predictions for label in words]
        names = [*sorted({*labels, *gold}), NONE]
        index = {name: number for number, name in enumerate(names)}
        matrix = classification.confusion(
            [index[label] for label in gold],
            [index[label] for label in found],
            len(names),
        )
        real = range(len(names) - 1)
        scores = classification.scores(matrix, [c for c in real if matrix.gold[c]])
        labelled = sum(label != NONE for label in found)
        correct = sum(matrix.correct)
        micro = (correct / max(labelled, 1), correct / max(len(gold), 1))
        return Scores(
            {
                "precision": micro[0],
                "recall": micro[1],
                "f1": 2 * correct / max(labelled + len(gold), 1),
                "macro_f1": scores.macro.f1,
            },
            {
                names[number]: dataclasses.asdict(scores.per_class[number])
                for number in real
                if matrix.gold[number] or matrix.predicted[number]
            },
        )

    def example_statistics(
        self,
        examples: TaggedTexts,
        predictions: Sequence[Sequence[str]],
        labels: Labels = (),
    ) -> np.ndarray:
        """Return twice the correct labels, and predicted plus gold."""
        counts = [
            TypeCounts(
                sum(map(str.__eq__, one.labels, words)),
                sum(label != NONE for label in words),
                len(one.labels),
            )
            for one, words in zip(examples, predictions, strict=True)
        ]
        return f1_shares(counts)

    def warnings(
        self, split: str, examples: TaggedTexts, items: Items, labels: Labels
    ) -> list[str]:
        """Warn of labels that train lacks."""
        known = set(labels)
        counts = Counter(label for one in examples for label in one.labels)
        said = [
            f"{split} has {count} word{'s' if count > 1 else ''} labelled "
            f"{quote(label)}, which train lacks: counted as wrong"
            for label, count in sorted(counts.items())
            if label not in known
        ]
        return [*said, *windows.remark(split, examples, items)]

    def parse(self, line: str, number: int) -> TaggedWords:
        """Take words separated by white space."""
        return self.of_words(line.split(), number)

    def of_words(self, words: Sequence[str], number: int) -> TaggedWords:
        """Take a sentence without gold."""
        return TaggedWords(tuple(words), (NONE,) * len(words), number)

    def show(
        self, example: TaggedWords, prediction: Sequence[str]
    ) -> tuple[dict[str, Any], list[str]]:
        """Format each word with its label."""
        record = {"words": list(example.words), "labels": list(prediction)}
        if isinstance(prediction, Scored):
            record["probabilities"] = list(prediction.probabilities)
        pairs = zip(example.words, prediction, strict=True)
        return record, [" ".join(f"{word}/{label or '-'}" for word, label in pairs)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class JointTagging(Tagging):
    """Joint word segmentation and part-of-speech tagging.

    Each character gets a tag; a word is right where its borders and its label are.
    Words with labels are taken too, and written as characters.

    Args:
      scheme: tag scheme of the network, whatever the files use.
    """

    takes: ClassVar[tuple[type, ...]] = (Sentence, TaggedWords)
    reads_context: ClassVar[bool] = False

    scheme: Scheme = "BMES"

    def adapt(self, examples: Examples) -> Sequence[Sentence]:
        """Write words with labels as characters with spans."""
        return [
            by_character(example) if isinstance(example, TaggedWords) else example
            for example in super().adapt(examples)
        ]

    def score(
        self,
        examples: Sentences,
        predictions: Sequence[Sequence[Span]],
        labels: Labels = (),
    ) -> Scores:
        """Score words with their labels, words alone, and tags of characters."""
        gold = [self._tags(one, one.spans) for one in examples]
        found = [
            self._tags(one, spans)
            for one, spans in zip(examples, predictions, strict=True)
        ]
        counts = segmentation.count_tagging(gold, found, self.scheme)
        scores = segmentation.tagging_scores(counts)
        joint = Scores.of_spans(scores.joint)
        more = {
            "words_f1": scores.words.f1,
            "character_accuracy": scores.token_accuracy,
        }
        return Scores({**joint.values, **more}, joint.groups)

    def example_statistics(
        self,
        examples: Sentences,
        predictions: Sequence[Sequence[Span]],
        labels: Labels = (),
    ) -> np.ndarray:
        """Return twice the correct words, and predicted plus gold."""
        counts = [
            segmentation.count_tagging(
                [self._tags(one, one.spans)], [self._tags(one, spans)], self.scheme
            ).joint.total
            for one, spans in zip(examples, predictions, strict=True)
        ]
        return f1_shares(counts)

    def of_words(self, words: Sequence[str], number: int) -> Sentence:
        """Take the words' characters."""
        return Sentence(tuple("".join(words)), (), number)

    def show(
        self, example: Sentence, prediction: Sequence[Span]
    ) -> tuple[dict[str, Any], list[str]]:
        """Format each word with its label."""
        record, _ = show_spans(example.words, prediction, joint="")
        words = [f"{word['text']}/{word['type']}" for word in record["entities"]]
        return {"words": record["entities"]}, [" ".join(words)]

    def _tags(self, example: Sentence, spans: Sequence[Span]) -> list[str]:
        return tags.encode(spans, len(example.words), self.scheme)
