"""Joint segmentation and tagging vs. word lists and character offsets."""

from __future__ import annotations

import random
from itertools import accumulate, pairwise

import pytest

from dicejax.data import tags
from dicejax.metrics.segmentation import score
from dicejax.metrics.spans import count, decode_tags, scores


def tagged(words):
    """Write (word, tag) as one BMES tag per character."""
    ends = list(accumulate((len(word) for word, _ in words), initial=0))
    spans = [
        tags.Span(tag, start, end)
        for (_, tag), (start, end) in zip(words, pairwise(ends), strict=True)
    ]
    return tags.encode(spans, ends[-1], "BMES")


def reference(gold, predicted):
    """Compute joint and word scores from sets of (sentence, start, end, tag)."""

    def places(corpus):
        found = set()
        for number, words in enumerate(corpus):
            start = 0
            for word, tag in words:
                found.add((number, start, start + len(word), tag))
                start += len(word)
        return found

    results = []
    for size in (4, 3):
        actual, guesses = ({p[:size] for p in places(x)} for x in (gold, predicted))
        right = len(actual & guesses)
        precision, recall = right / len(guesses), right / len(actual)
        total = precision + recall
        f1 = 2 * precision * recall / total if total else 0
        results.append((precision, recall, f1))
    return results


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
    wanted, found = [tagged(w) for w in gold], [tagged(w) for w in predicted]
    result = score(wanted, found, "BMES")
    joint, words = reference(gold, predicted)
    ours = result.joint.precision, result.joint.recall, result.joint.f1
    assert ours == pytest.approx(joint, rel=1e-14)
    ours = result.words.precision, result.words.recall, result.words.f1
    assert ours == pytest.approx(words, rel=1e-14)
    same = [
        a == b
        for x, y in zip(wanted, found, strict=True)
        for a, b in zip(x, y, strict=True)
    ]
    assert result.token_accuracy == sum(same) / len(same)
    # The joint score is the plain span score.
    assert result.joint == scores(count(*decode_tags(wanted, found, "BMES")))
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


def test_nothing_scores_zero():
    result = score([], [], "BMES")
    assert (result.joint.f1, result.words.f1, result.token_accuracy) == (0, 0, 0)


def test_sentences_must_pair_up():
    with pytest.raises(ValueError, match="gold has 1 sentences but predicted has 2"):
        score([["O"]], [["O"], ["O"]], "BMES")


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
