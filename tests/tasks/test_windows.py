"""Windows cover a text, and their best spans are found."""

import numpy as np
import pytest

from dicejax.data import tokenize
from dicejax.errors import InputError
from dicejax.tasks.answers import best_spans, cut_context
from dicejax.tasks.question_answering import QuestionAnswering
from dicejax.tasks.task import IGNORED

from ..data import made
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
