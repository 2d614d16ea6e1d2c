"""Joint segmentation and tagging vs. word lists and character offsets."""

import random
from itertools import accumulate, pairwise

import numpy as np
import pytest

from dicejax.data import tags
from dicejax.metrics import spans
from dicejax.metrics.segmentation import score
from dicejax.metrics.spans import count, decode_tags


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
