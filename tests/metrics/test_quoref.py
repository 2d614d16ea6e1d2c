"""Quoref scores vs. the official definition with an exact alignment."""

import math
import random
import string
from functools import cache

import numpy as np
import pytest

from dicejax.metrics.quoref import score, score_answer
from dicejax.metrics.squad import AnswerScores

from . import test_squad


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


def plain(text):
    """Lower each word; drop punctuation unless in a number, and articles."""
    words = []
    for token in text.lower().replace("-", " ").split(" "):
        if number(token) is None:
            token = "".join(c for c in token if c not in string.punctuation)
        if number(token) is not None:
            token = str(number(token))
        words += [word for word in token.split() if word not in ("a", "an", "the")]
    return " ".join(words)


def pair_f1(gold, predicted):
    gold, predicted = set(gold.split()), set(predicted.split())
    numbers = {word for word in gold if number(word) is not None}
    if numbers and numbers.isdisjoint(predicted):
        return 0.0
    same = len(gold & predicted)
    precision = same / len(predicted) if predicted else 1.0
    recall = same / len(gold) if gold else 1.0
    total = precision + recall
    return 2 * precision * recall / total if total else 0.0


def best_alignment(gold, predicted):
    """Return each gold span's F1 in the best of all pairings."""

    @cache
    def best(place, used):
        if place == len(gold):
            return ()
        choices = [(0.0, *best(place + 1, used))]  # this gold span stays alone
        for other, text in enumerate(predicted):
            if not used >> other & 1:
                rest = best(place + 1, used | 1 << other)
                choices.append((pair_f1(gold[place], text), *rest))
        return max(choices, key=math.fsum)

    return best(0, 0)


def official(gold, predicted):
    gold, predicted = [plain(t) for t in gold], [plain(t) for t in predicted]
    exact = float(len(gold) == len(predicted) and {*gold} == {*predicted})
    f1s = best_alignment(gold, predicted)
    alone = [0.0] * (len(predicted) - len(gold))
    return exact, round(np.mean([*f1s, *alone]), 2)


def noisy(golds, seed):
    """Change, drop, add and reorder spans."""
    rng = random.Random(seed)
    spans = [(question, text) for question, texts in golds.items() for text in texts]
    changed = test_squad.noisy({n: [text] for n, (_, text) in enumerate(spans)}, seed)
    predictions = {
        question: [rng.choice(spans)[1] for _ in range(rng.choice([0, 0, 0, 1, 2]))]
        for question in golds
    }
    for (question, _), text in zip(spans, changed.values(), strict=True):
        predictions[question] += [text] * (rng.random() > 0.1)
        rng.shuffle(predictions[question])
    return predictions


@pytest.mark.parametrize(
    ("gold", "predicted", "exact", "f1"),
    [
        (["Frankie"], "frankie", 1, 1),
        (["Frankie", "Lori"], ["Lori", "the Frankie"], 1, 1),
        (["Lori"], ["Lori", "Lori"], 0, 0.5),
        (["Big Ralph"], ["Ralph Ralph"], 0, 0.67),  # sets of words
        (["7 days"], ["7.0 nights"], 0, 0.5),
        (["the"], [""], 1, 1),  # both without words
        (["ex-lover -7"], ["ex lover '7'"], 1, 1),  # hyphens are places to cut
        (["$3.50!"], ["350"], 1, 1),  # no number until its punctuation goes
        # Greedy pairing, gold by gold, would take "a b" for the first and score 0.5.
        (["x y", "x z"], ["x z", "y"], 0, 0.83),
    ],
)
def test_cases_by_hand(gold, predicted, exact, f1):
    assert score_answer(gold, predicted) == (exact, f1)
    spans = [predicted] if isinstance(predicted, str) else predicted
    assert official(gold, spans) == (exact, f1)


def test_missing_predictions_and_blank_gold_score_zero():
    golds = {"q1": ["x"], "q2": ["y"], "q3": [" "]}
    result = score(golds, {"q1": ["x"], "q3": [""], "q4": ["z"]})
    assert result == AnswerScores(1 / 3, 1 / 3, 3)
    assert score({}, {}) == AnswerScores(0.0, 0.0, 0)


@pytest.mark.parametrize("seed", range(4))
def test_small_answers_equal_the_official_definition(seed):
    rng = random.Random(seed)
    words = ["a", "b", "c", "7", "8", "the", "b-c", "7.0", "C.", ""]

    def spans(least):
        return [
            " ".join(rng.choices(words, k=rng.randrange(4)))
            for _ in range(rng.randrange(least, 6))
        ]

    for _ in range(200):
        gold, predicted = spans(1), spans(0)
        assert score_answer(gold, predicted) == official(gold, predicted)


@pytest.mark.parametrize("seed", range(3))
def test_noisy_dev_equals_the_official_definition(data_folder, seed):
    golds = test_squad.read_golds(data_folder / "quoref" / "dev.json")
    assert score(golds, golds) == AnswerScores(1.0, 1.0, 2_418)
    predictions = noisy(golds, seed)
    expected = [official(golds[q], predictions[q]) for q in golds]
    assert [score_answer(golds[q], predictions[q]) for q in golds] == expected
    result = score(golds, predictions)
    exact, f1 = np.mean(expected, axis=0)
    assert result.exact == pytest.approx(exact, rel=1e-12)
    assert result.f1 == pytest.approx(f1, rel=1e-12)
    assert 0.1 < result.exact < result.f1 < 0.8
