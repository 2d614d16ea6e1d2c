"""What all tasks with spans share: gold comes back, and what is lost is counted."""

import dataclasses

import pytest

from dicejax.data.examples import Sentence, Span
from dicejax.tasks import Prediction, Tagging, TwoPointerNER
from dicejax.tasks.task import IGNORED

from .asked import SENTENCE, TASK, WORDS, small_tokenizer
from .perfect import round_trip

QUERIES = TASK.queries
TASKS = [Tagging(), TwoPointerNER(), TASK, dataclasses.replace(TASK, match=False)]
ADJACENT = Sentence(WORDS, tuple(Span("ORG", n, n + 1) for n in range(6)), 1)
# A span of two words, one of one next to it, and a word that is named thrice.
MIXED = Sentence(
    WORDS,
    (
        Span("LOC-city", 0, 2),
        Span("ORG", 2, 3),
        Span("LOC-city", 3, 4),
        Span("LOC-city", 5, 6),
    ),
    1,
)


@pytest.fixture(scope="module")
def tokenizer():
    return small_tokenizer()


@pytest.mark.parametrize("task", TASKS)
def test_adjacent_last_and_repeated_spans_survive(tokenizer, task):
    trip = round_trip(task, [SENTENCE, ADJACENT, MIXED], tokenizer, 64)
    assert trip.scores["f1"] == 1.0 and trip.remarks == []


@pytest.mark.parametrize(
    "task", [TwoPointerNER(), dataclasses.replace(TASK, queries=QUERIES[1:])]
)
def test_what_no_window_holds_counts_as_missed_and_is_no_label(tokenizer, task):
    sentence = Sentence(WORDS, (Span("ORG", 0, 1), Span("ORG", 1, 6)), 1)

    def encoded(length):
        labels = task.label_names([sentence])
        items = task.encode([sentence], tokenizer, labels, length)
        return items, [getattr(i.detail, "window", i.detail).words for i in items]

    room = int(encoded(64)[1][0][3]) + 1
    (first, *_, last), words = encoded(room)
    assert len(first) == room and words[0].tolist()[3:] == [-1] * 3
    assert first.arrays["start"][words[0][:2]].tolist() == [1, IGNORED]
    assert first.arrays["end"][words[0][:2]].tolist() == [1, 0]
    assert last.arrays["end"][words[-1][5]] == IGNORED
    trip = round_trip(task, [sentence], tokenizer, room)
    assert (trip.scores["precision"], trip.scores["recall"]) == (1.0, 0.5)
    assert trip.remarks[0].startswith("1 of 2 dev entities (50%) lie in no window of ")
    assert trip.remarks[0].endswith(
        "raise --task.stride, to half of --training.max_length at most, or both"
    )


@pytest.mark.parametrize(
    "task",
    [Tagging(), TwoPointerNER(), dataclasses.replace(TASK, queries=QUERIES[:1])],
)
def test_a_type_that_train_lacks_is_counted_masked_and_missed(tokenizer, task):
    places = SENTENCE.spans[2:]
    labels = task.label_names([dataclasses.replace(SENTENCE, spans=places)])
    (item,) = task.encode([SENTENCE], tokenizer, labels, 64)
    (remark,) = task.warnings("dev", [SENTENCE], [item], labels)
    assert remark.startswith("dev has 2 'ORG' spans, a type that train lacks")
    scores = task.score([SENTENCE], [Prediction(places)], labels).values
    assert (scores["precision"], scores["recall"]) == (1.0, 1 / 3)
    match task:
        case Tagging():
            assert (item.arrays["tags"][item.detail[[0, 2, 3]]] == IGNORED).all()
        case TwoPointerNER():
            starts = item.arrays["start"][item.detail.words].tolist()
            assert starts == [IGNORED, 0, IGNORED, 0, 0, 1]
