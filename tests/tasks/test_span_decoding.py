"""Span decoding: overlaps and thresholds."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dicejax.data.examples import Sentence, Span
from dicejax.tasks import span_decoding
from dicejax.tasks.machine_reading import MachineReading, QueryWindow
from dicejax.tasks.task import Item
from dicejax.tasks.windows import Window

TASK = MachineReading(queries=(("LOC-city", "where it is"), ("ORG", "who plays")))


def scored(task, words, start, end, match, query=1):
    """Return the scored spans of a sentence with one piece per word."""
    seen = Window(np.arange(words))
    item = Item({"input_ids": np.zeros(words)}, 0, QueryWindow(query, seen))
    output = {"start": np.full(words, -9.0), "end": np.full(words, -9.0)}
    for name, values in (("start", start), ("end", end)):
        for place, value in values.items():
            output[name][place] = value
    output["match"] = np.full((words, words), -9.0)
    for pair, value in match.items():
        output["match"][pair] = value
    return task.decode(Sentence(("x",) * words, (), 1), [item], [output], ())


def test_flat_overlaps_go_to_the_better_match():
    match = {(0, 2): 2.0, (0, 3): 1.0, (3, 3): 0.5, (1, 3): 9.0}
    found = scored(TASK, 5, {0: 1.0, 3: 1.0}, {2: 1.0, 3: 1.0}, match)
    # Word 1 is no start, however well it matches; 3 to 2 runs backwards.
    assert [tuple(span[1:]) for span, _ in found] == [(0, 3), (0, 4), (3, 4)]
    expected = 1 / (1 + np.exp(-np.array([2.0, 1.0, 0.5])))
    np.testing.assert_allclose([score for _, score in found], expected, rtol=1e-12)
    org = [Span("ORG", 0, 3), Span("ORG", 0, 4), Span("ORG", 3, 4)]
    assert TASK.decide(found).values == [org[0], org[2]]
    assert TASK.decide(found, 0.7).values == [org[0]]
    nested = dataclasses.replace(TASK, nested=True)
    assert nested.decide(found).values == org
    assert nested.decide(found, 0.7).values == org[:2]
    other = scored(TASK, 5, {2: 1.0}, {2: 1.0}, {(2, 2): 3.0}, query=0)
    assert TASK.decide(found + other).values == [Span("LOC-city", 2, 3), org[2]]


def test_confident_scores_keep_their_order():
    """In float16 or float32 both probabilities would be 1."""
    match = {(0, 1): 20.0, (1, 2): 21.0}
    found = scored(TASK, 3, {0: 9, 1: 9}, {1: 9, 2: 9}, match)
    assert TASK.decide(found).values == [Span("ORG", 1, 3)]


def test_without_match_a_start_takes_the_nearest_end():
    task = dataclasses.replace(TASK, match=False)
    item = Item({"input_ids": np.zeros(6)}, 0, QueryWindow(1, Window(np.arange(6))))
    start, end = np.array([2.0, 3, -1, 4, -1, 1]), np.array([-1.0, -1, 1, -1, 5, -1])
    output = {"start": start, "end": end}
    found = task.decode(Sentence(("x",) * 6, (), 1), [item], [output], ())
    assert [tuple(span[1:]) for span, _ in found] == [(0, 3), (1, 3), (3, 5)]
    p, q = 1 / (1 + np.exp(-start)), 1 / (1 + np.exp(-end))
    expected = np.sqrt([p[0] * q[2], p[1] * q[2], p[3] * q[4]])
    np.testing.assert_allclose([score for _, score in found], expected, rtol=1e-12)
    assert task.decide(found).values == [Span("ORG", 1, 3), Span("ORG", 3, 5)]


def test_an_untrained_network_s_candidates_are_bounded():
    everywhere = dict.fromkeys(range(100), 1.0)
    pairs = {(i, j): (i * 7 + j) % 11 / 10 for i in range(100) for j in range(100)}
    found = scored(TASK, 100, everywhere, everywhere, pairs)
    assert len(found) == 1000
    assert min(score for _, score in found) > 1 / (1 + np.exp(-0.75))


spans = st.builds(
    lambda kind, start, size: Span(kind, start, start + size),
    st.sampled_from(["ORG", "LOC-city"]),
    st.integers(0, 6),
    st.integers(1, 4),
)
candidates = st.dictionaries(spans, st.integers(1, 20).map(lambda n: n / 20))


@given(found=st.lists(candidates, min_size=1, max_size=4), gold=st.data())
@settings(max_examples=150, deadline=None)
@pytest.mark.parametrize("nested", [True, False])
def test_the_tuned_threshold_is_the_best_there_is(nested, found, gold):
    task = dataclasses.replace(TASK, nested=nested)
    found = [list(one.items()) for one in found]
    sentences = []
    for one in found:
        chosen = st.sampled_from([span for span, _ in one] or [Span("ORG", 0, 1)])
        known = gold.draw(st.sets(chosen, max_size=5))
        sentences.append(Sentence(("x",) * 10, tuple(known), 1))

    def f1(limit):
        predictions = [task.decide(one, limit) for one in found]
        return task.score(sentences, predictions).values["f1"]

    tuned = task.tune(sentences, found, ())
    assert tuned.f1 == pytest.approx(f1(tuned.threshold), abs=1e-12)
    assert tuned.default_f1 == pytest.approx(f1(0.5), abs=1e-12)
    assert tuned.f1 == pytest.approx(max(f1(n / 20) for n in range(1, 22)), abs=1e-12)
    assert tuned.positives == sum(len(sentence.spans) for sentence in sentences)


def test_without_candidates_the_threshold_stays():
    sentences = [Sentence(("x",), (Span("ORG", 0, 1),), 1)]
    tuned = TASK.tune(sentences, [[]], ())
    assert (tuned.threshold, tuned.f1, tuned.positives) == (0.5, 0.0, 1)
    assert TASK.decide([]).values == []


@given(st.dictionaries(spans, st.integers(1, 5), max_size=12))
@settings(max_examples=300, deadline=None)
def test_what_is_kept_shares_no_word_and_what_is_dropped_lost_to_it(found):
    kept = span_decoding.without_overlaps(list(found.items()))
    words = [n for span, _ in kept for n in range(span.start, span.end)]
    assert len(words) == len(set(words)) and words == sorted(words)
    for span, score in found.items():
        if (span, score) not in kept:
            assert any(
                other.start < span.end and span.start < other.end and best >= score
                for other, best in kept
            )
