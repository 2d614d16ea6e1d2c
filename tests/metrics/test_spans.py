"""Span scores vs. seqeval and conlleval; words of characters vs. word lists."""

import random
from collections import Counter
from itertools import accumulate, pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dicejax.data import tags
from dicejax.data.tags import Span
from dicejax.formats import ConllFiles
from dicejax.metrics import spans
from dicejax.metrics.segmentation import score
from dicejax.metrics.spans import SpanCounts, TypeCounts, count, decode_tags, scores


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


@pytest.mark.parametrize(
    "wrong",
    [Span("LOC", 1, 3), Span("PER", 0, 3), Span("PER", 1, 2), Span("PER", 1, 4)],
)
def test_a_span_is_right_only_if_type_and_both_ends_are(wrong):
    right = Span("PER", 1, 3)
    assert scores(count([[right]], [[wrong]])).f1 == 0
    assert scores(count([[right], []], [[], [right]])).f1 == 0  # of another sentence
    # What is there twice counts once, and nested spans one by one.
    total = count([[right, wrong]], [[right, right]]).total
    assert total == TypeCounts(true_positives=1, predicted=1, gold=2)


@given(corpora(), st.integers(0, 5))
def test_counts_of_parts_add_up_to_those_of_the_whole(corpus, cut):
    def counts(part):
        return count([gold for gold, _ in part], [guess for _, guess in part])

    whole = counts(corpus)
    assert counts(corpus[:cut]) + counts(corpus[cut:]) == whole
    assert counts(corpus[cut:]) + counts(corpus[:cut]) == whole
    assert sum((counts([pair]) for pair in corpus), SpanCounts()) == whole
    assert list(whole.per_type) == sorted(whole.per_type)


def noisy_corpus(path, scheme):
    """Return the tags of a corpus, and the same with a tenth of them drawn."""
    corpus = ConllFiles.read_file(path)
    gold = [tags.encode(s.spans, len(s.words), scheme) for s in corpus]
    labels = tags.label_set(scheme, {span.type for s in corpus for span in s.spans})
    rng = random.Random(0)
    predicted = [
        [rng.choice(labels) if rng.random() < 0.1 else tag for tag in sequence]
        for sequence in gold
    ]
    return gold, predicted


def assert_equals_seqeval(gold, predicted, scheme):
    """Compare every score, to the last bit."""
    seqeval = pytest.importorskip("seqeval.metrics", reason="the [parity] extra")
    result = scores(count(*decode_tags(gold, predicted, scheme)))
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
    rows = {**result.per_type, "micro avg": result, "macro avg": result.macro}
    assert report == {
        name: {
            "precision": row.precision,
            "recall": row.recall,
            "f1-score": row.f1,
            "support": row.support,
        }
        for name, row in rows.items()
    }


@st.composite
def tagged_corpora(draw, scheme, bare=True):
    """Draw gold and predicted tags, mostly malformed, partly alike."""
    kinds = ("PER", "LOC", "A-B", *"CDEFGH")[: draw(st.integers(1, 9))]
    prefixes = tags.PREFIXES[scheme]
    alphabet = ["O", *(f"{p}-{kind}" for p in prefixes for kind in kinds)]
    alphabet += prefixes if bare else ()
    tag = st.sampled_from(alphabet)
    gold = draw(st.lists(st.lists(tag, max_size=8), min_size=1, max_size=5))
    predicted = [
        [draw(st.one_of(st.just(x), st.just(x), tag)) for x in sequence]
        for sequence in gold
    ]
    return gold, predicted


# conlleval (CoNLL-2000, version 2004-01-26): a chunk ends between two words, and one
# begins, for these pairs of prefixes; both, besides, where types differ and the word
# before (the word itself) is not O.
ENDS = {"BB", "BO", "IB", "IO"}
BEGINS = {"BB", "IB", "OB", "OI"}


def conlleval(gold, predicted):
    """Count as conlleval does, word by word: by type (correct, guessed, gold)."""
    correct, guessed, actual = Counter(), Counter(), Counter()
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
            actual[now[1]] += start
            guessed[now_guess[1]] += start_guess
            before, before_guess = now, now_guess
    return {
        kind: (correct[kind], guessed[kind], actual[kind])
        for kind in sorted({*guessed, *actual})
        if guessed[kind] or actual[kind]
    }


def assert_equals_conlleval(gold, predicted, scheme="BIO"):
    counts = count(*decode_tags(gold, predicted, scheme))
    theirs = conlleval(gold, predicted)
    assert {
        kind: (counted.true_positives, counted.predicted, counted.gold)
        for kind, counted in counts.per_type.items()
    } == theirs
    result = scores(counts)
    rows = {None: result, **result.per_type}
    totals = [sum(column) for column in zip(*theirs.values(), strict=True)] or [0] * 3
    for kind, row in rows.items():
        correct, guessed, actual = totals if kind is None else theirs[kind]
        precision, recall = correct / max(guessed, 1), correct / max(actual, 1)
        f1 = 2 * precision * recall / (precision + recall) if correct else 0
        ours = (row.precision, row.recall, row.f1)
        assert ours == pytest.approx((precision, recall, f1), rel=1e-14)


ORACLES = {"seqeval": assert_equals_seqeval, "conlleval": assert_equals_conlleval}
SCHEMES = [("seqeval", "IOBES"), *product(ORACLES, ("IOB1", "BIO"))]
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


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("corner", CORNERS)
def test_corner_cases_equal_both_scripts(corner, oracle):
    gold, predicted = CORNERS[corner]
    for pair in ((gold, predicted), (predicted, gold), (gold, gold)):
        ORACLES[oracle](*pair, "BIO")


@pytest.mark.parametrize(("oracle", "scheme"), SCHEMES)
@given(st.data())
def test_scores_equal_both_scripts(oracle, scheme, data):
    corpus = data.draw(tagged_corpora(scheme, bare=oracle == "seqeval"))
    ORACLES[oracle](*corpus, scheme)


@pytest.mark.parametrize(
    ("oracle", "file", "scheme", "most"),
    [
        ("seqeval", "conll2003/dev.txt", "BIO", 1000),
        ("conlleval", "conll2003/dev.txt", "IOB1", None),
        ("conlleval", "conll2000/test.txt", "BIO", None),
    ],
)
def test_noisy_corpora_equal_both_scripts(data_folder, oracle, file, scheme, most):
    gold, predicted = noisy_corpus(data_folder / file, scheme)
    ORACLES[oracle](gold[:most], predicted[:most], scheme)


def test_gold_beyond_a_cut_is_missed():
    gold = [["B-A", "O", "B-B", "I-B", "O", "B-A"]]
    # The cut runs through the second span, and the third is beyond it.
    cut = count(*decode_tags(gold, [gold[0][:3]], "BIO"))
    assert cut.per_type == {"A": TypeCounts(1, 1, 2), "B": TypeCounts(0, 1, 1)}
    padded = [gold[0][:3] + ["O"] * 3]
    assert cut == count(*decode_tags(gold, padded, "BIO"))


def places(words):
    """Return the span of characters of each (word, tag)."""
    ends = accumulate((len(word) for word, _ in words), initial=0)
    return [
        tags.Span(tag, *span)
        for (_, tag), span in zip(words, pairwise(ends), strict=True)
    ]


def tagged(words):
    """Write (word, tag) as one BMES tag per character."""
    return tags.encode(places(words), sum(len(word) for word, _ in words), "BMES")


def reference(gold, predicted):
    """Compute joint and word scores from sets of (sentence, end, start, tag)."""
    for size in (4, 3):
        actual, guesses = (
            {(n, *span[::-1])[:size] for n, ws in enumerate(x) for span in places(ws)}
            for x in (gold, predicted)
        )
        right = len(actual & guesses)
        precision, recall = right / len(guesses), right / len(actual)
        total = precision + recall
        yield precision, recall, 2 * precision * recall / total if total else 0


def disturb(words, kinds, rng):
    """Split and join words and change tags; the characters stay."""
    result = []
    for word, tag in words:
        if rng.random() < 0.1:
            tag = rng.choice(kinds)
        if len(word) > 1 and rng.random() < 0.1:
            cut = rng.randrange(1, len(word))
            result += [(word[:cut], tag), (word[cut:], tag)]
        elif result and rng.random() < 0.1:
            result[-1] = (result[-1][0] + word, result[-1][1])
        else:
            result.append((word, tag))
    return result


def assert_equals_reference(gold, predicted):
    actual, guesses = [tagged(w) for w in gold], [tagged(w) for w in predicted]
    result = score(actual, guesses, "BMES")
    expected = reference(gold, predicted)
    for ours, theirs in zip((result.joint, result.words), expected, strict=True):
        scores = (ours.precision, ours.recall, ours.f1)
        assert scores == pytest.approx(theirs, rel=1e-14)
    assert result.token_accuracy == np.mean(
        np.equal(*map(np.concatenate, (actual, guesses)))
    )
    # The joint score is the plain span score.
    assert result.joint == spans.scores(count(*decode_tags(actual, guesses, "BMES")))
    return result


def test_a_case_worked_out_by_hand():
    gold = [[("上海", "NR"), ("浦东", "NR"), ("开发", "NN"), ("。", "PU")]]
    predicted = [[("上海", "NR"), ("浦东开发", "NN"), ("。", "PU")]]
    result = assert_equals_reference(gold, predicted)
    assert (result.joint.precision, result.joint.recall) == (2 / 3, 2 / 4)
    assert (result.words.precision, result.words.recall) == (2 / 3, 2 / 4)
    assert result.token_accuracy == 4 / 7  # B-NR E-NR, E-NN and S-PU
    assert result.joint.per_type["NR"].recall == 0.5


def test_a_wrong_tag_costs_the_joint_score_alone():
    gold = [[("上海", "NR"), ("好", "VA")]]
    result = assert_equals_reference(gold, [[("上海", "NN"), ("好", "VA")]])
    assert (result.joint.f1, result.words.f1) == (0.5, 1.0)


def test_characters_beyond_a_cut_are_wrong():
    gold = [["B-NN", "E-NN", "S-VV", "S-PU"]]
    result = score(gold, [gold[0][:2]], "BMES")
    assert (result.words.recall, result.joint.recall) == (1 / 3, 1 / 3)
    assert result.token_accuracy == 2 / 4
    nothing = score([], [], "BMES")
    assert (nothing.joint.f1, nothing.words.f1, nothing.token_accuracy) == (0, 0, 0)


def read_words(path):
    """Read word and XPOS of a CoNLL-U file without empty nodes."""
    sentences = [[]]
    for line in path.read_text("utf-8").splitlines():
        if line:
            fields = line.split("\t")
            sentences[-1].append((fields[1], fields[4]))
        else:
            sentences.append([])
    return [words for words in sentences if words]


@pytest.mark.parametrize("seed", range(3))
def test_noisy_ud_chinese_equals_the_reference(data_folder, seed):
    gold = read_words(data_folder / "ud_chinese_1.4" / "test.conllu")
    kinds = sorted({tag for words in gold for _, tag in words})
    rng = random.Random(seed)
    predicted = [disturb(words, kinds, rng) for words in gold]
    result = assert_equals_reference(gold, predicted)
    assert 0.5 < result.joint.f1 < result.words.f1 < 0.95
    assert assert_equals_reference(gold, gold).joint.f1 == 1
