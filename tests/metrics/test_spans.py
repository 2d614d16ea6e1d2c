"""Span scores: by hand, by properties, and vs. seqeval."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dicejax.data import tags
from dicejax.data.readers import conll
from dicejax.data.tags import Span
from dicejax.metrics.spans import SpanCounts, TypeCounts, count, scores

from .reports import as_report

unhurried = settings(deadline=None)  # a busy machine is no failure


@pytest.fixture(scope="module")
def seqeval():
    return pytest.importorskip("seqeval.metrics", reason="seqeval: the [parity] extra")


def span_sets():
    span = st.builds(
        lambda kind, start, length: Span(kind, start, start + length),
        st.sampled_from(("PER", "LOC")),
        st.integers(0, 3),
        st.integers(1, 2),
    )
    return st.lists(span, max_size=5)


def corpora():
    """Draw gold and predicted spans of the same sentences."""
    return st.lists(st.tuples(span_sets(), span_sets()), max_size=5)


def test_a_case_worked_out_by_hand():
    gold = [
        [Span("PER", 0, 2), Span("LOC", 3, 4), Span("ORG", 5, 8)],
        [Span("PER", 1, 2)],
        [],
    ]
    predicted = [
        [Span("PER", 0, 2), Span("ORG", 3, 4), Span("ORG", 5, 7)],
        [Span("PER", 1, 2), Span("PER", 4, 5)],
        [Span("MISC", 0, 1)],
    ]
    counts = count(gold, predicted)
    assert counts.per_type == {
        "LOC": TypeCounts(true_positives=0, predicted=0, gold=1),
        "MISC": TypeCounts(true_positives=0, predicted=1, gold=0),
        "ORG": TypeCounts(true_positives=0, predicted=2, gold=1),
        "PER": TypeCounts(true_positives=2, predicted=3, gold=2),
    }
    assert counts.total == TypeCounts(true_positives=2, predicted=6, gold=4)
    result = scores(counts)
    assert (result.precision, result.recall, result.support) == (2 / 6, 2 / 4, 4)
    assert result.f1 == pytest.approx(2 * 2 / (6 + 4), rel=1e-15)
    per = result.per_type["PER"]
    assert (per.precision, per.recall, per.support) == (2 / 3, 1, 2)
    assert per.f1 == pytest.approx(0.8, rel=1e-15)
    assert result.macro.precision == pytest.approx(2 / 3 / 4, rel=1e-15)
    assert result.macro.recall == 0.25
    assert result.macro.f1 == pytest.approx(0.2, rel=1e-15)
    assert result.macro.support == 4


def test_micro_f1_is_not_f1_of_macro_averages():
    gold = [[Span("A", i, i + 1) for i in range(9)] + [Span("B", 9, 10)]]
    predicted = [[Span("A", i, i + 1) for i in range(9)] + [Span("B", 10, 11)]]
    result = scores(count(gold, predicted))
    assert result.f1 == pytest.approx(0.9)
    assert result.macro.f1 == 0.5


@pytest.mark.parametrize(
    "wrong",
    [Span("LOC", 1, 3), Span("PER", 0, 3), Span("PER", 1, 2), Span("PER", 1, 4)],
)
def test_a_span_is_right_only_if_type_and_both_ends_are(wrong):
    assert scores(count([[Span("PER", 1, 3)]], [[wrong]])).f1 == 0
    assert scores(count([[Span("PER", 1, 3)]], [[Span("PER", 1, 3)]])).f1 == 1


def test_a_span_of_another_sentence_does_not_count():
    one = [Span("PER", 0, 1)]
    assert scores(count([one, []], [[], one])).f1 == 0


@pytest.mark.parametrize(
    ("gold", "predicted", "types"),
    [
        ([], [], {}),
        ([[]], [[]], {}),
        ([[Span("PER", 0, 1)]], [[]], {"PER": 1}),
        ([[]], [[Span("PER", 0, 1)]], {"PER": 0}),
    ],
)
def test_zero_over_zero_is_zero(gold, predicted, types):
    result = scores(count(gold, predicted))
    assert (result.precision, result.recall, result.f1) == (0, 0, 0)
    macro = result.macro
    assert (macro.precision, macro.recall, macro.f1) == (0, 0, 0)
    assert {kind: one.support for kind, one in result.per_type.items()} == types
    assert all(type(score) is float for score in (result.f1, macro.f1, macro.recall))


def test_a_span_given_twice_counts_once():
    twice = [[Span("PER", 0, 1), Span("PER", 0, 1)]]
    assert count(twice, twice).total == TypeCounts(1, 1, 1)


def test_nested_spans_count_one_by_one():
    nested = [[Span("ORG", 0, 3), Span("LOC", 2, 3)]]
    assert count(nested, [[Span("LOC", 2, 3)]]).total == TypeCounts(1, 1, 2)


def test_sentences_must_pair_up():
    with pytest.raises(ValueError, match="gold has 1 sentences but predicted has 2"):
        count([[]], [[], []])


@unhurried
@given(corpora(), st.integers(0, 5))
def test_counts_of_parts_add_up_to_those_of_the_whole(corpus, cut):
    def counts(part):
        return count([gold for gold, _ in part], [guess for _, guess in part])

    whole = counts(corpus)
    assert counts(corpus[:cut]) + counts(corpus[cut:]) == whole
    assert counts(corpus[cut:]) + counts(corpus[:cut]) == whole
    assert sum((counts([one]) for one in corpus), SpanCounts()) == whole
    assert list(whole.per_type) == sorted(whole.per_type)


@unhurried
@given(corpora())
def test_swapping_gold_and_predicted_swaps_precision_and_recall(corpus):
    gold, predicted = [g for g, _ in corpus], [p for _, p in corpus]
    ahead, back = scores(count(gold, predicted)), scores(count(predicted, gold))
    assert (ahead.precision, ahead.recall) == (back.recall, back.precision)
    assert ahead.f1 == pytest.approx(back.f1, rel=1e-15)
    for score in (ahead.precision, ahead.recall, ahead.f1, ahead.macro.f1):
        assert 0 <= score <= 1


def assert_equals_seqeval(seqeval, gold, predicted, scheme):
    """Compare every score, to the last bit."""
    counts = count(
        [tags.spans(sequence, scheme) for sequence in gold],
        [tags.spans(sequence, scheme) for sequence in predicted],
    )
    result = scores(counts)
    averages = [("micro", result)] + [("macro", result.macro)] * bool(result.per_type)
    for average, ours in averages:
        for name in ("precision", "recall", "f1"):
            function = getattr(seqeval, f"{name}_score")
            theirs = function(gold, predicted, average=average, zero_division=0)
            assert getattr(ours, name) == theirs, (average, name)
    if not result.per_type:
        return  # seqeval's report fails on no types
    report = seqeval.classification_report(
        gold, predicted, output_dict=True, zero_division=0
    )
    del report["weighted avg"]
    assert report == as_report(result)


@st.composite
def tagged_corpora(draw, scheme):
    """Draw gold and predicted tags, mostly malformed, partly alike."""
    kinds = ("PER", "LOC", "A-B", *"CDEFGH")[: draw(st.integers(1, 9))]
    prefixes = tags.PREFIXES[scheme]
    alphabet = ["O", *(f"{p}-{kind}" for p in prefixes for kind in kinds), *prefixes]
    tag = st.sampled_from(alphabet)
    gold = draw(st.lists(st.lists(tag, max_size=8), min_size=1, max_size=5))
    predicted = [
        [draw(st.one_of(st.just(one), st.just(one), tag)) for one in sequence]
        for sequence in gold
    ]
    return gold, predicted


@pytest.mark.parametrize("scheme", ["IOB1", "BIO", "IOBES"])
@unhurried
@given(st.data())
def test_scores_equal_seqeval(seqeval, scheme, data):
    assert_equals_seqeval(seqeval, *data.draw(tagged_corpora(scheme)), scheme)


@pytest.mark.parametrize(
    ("gold", "predicted"),
    [
        ([["O", "O"]], [["O", "O"]]),
        ([["O", "O"]], [["B-A", "I-A"]]),
        ([["B-A", "I-A"]], [["O", "O"]]),
        ([["B-A", "O"]], [["B-B", "O"]]),
        ([[], ["B-A"], []], [[], ["B-A"], []]),
        ([["B-A", "B-A"]], [["B-A", "I-A"]]),
        ([["O", "B-A"], ["I-A"]], [["O", "B-A"], ["B-A"]]),
    ],
)
def test_edge_cases_equal_seqeval(seqeval, gold, predicted):
    assert_equals_seqeval(seqeval, gold, predicted, "BIO")


def test_scores_on_a_real_corpus_equal_seqeval(seqeval, data_folder):
    corpus = conll.read(data_folder / "conll2003" / "dev.txt")[:1000]
    gold = [tags.encode(s.spans, len(s.words), "BIO") for s in corpus]
    labels = tags.label_set("BIO", {span.type for s in corpus for span in s.spans})
    rng = random.Random(0)
    predicted = [
        [rng.choice(labels) if rng.random() < 0.1 else tag for tag in sequence]
        for sequence in gold
    ]
    assert_equals_seqeval(seqeval, gold, predicted, "BIO")
