"""The base class of tasks that predict spans of words in sentences."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from dicejax.data.examples import Sentence, Span
from dicejax.errors import Cut, quote
from dicejax.metrics import spans as span_metrics
from dicejax.metrics.scores import Scores
from dicejax.tasks.task import Items, Labels, Scored, Task

Sentences = Sequence[Sentence]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpanTask(Task):
    """Base class of tasks with spans of words, scored alike."""

    takes: ClassVar[tuple[type, ...]] = (Sentence,)

    def texts(self, examples: Sentences) -> Iterable[str]:
        """Yield all words."""
        return (word for sentence in examples for word in sentence.words)

    def score(
        self,
        examples: Sentences,
        predictions: Sequence[Sequence[Span]],
        labels: Labels = (),
    ) -> Scores:
        """Compute precision, recall and F1 of word spans, over all gold spans."""
        gold = [sentence.spans for sentence in examples]
        counts = span_metrics.count(gold, predictions)
        return Scores.of_spans(span_metrics.scores(counts))

    def example_statistics(
        self,
        examples: Sentences,
        predictions: Sequence[Sequence[Span]],
        labels: Labels = (),
    ) -> np.ndarray:
        """Return twice the correct spans, and predicted plus gold."""
        pairs = zip(examples, predictions, strict=True)
        return f1_shares(
            [span_metrics.count([one.spans], [spans]).total for one, spans in pairs]
        )

    def parse(self, line: str, number: int) -> Sentence:
        """Take words separated by white space."""
        return self.of_words(line.split(), number)

    def of_words(self, words: Sequence[str], number: int) -> Sentence:
        """Take a sentence without gold."""
        return Sentence(tuple(words), (), number)

    def show(
        self, example: Sentence, prediction: Sequence[Span]
    ) -> tuple[dict[str, Any], list[str]]:
        """Format each span with its words."""
        return show_spans(example.words, prediction)


def f1_shares(counts: Sequence[span_metrics.TypeCounts]) -> np.ndarray:
    """Return `Task.example_statistics` for micro F1, `[N, 1, 2]`.

    >>> f1_shares([span_metrics.TypeCounts(1, 2, 3)]).tolist()
    [[[2.0, 5.0]]]
    """
    pairs = [(2 * one.true_positives, one.predicted + one.gold) for one in counts]
    return np.array(pairs, float).reshape(-1, 1, 2)


def flat_spans(spans: Sequence[Span]) -> list[Span]:
    """Keep as many spans as do not overlap: the first to end, then the longest.

    >>> kept = flat_spans([Span("A", 0, 2), Span("B", 0, 4), Span("C", 2, 4)])
    >>> [span.type for span in kept]
    ['A', 'C']
    """
    kept: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.end, span.start)):
        if not kept or kept[-1].end <= span.start:
            kept.append(span)
    return kept


def gold_warnings(
    split: str,
    sentences: Sentences,
    known: Iterable[str],
    lost: int,
    items: Items,
    *,
    overlapping: str | None,
) -> list[str]:
    """Warn of gold spans that cannot be predicted, one sentence per reason.

    Args:
      split: name of the split.
      sentences: its sentences.
      known: predictable types.
      lost: spans that no window holds.
      items: encoded items.
      overlapping: consequence of overlaps, for the message; None: no loss.
    """
    known, gold = set(known), sum(len(sentence.spans) for sentence in sentences)
    types = (span.type for sentence in sentences for span in sentence.spans)
    unseen = Counter(kind for kind in types if kind not in known)
    said = [
        f"{split} has {count} {quote(kind)} span{'s' if count > 1 else ''}, a type "
        "that train lacks: counted as misses"
        for kind, count in sorted(unseen.items())
    ]
    if split == "train" and not gold:
        said.append("train has no span: there is nothing to learn")
    if lost:
        text = (
            f"{lost} of {gold} {split} entities ({lost / gold:.0%}) lie in no window "
            f"of {max(map(len, items))} tokens wholly and count as misses; raise "
            "--task.stride, to half of --training.max_length at most, or both"
        )
        said.append(Cut(text))
    crossed = gold - sum(len(flat_spans(sentence.spans)) for sentence in sentences)
    if crossed and overlapping is not None:
        said.append(
            f"{split}: {crossed} of {gold} spans overlap another, {overlapping}: "
            "counted as misses"
        )
    return said


def show_spans(
    words: Sequence[str], spans: Sequence[Span], joint: str = " "
) -> tuple[dict[str, Any], list[str]]:
    """Format each span with its words, as JSON and for the terminal.

    Positions count from 0, the end excluded. With probabilities, see `Scored`, spans
    have a "probability", and the record "probabilities" of the words' tags.

    >>> record, lines = show_spans(["Anna", "sings"], [Span("PER", 0, 1)])
    >>> record["entities"]
    [{'type': 'PER', 'start': 0, 'end': 1, 'text': 'Anna'}]
    >>> print(lines[1])
      PER      Anna  (words 0:1)
    """
    found = [(span, joint.join(words[span.start : span.end])) for span in spans]
    record: dict[str, Any] = {
        "words": list(words),
        "entities": [{**span._asdict(), "text": text} for span, text in found],
    }
    if isinstance(spans, Scored):
        chances = zip(record["entities"], spans.probabilities, strict=True)
        record["entities"] = [one | {"probability": chance} for one, chance in chances]
        if spans.of_words is not None:
            record["probabilities"] = list(spans.of_words)
    lines = [joint.join(words)]
    lines += [
        f"  {span.type:8} {text}  (words {span.start}:{span.end})"
        for span, text in found
    ]
    return record, lines + ["  no entity"] * (not found)
