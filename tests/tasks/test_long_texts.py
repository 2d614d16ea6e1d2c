"""Texts longer than the input: windows that overlap, each word decided in one."""

import dataclasses

import numpy as np
import pytest

from dicejax.data.examples import LabelledText, Sentence, Span
from dicejax.data.tokenize import learn_wordpiece
from dicejax.tasks import (
    Classification,
    MachineReading,
    TwoPointerNER,
    two_pointers,
)
from dicejax.tasks.classification import HEAD
from dicejax.tasks.windows import Window

from .perfect import decode_perfectly, remarks_of

WORDS = ["Anna", "Berg", "met", "Bo", "in", "Oslo", "unforeseeable", "York", ",", "."]
LENGTH = 32
QUERIES = (("PER", "met ,"), ("LOC", "in"))
SPAN_TASKS = [
    TwoPointerNER(stride=12),
    MachineReading(queries=QUERIES, match=False, nested=True, stride=12),
]


@pytest.fixture(scope="module")
def tokenizer():
    # Too small a vocabulary for the long word: it has several pieces.
    return learn_wordpiece([w for w in WORDS if len(w) < 9] * 3 + [*"unforesabl"], 60)


@pytest.fixture(scope="module")
def whole_words():
    """Return a tokenizer for which each word is a piece."""
    return learn_wordpiece(WORDS * 3, 100)


def document(length: int) -> Sentence:
    words = tuple(np.random.default_rng(0).choice(WORDS, length).tolist())
    spans = tuple(Span("PER", n, n + 2) for n in range(0, length - 2, 7))
    return Sentence(words, spans, 1)


@pytest.mark.parametrize("task", SPAN_TASKS, ids=["two_pointers", "nearest_end"])
def test_each_span_is_that_of_the_window_with_most_around_it(
    whole_words, task, monkeypatch
):
    """Of random outputs, vs. each window decoded alone."""
    monkeypatch.setattr(two_pointers, "without_overlaps", list)
    text, labels, rng = document(2000), ("O", "LOC", "PER"), np.random.default_rng(0)
    items = task.encode([text], whole_words, labels, LENGTH)

    def random_output(size):
        ends = {name: rng.normal(-1, 2, size) for name in ("start", "end")}
        if isinstance(task, MachineReading):
            return ends
        scores = {f"{name}_score": -abs(x) for name, x in ends.items()}
        return scores | {name: rng.integers(0, 3, size) for name in ends}

    def spans(items, outputs):
        prediction = task.decide(task.decode(text, items, outputs, labels))
        return dict(zip(prediction.values, prediction.probabilities, strict=True))

    def margin(item, span):
        (places,) = np.nonzero(item.detail.words >= 0)
        before, behind = span.start - places[0], places[-1] + 1 - span.end
        if min(before, behind) < 0:
            return -1
        return min(before, behind) + 0.01 * len(places)

    outputs, expected = [random_output(len(item)) for item in items], {}
    for item, output in zip(items, outputs, strict=True):
        kind = item.detail.kind
        rivals = [x for x in items if x.detail.kind == kind]
        alone = dataclasses.replace(item, detail=Window(item.detail.words, kind=kind))
        for span, score in spans([alone], [output]).items():
            if max(rivals, key=lambda rival: margin(rival, span)) is item:
                expected[span] = score
    assert spans(items, outputs) == pytest.approx(expected) and len(expected) > 300


@pytest.mark.parametrize("stride", [0, 5, 12, 500])
@pytest.mark.parametrize("task", SPAN_TASKS, ids=["two_pointers", "nearest_end"])
def test_ends_are_trained_once_and_across_a_border_with_their_span(
    tokenizer, task, stride
):
    task, text = dataclasses.replace(task, stride=stride), document(300)
    labels = task.label_names([text])
    items = task.encode([text], tokenizer, labels, LENGTH)
    (candidates,) = decode_perfectly(task, [text], items, labels)
    remark = str(remarks_of(task, "dev", [text], items, labels)[0])
    items = [item for item in items if item.detail.kind in (None, "PER")]
    windows, every = [item.detail for item in items], np.arange(300)
    decided = [window.decides(every, every) for window in windows]
    assert np.sum(decided, axis=0).tolist() == [1] * 300
    spans = {(span.start, span.end - 1) for span in text.spans}
    missed = spans.copy()
    for item, window, local in zip(items, windows, decided, strict=True):
        places = window.words
        trained = {w for w in every if places[w] >= 0 <= item.arrays["end"][places[w]]}
        whole = {ends for ends in spans if min(places[list(ends)]) >= 0}
        more = {word for ends in whole if local[list(ends)].any() for word in ends}
        cut = {end for _, end in spans - whole}
        assert trained == ({*np.flatnonzero(local)} | more) - cut
        missed -= whole
    values = task.decide(candidates).values
    assert len(values) == len(spans) - len(missed) and {*values} <= {*text.spans}
    assert stride in (0, 5) or not missed  # a long word has 13 pieces
    warning = f"{len(missed)} of {len(spans)} dev entities"
    assert remark.startswith(warning) == bool(missed)


def test_the_class_of_a_long_text_is_the_mean_over_its_windows(whole_words):
    task, labels = Classification(stride=12), ("bad", "good")
    words = document(84).words
    starts = (0, 18, 36, 54)
    examples = [
        LabelledText(" ".join(text), None, "good", "0", 1)
        for text in (words, *(words[start : start + 30] for start in starts))
    ]
    items = task.encode(examples, whole_words, labels, LENGTH)
    assert [item.example for item in items] == [0] * 4 + [1, 2, 3, 4]
    for window, alone in zip(items[:4], items[4:], strict=True):
        assert window.arrays["label"] == 1
        for name in ("input_ids", "token_type_ids", "summary_positions"):
            np.testing.assert_array_equal(window.arrays[name], alone.arrays[name])
    outputs = [{HEAD: np.array([p, 1 - p])} for p in (0.1, 0.2, 0.4, 0.9)]
    chances = task.decode(examples[0], items[:4], outputs, labels)
    assert chances == pytest.approx({"bad": 0.4, "good": 0.6})
    (remark,) = remarks_of(task, "dev", examples[:1], items[:4], labels)
    assert remark == (
        "1 of 1 dev texts (100%) are longer than 32 tokens and read in windows; "
        "--training.max_length sets their length"
    )


def test_a_negative_stride_is_refused():
    with pytest.raises(ValueError, match="stride is -1"):
        Classification(stride=-1)
