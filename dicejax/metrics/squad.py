"""SQuAD v1.1 and v2.0: exact match, token F1, and when to refuse an answer.

Equal to the two official scripts, `evaluate-v1.1.py` and `evaluate-v2.0.py`, which
print per cent; here are shares in [0, 1].
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dicejax.errors import quote
from dicejax.metrics import quotients

CACHED = 1 << 16
"""Answers whose normal form is kept: a split is scored in several ways."""


@dataclasses.dataclass(frozen=True)
class AnswerScores:
    """Means over questions of exact match, 0 or 1 for each, and of F1; in [0, 1].

    >>> AnswerScores.average([(1.0, 1.0), (0.0, 0.5)])
    AnswerScores(exact=0.5, f1=0.75, questions=2)
    """

    exact: float
    f1: float
    questions: int

    @classmethod
    def average(cls, scores: Sequence[tuple[float, float]]) -> AnswerScores:
        """Average exact match and F1 of questions; 0 without any."""
        count = len(scores)
        exact = quotients.ratio(sum(exact for exact, _ in scores), count)
        return cls(exact, quotients.ratio(sum(f1 for _, f1 in scores), count), count)


PUNCTUATION = str.maketrans("", "", string.punctuation)
ARTICLE = re.compile(r"\b(a|an|the)\b")
# Thai, Lao, Myanmar, Khmer, kana, Han and its radicals and iteration marks.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003ffff]"
)


@dataclasses.dataclass(frozen=True)
class BestThreshold:
    """The threshold of refusal that suits these questions best; tuned on them.

    `score` and `threshold` are the official script's. It parts questions of the same
    no-answer score; its threshold for refusing every question, 0, does not refuse those
    whose score is 0 or less; and it takes "the" for an answer. Where that makes a
    difference `attained` is to be reported.

    Attributes:
      score: the mean at that threshold, a share in [0, 1].
      threshold: questions with a no-answer score above it are refused.
      attained: the mean with the threshold really applied to these questions.
    """

    score: float
    threshold: float
    attained: float


@dataclasses.dataclass(frozen=True)
class SquadScores:
    """Scores of SQuAD v2.0; shares in [0, 1].

    Attributes:
      answerable: over questions that have an answer (official: HasAns).
      unanswerable: over the others (NoAns): exact = f1 = the share that was refused.
      best_f1: with the threshold that is best for F1; None without no-answer scores.
    """

    all: AnswerScores
    answerable: AnswerScores
    unanswerable: AnswerScores
    best_f1: BestThreshold | None = None


@functools.lru_cache(maxsize=CACHED)
def normalize(text: str) -> str:
    """Lower-case, drop ASCII punctuation, drop articles, join words by one space.

    >>> normalize("The  U.S. dollar, an anchor")
    'us dollar anchor'
    """
    text = text.lower().translate(PUNCTUATION)
    return " ".join(ARTICLE.sub(" ", text).split())


def is_unspaced(text: str) -> bool:
    """Return whether most letters are of scripts without spaces.

    >>> is_unspaced("1998年美国"), is_unspaced("the 東 gate")
    (True, False)
    """
    letters = sum(map(str.isalpha, text))
    return 2 * len(_UNSPACED.findall(text)) > letters


@functools.lru_cache(maxsize=CACHED)
def characters(text: str) -> str:
    """Normalise a text of a script without spaces: one space around each character.

    Lower-cases and drops punctuation of all scripts. Words of other scripts stay whole.
    Source: the mixed segmentation of MLQA's script, Lewis et al., 2020,
    https://aclanthology.org/2020.acl-main.653

    >>> characters("《红楼梦》 by Cao")
    '红 楼 梦 by cao'
    """
    text = "".join(c for c in text.lower() if unicodedata.category(c)[0] != "P")
    return " ".join(_UNSPACED.sub(r" \g<0> ", text).split())


def score_v1(
    golds: Mapping[str, Sequence[str]],
    predictions: Mapping[str, str],
    by_characters: bool = False,
) -> AnswerScores:
    """Score answers as SQuAD v1.1 does.

    With texts normalised and cut at white space, and n words in common, repeated words
    counted as often as both have them,

        EM = 1 if the texts are equal else 0
        P = n / predicted words    R = n / gold words    F1 = 2 P R / (P + R)

    and F1 is 0 where n is. The best over a question's gold answers counts, for EM and
    for F1 apart; the scores are means over questions.

    >>> golds = {"q1": ["Denver Broncos", "The Denver Broncos"], "q2": ["Santa Clara"]}
    >>> score_v1(golds, {"q1": "the broncos"})
    AnswerScores(exact=0.0, f1=0.3333333333333333, questions=2)

    Args:
      golds: the answers to each question, by its id; at least one each.
      predictions: one answer per question. A question without one scores 0; ids that
        no question has are ignored. Both as officially.
      by_characters: count characters of scripts without spaces, see `characters`; by
        words, as officially, an F1 of Chinese is nearly EM.

    Raises:
      ValueError: a question has no gold answer.
    """
    unanswerable = [question for question, texts in golds.items() if not texts]
    if unanswerable:
        raise ValueError(
            f"question {quote(unanswerable[0])} has no gold answer: is this SQuAD v2.0?"
        )
    return AnswerScores.average(
        [
            _best(texts, predictions[question], by_characters, empty_agrees=False)
            if question in predictions
            else (0.0, 0.0)
            for question, texts in golds.items()
        ]
    )


def score_v2(
    golds: Mapping[str, Sequence[str]],
    predictions: Mapping[str, str],
    no_answer: Mapping[str, float] | None = None,
    threshold: float = 1.0,
    *,
    by_characters: bool = False,
) -> SquadScores:
    """Score answers as SQuAD v2.0 does.

    As `score_v1`, except that a question may have no gold answer, that the prediction
    "" refuses to answer, and that where gold or prediction has no words after
    normalising, EM and F1 are 1 if both have none and 0 otherwise. Gold answers that
    normalise to nothing are left out.

    >>> golds = {"q1": ["Normandy"], "q2": []}
    >>> predictions = {"q1": "Normandy", "q2": "France"}
    >>> score_v2(golds, predictions).all
    AnswerScores(exact=0.5, f1=0.5, questions=2)
    >>> result = score_v2(golds, predictions, {"q1": 0.2, "q2": 0.7}, threshold=0.5)
    >>> result.all.f1, result.best_f1.score, result.best_f1.threshold
    (1.0, 1.0, 0.2)

    Args:
      golds: the answers to each question, by its id; none where it has no answer.
      predictions: one answer per question; ids that no question has are ignored.
      no_answer: score for a question having no answer.
      threshold: a question with a no-answer score above it counts as refused.
      by_characters: see `score_v1`.

    Raises:
      ValueError: a question has no prediction or no no-answer score (the official
        script stops at it too), or a no-answer score is NaN.
    """
    _check_covered(golds, predictions, "prediction")
    raw = {
        question: _best(
            [t for t in texts if normalize(t)] or [""],
            predictions[question],
            by_characters,
        )
        for question, texts in golds.items()
    }
    if no_answer is None:
        return SquadScores(*_split_scores(golds, raw))
    _check_covered(golds, no_answer, "no-answer score")
    no_answer = {question: s for question, s in no_answer.items() if question in golds}
    if any(map(math.isnan, no_answer.values())):
        raise ValueError("a no-answer score is NaN")

    def refuse_above(limit: float) -> dict[str, tuple[float, float]]:
        refused = dict(raw)
        for question, texts in golds.items():
            if no_answer[question] > limit:
                refused[question] = float(not texts), float(not texts)
        return refused

    # Accept questions one by one, from the lowest no-answer score, as the script does.
    # At first all are refused and each unanswerable one scores 1. Accepting an
    # answerable one adds its score; an unanswerable one costs 1, unless answered by "".
    order = sorted(no_answer, key=no_answer.__getitem__)  # stable, as officially
    gains = [
        raw[question][1] if golds[question] else -float(bool(predictions[question]))
        for question in order
    ]
    totals = np.cumsum([float(sum(not texts for texts in golds.values())), *gains])
    place = int(totals.argmax())  # the first of equals: the most refusals
    limit = float(no_answer[order[place - 1]]) if place else 0.0
    attained = sum(score[1] for score in refuse_above(limit).values())
    return SquadScores(
        *_split_scores(golds, refuse_above(threshold)),
        best_f1=BestThreshold(
            score=quotients.ratio(totals[place], len(golds)),
            threshold=limit,
            attained=quotients.ratio(attained, len(golds)),
        ),
    )


def _best(
    golds: Sequence[str], answer: str, by_characters: bool, empty_agrees: bool = True
) -> tuple[float, float]:
    """Return exact match and F1, each the best over the gold answers."""
    normalized = characters if by_characters else normalize
    predicted, texts = normalized(answer), [normalized(text) for text in golds]
    guesses, f1s = predicted.split(), []
    for words in map(str.split, texts):
        if empty_agrees and not (words and guesses):
            f1s.append(float(words == guesses))
            continue
        common = (Counter(words) & Counter(guesses)).total()
        precision = quotients.ratio(common, len(guesses))
        f1s.append(quotients.f1(precision, quotients.ratio(common, len(words))))
    return float(predicted in texts), max(f1s)


def _check_covered(
    golds: Mapping[str, Any], values: Mapping[str, Any], noun: str
) -> None:
    lacking = [question for question in golds if question not in values]
    if lacking:
        raise ValueError(
            f"{len(lacking)} of {len(golds)} questions have no {noun}, "
            f"{quote(lacking[0])} among them"
        )


def _split_scores(
    golds: Mapping[str, Sequence[str]], scores: Mapping[str, tuple[float, float]]
) -> tuple[AnswerScores, AnswerScores, AnswerScores]:
    """Average over all questions, those with an answer and those without."""
    some = [score for question, score in scores.items() if golds[question]]
    none = [score for question, score in scores.items() if not golds[question]]
    of_all = AnswerScores.average([*scores.values()])
    return of_all, AnswerScores.average(some), AnswerScores.average(none)
