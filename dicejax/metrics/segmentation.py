"""Word segmentation and part-of-speech tagging over characters, as in Chinese.

Each character has a tag such as `B-NN`; a word is a span of its part of speech.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from dicejax.metrics import quotients, spans
from dicejax.metrics.spans import SpanScores

WORD = "word"
"""The one type that is left when types are left out."""


@dataclasses.dataclass(frozen=True)
class TaggingScores:
    """Scores of joint segmentation and tagging; fractions in [0, 1], 0 at 0 / 0.

    Attributes:
      joint: scores of (start, end, part of speech), as the papers on CTB and UD Chinese
        report them.
      words: the same of (start, end), the score of segmentation.
      token_accuracy: correct tags / tags of the gold. Segmentation counts in it too,
        since `B-NN` and `M-NN` differ.
    """

    joint: SpanScores
    words: SpanScores
    token_accuracy: float


def score(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], scheme: str
) -> TaggingScores:
    """Compare tags of characters with the gold, sentence by sentence.

    With TP right words, as SIGHAN's bakeoffs define it:

        P = TP / predicted words    R = TP / gold words    F1 = 2 P R / (P + R)

    >>> result = score([["B-NN", "E-NN", "S-VV"]], [["B-NN", "E-NN", "S-NN"]], "BMES")
    >>> result.joint.f1, result.words.f1, round(result.token_accuracy, 4)
    (0.5, 1.0, 0.6667)

    Args:
      gold: the tags of each sentence.
      predicted: the same sentences in the same order; missing tags are wrong.
      scheme: one of `tags.PREFIXES`.

    Raises:
      ValueError: see `spans.decode_tags`.
    """
    words = spans.decode_tags(gold, predicted, scheme)
    joint = spans.scores(spans.count(*words))
    untyped = [
        [[span._replace(type=WORD) for span in sentence] for sentence in sentences]
        for sentences in words
    ]
    correct = sum(
        sum(map(str.__eq__, tags, guesses))
        for tags, guesses in zip(gold, predicted, strict=True)
    )
    return TaggingScores(
        joint=joint,
        words=spans.scores(spans.count(*untyped)),
        token_accuracy=quotients.ratio(correct, sum(map(len, gold))),
    )
