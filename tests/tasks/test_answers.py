"""Windows on a context, the best spans in them, and the choice among answers."""

import itertools
import math

import numpy as np
import pytest

from dicejax.data import tokenize
from dicejax.data.examples import AnswerSpan, ReadingExample
from dicejax.errors import InputError
from dicejax.tasks.answers import (
    Candidate,
    RankedAnswers,
    best_spans,
    cut_context,
    disjoint_answers,
    log_odds,
)
from dicejax.tasks.question_answering import QuestionAnswering
from dicejax.tasks.task import IGNORED

from ..data import made
from .perfect import answered, remarks_of
from .test_question_answering import CONTEXT, FORMS, encoded_pair, question


@pytest.fixture(scope="module", params=made.KINDS)
def tokenizer(request, tmp_path_factory):
    return made.read(request.param, tmp_path_factory.mktemp("pieces"), words=False)


@pytest.mark.parametrize("room", [1, 2, 5, 9, 100])
@pytest.mark.parametrize("overlap", [0, 1, 4, 50])
def test_windows_cover_the_context_and_overlap(tokenizer, room, overlap):
    example = question(CONTEXT, ["New York"])
    pair = encoded_pair(tokenizer, example)
    rest = int((pair.texts != 1).sum())
    context = pair.ids[pair.texts == 1].tolist()
    windows = cut_context(
        example, pair, max_length=rest + room, overlap=overlap, max_question=64
    )
    step = room - min(overlap, room // 2)
    joined = []
    for place, window in enumerate(windows):
        part = window.encoded
        assert len(part) <= rest + room and window.encoded.summary in (0, len(part) - 1)
        assert part.special[window.encoded.summary]
        np.testing.assert_array_equal(
            part.ids[part.texts != 1], pair.ids[pair.texts != 1]
        )
        inner = part.ids[part.texts == 1].tolist()
        assert inner == context[place * step : place * step + room]
        joined += inner[:step] if place < len(windows) - 1 else inner
    assert joined == context
    # Every piece with a character may start an answer in one window exactly.
    starts = sum(int(window.starts.sum()) for window in windows)
    solid = pair.offsets[:, 0] < pair.offsets[:, 1]
    assert starts == (solid & (pair.texts == 1)).sum()


def test_equal_scores_are_taken_in_order():
    tokenizer = tokenize.learn_wordpiece(["a"], 40)
    example = question("a a a a", ["a"], asked="a")
    (item,) = QuestionAnswering().encode([example], tokenizer, (), 64)
    level = np.zeros(len(item), np.float32)
    _, first, last = best_spans(item.detail, level, level, longest=2, count=99)
    assert list(zip(first.tolist(), last.tolist(), strict=True)) == [
        (3, 3), (3, 4), (4, 4), (4, 5), (5, 5), (5, 6), (6, 6),
    ]  # fmt: skip


def test_no_room_is_one_clear_line(tokenizer):
    example = question(CONTEXT, ["New York"], id_="q7")
    pair = encoded_pair(tokenizer, example)
    rest = int((pair.texts != 1).sum())
    task = QuestionAnswering()
    assert len(task.encode([example], tokenizer, (), rest + 1)) > 10
    with pytest.raises(InputError, match=r"'q7': max_length .* no room") as error:
        task.encode([example], tokenizer, (), rest)
    assert "\n" not in str(error.value) and str(rest) in str(error.value)


def test_a_long_question_loses_its_end(tokenizer):
    example = question("a world", ["world"], asked="the cat " * 60)
    (item,) = QuestionAnswering(max_question=10).encode([example], tokenizer, (), 400)
    part, pair = item.detail.encoded, encoded_pair(tokenizer, example)
    np.testing.assert_array_equal(
        part.ids[part.texts == 0], pair.ids[pair.texts == 0][:10]
    )
    np.testing.assert_array_equal(part.ids[part.texts == 1], pair.ids[pair.texts == 1])


def test_an_answer_at_the_border_belongs_to_the_windows_that_hold_it_wholly():
    tokenizer = tokenize.learn_wordpiece(list("abcdefgh"), 60)
    example = question("a b c d e f g h", ["d e"], asked="a")
    kinds = [QuestionAnswering(stride=2, **form) for form in FORMS]
    positions, sigmoid, xlnet = (
        task.encode([example], tokenizer, (), 8) for task in kinds
    )
    # Windows a-d, c-f and e-h: [CLS] a [SEP] in front, so places count from 3.
    labels = [(i.arrays["start"], i.arrays["end"]) for i in positions]
    assert labels == [(0, 0), (4, 5), (0, 0)]
    labels = [tuple(i.arrays[n] for n in ("start", "end", "impossible")) for i in xlnet]
    assert labels == [(IGNORED, IGNORED, 1), (4, 5, 0), (IGNORED, IGNORED, 1)]
    labels = [i.arrays["start"].tolist() for i in sigmoid]
    assert labels[0] == [-100, -100, -100, 0, 0, 0, 0, -100]
    assert labels[1] == [-100, -100, -100, 0, 1, 0, 0, -100]
    assert sigmoid[1].arrays["end"].tolist() == [-100] * 3 + [0, 0, 1, 0, -100]
    counts = kinds[1].class_counts(sigmoid, ())
    assert counts["start"].tolist() == [[11, 1]]
    assert kinds[2].class_counts(xlnet, ())["impossible"].tolist() == [[1, 2]]


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
    tuned = task.tune(examples, ranked, ())
    assert (tuned.score, tuned.default_score) == (1.0, 0.5)
    assert [task.decide(f, tuned.threshold).texts for f in ranked] == [("big cat",), ()]


def test_nothing_to_tune():
    with pytest.raises(ValueError, match="no questions"):
        QuestionAnswering(unanswerable=True).tune([], [], ())
    with pytest.raises(ValueError, match="decides nothing"):
        QuestionAnswering().tune([], [], ())


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
    assert task.threshold_rule.tunes
    tuned = task.tune(examples, unsure, ())
    assert (tuned.default_score, tuned.score) == (
        0.75,
        1.0,
    )  # one span each, and both of two
    assert -log_odds(-1.0) <= tuned.threshold <= -log_odds(-3.0)
    assert (tuned.examples, tuned.positives) == (2, 3)
    chosen = [task.decide(ranked, tuned.threshold).texts for ranked in unsure]
    assert chosen == [("a", "b"), ("a",)]
    assert task.tune(examples[1:], unsure[1:], ()).threshold == 0  # as good as any


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
    remarks = remarks_of(task, "test", asked("红楼梦"), [])
    assert any("F1 counts characters" in str(remark) for remark in remarks)
    english = task.score(asked("红楼梦", "York"), predictions)
    assert english.values["f1"] == pytest.approx((0 + 2 / 3) / 2)
    # Also a Chinese answer among English ones: the mean of all is the score.
    shares = task.example_statistics(asked("红楼梦", "York"), predictions, ())[:, 0]
    assert (shares[:, 0] / shares[:, 1]).mean() == pytest.approx(english.values["f1"])
    remarks = remarks_of(task, "test", asked("York"), [])
    assert not any("F1 counts" in str(remark) for remark in remarks)


def test_an_answer_without_a_place_is_scored():
    example = ReadingExample("1", "?", "Bede slept", (), False, ("Adam Bede",))
    score = QuestionAnswering().score([example], [answered("Bede")])
    assert score.values["f1"] == pytest.approx(2 / 3)
