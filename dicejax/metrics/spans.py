"""Span-level precision, recall and F1: a span counts when type and both ends agree.

Tags that break their scheme are read as conlleval and seqeval's default mode read them.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from dicejax.data import tags
from dicejax.data.tags import Span
from dicejax.metrics import quotients
from dicejax.metrics.classification import ClassScores, macro


@dataclasses.dataclass(frozen=True)
class TypeCounts:
    """Numbers of correct, predicted and gold spans, of one type or of all."""

    true_positives: int = 0
    predicted: int = 0
    gold: int = 0

    def __add__(self, other: TypeCounts) -> TypeCounts:
        """Add up, as for the counts of two batches."""
        pairs = zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)
        return TypeCounts(*map(sum, pairs))


@dataclasses.dataclass(frozen=True)
class SpanCounts:
    """Counts of spans by type; counts of parts add up to those of the whole.

    The mean of the scores of parts is not the score of the whole, so keep counts per
    batch or process, add them, and take `scores` once.

    >>> first = count([[Span("PER", 0, 2)]], [[Span("PER", 0, 2)]])
    >>> second = count([[Span("PER", 1, 2)]], [[Span("LOC", 1, 2)]])
    >>> (first + second).per_type["PER"]
    TypeCounts(true_positives=1, predicted=1, gold=2)
    >>> sum([first, second], SpanCounts()) == first + second
    True

    Attributes:
      per_type: by type, sorted; only types that are in the gold or predicted spans.
    """

    per_type: Mapping[str, TypeCounts] = dataclasses.field(default_factory=dict)

    def __add__(self, other: SpanCounts) -> SpanCounts:
        """Merge with the counts of other sentences."""
        kinds = sorted({*self.per_type, *other.per_type})
        none = TypeCounts()
        return SpanCounts(
            {k: self.per_type.get(k, none) + other.per_type.get(k, none) for k in kinds}
        )

    @property
    def total(self) -> TypeCounts:
        """The counts over all types."""
        return sum(self.per_type.values(), TypeCounts())


@dataclasses.dataclass(frozen=True)
class SpanScores(ClassScores):
    """Scores over all types together (micro), as NER papers report; in [0, 1].

    Attributes:
      macro: the unweighted mean of each score over `per_type`.
      per_type: by type, sorted, types that were only predicted included.
    """

    macro: ClassScores
    per_type: Mapping[str, ClassScores]


def count(
    gold: Sequence[Iterable[Span]], predicted: Sequence[Iterable[Span]]
) -> SpanCounts:
    """Compare predicted spans with gold spans, sentence by sentence.

    The spans of a sentence are a set, of which some may overlap.

    >>> count([[Span("PER", 0, 2), Span("LOC", 4, 5)]], [[Span("PER", 0, 2)]]).total
    TypeCounts(true_positives=1, predicted=1, gold=2)

    Raises:
      ValueError: the numbers of sentences differ.
    """
    if len(gold) != len(predicted):
        raise ValueError(
            f"gold has {len(gold)} sentences but predicted has {len(predicted)}"
        )
    counters: tuple[Counter[str], ...] = Counter(), Counter(), Counter()
    right, guessed, actual = counters
    for pair in zip(gold, predicted, strict=True):
        spans, guesses = map(set, pair)
        right.update(span.type for span in spans & guesses)
        guessed.update(span.type for span in guesses)
        actual.update(span.type for span in spans)
    kinds = sorted({*guessed, *actual})
    return SpanCounts({k: TypeCounts(*(n[k] for n in counters)) for k in kinds})


def decode_tags(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], scheme: str
) -> tuple[list[list[Span]], list[list[Span]]]:
    """Decode the tags of gold and predicted sentences with `tags.spans`.

    The scheme is one of `tags.PREFIXES`. A predicted sentence may be shorter than its
    gold, because the input was cut: the tags that it lacks are read as O, so gold spans
    beyond the cut, and those that the cut runs through, count as missed.

    >>> spans = decode_tags([["B-PER", "I-PER", "O"]], [["I-PER", "I-PER"]], "BIO")
    >>> count(*spans).total
    TypeCounts(true_positives=1, predicted=1, gold=1)

    Raises:
      ValueError: a predicted sentence is longer than its gold, or a tag is not of the
        scheme.
    """
    for number, (row, guesses) in enumerate(zip(gold, predicted, strict=False)):
        if len(guesses) > len(row):
            raise ValueError(
                f"sentence {number} has {len(guesses)} predicted tags "
                f"but {len(row)} gold tags"
            )
    spans = [tags.spans(row, scheme) for row in gold]
    return spans, [tags.spans(row, scheme) for row in predicted]


def scores(counts: SpanCounts) -> SpanScores:
    """Compute the scores; every quotient 0 / 0 is 0.

    With TP true positives, micro over all types:

        precision P = TP / predicted    recall R = TP / gold    F1 = 2 P R / (P + R)

    Equal to the last bit to `seqeval` 1.2.2 in its default mode, except that the macro
    scores are 0 where there is neither a gold nor a predicted span (seqeval: NaN).
    Equal to conlleval (CoNLL-2000 and 2003), which prints per cent, on BIO and IOB1.

    >>> gold = [[Span("PER", 0, 2), Span("LOC", 4, 5)], [Span("PER", 1, 2)]]
    >>> predicted = [[Span("PER", 0, 2), Span("LOC", 3, 5)], []]
    >>> result = scores(count(gold, predicted))
    >>> result.precision, round(result.recall, 4), round(result.f1, 4), result.support
    (0.5, 0.3333, 0.4, 3)
    >>> result.per_type["PER"].precision, result.per_type["PER"].recall
    (1.0, 0.5)
    >>> result.macro.precision, result.macro.recall
    (0.5, 0.25)
    """
    per_type = {kind: _type_scores(n) for kind, n in counts.per_type.items()}
    micro = dataclasses.asdict(_type_scores(counts.total))
    return SpanScores(**micro, macro=macro(list(per_type.values())), per_type=per_type)


def _type_scores(counts: TypeCounts) -> ClassScores:
    precision = quotients.ratio(counts.true_positives, counts.predicted)
    recall = quotients.ratio(counts.true_positives, counts.gold)
    # Not 2 TP / (predicted + gold), which is the same but for rounding: see `scores`.
    f1 = quotients.f1(precision, recall)
    return ClassScores(precision, recall, f1, counts.gold)
