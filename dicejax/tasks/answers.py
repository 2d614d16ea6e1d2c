"""Answers found in a text, and the choice among them."""

from __future__ import annotations

import dataclasses
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from dicejax.data.examples import ReadingExample
from dicejax.metrics import quoref, squad
from dicejax.metrics.scores import Scores
from dicejax.metrics.thresholds import TunedThreshold

Questions = Sequence[ReadingExample]


class Candidate(NamedTuple):
    """A part of the context that may be the answer.

    Attributes:
      text: `context[start:end]`.
      start: first character.
      end: end of the characters, exclusive.
      score: its log-probability; see `QuestionAnswering`.
    """

    text: str
    start: int
    end: int
    score: float


@dataclasses.dataclass(frozen=True)
class Found:
    """The result of decoding one question.

    Attributes:
      candidates: the best first.
      no_answer: no-answer score; see `QuestionAnswering`.
    """

    candidates: tuple[Candidate, ...]
    no_answer: float


@dataclasses.dataclass(frozen=True)
class Answer:
    """The prediction for one question.

    Attributes:
      texts: parts of the context, in its order; none where the question is refused.
      no_answer: as `Found` has it.
      best: the best candidate, also where the question is refused.
    """

    texts: tuple[str, ...]
    no_answer: float = 0.0
    best: str = ""


def rank_answers(
    spans: Iterable[tuple[float, int, int]], context: str
) -> tuple[Candidate, ...]:
    """Return candidates, the best first, without repeated characters.

    Args:
      spans: score, start and end of each, in characters.
      context: the text.
    """
    best: dict[tuple[int, int], float] = {}
    for score, *ends in sorted(spans, key=lambda span: -span[0]):
        best.setdefault(tuple(ends), score)
    return tuple(
        Candidate(context[start:end], start, end, score)
        for (start, end), score in best.items()
    )


def log_odds(log_probability: float) -> float:
    """Return log P - log (1 - P); 69 where P rounds to 1."""
    return log_probability - math.log(max(-math.expm1(log_probability), 1e-30))


def apart(candidates: Sequence[Candidate], weights: Sequence[float]) -> tuple:
    """Choose candidates that do not overlap, with the largest sum of weights.

    >>> spans = [Candidate("a b", 0, 3, 0.0), Candidate("a", 0, 1, 0.0),
    ...          Candidate("b", 2, 3, 0.0), Candidate("c", 4, 5, 0.0)]
    >>> [span.text for span in apart(spans, [1.5, 1.0, 1.0, -1.0])]
    ['a', 'b']
    >>> [span.text for span in apart(spans, [2.5, 1.0, 1.0, 1.0])]
    ['a b', 'c']

    Returns:
      In the order of the text.
    """
    pairs = zip(candidates, weights, strict=True)
    ordered = sorted(pairs, key=lambda pair: (pair[0].end, pair[0].start))
    ends = [candidate.end for candidate, _ in ordered]
    best: list[tuple[float, tuple[Candidate, ...]]] = [(0.0, ())]  # of the first k
    for k, (candidate, weight) in enumerate(ordered):
        total, before = best[bisect_right(ends, candidate.start, hi=k)]
        taken = (total + weight, (*before, candidate))
        best.append(taken if weight > 0 and taken[0] > best[k][0] else best[k])
    return best[-1][1]


def gold_texts(example: ReadingExample) -> list[str]:
    """Return all annotators' answers, or the spans of the one answer."""
    located = [span.text for answer in example.answers for span in answer]
    return [*located, *example.unlocated]


def by_characters(examples: Questions) -> bool:
    """Return whether most answers are in scripts without spaces between words."""
    texts = [text for example in examples for text in gold_texts(example)]
    return 2 * sum(map(squad.is_unspaced, texts)) > len(texts)


def unit_of_f1(split: str, examples: Questions) -> list[str]:
    """Return a line that says so where F1 counts characters."""
    if not by_characters(examples):
        return []
    script = "most answers are in a script without spaces"
    return [f"{split}: {script}: F1 counts characters, not words"]


def answer_scores(
    examples: Questions,
    answers: Sequence[Answer],
    *,
    several: bool,
    characters: bool | None = None,
) -> Scores:
    """Score as SQuAD v1.1 does or, with several spans to an answer, as Quoref does.

    Args:
      examples: the questions.
      answers: one for each.
      several: whether an answer has several spans.
      characters: whether F1 counts characters; None: see `by_characters`.
    """
    if characters is None:
        characters = by_characters(examples)
    golds = {example.id: gold_texts(example) for example in examples}
    given = {e.id: a.texts for e, a in zip(examples, answers, strict=True)}
    if several:
        scores = quoref.score(golds, given)
    else:
        joined = {question: "".join(texts) for question, texts in given.items()}
        scores = squad.score_v1(golds, joined, characters)
    return Scores({"f1": scores.f1, "exact": scores.exact})


def refusal_scores(
    examples: Questions, answers: Sequence[Answer], characters: bool | None = None
) -> Scores:
    """Score as SQuAD v2.0 does; see `QuestionAnswering.score` and `answer_scores`."""
    if characters is None:
        characters = by_characters(examples)
    golds = {example.id: gold_texts(example) for example in examples}
    given = {e.id: a for e, a in zip(examples, answers, strict=True)}
    texts = {i: "".join(a.texts) for i, a in given.items()}
    scores = squad.score_v2(golds, texts, by_characters=characters)
    swept = squad.score_v2(
        golds,
        {i: a.best for i, a in given.items()},
        {i: a.no_answer for i, a in given.items()},
        by_characters=characters,
    )
    values = {
        "f1": scores.all.f1,
        "exact": scores.all.exact,
        "answerable_f1": scores.answerable.f1,
        "unanswerable": scores.unanswerable.exact,
        "f1_at_own_best_threshold": swept.best_f1.attained,
    }
    parts = {"answerable": scores.answerable, "unanswerable": scores.unanswerable}
    groups = {
        name: {"f1": part.f1, "exact": part.exact, "support": part.questions}
        for name, part in parts.items()
    }
    return Scores(values, groups)


def f1_of_each(
    examples: Questions, answers: Sequence[Answer], *, several: bool, unanswerable: bool
) -> np.ndarray:
    """Return each question's F1 and a weight of 1, `[N, 1, 2]`.

    All count the unit that the score of all counts, so that their mean is that score.
    """
    characters = by_characters(examples)

    def f1(example: ReadingExample, answer: Answer) -> float:
        if unanswerable:
            scores = refusal_scores([example], [answer], characters)
        else:
            scores = answer_scores(
                [example], [answer], several=several, characters=characters
            )
        return scores.values["f1"]

    pairs = [(f1(*pair), 1.0) for pair in zip(examples, answers, strict=True)]
    return np.array(pairs).reshape(-1, 1, 2)


def best_refusal(examples: Questions, answers: Sequence[Answer]) -> TunedThreshold:
    """Score every refusal threshold, by sorted no-answer scores.

    Args:
      examples: the questions.
      answers: none of them refused.

    Raises:
      ValueError: there are no questions.
    """
    if not examples:
        raise ValueError("there are no questions to choose a threshold from")
    f1, impossible = np.empty(len(examples)), np.empty(len(examples))
    characters = by_characters(examples)
    for place, (example, answer) in enumerate(zip(examples, answers, strict=True)):
        golds = {example.id: gold_texts(example)}
        f1[place] = squad.score_v2(
            golds, {example.id: answer.best}, by_characters=characters
        ).all.f1
        impossible[place] = not golds[example.id]
    refusal = np.array([answer.no_answer for answer in answers])
    order = np.argsort(refusal, kind="stable")
    ordered = refusal[order]
    gains = (f1 - impossible)[order]  # by answering, one question after the other
    means = (impossible.sum() + np.cumsum([0.0, *gains])) / len(examples)
    parted = np.concatenate([[True], ordered[1:] != ordered[:-1], [True]])
    low, high = ordered[:-1], ordered[1:]
    middle = low + (high - low) / 2
    middle = np.where(middle < high, middle, low)  # neighbours leave no room
    limits = np.concatenate([[ordered[0] - 1], middle, [ordered[-1]]])
    best = int(np.where(parted, means, -1).argmax())
    default = float(np.where(refusal > 0, impossible, f1).mean())
    better = means[best] > default
    return TunedThreshold(
        threshold=float(limits[best]) if better else 0.0,
        f1=max(float(means[best]), default),
        default_threshold=0.0,
        default_f1=default,
        examples=len(examples),
        positives=int(len(examples) - impossible.sum()),
    )


def best_of_several(
    examples: Questions,
    found: Sequence[Found],
    decide: Callable[[Found, float], Answer],
) -> TunedThreshold:
    """Compare thresholds for answers of several spans by Quoref's mean F1.

    Args:
      examples: the questions.
      found: decoded candidates of each question.
      decide: function from candidates and a threshold to an answer.

    Raises:
      ValueError: there are no questions.
    """
    if not examples:
        raise ValueError("there are no questions to choose a threshold from")

    def f1(limit: float) -> float:
        answers = [decide(one, limit) for one in found]
        return answer_scores(examples, answers, several=True).values["f1"]

    # The first few alone: behind them are spans that no sensible threshold takes.
    odds = [-log_odds(c.score) for one in found for c in one.candidates[:3]]
    limits = np.quantile(odds, np.linspace(0, 1, 32)) if odds else []
    scored = {0.0: f1(0.0)} | {limit: f1(limit) for limit in map(float, limits)}
    best = max(scored, key=lambda limit: (scored[limit], limit == 0.0))
    return TunedThreshold(
        threshold=best,
        f1=scored[best],
        default_threshold=0.0,
        default_f1=scored[0.0],
        examples=len(examples),
        positives=sum(len(gold_texts(example)) for example in examples),
    )
