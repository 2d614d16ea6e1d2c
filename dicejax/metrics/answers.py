"""Scores of reading comprehension: exact match and token F1."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from dicejax.metrics import quotients


@dataclasses.dataclass(frozen=True)
class AnswerScores:
    """Means over questions; shares in [0, 1], of which papers print per cent.

    >>> AnswerScores.of([1.0, 0.0], [1.0, 0.5])
    AnswerScores(exact=0.5, f1=0.75, questions=2)
    >>> AnswerScores.of([], [])
    AnswerScores(exact=0.0, f1=0.0, questions=0)

    Attributes:
      exact: the mean of exact match (EM), which is 0 or 1 for each question.
      f1: the mean of each question's F1.
      questions: over how many; over none, both means are 0.
    """

    exact: float
    f1: float
    questions: int

    @classmethod
    def of(cls, exact: Collection[float], f1: Collection[float]) -> AnswerScores:
        """Take the means of what each question scored."""
        count = len(exact)
        return cls(
            quotients.ratio(sum(exact), count), quotients.ratio(sum(f1), count), count
        )
