"""One class for each word, on its first piece: labels of words, or tags of spans."""

from __future__ import annotations

import abc
import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from tokenizers import Tokenizer

from dicejax.data import tags
from dicejax.data.examples import Sentence, Span, TaggedWords
from dicejax.data.tags import Scheme
from dicejax.errors import InputError, quote
from dicejax.metrics import classification
from dicejax.metrics.scores import Scores
from dicejax.models.heads import TokenHead
from dicejax.tasks import viterbi
from dicejax.tasks.judged import Judged, ThresholdRule
from dicejax.tasks.remarks import Fit, Remark, unseen_labels
from dicejax.tasks.spans import (
    Sentences,
    SpanTask,
    WordsTask,
    flat_spans,
    judge_spans,
    prompt_field,
)
from dicejax.tasks.task import (
    IGNORED,
    Arrays,
    Examples,
    Item,
    Items,
    Labels,
    Outputs,
    Predicted,
    Prediction,
    Predictions,
    Target,
)
from dicejax.tasks.viterbi import Decoding
from dicejax.tasks.word_items import HEAD, by_word, encode_words

TaggedTexts = Sequence[TaggedWords]

NONE = ""
"""The label of a word without a piece."""
MARKED = 0.5
"""The threshold that marks words where none is chosen."""
_PROBABILITY, _LOGS = "probability", "log_probabilities"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenTask(WordsTask):
    """One class for each word, on its first piece.

    The words before and after a sentence are read as context, as many as the row has
    room for, the nearest: they have no label, so neither loss nor score.

    With `prompt` an item is the pair of the example's prompt and its words, as
    [CLS] prompt [SEP] words [SEP]; the prompt has neither loss nor score. Where both
    are longer than `max_length`, the end of the prompt is cut off, but never below half
    of the row, and words that do not fit with it are read in windows.

    Args:
      prompt: read the prompt of each example in front of its words, as a pair.
    """

    reads_context: ClassVar[bool] = True
    no_piece: ClassVar[str] = NONE
    has_controls: ClassVar[bool] = True
    cut_text: ClassVar[str] = (
        "{cuts.count} of {cuts.total} {split} prompts ({cuts.share:.0%}) are cut off "
        "at their end at {cuts.longest} tokens; raise --training.max_length"
    )

    prompt: bool = False

    def texts(self, examples: Examples) -> Iterable[str]:
        """Yield all words, of prompts too."""
        for example in examples:
            yield from example.prompt.split()
        yield from super().texts(examples)

    def parse(self, text: str | Sequence[str], number: int) -> Any:
        """Take words, in a line separated by white space, of an answer behind a tab."""
        if not self.prompt or not isinstance(text, str):
            return super().parse(text, number)
        prompt, *answers = text.split("\t")
        if len(answers) != 1 or not answers[0].strip():
            raise InputError(
                f"text {number} is not a prompt, a tab and an answer; the "
                "run reads both"
            )
        return dataclasses.replace(super().parse(answers[0], number), prompt=prompt)

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
            [example.prompt for example in examples] if self.prompt else None,
        )

    def reduce_logits(self, outputs: Arrays, batch: Arrays) -> Predicted:
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
        numbers = by_word(items, outputs, HEAD, -1)
        return self._named(numbers, by_word(items, outputs, _PROBABILITY, 0), labels)

    def _named(
        self, numbers: np.ndarray, shares: np.ndarray, labels: Labels
    ) -> Prediction:
        """Return the labels by their numbers, which are -1 without a piece."""
        pairs = list(zip(numbers.tolist(), shares.tolist(), strict=True))
        names = [self.no_piece if n < 0 else labels[n] for n, _ in pairs]
        return Prediction(names, [None if n < 0 else share for n, share in pairs])


def best_class(logits: Array) -> Array:
    """Return the most probable class, int32 `[...]` of logits `[..., C]`."""
    return jnp.argmax(logits, axis=-1).astype(jnp.int32)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tagging(TokenTask, SpanTask):
    """Named entities, or any flat spans of words, as a tag per word.

    As many spans as do not overlap are trained; the others count as missed.

    With `decoding` "viterbi" the tags of a sentence are the likeliest sequence that the
    scheme allows, by the product of their probabilities, over all its windows. By
    default each word has its likeliest tag, whatever stands beside it.

    With a constraint a word is marked, with its likeliest tag other than O, where the
    probability that it is not O is not below a threshold. Marking more words can spoil
    the borders of a span, so that only what is marked can be promised.

    Args:
      scheme: tag scheme of the network, whatever the files use.
      decoding: "greedy" or "viterbi".
      threshold: constraint on new data that it keeps, as "recall:0.95": of a document's
        spans this share has all words marked on average, whatever the type and borders
        of what is predicted; "recall:0.95:PER" is for spans of a type alone.
        "complete:0.95": so many documents with spans have all of them marked. Where the
        data have no documents, examples take their place.
      threshold_delta: probability that dev is a sample with which it does not.
    """

    no_piece: ClassVar[str] = "O"
    is_whole: ClassVar[bool] = False
    measures: ClassVar[tuple[str, ...]] = ("recall", "complete")

    scheme: Scheme = "BIO"
    decoding: Decoding = "greedy"
    threshold: str | None = None
    threshold_delta: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.decoding not in get_args(Decoding):
            choice = " or ".join(get_args(Decoding))
            raise ValueError(f"decoding is {quote(self.decoding)}; want {choice}")

    @property
    def overlapping(self) -> str:
        """Tags are of one span."""
        return "which tags cannot express"

    @property
    def threshold_rule(self) -> ThresholdRule | None:
        """Return 1/2 by default if words are marked by a threshold."""
        if self.threshold is None:
            return None
        if self.decoding != "greedy":
            raise ValueError(
                f"threshold {self.threshold} marks each word by itself, and decoding "
                f"{self.decoding} chooses the tags of a sentence; leave one out"
            )
        return ThresholdRule.for_task(self, MARKED)

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

    def reduce_logits(self, outputs: Arrays, batch: Arrays) -> Predicted:
        """Return the likeliest class, not O if a threshold marks, and what it takes.

        For sequences they are the log-probabilities of all.
        """
        logits = outputs[HEAD].astype(jnp.float32)
        if self.decoding == "viterbi":
            return Predicted(tokens={_LOGS: jax.nn.log_softmax(logits)})
        if self.threshold is None:
            return super().reduce_logits(outputs, batch)
        outside, inside = jnp.split(logits, [1], axis=-1)
        odds = jax.nn.logsumexp(inside, axis=-1) - outside[..., 0]
        tokens = {HEAD: best_class(inside) + 1, _PROBABILITY: jax.nn.sigmoid(odds)}
        return Predicted(tokens=tokens)

    def decode(
        self, example: Sentence, items: Items, outputs: Outputs, labels: Labels
    ) -> Prediction:
        """Turn the tags of one sentence into spans, unless a threshold marks words.

        A word without a piece is O. The probability of a span is the product of those
        of its words' tags.
        """
        if self.decoding == "viterbi":
            logs = by_word(items, outputs, _LOGS, np.nan)
            numbers = viterbi.best_tags(logs, tuple(labels), self.scheme)
            shares = np.exp(logs[np.arange(len(logs)), numbers])
            numbers[np.isnan(shares)] = -1
            return self._in_spans(self._named(numbers, shares, labels))
        words = super().decode(example, items, outputs, labels)
        return self._in_spans(words) if self.threshold is None else words

    def decide(
        self, candidates: Prediction, threshold: float | None = None
    ) -> Prediction:
        """Mark words by a threshold, and turn their tags into spans.

        The probability of a span is the product of those of its words.
        """
        if self.threshold is None:
            return candidates
        limit = MARKED if threshold is None else threshold
        pairs = zip(candidates.values, candidates.probabilities, strict=True)
        marked = [tag if p is not None and p >= limit else "O" for tag, p in pairs]
        return self._in_spans(Prediction(marked, candidates.probabilities))

    def _in_spans(self, words: Prediction) -> Prediction:
        probabilities = words.probabilities
        spans = tags.spans(words.values, self.scheme)
        products = [
            math.prod(p for p in probabilities[span.start : span.end] if p is not None)
            for span in spans
        ]
        return Prediction(spans, products, probabilities)

    def judge(
        self,
        examples: Sentences,
        labels: Labels,
        candidates: Sequence[Prediction] | None = None,
    ) -> Mapping[str, Judged]:
        """Return the spans, of a type by its name, with the least of their words."""
        if (rule := self.threshold_rule) is None or rule.constraint is None:
            return super().judge(examples, labels, candidates)
        scored = []
        for place, example in enumerate(examples):
            read: Any = candidates[place].probabilities if candidates else example.words
            least = [-math.inf if not candidates or p is None else p for p in read]
            words = {Span("", n, n + 1): p for n, p in enumerate(least)}
            spans = {s: min(least[s.start : s.end]) for s in example.spans}
            scored.append(words | spans)
        kinds = _types(labels) if rule.constraint.label else [""]
        whole = rule.constraint.measure == "complete"
        return judge_spans(examples, scored, None if whole else kinds)

    def remarks(
        self, split: str, examples: Sentences, fit: Fit, labels: Labels
    ) -> list[Remark]:
        """Warn of types that train lacks, and of spans that tags cannot express."""
        return super().remarks(split, examples, fit, _types(labels))


def _types(tags: Labels) -> list[str]:
    return sorted({tag.partition("-")[2] for tag in tags} - {""})


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordTagging(TokenTask):
    """A label for each word, such as its part of speech.

    A word is a span of its own, so precision is correct / labelled words, recall
    correct / all words. They differ only for words without a piece. Accuracy is recall.
    """

    takes: ClassVar[tuple[type, ...]] = (TaggedWords,)
    noun: ClassVar[str] = "label"

    def label_names(self, examples: TaggedTexts) -> tuple[str, ...]:
        """Return the labels that occur, sorted."""
        return tuple(sorted({label for text in examples for label in text.labels}))

    def word_classes(self, example: TaggedWords) -> tuple[str, ...]:
        """Return the label of each word."""
        return example.labels

    def labelled(
        self, example: TaggedWords, prediction: Prediction | None = None
    ) -> list[tuple[str, int]]:
        """Return the labels of words, each with its place."""
        names = example.labels if prediction is None else prediction.values
        return [(name, place) for place, name in enumerate(names) if name != NONE]

    def score(
        self, examples: TaggedTexts, predictions: Predictions, labels: Labels
    ) -> Scores:
        """Compute micro precision, recall and F1 of words, and macro F1."""
        gold = [label for text in examples for label in text.labels]
        guesses = [label for words in predictions for label in words.values]
        names = [*sorted({*labels, *gold}), NONE]
        index = {name: number for number, name in enumerate(names)}
        matrix = classification.confusion(
            [index[label] for label in gold],
            [index[label] for label in guesses],
            len(names),
        )
        real = range(len(names) - 1)
        scores = classification.scores(matrix, [c for c in real if matrix.gold[c]])
        labelled, correct = len(gold) - matrix.predicted[-1], sum(matrix.correct)
        of_words = Scores(
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
        return of_words.leading_with(self.primary_metric)

    def remarks(
        self, split: str, examples: TaggedTexts, fit: Fit, labels: Labels
    ) -> list[Remark]:
        """Warn of labels that train lacks."""
        counts = Counter(name for each in examples for name in each.labels)
        text = "word{s} labelled {label}, which train lacks: counted as wrong"
        remarks = unseen_labels(split, counts, labels, text)
        return remarks + super().remarks(split, examples, fit, labels)

    def of_words(self, words: Sequence[str], number: int) -> TaggedWords:
        """Take a sentence without gold."""
        return TaggedWords(tuple(words), (NONE,) * len(words), number)

    def show(
        self, example: TaggedWords, prediction: Prediction
    ) -> tuple[dict[str, Any], list[str]]:
        """Format each word with its label."""
        labels = prediction.values
        record = prompt_field(example)
        prompts = list(record.values())
        record |= {"words": list(example.words), "labels": list(labels)}
        if prediction.probabilities is not None:
            record["probabilities"] = list(prediction.probabilities)
        pairs = zip(example.words, labels, strict=True)
        text = " ".join(f"{word}/{label or '-'}" for word, label in pairs)
        return record, [*prompts, text]
