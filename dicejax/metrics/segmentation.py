"""Word segmentation and part-of-speech tagging over characters, as in Chinese.

Each character has a tag such as `B-NN` or `S-PU`. A word is a span, its part of speech
the type: so the joint score is the span score of `metrics.spans`, as the papers on CTB
and UD Chinese report it, and the segmentation score the same with types left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from dicejax.data.tags import Span
from dicejax.metrics import quotients
from dicejax.metrics.spans import (
    SpanCounts,
    SpanScores,
    count,
    decode_tags,
    scores,
)

WORD = "word"
"""The one type that is left when types are left out."""


@dataclasses.dataclass(frozen=True)
class TaggingCounts:
    """Counts of words and tags; counts of parts add up.

    Attributes:
      joint: words by part of speech; right where both ends and the tag are.
      words: words alone; right where both ends are.
      correct_tokens: tokens (characters) whose whole tag is right.
      tokens: all tokens of the gold.
    """

    joint: SpanCounts = SpanCounts()
    words: SpanCounts = SpanCounts()
    correct_tokens: int = 0
    tokens: int = 0

    def __add__(self, other: TaggingCounts) -> TaggingCounts:
        """Merge with the counts of other sentences."""
        return TaggingCounts(
            self.joint + other.joint,
            self.words + other.words,
            self.correct_tokens + other.correct_tokens,
            self.tokens + other.tokens,
        )


@dataclasses.dataclass(frozen=True)
class TaggingScores:
    """Scores of joint segmentation and tagging; fractions in [0, 1], 0 at 0 / 0.

    Attributes:
      joint: precision, recall and F1 of (start, end, part of speech).
      words: the same of (start, end), the score of segmentation.
      token_accuracy: correct tags / tags of the gold. Segmentation counts in it too,
        since `B-NN` and `M-NN` differ.
    """

    joint: SpanScores
    words: SpanScores
    token_accuracy: float


def count_tagging(
    gold: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    scheme: str,
) -> TaggingCounts:
    """Compare tags of characters with the gold, sentence by sentence.

    >>> gold = [["B-NN", "E-NN", "S-VV"]]
    >>> counts = count_tagging(gold, [["B-NN", "E-NN", "S-NN"]], "BMES")
    >>> counts.joint.total.true_positives, counts.words.total.true_positives
    (1, 2)
    >>> counts.correct_tokens, counts.tokens
    (2, 3)

    Args:
      gold: the tags of each sentence.
      predicted: the same sentences in the same order; missing tags are wrong.
      scheme: one of `tags.PREFIXES`.

    Raises:
      ValueError: see `spans.decode_tags`.
    """
    wanted, found = decode_tags(gold, predicted, scheme)
    joint = count(wanted, found)
    pairs = zip(gold, predicted, strict=True)
    return TaggingCounts(
        joint=joint,
        words=count(without_types(wanted), without_types(found)),
        correct_tokens=sum(
            tag == guess
            for tags, guesses in pairs
            for tag, guess in zip(tags, guesses, strict=False)
        ),
        tokens=sum(map(len, gold)),
    )


def tagging_scores(counts: TaggingCounts) -> TaggingScores:
    """Compute the scores of words, and of words with their part of speech.

    With TP right words, as SIGHAN's bakeoffs define it:

        P = TP / predicted words    R = TP / gold words    F1 = 2 P R / (P + R)

    >>> gold = [["B-NN", "E-NN", "S-VV"]]
    >>> result = tagging_scores(count_tagging(gold, [["B-NN", "E-NN", "S-NN"]], "BMES"))
    >>> result.joint.f1, result.words.f1, round(result.token_accuracy, 4)
    (0.5, 1.0, 0.6667)
    """
    return TaggingScores(
        joint=scores(counts.joint),
        words=scores(counts.words),
        token_accuracy=quotients.ratio(counts.correct_tokens, counts.tokens),
    )


def without_types(sentences: Sequence[Iterable[Span]]) -> list[list[Span]]:
    """Replace all types by one.

    >>> [tuple(span) for span in without_types([[Span("NN", 0, 2)]])[0]]
    [('word', 0, 2)]
    """
    return [[Span(WORD, s.start, s.end) for s in spans] for spans in sentences]
