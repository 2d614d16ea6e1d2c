"""One class for each word, on its first piece: labels of words, or tags of spans."""

from __future__ import annotations

import abc
import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from tokenizers import Tokenizer

from dicejax.data import tags, tokenize
from dicejax.data.examples import Sentence, TaggedWords, by_character
from dicejax.data.tags import Scheme
from dicejax.metrics import classification, segmentation
from dicejax.metrics.scores import Scores
from dicejax.metrics.spans import TypeCounts
from dicejax.models.heads import TokenHead
from dicejax.tasks import windows
from dicejax.tasks.spans import (
    Sentences,
    SpanTask,
    WordsTask,
    flat_spans,
    gold_warnings,
)
from dicejax.tasks.task import (
    IGNORED,
    Examples,
    Item,
    Items,
    Labels,
    Outputs,
    Predicted,
    Prediction,
    Predictions,
    Remark,
    Target,
    token_arrays,
    unseen_labels,
)

TaggedTexts = Sequence[TaggedWords]

NONE = ""
"""The label of a word without a piece."""
HEAD = "tags"
_PROBABILITY = "probability"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenTask(WordsTask):
    """One class for each word, on its first piece.

    A text longer than `max_length` is cut into windows that overlap; each word is
    trained and predicted in the one that shows most of its surroundings.

    The words before and after a sentence are read as context, as many as the row has
    room for, the nearest: they have no label, so neither loss nor score.
    """

    reads_context: ClassVar[bool] = True
    no_piece: ClassVar[str] = NONE

    @abc.abstractmethod
    def word_classes(self, example: Any) -> Sequence[str]:
        """Return the gold class of each word."""

    def heads(self, labels: Labels) -> tuple[tuple[str, TokenHead], ...]:
        """Return a head with logits of all classes for each token."""
        return ((HEAD, TokenHead(classes=len(labels))),)

    def targets(self, labels: Labels) -> dict[str, Target]:
        """Return one class per token."""
        return {HEAD: Target("classes", tuple(labels))}

    def encode(
        self, examples: Examples, tokenizer: Tokenizer, labels: Labels, max_length: int
    ) -> list[Item]:
        """Encode sentences; see `encode_words`.

        Unknown labels are left out of the loss.
        """
        index = {label: number for number, label in enumerate(labels)}
        return encode_words(
            [example.words for example in examples],
            (
                [index.get(name, IGNORED) for name in self.word_classes(example)]
                for example in examples
            ),
            tokenizer,
            max_length,
            self.stride,
            [(example.before, example.after) for example in examples],
        )

    def reduce_logits(self, outputs, batch) -> Predicted:
        """Return the most probable class of each token, and its probability."""
        logits = outputs[HEAD]
        shares = jax.nn.softmax(logits.astype(jnp.float32), axis=-1)
        top = jnp.max(shares, axis=-1)
        return Predicted(tokens={HEAD: best_class(logits), _PROBABILITY: top})

    def decode(
        self, example: Any, items: Items, outputs: Outputs, labels: Labels
    ) -> Prediction:
        """Return each word's label, from the window that decides it.

        A word without a piece has the label `no_piece`, and None for a probability.
        """
        names = [self.no_piece] * len(items[0].detail)
        probabilities: list[float | None] = [None] * len(names)
        for item, output in zip(items, outputs, strict=True):
            words = np.flatnonzero(item.detail >= 0)
            places = item.detail[words]
            columns = (output[name][places].tolist() for name in (HEAD, _PROBABILITY))
            for word, number, probability in zip(words.tolist(), *columns, strict=True):
                names[word], probabilities[word] = labels[number], probability
        return Prediction(names, probabilities)


def encode_words(
    sentences: Sequence[Sequence[str]],
    numbers: Iterable[Sequence[int]],
    tokenizer: Tokenizer,
    max_length: int,
    overlap: int,
    around: Iterable[tuple[Sequence[str], Sequence[str]]] | None = None,
) -> list[Item]:
    """Encode sentences with a label number per word, which its first piece gets.

    `around` has the words before and after each sentence that are read as context.

    Returns:
      An item per sentence, or per window of it. Its detail is, for each word, the place
      of its first piece, -1 where another window decides it or it has no piece.

    Raises:
      InputError: `max_length` leaves no room.
    """
    items = []
    sides = [((), ())] * len(sentences) if around is None else list(around)
    texts = [
        [*before, *words, *after]
        for words, (before, after) in zip(sentences, sides, strict=True)
    ]
    encoded = tokenize.encode(tokenizer, texts, every_word=True)
    for example, (words, gold, pieces) in enumerate(
        zip(sentences, numbers, encoded, strict=True)
    ):
        first = len(sides[example][0])
        end = first + len(words)
        if len(texts[example]) > len(words):
            pieces = pieces.around(first, end, max_length)
        first_pieces = pieces.first_pieces(len(texts[example]))[first:end]
        for part, window in windows.cut(
            pieces, max_length, overlap, words=first_pieces
        ):
            decided = window.decided_words()
            places = np.where(decided, window.words, -1)
            targets = np.full(len(part), IGNORED, np.int32)
            targets[places[decided]] = np.asarray(gold, np.int32)[decided]
            items.append(Item(token_arrays(part) | {HEAD: targets}, example, places))
    return items


def best_class(logits: Array) -> Array:
    """Return the most probable class, int32 `[...]` of logits `[..., C]`."""
    return jnp.argmax(logits, axis=-1).astype(jnp.int32)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tagging(TokenTask, SpanTask):
    """Named entities, or any flat spans of words, as a tag per word.

    As many spans as do not overlap are trained; the others count as missed.

    Args:
      stride: overlap of neighbouring windows in pieces, at most half of a window.
      scheme: tag scheme of the network, whatever the files use.
    """

    no_piece: ClassVar[str] = "O"

    scheme: Scheme = "BIO"

    def label_names(self, examples: Iterable[Sentence]) -> tuple[str, ...]:
        """Return every tag of the types that occur, "O" first."""
        types = {span.type for sentence in examples for span in sentence.spans}
        return tuple(tags.label_set(self.scheme, sorted(types)))

    def targets(self, labels: Labels) -> dict[str, Target]:
        """Return one tag per token, "O" outside spans."""
        return {HEAD: Target("classes", tuple(labels), has_negative=True)}

    def word_classes(self, example: Sentence) -> list[str]:
        """Return the tag of each word."""
        return tags.encode(flat_spans(example.spans), len(example.words), self.scheme)

    def decode(
        self, example: Sentence, items: Items, outputs: Outputs, labels: Labels
    ) -> Prediction:
        """Turn the tags of one sentence into spans; a word without a piece is O.

        The probability of a span is the product of those of its words' tags.
        """
        words = super().decode(example, items, outputs, labels)
        probabilities = words.probabilities
        spans = tags.spans(words.values, self.scheme)
        products = [
            math.prod(p for p in probabilities[span.start : span.end] if p is not None)
            for span in spans
        ]
        return Prediction(spans, products, probabilities)

    def warnings(
        self, split: str, examples: Sentences, items: Items, labels: Labels
    ) -> list[Remark]:
        """Warn of types that train lacks, and of spans that tags cannot express."""
        types = {tag.partition("-")[2] for tag in labels}
        which = "which tags cannot express"
        remarks = gold_warnings(split, examples, types, 0, items, overlapping=which)
        return remarks + windows.remark(split, examples, items)


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordTagging(TokenTask):
    """A label for each word, such as its part of speech.

    A word is a span of its own, so precision is correct / labelled words, recall
    correct / all words. They differ only for words without a piece. Accuracy is recall.
    """

    takes: ClassVar[tuple[type, ...]] = (TaggedWords,)

    def label_names(self, examples: TaggedTexts) -> tuple[str, ...]:
        """Return the labels that occur, sorted."""
        return tuple(sorted({label for text in examples for label in text.labels}))

    def word_classes(self, example: TaggedWords) -> tuple[str, ...]:
        """Return the label of each word."""
        return example.labels

    def score(
        self, examples: TaggedTexts, predictions: Predictions, labels: Labels
    ) -> Scores:
        """Compute micro precision, recall and F1 of words, and macro F1."""
        gold = [label for text in examples for label in text.labels]
        guesses = [label for words in predictions for label in words.values]
        names = [*sorted({*labels, *gold}), NONE]
        index = {name: number for number, name in enumerate(names)}
        columns = ([index[label] for label in column] for column in (gold, guesses))
        matrix = classification.confusion(*columns, len(names))
        real = range(len(names) - 1)
        scores = classification.scores(matrix, [c for c in real if matrix.gold[c]])
        labelled, correct = len(gold) - matrix.predicted[-1], sum(matrix.correct)
        return Scores(
            {
                "precision": correct / max(labelled, 1),
                "recall": correct / max(len(gold), 1),
                "f1": 2 * correct / max(labelled + len(gold), 1),
                "macro_f1": scores.macro.f1,
            },
            {
                names[number]: dataclasses.asdict(scores.per_class[number])
                for number in real
                if matrix.gold[number] or matrix.predicted[number]
            },
        )

    def count(self, example: TaggedWords, prediction: Prediction) -> TypeCounts:
        """Count the labels of one sentence."""
        return TypeCounts(
            sum(map(str.__eq__, example.labels, prediction.values)),
            sum(label != NONE for label in prediction.values),
            len(example.labels),
        )

    def warnings(
        self, split: str, examples: TaggedTexts, items: Items, labels: Labels
    ) -> list[Remark]:
        """Warn of labels that train lacks."""
        counts = Counter(label for text in examples for label in text.labels)
        text = "word{s} labelled {label}, which train lacks: counted as wrong"
        remarks = unseen_labels(split, counts, labels, text)
        return remarks + windows.remark(split, examples, items)

    def of_words(self, words: Sequence[str], number: int) -> TaggedWords:
        """Take a sentence without gold."""
        return TaggedWords(tuple(words), (NONE,) * len(words), number)

    def show(
        self, example: TaggedWords, prediction: Prediction
    ) -> tuple[dict[str, Any], list[str]]:
        """Format each word with its label."""
        labels = prediction.values
        record = {"words": list(example.words), "labels": list(labels)}
        if prediction.probabilities is not None:
            record["probabilities"] = list(prediction.probabilities)
        pairs = zip(example.words, labels, strict=True)
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
    separator: ClassVar[str] = ""

    scheme: Scheme = "BMES"

    def adapt(self, examples: Examples) -> Sequence[Sentence]:
        """Write words with labels as characters with spans."""
        return [
            by_character(example) if isinstance(example, TaggedWords) else example
            for example in super().adapt(examples)
        ]

    def score(
        self, examples: Sentences, predictions: Predictions, labels: Labels = ()
    ) -> Scores:
        """Score words with their labels, words alone, and tags of characters."""
        gold, guesses = (
            [
                tags.encode(spans, len(example.words), self.scheme)
                for example, spans in zip(examples, column, strict=True)
            ]
            for column in ([e.spans for e in examples], [p.values for p in predictions])
        )
        scores = segmentation.score(gold, guesses, self.scheme)
        joint = Scores.of_spans(scores.joint)
        more = {
            "words_f1": scores.words.f1,
            "character_accuracy": scores.token_accuracy,
        }
        return Scores({**joint.values, **more}, joint.groups)

    def of_words(self, words: Sequence[str], number: int) -> Sentence:
        """Take the words' characters."""
        return Sentence(tuple("".join(words)), (), number)

    def show(
        self, example: Sentence, prediction: Prediction
    ) -> tuple[dict[str, Any], list[str]]:
        """Format each word with its label."""
        record, _ = super().show(example, prediction)
        words = [f"{word['text']}/{word['type']}" for word in record["entities"]]
        return {"words": record["entities"]}, [" ".join(words)]
