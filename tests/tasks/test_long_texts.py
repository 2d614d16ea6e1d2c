"""Texts longer than the input: windows that overlap, each word decided in one."""

import dataclasses

import jax
import numpy as np
import pytest

from dicejax.data.examples import LabelledText, Sentence, Span, TaggedWords
from dicejax.data.tokenize import learn_wordpiece
from dicejax.errors import InputError
from dicejax.mesh import MeshShape
from dicejax.models.network import Network
from dicejax.tasks import (
    Classification,
    MachineReading,
    Tagging,
    TwoPointerNER,
    WordTagging,
    two_pointers,
)
from dicejax.tasks.task import IGNORED
from dicejax.training.predict import search

from .perfect import decode_perfectly

WORDS = ["Anna", "Berg", "met", "Bo", "in", "Oslo", "unforeseeable", "York", ",", "."]
LENGTH = 32


@pytest.fixture(scope="module")
def tokenizer():
    # Too small a vocabulary for the long word: it has several pieces.
    return learn_wordpiece([w for w in WORDS if len(w) < 9] * 3 + [*"unforesabl"], 60)


def document(words: int, seed: int = 0) -> Sentence:
    rng = np.random.default_rng(seed)
    found = tuple(rng.choice(WORDS, words).tolist())
    spans = tuple(Span("PER", n, n + 2) for n in range(0, words - 2, 7))
    return Sentence(found, spans, 1)


def searched(task, network, params, tokenizer, examples, labels, max_length):
    """Return the decoded examples of a network."""
    items = task.encode(examples, tokenizer, labels, max_length)
    options = {"labels": labels, "tokenizer": tokenizer, "max_length": max_length}
    options |= {"task": task, "network": network}
    mesh = MeshShape().make(jax.local_devices()[:1])
    return search(params, examples, items, mesh=mesh, **options).candidates[0]


def random_network(small_bert, task, labels):
    network = Network(encoder=small_bert, heads=task.heads(labels))
    params = jax.tree.map(
        lambda one: 8 * one, network.init(jax.random.key(1))
    )  # so that neighbours change the classes
    return network, params


@pytest.mark.parametrize("stride", [0, 5, 12, 500])
def test_each_word_is_decided_once_and_trained_there(tokenizer, stride):
    task, text = Tagging(stride=stride), document(300)
    labels = task.label_names([text])
    items = task.encode([text], tokenizer, labels, LENGTH)
    assert len(items) > 300 // LENGTH and {item.example for item in items} == {0}
    decided = np.sum([item.detail >= 0 for item in items], axis=0)
    assert decided.tolist() == [1] * 300
    trained = sum((item.arrays["tags"] != IGNORED).sum() for item in items)
    assert trained == 300 and max(map(len, items)) == LENGTH
    # Outputs that are the gold tags decode to the gold spans, across windows.
    (found,) = decode_perfectly(task, [text], items, labels)
    assert found.values == list(text.spans)
    # What is decided lies in the middle, but for the ends of the document.
    for item in items[1:-1]:
        places = item.detail[item.detail >= 0]
        margin = min(stride, (LENGTH - 2) // 2) // 2
        assert places.min() >= 1 + margin - 1
        assert places.max() <= LENGTH - 2 - margin + 1


def test_of_5000_words_each_is_predicted_as_in_its_window_alone(small_bert):
    """Each word is a piece here: windows have 30 and begin 18 words apart."""
    tokenizer = learn_wordpiece(WORDS * 3, 100)
    task, labels = WordTagging(stride=12), ("N", "V", "X")
    words = document(5000).words
    network, params = random_network(small_bert, task, labels)

    def predicted(*texts):
        examples = [TaggedWords(text, ("N",) * len(text), 1) for text in texts]
        found = searched(task, network, params, tokenizer, examples, labels, LENGTH)
        return [words.values for words in found]

    (found,) = predicted(words)
    assert len(found) == 5000 and set(found) == set(labels)
    starts = range(0, 5000 - 30, 18)
    for start, alone in zip(
        starts, predicted(*(words[s : s + 30] for s in starts)), strict=True
    ):
        middle = slice(start + 6, start + 24)
        assert found[middle] == alone[6:24], start
    # The neighbours matter: at the border of a window other tags come out.
    shorter = predicted(*(words[s + 6 : s + 24] for s in starts))
    assert any(
        found[s + 6 : s + 24] != one for s, one in zip(starts, shorter, strict=True)
    )


QUERIES = (("PER", "met ,"), ("LOC", "in"))
SPAN_TASKS = {
    "two_pointers": (TwoPointerNER(stride=12), LENGTH, ("O", "LOC", "PER")),
    "nearest_end": (MachineReading(queries=QUERIES, match=False, stride=12), 35, ()),
}


@pytest.mark.parametrize("name", SPAN_TASKS)
def test_of_5000_words_each_span_is_that_of_its_window_alone(
    small_bert, name, monkeypatch
):
    """Each word is a piece: windows have 30 (31 beside the shorter query)."""
    task, length, labels = SPAN_TASKS[name]
    tokenizer = learn_wordpiece(WORDS * 3, 100)
    monkeypatch.setattr(two_pointers, "without_overlaps", list)
    words = document(5000).words
    network, params = random_network(small_bert, task, labels)

    def predicted(*texts):
        examples = [Sentence(text, (), 1) for text in texts]
        found = searched(task, network, params, tokenizer, examples, labels, length)
        if name == "two_pointers":
            return [{tuple(span): 0.0 for span in spans.values} for spans in found]
        return [{tuple(span): score for span, score in spans} for spans in found]

    (found,) = predicted(words)
    for kind in ("LOC", "PER"):
        room = 31 if name == "nearest_end" and kind == "LOC" else 30
        starts = range(0, 5000 - 12, room - 12)

        def owner(span, room=room, starts=starts):
            """Return the start of the window with the largest margins."""
            _, first, last = span
            ends = {start: min(start + room, 5000) for start in starts}
            margins = {
                start: min(first - start, end - last) + 0.01 * (end - start)
                for start, end in ends.items()
                if start <= first and last <= end
            }
            return max(margins, key=margins.get)

        shown = starts[::5]
        alone = predicted(*(words[start : start + room] for start in shown))
        wanted = {
            (kind, start + first, start + last): score
            for start, spans in zip(shown, alone, strict=True)
            for (other, first, last), score in spans.items()
            if other == kind and owner((kind, start + first, start + last)) == start
        }
        here = [one for one in found if one[0] == kind and owner(one) in shown]
        assert set(here) == set(wanted) and len(wanted) > 50
        for span in here:
            assert found[span] == pytest.approx(wanted[span], abs=1e-3)


@pytest.mark.parametrize("stride", [0, 5, 12, 500])
@pytest.mark.parametrize("name", ["two_pointers", "nearest_end"])
def test_ends_are_trained_once_and_across_a_border_with_their_span(
    tokenizer, name, stride
):
    task, text = dataclasses.replace(SPAN_TASKS[name][0], stride=stride), document(300)
    labels = task.label_names([text])
    items = task.encode([text], tokenizer, labels, LENGTH)
    if name == "nearest_end":
        items = [item for item in items if item.detail.query == 0]
    seen = [getattr(item.detail, "window", item.detail) for item in items]
    every = np.arange(300)
    decided = [one.decides(every, every) for one in seen]
    assert np.sum(decided, axis=0).tolist() == [1] * 300
    spans = {(span.start, span.end - 1) for span in text.spans}
    for item, one, own in zip(items, seen, decided, strict=True):
        places = one.words
        trained = {w for w in every if places[w] >= 0 <= item.arrays["end"][places[w]]}
        whole = [ends for ends in spans if min(places[list(ends)]) >= 0]
        more = {word for ends in whole if own[list(ends)].any() for word in ends}
        cut = {end for _, end in spans.difference(whole)}
        assert trained == ({*np.flatnonzero(own)} | more) - cut
    outputs = [
        {"start": 9.0 * item.arrays["start"], "end": 9.0 * item.arrays["end"]}
        | {f"{end}_score": np.zeros(len(item)) for end in ("start", "end")}
        for item in items
    ]
    if name == "two_pointers":
        outputs = [
            {k: np.maximum(v, 0).astype(int) // 9 for k, v in one.items()}
            for one in outputs
        ]
    else:
        outputs = [{k: v - 4.5 for k, v in one.items()} for one in outputs]
    found = task.decide(task.decode(text, items, outputs, labels)).values
    missed = sum(
        not any(min(one.words[list(ends)]) >= 0 for one in seen) for ends in spans
    )
    assert len(found) == len(spans) - missed and {*found} <= {*text.spans}
    assert stride in (0, 5) or not missed  # a long word has 13 pieces
    said = task.warnings("dev", [text], items, labels)[0]
    assert str(said).startswith(f"{missed} of {len(spans)} dev entities") == bool(
        missed
    )


def test_the_class_of_a_long_text_is_the_mean_over_its_windows(small_bert):
    tokenizer = learn_wordpiece(WORDS * 3, 100)
    task, labels = Classification(stride=12), ("bad", "good")
    words = document(84).words  # windows at 0, 18, 36, 54
    network, params = random_network(small_bert, task, labels)

    def probabilities(*texts):
        examples = [
            LabelledText(" ".join(text), None, "good", str(n), n)
            for n, text in enumerate(texts)
        ]
        found = searched(task, network, params, tokenizer, examples, labels, LENGTH)
        return np.array([[one[label] for label in labels] for one in found])

    (whole,) = probabilities(words)
    apart = probabilities(*(words[s : s + 30] for s in (0, 18, 36, 54)))
    np.testing.assert_allclose(whole, apart.mean(axis=0), atol=1e-6)
    assert np.ptp(apart[:, 0]) > 0.01
    example = LabelledText(" ".join(words), None, "good", "0", 1)
    items = task.encode([example], tokenizer, labels, LENGTH)
    assert [item.arrays["label"] for item in items] == [1] * 4
    (said,) = task.warnings("dev", [example], items, labels)
    assert said == (
        "1 of 1 dev texts (100%) are longer than 32 tokens and read in windows; "
        "--training.max_length sets their length"
    )


def test_a_window_without_room_and_a_negative_stride_are_refused(tokenizer):
    with pytest.raises(InputError, match="2 leaves no room: 2 pieces are special"):
        Tagging().encode([document(9)], tokenizer, ("O",), 2)
    with pytest.raises(ValueError, match="stride is -1"):
        Classification(stride=-1)
