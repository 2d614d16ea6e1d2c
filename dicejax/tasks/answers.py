"""Windows on a context, the answers found in them, and the choice among these."""

from __future__ import annotations

import dataclasses
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from dicejax.data.examples import ReadingExample
from dicejax.data.tokenize import EncodedText
from dicejax.errors import InputError, Truncation, quote
from dicejax.metrics import quoref, squad
from dicejax.metrics.scores import Scores
from dicejax.metrics.thresholds import TunedThreshold
from dicejax.tasks.windows import cut

Questions = Sequence[ReadingExample]

HINDRANCES = {
    "beyond": (
        "fit no window, or consist of characters that the tokenizer drops",
        "; raise --task.stride",
    ),
    "long": ("have more pieces than max_answer", "; raise --task.max_answer"),
    "several": (
        "have spans that overlap, or more spans than the one that is predicted",
        "",
    ),
    "inexact": ("begin or end inside a piece", ""),
}
"""Why an answer cannot be predicted, and the remedy, by the reason."""


@dataclasses.dataclass(frozen=True, eq=False)
class ContextPart:
    """A question, and the part of its context in one window.

    Attributes:
      encoded: the pieces; the question is text 0, the context text 1.
      starts: bool `[n]`, where a predicted answer may start: pieces of the context with
        at least one character, unless another window shows more of their surroundings.
      gold: first and last pieces of the answer's spans, None for one that is not wholly
        inside; empty without an answer, None without gold.
    """

    encoded: EncodedText
    starts: np.ndarray
    gold: list[tuple[int, int] | None] | None

    @property
    def candidates(self) -> np.ndarray:
        """Return which pieces have a character of the context, bool `[n]`."""
        starts, ends = self.encoded.offsets.T
        return (self.encoded.texts == 1) & (starts < ends)

    def characters(
        self, first: np.ndarray, last: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return where spans of candidates start and end, see `EncodedText.span`."""
        return self.encoded.offsets[first, 0], self.encoded.offsets[last, 1]


def cut_context(
    example: ReadingExample,
    encoded: EncodedText,
    max_length: int,
    overlap: int,
    max_question: int,
) -> list[ContextPart]:
    """Cut a question with its context into windows; all lengths are in pieces.

    Neighbouring windows overlap, at most by half. Questions longer than `max_question`
    are truncated.

    Raises:
      InputError: the context has no room.
    """
    whole = encoded.window(0, len(encoded), ahead=max_question)
    taken = int((whole.texts != 1).sum())
    if max_length <= taken:
        raise InputError(
            f"question {quote(example.id)}: max_length {max_length} leaves no room for "
            f"the text to read, question and special pieces take {taken}; raise it, or "
            "lower max_question"
        )
    gold: list[tuple[int, int] | None] | None = None
    if example.impossible:
        gold = []
    elif example.answers:
        gold = [whole.pieces(s.start, s.end, text=1) for s in example.answers[0]]
    context_parts = []
    for part, window in cut(whole, max_length, overlap, text=1):
        # Each piece counts as a word, and those of other windows are not looked at.
        several = len(window.bounds) > 1
        first, end = window.bounds[window.number] if several else (0, len(whole))
        places = np.arange(first, end) + window.shift
        window = dataclasses.replace(window, words=places)
        starts = np.zeros(len(part), bool)
        starts[places[window.decided_words()]] = True
        inside = gold and [
            (span[0] + window.shift, span[1] + window.shift)
            if span and first <= span[0] and span[1] < end
            else None
            for span in gold
        ]
        context_parts.append(ContextPart(part, starts, inside))
        starts &= context_parts[-1].candidates
    return context_parts


def best_spans(
    part: ContextPart, start: np.ndarray, end: np.ndarray, *, longest: int, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the largest sums start_i + end_j, and their first and last pieces.

    All spans are compared that begin at one of `part.starts`, and end at a candidate at
    most `longest` - 1 pieces further on; the best is first, of equals the earlier.
    """
    rows = np.flatnonzero(part.starts)
    ends = np.full(len(end) + longest - 1, -np.inf, end.dtype)
    ends[: len(end)] = np.where(part.candidates, end, -np.inf)
    sums = sliding_window_view(ends, longest)[rows] + start[rows, None]
    sums = sums.ravel()  # of all starts and lengths
    best = np.arange(len(sums))
    if count < len(sums):
        # All above the last place and the first of those that share it: what
        # `argpartition` takes of equals differs between processors.
        last = np.partition(sums, len(sums) - count)[-count]
        above, level = np.flatnonzero(sums > last), np.flatnonzero(sums == last)
        best = np.sort(np.concatenate([above, level[: count - len(above)]]))
    best = best[np.argsort(-sums[best], kind="stable")]
    best = best[sums[best] > -np.inf]
    first = rows[best // longest]
    return sums[best], first, first + best % longest


def covered_characters(
    context_parts: Sequence[ContextPart], count: int, *, longest: int
) -> str | list[tuple[int, int]]:
    """Return the characters that the pieces of an answer's first spans give.

    Or the reason of `HINDRANCES` why they cannot be predicted: the window that may
    predict a start does not hold the span wholly, a span has more pieces than
    `longest`, or two overlap.
    """
    spans = []
    for number in range(count):
        golds = [(part, part.gold[number]) for part in context_parts if part.gold]
        held = [(part, ends) for part, ends in golds if ends and part.starts[ends[0]]]
        if not held:
            return "beyond"
        ((part, ends),) = held  # one alone shows most around the start
        if ends[1] - ends[0] >= longest:
            return "long"
        start, end = part.characters(*map(np.asarray, ends))
        spans.append((int(start), int(end)))
    crossed = any(a[1] > b[0] for a, b in pairwise(sorted(spans)))
    return "several" if crossed else spans


class Candidate(NamedTuple):
    """A part `[start, end)` of the context, and its log-probability as the answer."""

    text: str
    start: int
    end: int
    score: float

    def to_json(self) -> dict[str, Any]:
        """Return where it is, in characters, and its probability.

        >>> Candidate("Rome", 13, 17, math.log(0.5)).to_json()
        {'start': 13, 'end': 17, 'probability': 0.5}
        """
        probability = math.exp(min(self.score, 0.0))  # rounding may exceed log 1
        return {"start": self.start, "end": self.end, "probability": probability}


@dataclasses.dataclass(frozen=True)
class RankedAnswers:
    """The candidates for one question, the best first, and its no-answer score."""

    spans: tuple[Candidate, ...]
    no_answer: float


@dataclasses.dataclass(frozen=True)
class Answer:
    """The prediction for one question: parts of the context, in its order.

    There are no spans where the question is refused, but the text of the best.
    """

    spans: tuple[Candidate, ...]
    no_answer: float = 0.0
    best: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        """Texts of the spans."""
        return tuple(span.text for span in self.spans)

    def to_json(self, *, several: bool) -> dict[str, Any]:
        """Return the `answers` with their places, or the only `answer`."""
        if several:
            return {"answers": [{"text": x.text, **x.to_json()} for x in self.spans]}
        if not self.spans:
            return {"answer": "", "start": None, "end": None, "probability": None}
        (span,) = self.spans
        return {"answer": span.text, **span.to_json()}


def log_odds(log_probability: float) -> float:
    """Return log P - log (1 - P); 69 where P rounds to 1."""
    return log_probability - math.log(max(-math.expm1(log_probability), 1e-30))


def disjoint_answers(
    candidates: Sequence[Candidate], weights: Sequence[float]
) -> tuple[Candidate, ...]:
    """Choose candidates without overlaps, in order, with the largest sum of weights."""
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


def parse_question(line: str, number: int) -> ReadingExample:
    """Take a question, a tab, and the text to read.

    Raises:
      InputError: one is missing.
    """
    question, tab, context = line.rstrip("\r\n").partition("\t")
    if not (tab and question.strip() and context.strip()):
        raise InputError(
            f"line {number}: want a question, a tab and the text to read; give both"
        )
    return ReadingExample(str(number), question, context, (), False)


def require_kinds(examples: Questions, unanswerable: bool, several: bool) -> None:
    """Check that settings and data agree on the kind of answers.

    Raises:
      InputError: the kind of an answer is excluded by the settings.
    """
    for example in examples:
        fault = None
        if example.impossible and not unanswerable:
            fault = "has no answer; set unanswerable,"
        elif several and len(example.answers) > 1:
            fault = "has several answers, not several spans; set several_spans off,"
        elif not several and any(len(answer) > 1 for answer in example.answers):
            fault = "has an answer of several spans; set several_spans,"
        if fault:
            raise InputError(f"question {quote(example.id)} {fault} or leave it out")


def remarks_of(
    split: str, lost: Counter[str | None], *, by_characters: bool
) -> Iterator[str | Truncation]:
    """Yield a warning for each reason why answers cannot be predicted, and the unit."""
    for reason, (because, remedy) in HINDRANCES.items():
        if count := lost[reason]:
            text = f"{split}: {count} of {lost.total()} answers {because}"
            text = f"{text}: no exact match{remedy}"
            yield Truncation("gold", text) if remedy else text
    if by_characters:
        script = "most answers are in a script without spaces"
        yield f"{split}: {script}: F1 counts characters, not words"


def by_characters(examples: Questions) -> bool:
    """Return whether most answers are in scripts without spaces between words."""
    texts = [text for example in examples for text in gold_texts(example)]
    return 2 * sum(map(squad.is_unspaced, texts)) > len(texts)


def score_answers(
    examples: Questions,
    answers: Sequence[Answer],
    characters: bool,
    *,
    several: bool,
    unanswerable: bool,
) -> Scores:
    """Score as SQuAD v1.1 does, v2.0 if questions may be unanswerable, or as Quoref."""
    golds = {example.id: gold_texts(example) for example in examples}
    by_id = {e.id: answer for e, answer in zip(examples, answers, strict=True)}
    joined = {id_: "".join(answer.texts) for id_, answer in by_id.items()}
    if not unanswerable:
        if several:
            means = quoref.score(golds, {id_: a.texts for id_, a in by_id.items()})
        else:
            means = squad.score_v1(golds, joined, characters)
        return Scores({"f1": means.f1, "exact": means.exact})
    scores = squad.score_v2(golds, joined, by_characters=characters)
    swept = squad.score_v2(
        golds,
        {id_: answer.best for id_, answer in by_id.items()},
        {id_: answer.no_answer for id_, answer in by_id.items()},
        by_characters=characters,
    )
    if (best := swept.best_f1) is None:
        raise ValueError("there are no no-answer scores")
    parts = {"answerable": scores.answerable, "unanswerable": scores.unanswerable}
    return Scores(
        {
            "f1": scores.all.f1,
            "exact": scores.all.exact,
            "answerable_f1": scores.answerable.f1,
            "unanswerable": scores.unanswerable.exact,
            "f1_at_own_best_threshold": best.attained,
        },
        {
            name: {"f1": part.f1, "exact": part.exact, "support": part.questions}
            for name, part in parts.items()
        },
    )


def f1_of(
    example: ReadingExample,
    answer: Answer,
    characters: bool,
    *,
    several: bool,
    unanswerable: bool,
) -> float:
    """Return the F1 of one question, as `score_answers` means it over all."""
    if not unanswerable:
        pair = [example], [answer]
        of_one = score_answers(*pair, characters, several=several, unanswerable=False)
        return of_one.values["f1"]
    golds, text = {"": gold_texts(example)}, {"": "".join(answer.texts)}
    return squad.score_v2(golds, text, by_characters=characters).all.f1


def best_refusal(
    f1: np.ndarray, impossible: np.ndarray, refusal: np.ndarray
) -> TunedThreshold:
    """Return the best threshold on no-answer scores, from each question `[N]`.

    `f1` is the score of its answer, `impossible` 1 where refusing it is right.
    """
    order = np.argsort(refusal, kind="stable")
    ordered = refusal[order]
    gains = (f1 - impossible)[order]  # by answering, one question after the other
    means = (impossible.sum() + np.cumsum([0.0, *gains])) / len(f1)
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
        score=max(float(means[best]), default),
        default_threshold=0.0,
        default_score=default,
        examples=len(f1),
        positives=int(len(f1) - impossible.sum()),
    )


def best_of_several(
    examples: Questions,
    candidates: Sequence[RankedAnswers],
    f1: Callable[[float], float],
) -> TunedThreshold:
    """Return the threshold for answers of several spans with the best `f1` of it."""
    # The first few alone: behind them are spans that no sensible threshold takes.
    odds = [-log_odds(c.score) for ranked in candidates for c in ranked.spans[:3]]
    limits = np.quantile(odds, np.linspace(0, 1, 32)) if odds else np.zeros(0)
    scored = {limit: f1(limit) for limit in (0.0, *map(float, limits))}
    best = max(scored, key=lambda limit: (scored[limit], limit == 0.0))
    return TunedThreshold(
        threshold=best,
        score=scored[best],
        default_threshold=0.0,
        default_score=scored[0.0],
        examples=len(examples),
        positives=sum(len(gold_texts(example)) for example in examples),
    )
