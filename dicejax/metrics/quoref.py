"""Quoref, and DROP whose measure it takes: answers of several spans."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from dicejax.errors import quote
from dicejax.metrics import quotients
from dicejax.metrics.squad import ARTICLE, PUNCTUATION, AnswerScores


def score(
    golds: Mapping[str, Sequence[str]],
    predictions: Mapping[str, str | Sequence[str]],
) -> AnswerScores:
    """Score answers as the official Quoref evaluator does; means over questions.

    All gold spans are wanted, unlike SQuAD's alternatives; see `score_answer`.

    >>> golds = {"q1": ["Frankie", "the ex-lover"], "q2": ["Lori"]}
    >>> score(golds, {"q1": ["Frankie"], "q2": "Lori"})
    AnswerScores(exact=0.5, f1=0.75, questions=2)

    Args:
      golds: the spans of each question's answer, by its id.
      predictions: predicted spans, or one span. A question without them scores 0, as
        does one whose first gold span is blank; ids that no question has are ignored.
        All as officially.

    Raises:
      ValueError: a question has no gold span.
    """
    scores = []
    for question, spans in golds.items():
        if not spans:
            raise ValueError(f"question {quote(question)} has no gold span")
        scores.append((0.0, 0.0))
        if question in predictions and spans[0].strip():
            scores[-1] = score_answer(spans, predictions[question])
    return AnswerScores.average(scores)


def score_answer(
    gold: Sequence[str], predicted: str | Sequence[str]
) -> tuple[float, float]:
    """Score one answer; for DROP's several annotators take the best over them.

    Exact match is 1 if gold and prediction hold equally many spans and the same ones,
    once normalised. For F1, each span is the set of its words; gold and predicted spans
    are paired off one to one such that the sum of F1 is the largest, and

        F1 = sum over pairs of 2 P R / (P + R) / max(gold spans, predicted spans)

    rounded to two decimals, as officially. P and R of a pair are the shares of the
    predicted and of the gold words in common, 1 for a span without words. A pair scores
    0 if the gold has numbers and none of them is predicted. Without predicted spans
    both are 0.

    Source: Dua et al., "DROP", NAACL 2019, section 5; drop_eval.py of AllenNLP.

    >>> score_answer(["Big Ralph", "Lori"], ["Lori", "Ralph", "Frankie"])
    (0.0, 0.56)
    >>> score_answer(["7 days"], ["8 days"])
    (0.0, 0.0)

    Returns:
      Exact match and F1, in [0, 1].
    """
    from scipy.optimize import linear_sum_assignment  # half a second of each start

    guesses = [predicted] if isinstance(predicted, str) else predicted
    golds, guesses = ([normalize(text) for text in texts] for texts in (gold, guesses))
    exact = float(set(golds) == set(guesses) and len(golds) == len(guesses))
    pairs = np.zeros((len(golds), len(guesses)))
    for row, column in np.ndindex(pairs.shape):
        words = set(golds[row].split()), set(guesses[column].split())
        pairs[row, column] = _pair_f1(*words)
    rows, columns = linear_sum_assignment(pairs, maximize=True)
    best = np.zeros(max(pairs.shape))  # a place for each span that is left over too
    best[rows] = pairs[rows, columns]
    return exact, float(np.round(best.mean(), 2))


def normalize(text: str) -> str:
    """Normalise each word: lower case, no ASCII punctuation, no articles.

    Words end at spaces and at hyphens. Numbers keep their sign and point and are
    written as floats, so that "7" and "7.0" agree.

    >>> normalize("The ex-lover, of 7 years"), normalize("1,000"), normalize("3.50")
    ('ex lover of 7.0 years', '1000.0', '3.5')
    """
    words = []
    for word in re.split("[ -]", text):
        word = word.lower()
        if not _is_number(word):
            word = word.translate(PUNCTUATION)
        if _is_number(word):
            word = str(float(word))
        words += ARTICLE.sub(" ", word).split()
    return " ".join(words)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _pair_f1(gold: set[str], predicted: set[str]) -> float:
    numbers = set(filter(_is_number, gold))
    if numbers and not numbers & predicted:
        return 0.0
    common = len(gold & predicted)
    precision = common / len(predicted) if predicted else 1.0
    recall = common / len(gold) if gold else 1.0
    return quotients.f1(precision, recall)
