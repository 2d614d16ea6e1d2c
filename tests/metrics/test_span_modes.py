"""Spans of malformed tags vs. conlleval's definition."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dicejax.data import tags
from dicejax.data.readers import conll
from dicejax.metrics.spans import TypeCounts, scores

from .reports import count_tags

unhurried = settings(deadline=None)

# conlleval (CoNLL-2000, version 2004-01-26): a chunk ends between two words, and one
# begins, for these pairs of prefixes; both, besides, where types differ and the word
# before (the word itself) is not O.
ENDS = {"BB", "BO", "IB", "IO"}
BEGINS = {"BB", "IB", "OB", "OI"}


def conlleval(gold, predicted):
    """Count as conlleval does, word by word: by type (correct, guessed, gold)."""
    correct, guessed, wanted = Counter(), Counter(), Counter()
    before, before_guess = ("O", ""), ("O", "")
    inside = None  # the type of the chunk that both agree on so far

    def cut(tag):
        prefix, _, kind = tag.partition("-")
        return prefix, kind

    def ends(last, now):
        changes = last[0] != "O" and last[1] != now[1]
        return last[0] + now[0] in ENDS or changes

    def begins(last, now):
        changes = now[0] != "O" and last[1] != now[1]
        return last[0] + now[0] in BEGINS or changes

    for sequence, guesses in zip(gold, predicted, strict=True):
        for tag, guess in [*zip(sequence, guesses, strict=True), ("O", "O")]:
            now, now_guess = cut(tag), cut(guess)
            end, end_guess = ends(before, now), ends(before_guess, now_guess)
            if inside is not None:
                if end and end_guess and before[1] == before_guess[1]:
                    correct[inside] += 1
                    inside = None
                elif end != end_guess or now[1] != now_guess[1]:
                    inside = None
            start, start_guess = begins(before, now), begins(before_guess, now_guess)
            if start and start_guess and now[1] == now_guess[1]:
                inside = now[1]
            wanted[now[1]] += start
            guessed[now_guess[1]] += start_guess
            before, before_guess = now, now_guess
    return {
        kind: (correct[kind], guessed[kind], wanted[kind])
        for kind in sorted({*guessed, *wanted})
        if guessed[kind] or wanted[kind]
    }


def conlleval_scores(correct, guessed, wanted):
    """Return precision, recall and FB1 in per cent; 0 where undefined."""
    precision = 100 * correct / guessed if guessed else 0
    recall = 100 * correct / wanted if wanted else 0
    total = precision + recall
    return precision, recall, 2 * precision * recall / total if total else 0


def assert_equals_conlleval(gold, predicted, scheme="BIO"):
    counts = count_tags(gold, predicted, scheme)
    theirs = conlleval(gold, predicted)
    assert {
        kind: (one.true_positives, one.predicted, one.gold)
        for kind, one in counts.per_type.items()
    } == theirs
    result = scores(counts)
    rows = {None: result, **result.per_type}
    totals = [sum(column) for column in zip(*theirs.values(), strict=True)] or [0] * 3
    for kind, row in rows.items():
        expected = conlleval_scores(*(totals if kind is None else theirs[kind]))
        ours = [100 * row.precision, 100 * row.recall, 100 * row.f1]
        assert ours == pytest.approx(expected, rel=1e-14)


@st.composite
def tagged_corpora(draw, scheme):
    """Draw gold and predicted tags, mostly malformed, partly alike."""
    kinds = ("PER", "LOC", "A-B")
    alphabet = ["O", *(f"{p}-{k}" for p in tags.PREFIXES[scheme] for k in kinds)]
    tag = st.sampled_from(alphabet)
    gold = draw(st.lists(st.lists(tag, max_size=8), min_size=1, max_size=5))
    predicted = [
        [draw(st.one_of(st.just(one), st.just(one), tag)) for one in sequence]
        for sequence in gold
    ]
    return gold, predicted


def noisy(sequences, labels, seed=0, rate=0.1):
    rng = random.Random(seed)
    return [
        [rng.choice(labels) if rng.random() < rate else tag for tag in sequence]
        for sequence in sequences
    ]


CORNERS = {
    "nothing": ([[]], [[]]),
    "only O": ([["O", "O"]], [["O", "O"]]),
    "only predicted": ([["O", "O"]], [["B-A", "I-A"]]),
    "only gold": ([["B-A", "I-A"]], [["O", "O"]]),
    "at the end of a sentence": ([["O", "B-A", "I-A"]], [["O", "B-A", "I-A"]]),
    "end of sentence, then I": ([["O", "B-A"], ["I-A"]], [["O", "B-A"], ["B-A"]]),
    "adjacent": ([["B-A", "B-A", "I-A"]], [["B-A", "B-A", "I-A"]]),
    "adjacent, run together": ([["B-A", "B-A"]], [["B-A", "I-A"]]),
    "adjacent, of two types": ([["B-A", "B-B"]], [["B-A", "I-B"]]),
    "I at the beginning": ([["I-A", "I-A", "O"]], [["B-A", "I-A", "O"]]),
    "I after another type": ([["B-A", "I-B", "I-B"]], [["B-A", "B-B", "I-B"]]),
    "I after O": ([["B-A", "O", "I-A"]], [["B-A", "O", "B-A"]]),
    "type with a hyphen": ([["B-A-B", "I-A-B"]], [["B-A-B", "I-A"]]),
    "too short": ([["B-A", "I-A", "I-A"]], [["B-A", "I-A", "O"]]),
    "too long": ([["B-A", "I-A", "O"]], [["B-A", "I-A", "I-A"]]),
}


@pytest.mark.parametrize("corner", CORNERS)
def test_corner_cases_equal_conlleval(corner):
    gold, predicted = CORNERS[corner]
    for wanted, found in ((gold, predicted), (predicted, gold), (gold, gold)):
        assert_equals_conlleval(wanted, found)


@pytest.mark.parametrize("scheme", ["IOB1", "BIO"])
@unhurried
@given(st.data())
def test_counts_equal_conlleval(scheme, data):
    assert_equals_conlleval(*data.draw(tagged_corpora(scheme)), scheme)


def test_unknown_prefixes_are_refused():
    for tag in ("X-PER", "E-PER", "o", ""):
        with pytest.raises(ValueError, match="does not belong to BIO"):
            count_tags([["O"]], [[tag]], "BIO")


def test_gold_beyond_a_cut_is_missed():
    gold = [["B-A", "O", "B-B", "I-B", "O", "B-A"]]
    whole = count_tags(gold, gold, "BIO")
    assert whole.total == TypeCounts(3, 3, 3)
    # The cut runs through the second span, and the third is beyond it.
    cut = count_tags(gold, [gold[0][:3]], "BIO")
    assert cut.per_type == {"A": TypeCounts(1, 1, 2), "B": TypeCounts(0, 1, 1)}
    padded = [gold[0][:3] + ["O"] * 3]
    assert cut == count_tags(gold, padded, "BIO")
    assert count_tags(gold, [[]], "BIO").total == TypeCounts(0, 0, 3)


def test_predictions_longer_than_gold_are_refused():
    with pytest.raises(ValueError, match="sentence 1 has 2 predicted tags but 1 gold"):
        count_tags([["O"], ["O"]], [["O"], ["O", "O"]], "BIO")


@pytest.mark.parametrize("seed", range(2))
def test_noisy_conll2003_equals_conlleval(data_folder, seed):
    corpus = conll.read(data_folder / "conll2003" / "dev.txt")
    kinds = {span.type for s in corpus for span in s.spans}
    for scheme in ("IOB1", "BIO"):
        gold = [tags.encode(s.spans, len(s.words), scheme) for s in corpus]
        predicted = noisy(gold, tags.label_set(scheme, kinds), seed)
        assert_equals_conlleval(gold, predicted, scheme)


def test_noisy_conll2000_chunks_equal_conlleval(data_folder):
    corpus = conll.read(data_folder / "conll2000" / "test.txt")
    gold = [tags.encode(s.spans, len(s.words), "BIO") for s in corpus]
    kinds = {span.type for s in corpus for span in s.spans}
    assert_equals_conlleval(gold, noisy(gold, tags.label_set("BIO", kinds)))
