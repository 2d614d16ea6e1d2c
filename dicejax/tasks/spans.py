"""Base classes of tasks on the words of sentences: any, and those with spans."""

from __future__ import annotations

import abc
import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from tokenizers import Tokenizer

from dicejax.data.examples import Sentence, Span, groups_of
from dicejax.data.pack import BatchLayout
from dicejax.errors import Truncation
from dicejax.metrics import spans as span_metrics
from dicejax.metrics.scores import Scores
from dicejax.tasks.judged import Judged
from dicejax.tasks.remarks import Fit, Remark, unseen_labels
from dicejax.tasks.scoring import f_statistics
from dicejax.tasks.task import (
    IGNORED,
    Examples,
    Items,
    Labels,
    Prediction,
    Predictions,
    Task,
    token_fills,
)

Sentences = Sequence[Sentence]


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordsTask(Task):
    """Base class of tasks on words.

    Args:
      primary_metric: metric that selects the best checkpoint and is compared: "f1",
        which is micro F1, or that of one type or label, such as "f1:PER". "f2" or
        "f0.5" is F-beta, of which recall counts beta times as much as precision.
    """

    metrics: ClassVar[tuple[str, ...]] = ("f1",)
    unit: ClassVar[str] = "sentence"

    primary_metric: Literal["f1"] | str = "f1"

    def texts(self, examples: Examples) -> Iterable[str]:
        """Yield all words."""
        return (word for sentence in examples for word in sentence.words)

    def layout(self, tokenizer: Tokenizer) -> BatchLayout:
        """Return the layout of an item's arrays: by default labels of each token."""
        labels = dict.fromkeys(self.targets(()), IGNORED)
        return BatchLayout(tokens=token_fills(tokenizer) | labels)

    def example_statistics(
        self, examples: Examples, predictions: Predictions, labels: Labels = ()
    ) -> np.ndarray:
        """Return the parts of F1 or F-beta, see `f_statistics`."""
        return f_statistics(self, examples, predictions)

    @abc.abstractmethod
    def of_words(self, words: Sequence[str], number: int) -> Any:
        """Return an example of words, without gold."""

    def parse(self, text: str | Sequence[str], number: int) -> Any:
        """Take words, in a line separated by white space."""
        return self.of_words(text.split() if isinstance(text, str) else text, number)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpanTask(WordsTask):
    """Base class of tasks with spans of words, scored alike."""

    takes: ClassVar[tuple[type, ...]] = (Sentence,)
    noun: ClassVar[str] = "type"
    separator: ClassVar[str] = " "  # of the words in texts that are shown
    is_whole: ClassVar[bool] = True  # a span is read in one window, or not at all

    @property
    def overlapping(self) -> str | None:
        """The consequence for gold that overlaps, if any."""
        return None

    def labelled(
        self, example: Sentence, prediction: Prediction | None = None
    ) -> list[tuple[str, Span]]:
        """Return the spans, each with its type."""
        spans = example.spans if prediction is None else prediction.values
        return [(span.type, span) for span in spans]

    def score(
        self, examples: Sentences, predictions: Predictions, labels: Labels = ()
    ) -> Scores:
        """Compute precision, recall and F1 of word spans, over all gold spans."""
        gold = [sentence.spans for sentence in examples]
        counts = span_metrics.count(gold, [guess.values for guess in predictions])
        scores = Scores.of_spans(span_metrics.scores(counts))
        return scores.leading_with(self.primary_metric)

    def fit(self, examples: Sentences, items: Items) -> Fit:
        """Count what does not fit in windows, and the gold spans that none holds."""
        lost = _count_lost(examples, items) if self.is_whole else 0
        fit = super().fit(examples, items)
        return dataclasses.replace(fit, lost=Counter({"beyond": lost}))

    def remarks(
        self, split: str, examples: Sentences, fit: Fit, labels: Labels
    ) -> list[Remark]:
        """Warn of gold spans that cannot be predicted, one sentence per reason.

        These are of types that train lacks, or lie in no window, or overlap.
        """
        counts = Counter(kind for each in examples for kind, _ in self.labelled(each))
        gold = counts.total()
        text = "{label} span{s}, a type that train lacks: counted as misses"
        remarks = unseen_labels(split, counts, labels, text)
        if split == "train" and not gold:
            remarks.append("train has no span: there is nothing to learn")
        if lost := fit.lost["beyond"]:
            text = (
                f"{lost} of {gold} {split} entities ({lost / gold:.0%}) fit no window "
                f"of {fit.cuts.longest} tokens and count as misses; raise "
                "--task.stride, up to half of --training.max_length, or both"
            )
            remarks.append(Truncation("gold", text))
        crossed = gold - sum(len(flat_spans(sentence.spans)) for sentence in examples)
        if crossed and self.overlapping:
            remarks.append(
                f"{split}: {crossed} of {gold} spans overlap another, "
                f"{self.overlapping}: counted as misses"
            )
        return remarks + super().remarks(split, examples, fit, labels)

    def of_words(self, words: Sequence[str], number: int) -> Sentence:
        """Take a sentence without gold."""
        return Sentence(tuple(words), (), number)

    def show(
        self, example: Sentence, prediction: Prediction
    ) -> tuple[dict[str, Any], list[str]]:
        """Format each span with its words, counted from 0, the end excluded.

        Spans have a "probability" where that is predicted, and the record has
        "probabilities" of the words' tags.
        """
        words, entities = example.words, []
        record = prompt_field(example)
        lines = [*record.values(), self.separator.join(words)]
        for span in prediction.values:
            text = self.separator.join(words[span.start : span.end])
            entities.append({**span._asdict(), "text": text})
            lines.append(f"  {span.type:8} {text}  (words {span.start}:{span.end})")
        record |= {"words": list(words), "entities": entities}
        if (probabilities := prediction.probabilities) is not None:
            for entity, probability in zip(entities, probabilities, strict=True):
                entity["probability"] = probability
        if prediction.word_probabilities is not None:
            record["probabilities"] = list(prediction.word_probabilities)
        return record, lines if entities else [*lines, "  no entity"]


def prompt_field(example: Any) -> dict[str, Any]:
    """Return the prompt as a field of a record, if the example has one."""
    return {"prompt": example.prompt} if example.prompt else {}


def flat_spans(spans: Sequence[Span]) -> list[Span]:
    """Keep as many spans as do not overlap: the first to end, then the longest."""
    flat: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.end, span.start)):
        if not flat or flat[-1].end <= span.start:
            flat.append(span)
    return flat


def judge_spans(
    examples: Sentences,
    scored: Sequence[Mapping[Span, float]],
    kinds: Sequence[str] | None,
    *,
    by_label: bool = False,
) -> dict[str, Judged]:
    """Return which scored spans are gold, by type, with documents as units.

    With no types, the documents with spans and the lowest score of their spans are
    returned, and then all scores, as no gold, so that a threshold is halfway between
    two. Where the data have no documents, examples take their place.

    Args:
      examples: sentences.
      scored: of each the spans with a score, all gold ones among them, -inf for those
        that no threshold finds. Spans of the type "" belong to all.
      kinds: types; "" for all together.
      by_label: whether each type has a threshold.
    """
    groups, noun = groups_of(examples), "documents"
    if groups is None:
        groups, noun = np.arange(len(examples)), "examples"
    rows = [
        (span, span in example.spans, score, unit)
        for example, spans, unit in zip(examples, scored, groups, strict=True)
        for span, score in spans.items()
    ]
    if kinds is not None:
        judged = {}
        for kind in kinds:
            those = [row[1:] for row in rows if not kind or row[0].type in (kind, "")]
            columns: Any = zip(*those, strict=True) if those else ((), (), ())
            gold, scores, units = columns
            judged[kind] = Judged(gold, scores, np.array(units, int), noun, by_label)
        return judged
    lowest = np.full(max(groups, default=-1) + 1, np.inf)
    for _, is_gold, score, unit in rows:
        lowest[unit] = min(lowest[unit], score if is_gold else np.inf)
    gold = np.append(lowest < np.inf, np.zeros(len(rows), bool))
    return {"": Judged(gold, np.append(lowest, [row[2] for row in rows]))}


def spans_of(sentence: Sentence, kind: str | None) -> list[tuple[int, int]]:
    """Return the first and the last word of each span, or of each of a type, sorted.

    >>> spans = Span("A", 3, 5), Span("B", 1, 2), Span("A", 0, 1)
    >>> spans_of(Sentence(("x",) * 5, spans, 1), "A")
    [(0, 0), (3, 4)]
    """
    spans = {span for span in sentence.spans if kind in (None, span.type)}
    return sorted((span.start, span.end - 1) for span in spans)


def _count_lost(sentences: Sentences, items: Items) -> int:
    """Count the gold spans that no window holds wholly."""
    lost = 0
    for (number, kind), group in itertools.groupby(
        items, key=lambda item: (item.example, item.detail.kind)
    ):
        spans = spans_of(sentences[number], kind)
        held = np.any([item.detail.holds(spans) for item in group], axis=0)
        lost += len(spans) - int(held.sum())
    return lost
