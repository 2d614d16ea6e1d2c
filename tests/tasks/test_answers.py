"""The choice among answers: overlaps and refusal."""

import itertools
import math

import numpy as np
import pytest

from dicejax.data.examples import AnswerSpan, ReadingExample
from dicejax.tasks.answers import (
    Candidate,
    RankedAnswers,
    disjoint_answers,
    log_odds,
)
from dicejax.tasks.question_answering import QuestionAnswering

from .perfect import answered


@pytest.mark.parametrize("seed", range(20))
def test_the_best_set_without_overlap_is_found(seed):
    rng = np.random.default_rng(seed)
    starts = rng.integers(0, 12, 8)
    spans = [
        Candidate("", int(s), int(s + n), 0.0)
        for s, n in zip(starts, rng.integers(1, 6, 8), strict=True)
    ]
    weights = rng.normal(1, 1.5, 8).tolist()
    best = 0.0
    for chosen in itertools.product([False, True], repeat=8):
        picked = [(c, w) for c, w, on in zip(spans, weights, chosen, strict=True) if on]
        disjoint = all(
            a.end <= b.start or b.end <= a.start
            for (a, _), (b, _) in itertools.combinations(picked, 2)
        )
        if disjoint:
            best = max(best, sum(w for _, w in picked))
    # Equal candidates are distinguished by identity.
    weight = {id(c): w for c, w in zip(spans, weights, strict=True)}
    chosen_spans = disjoint_answers(spans, weights)
    assert sum(weight[id(c)] for c in chosen_spans) == pytest.approx(best)
    assert all(a.end <= b.start for a, b in itertools.pairwise(chosen_spans))


def test_odds():
    assert log_odds(math.log(0.5)) == pytest.approx(0)
    assert log_odds(math.log(0.9)) == pytest.approx(math.log(9))
    assert log_odds(-2e4) == -2e4 and 69 < log_odds(0.0) < 70


def test_neighbouring_scores_are_parted():
    task = QuestionAnswering(unanswerable=True)
    low, high = 1.0, float(np.nextafter(1.0, 2))
    best = Candidate("big cat", 0, 7, -1.0)
    ranked = [RankedAnswers((best,), low), RankedAnswers((best,), high)]
    answer = ((AnswerSpan(0, "big cat"),),)
    examples = [
        ReadingExample("1", "?", "big cat", answer, False),
        ReadingExample("2", "?", "big cat", (), True),
    ]
    tuned = task.tune(examples, ranked)
    assert (tuned.f1, tuned.default_f1) == (1.0, 0.5)
    assert [task.decide(f, tuned.threshold).texts for f in ranked] == [("big cat",), ()]


def test_nothing_to_tune():
    with pytest.raises(ValueError, match="no questions"):
        QuestionAnswering(unanswerable=True).tune([], [])
    with pytest.raises(ValueError, match="decides nothing"):
        QuestionAnswering().tune([], [])


def test_the_threshold_of_several_spans_is_the_best_of_those_tried():
    """Each gold span has less than even odds."""
    a, b = AnswerSpan(0, "a"), AnswerSpan(2, "b")
    examples = [
        ReadingExample(str(len(spans)), "?", "a b c d", (spans,), False)
        for spans in ((a, b), (a,))
    ]
    unsure = [
        RankedAnswers((Candidate("a", 0, 1, -0.9), Candidate("b", 2, 3, score)), 0.0)
        for score in (-1.0, -3.0)
    ]
    task = QuestionAnswering(several_spans=True, form="sigmoid", tune_threshold=True)
    assert task.tunes_threshold
    tuned = task.tune(examples, unsure)
    assert (tuned.default_f1, tuned.f1) == (0.75, 1.0)  # one span each, and both of two
    assert -log_odds(-1.0) <= tuned.threshold <= -log_odds(-3.0)
    assert (tuned.examples, tuned.positives) == (2, 3)
    chosen = [task.decide(ranked, tuned.threshold).texts for ranked in unsure]
    assert chosen == [("a", "b"), ("a",)]
    assert task.tune(examples[1:], unsure[1:]).threshold == 0.0  # as good as any
    with pytest.raises(ValueError, match="no questions"):
        task.tune([], [])


@pytest.mark.parametrize("unanswerable", [False, True])
def test_reading_counts_characters_where_most_answers_have_no_spaces(unanswerable):
    def asked(*golds):
        return [
            ReadingExample(str(n), "?", gold, ((AnswerSpan(0, gold),),), False)
            for n, gold in enumerate(golds)
        ]

    task = QuestionAnswering(unanswerable=unanswerable)
    predictions = [answered(text, best=text) for text in ("红楼", "in York")]
    chinese = task.score(
        asked("红楼梦", "York", "北京"), [*predictions, predictions[0]]
    )
    assert chinese.values["f1"] == pytest.approx((0.8 + 2 / 3 + 0) / 3)
    remarks = task.warnings("test", asked("红楼梦"), [])
    assert any("F1 counts characters" in str(remark) for remark in remarks)
    english = task.score(asked("红楼梦", "York"), predictions)
    assert english.values["f1"] == pytest.approx((0 + 2 / 3) / 2)
    # Also a Chinese answer among English ones: the mean of all is the score.
    shares = task.example_statistics(asked("红楼梦", "York"), predictions, ())[:, 0]
    assert (shares[:, 0] / shares[:, 1]).mean() == pytest.approx(english.values["f1"])
    remarks = task.warnings("test", asked("York"), [])
    assert not any("F1 counts" in str(remark) for remark in remarks)


def test_an_answer_without_a_place_is_scored():
    example = ReadingExample("1", "?", "Bede slept", (), False, ("Adam Bede",))
    score = QuestionAnswering().score([example], [answered("Bede")])
    assert score.values["f1"] == pytest.approx(2 / 3)
