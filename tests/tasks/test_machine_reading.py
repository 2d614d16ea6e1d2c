"""Machine reading: items, labels of pairs vs. loops, overlaps of spans, thresholds."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st

from dicejax.data import tokenize
from dicejax.data.examples import Sentence, Span
from dicejax.data.pack import fill
from dicejax.errors import InputError
from dicejax.models.heads import output_names
from dicejax.tasks import span_decoding
from dicejax.tasks.judged import ThresholdRule
from dicejax.tasks.machine_reading import MachineReading
from dicejax.tasks.spans import spans_of
from dicejax.tasks.task import IGNORED, Item, Prediction
from dicejax.tasks.windows import Window

from ..models.small import encoder_of
from .perfect import SENTENCE, TASK, WORDS, perfect_output, round_trip

BERT = encoder_of("bert", 8, 8, heads=2, depth=1, vocab=40, initializer_range=2.0)
NESTED = Sentence(
    WORDS,
    (Span("ORG", 0, 4), Span("ORG", 0, 6), Span("ORG", 1, 3), Span("LOC-city", 2, 3)),
    1,
)


def encoded(task, sentences, tokenizer, max_length=64):
    """Encode sentences, one item for each query."""
    labels = task.label_names(sentences)
    return task.encode(sentences, tokenizer, labels, max_length)


def test_nested_spans_survive_if_wanted(tokenizer):
    nested = dataclasses.replace(TASK, nested=True)
    trip = round_trip(nested, [NESTED], tokenizer, 64)
    assert trip.scores["f1"] == 1.0 and trip.remarks == []

    scores, (remark,), *_ = round_trip(TASK, [NESTED], tokenizer, 64)
    assert (scores["precision"], scores["recall"]) == (1.0, 1 / 4)
    assert remark.startswith("dev: 3 of 4 spans overlap another")

    single = dataclasses.replace(nested, spans_per_start=1)
    scores, (remark,), *_ = round_trip(single, [NESTED], tokenizer, 64)
    assert scores["f1"] == 1.0  # decoding has no such limit
    assert remark.startswith("dev: 1 of 4 spans start where 1 others")

    nearest = dataclasses.replace(nested, match=False)
    scores, (remark,), *_ = round_trip(nearest, [NESTED], tokenizer, 64)
    assert remark.startswith("dev: 2 of 4 spans do not go from a start to the nearest")
    assert scores["recall"] == 2 / 4


def test_a_query_that_leaves_no_room_is_named(tokenizer):
    (pair,) = tokenize.encode(tokenizer, [["who", "plays"]], [["York"]])
    taken = int((pair.texts != 1).sum())
    task = dataclasses.replace(TASK, queries=TASK.queries[1:])
    message = f"query for 'ORG' takes {taken} pieces.*least {taken + 1}"
    with pytest.raises(InputError, match=message) as error:
        task.encode([SENTENCE], tokenizer, ("ORG",), taken)
    assert "\n" not in str(error.value)
    items = task.encode([SENTENCE], tokenizer, ("ORG",), taken + 1)
    assert len(items[0]) == taken + 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"queries": tuple((kind, "what") for kind in "CAABCC")}, "for 'A', 'C'"),
        ({"queries": ()}, "queries is empty"),
        ({"queries": (("A", " "),)}, "no text for 'A'"),
        ({"spans_per_start": 0}, "spans_per_start is 0"),
        ({"match_width": 0}, "width is 0"),
    ],
)
def test_queries_that_do_not_fit_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TASK, **settings)
    with pytest.raises(InputError, match=r"no query for the type 'ORG' .* 'LOC-city'"):
        MachineReading(queries=(("LOC-city", "where"),)).label_names([SENTENCE])


def test_texts_lines_and_pictures():
    first = list(TASK.texts([SENTENCE]))[:6]
    assert first == ["where", "it", "is", "who", "plays", "York"]
    assert TASK.parse("New  York", 3) == Sentence(("New", "York"), (), 3)
    record, lines = TASK.show(SENTENCE, Prediction([Span("ORG", 2, 4)]))
    assert record["entities"][0]["text"] == "New York" and "ORG" in lines[1]
    assert TASK.threshold_rule == ThresholdRule(0.5)
    assert hash(TASK) == hash(dataclasses.replace(TASK))  # static under jit


ANSWERED = dataclasses.replace(TASK, answerable=True)


def test_answerable_is_a_label_of_each_query_and_half_a_weight(tokenizer):
    only_places = Sentence(WORDS, (Span("LOC-city", 5, 6),), 1)
    items = encoded(ANSWERED, [SENTENCE, only_places], tokenizer)
    assert [item.arrays["answerable"] for item in items] == [1, 1, 1, 0]
    assert ANSWERED.class_counts(items, ())["answerable"].tolist() == [[1, 3]]
    assert list(ANSWERED.targets(())) == ["start", "end", "match", "answerable"]
    assert ANSWERED.targets(())["answerable"].weight == 0.4
    outputs = dict.fromkeys(("start", "end", "match"), np.zeros((2, 1)))
    logits = np.arange(4.0).reshape(2, 2, 1)  # two sequences in each row
    batch = {"segment_ids": np.ones((2, 1))}
    predicted = ANSWERED.reduce_logits(outputs | {"answerable": logits}, batch)
    assert predicted.sequences["answerable"].tolist() == [[0, 1], [2, 3]]
    plain = encoded(TASK, [SENTENCE], tokenizer)[0].arrays
    assert "answerable" not in {*plain, *TASK.targets(())}


@pytest.mark.parametrize("match", [True, False])
def test_what_is_not_answerable_has_no_spans(tokenizer, match):
    task = dataclasses.replace(ANSWERED, match=match)
    items = encoded(task, [SENTENCE], tokenizer)
    outputs = [perfect_output(task, item, SENTENCE) for item in items]
    for logits, left in (((3, -2), {"LOC-city"}), ((0, 1e-3), {"ORG"}), ((9, 9), None)):
        answered = [
            out | {"answerable": np.float32(z)}
            for out, z in zip(outputs, logits, strict=True)
        ]
        prediction = task.decide(task.decode(SENTENCE, items, answered, ()))
        assert {*prediction.values} == {
            s for s in SENTENCE.spans if left is None or s.type in left
        }


def scored(task, words, start, end, match=(), kind="ORG"):
    """Return the scored spans of a sentence with one piece per word."""
    seen = Window(np.arange(words), kind=kind)
    item = Item({"input_ids": np.zeros(words)}, 0, seen)
    output = {"start": np.full(words, -9.0), "end": np.full(words, -9.0)}
    for name, values in (("start", start), ("end", end)):
        for place, value in values.items():
            output[name][place] = value
    if task.match:
        output["match"] = np.full((words, words), -9.0)
        for pair, value in match.items():
            output["match"][pair] = value
    return task.decode(Sentence(("x",) * words, (), 1), [item], [output], ())


def test_flat_overlaps_go_to_the_better_match():
    match = {(0, 2): 2.0, (0, 3): 1.0, (3, 3): 0.5, (1, 3): 9.0}
    candidates = scored(TASK, 5, {0: 1.0, 3: 1.0}, {2: 1.0, 3: 1.0}, match)
    # Word 1 is no start, however well it matches; 3 to 2 runs backwards.
    assert [tuple(span[1:]) for span, _ in candidates] == [(0, 3), (0, 4), (3, 4)]
    expected = 1 / (1 + np.exp(-np.array([2.0, 1.0, 0.5])))
    np.testing.assert_allclose([score for _, score in candidates], expected, rtol=1e-12)
    org = [Span("ORG", 0, 3), Span("ORG", 0, 4), Span("ORG", 3, 4)]
    assert TASK.decide(candidates).values == [org[0], org[2]]
    assert TASK.decide(candidates, 0.7).values == [org[0]]
    nested = dataclasses.replace(TASK, nested=True)
    assert nested.decide(candidates).values == org
    assert nested.decide(candidates, 0.7).values == org[:2]
    other = scored(TASK, 5, {2: 1.0}, {2: 1.0}, {(2, 2): 3.0}, kind="LOC-city")
    assert TASK.decide(candidates + other).values == [Span("LOC-city", 2, 3), org[2]]


def test_confident_scores_keep_their_order():
    """In float16 or float32 both probabilities would be 1."""
    match = {(0, 1): 20.0, (1, 2): 21.0}
    candidates = scored(TASK, 3, {0: 9, 1: 9}, {1: 9, 2: 9}, match)
    assert TASK.decide(candidates).values == [Span("ORG", 1, 3)]


def test_without_match_a_start_takes_the_nearest_end():
    task = dataclasses.replace(TASK, match=False)
    candidates = scored(task, 6, {0: 2, 1: 3, 3: 4, 5: 1}, {2: 1, 4: 5})
    assert [tuple(span[1:]) for span, _ in candidates] == [(0, 3), (1, 3), (3, 5)]
    logits = np.array([[2.0, 3, 4], [1, 1, 5]])  # of starts, and of their ends
    expected = np.sqrt((1 / (1 + np.exp(-logits))).prod(axis=0))
    np.testing.assert_allclose([score for _, score in candidates], expected, rtol=1e-12)
    assert task.decide(candidates).values == [Span("ORG", 1, 3), Span("ORG", 3, 5)]


def test_an_untrained_network_s_candidates_are_bounded():
    everywhere = dict.fromkeys(range(100), 1.0)
    pairs = {(i, j): (i * 7 + j) % 11 / 10 for i in range(100) for j in range(100)}
    candidates = scored(TASK, 100, everywhere, everywhere, pairs)
    assert len(candidates) == 1000
    assert min(score for _, score in candidates) > 1 / (1 + np.exp(-0.75))


spans = st.builds(
    lambda kind, start, size: Span(kind, start, start + size),
    st.sampled_from(["ORG", "LOC-city"]),
    st.integers(0, 6),
    st.integers(1, 4),
)


def test_without_candidates_the_threshold_stays():
    sentences = [Sentence(("x",), (Span("ORG", 0, 1),), 1)]
    tuned = TASK.tune(sentences, [[]], ())
    assert (tuned.threshold, tuned.score, tuned.positives) == (0.5, 0.0, 1)
    assert TASK.decide([]).values == []


@given(st.dictionaries(spans, st.integers(1, 5), max_size=12))
@settings(max_examples=300, deadline=None)
def test_what_is_kept_shares_no_word_and_what_is_dropped_lost_to_it(candidates):
    retained = span_decoding.without_overlaps(list(candidates.items()))
    words = [n for span, _ in retained for n in range(span.start, span.end)]
    assert len(words) == len(set(words)) and words == sorted(words)
    for span, score in candidates.items():
        if (span, score) not in retained:
            assert any(
                other.start < span.end and span.start < other.end and best >= score
                for other, best in retained
            )


def network(task, batch, seed=0):
    """Return logits of the task's own heads, of random states."""
    shape = (*np.shape(batch["input_ids"]), BERT.hidden_size)
    hidden = jax.random.normal(jax.random.key(seed), shape)
    outputs = {}
    for name, head in task.heads(()):
        module = head.module(head, BERT, dtype=jnp.float32, rngs=nnx.Rngs(seed))
        logits = module(hidden, batch, None)
        outputs |= logits if isinstance(logits, dict) else {name: logits}
    assert tuple(outputs) == output_names(task.heads(()))
    return outputs


def packed(task, tokenizer, length=64):
    """Return two items in the first row, one in the second, with padding."""
    items = encoded(task, [NESTED, SENTENCE], tokenizer)[1:]
    rows = [[items[0].arrays, items[1].arrays], [items[2].arrays]]
    return items, fill(rows, length, task.layout(tokenizer))


def expected_match(task, items, rows, sentences, outputs, length):
    """Label pairs by loops over items, words and words."""
    gold = np.full((len(rows), length, length), IGNORED)
    start, end = (np.asarray(outputs[name]) for name in ("start", "end"))
    for row, numbers in enumerate(rows):
        shift = 0
        for number in numbers:
            item, sentence = items[number], sentences[number]
            spans = spans_of(sentence, item.detail.kind)
            starts, ends = ({span[n] for span in spans} for n in (0, 1))
            places = item.detail.words + shift
            for i, first in enumerate(places):
                for j, last in enumerate(places):
                    is_gold = i in starts and j in ends
                    is_predicted = start[row, first] > 0 and end[row, last] > 0
                    chosen = {
                        "gold": is_gold,
                        "predicted": is_predicted,
                        "gold_and_predicted": is_gold or is_predicted,
                        "all": True,
                    }[task.candidates]
                    if i <= j and chosen:
                        gold[row, first, last] = (i, j) in spans
            shift += len(item)
    return gold


@pytest.mark.parametrize("pairs", ["gold", "predicted", "gold_and_predicted", "all"])
def test_pairs_are_labelled_as_by_loops(tokenizer, pairs):
    task = dataclasses.replace(TASK, candidates=pairs)
    items, batch = packed(task, tokenizer)
    outputs = network(task, batch)
    logits, gold = jax.jit(task.loss_inputs)(outputs, batch)
    expected = expected_match(
        task, items, [[0, 1], [2]], [NESTED, SENTENCE, SENTENCE], outputs, 64
    )
    np.testing.assert_array_equal(gold["match"][..., 0], expected)
    spans = {"predicted": 0, "all": 3 + 1 + 2}.get(pairs, 6)
    assert (expected == 1).sum() >= spans and (expected == 0).any()
    for name, target in task.targets(()).items():
        assert target.kind == "multi_label" and len(target.classes) == 1
        assert gold[name].shape == logits[name].shape == (*outputs[name].shape, 1)
        np.testing.assert_array_equal(logits[name][..., 0], outputs[name])
        seen = np.asarray(gold[name]) != IGNORED
        assert (np.asarray(logits[name])[seen] > -1e4).all()  # no impossible pair
    # What can be counted before there is a network.
    if pairs in ("gold", "all"):
        counts = task.class_counts(items, ())
        for name, labels in gold.items():
            counted = [(np.asarray(labels) == value).sum() for value in (0, 1)]
            np.testing.assert_array_equal(counts[name], [counted])


def test_no_gradient_flows_through_the_choice_of_pairs(tokenizer):
    _, batch = packed(TASK, tokenizer)
    outputs = network(TASK, batch)

    def total(starts):
        logits, gold = TASK.loss_inputs(outputs | {"start": starts}, batch)
        return jnp.where(gold["match"] == 1, logits["match"], 0.0).sum()

    assert not np.asarray(jax.grad(total)(outputs["start"])).any()


def test_without_match_nothing_of_pairs_is_shipped(tokenizer):
    task = dataclasses.replace(TASK, match=False)
    _, batch = packed(task, tokenizer)
    outputs = network(task, batch)
    logits, gold = jax.jit(task.loss_inputs)(outputs, batch)
    assert set(logits) == set(gold) == set(task.targets(())) == {"start", "end"}
    assert set(task.targets(())) == {"start", "end"}
    assert not [name for name in batch if name.startswith("end_of")]
    assert task.reduce_logits(outputs, batch).pairs == {}
    weights = {name: target.weight for name, target in TASK.targets(()).items()}
    assert weights == {"start": 1.0, "end": 1.0, "match": 0.1}


def test_predictions_of_a_packed_row_are_cut_out(tokenizer):
    items, batch = packed(TASK, tokenizer)
    outputs = network(TASK, batch)
    outputs["match"] = outputs["match"].at[0, 0, 0].set(1e9)
    predicted = jax.device_get(jax.jit(TASK.reduce_logits)(outputs, batch))
    assert predicted.pairs["match"].dtype == np.float16
    assert np.isfinite(predicted.pairs["match"]).all()
    size = len(items[0])
    second = predicted.item(0, 1, size, size + len(items[1]))
    assert second["match"].shape == (len(items[1]),) * 2
    np.testing.assert_array_equal(
        second["start"], outputs["start"][0, size : size + len(items[1])]
    )
    other = predicted.item(1, 0, 0, len(items[2]))
    candidates = TASK.decode(SENTENCE, items[1:], [second, other], ())
    assert all(0.01 <= score <= 1 for _, score in candidates)
