"""SQuAD scores vs. a new implementation of the two official scripts."""

import json
import random
import re
import string
from collections import Counter
from functools import cache

import pytest

from dicejax.metrics.squad import AnswerScores, normalize, score_v1, score_v2

from ..kinds import exhaustive_but


def read_golds(path):
    """Return the gold answers of a SQuAD file by question, without the package."""
    return {
        question["id"]: [answer["text"] for answer in question["answers"]]
        for article in json.loads(path.read_text("utf-8"))["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    }


@cache
def plain(text):
    """Lower, then no punctuation, then no articles, then single spaces."""
    letters = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(?:a|an|the)\b", " ", letters, flags=re.UNICODE).split())


def shared(gold, predicted):
    left = Counter(gold)
    same = 0
    for word in predicted:
        if left[word] > 0:
            left[word] -= 1
            same += 1
    return same


def harmonic(same, gold, predicted):
    if same == 0:
        return 0.0
    precision, recall = same / len(predicted), same / len(gold)
    return 2 * precision * recall / (precision + recall)


def official_raw(texts, prediction, *, empty_agrees):
    """Return exact match and F1 of a question, the best over its gold answers."""
    words, f1s = plain(prediction).split(), []
    for gold in (plain(text).split() for text in texts):
        if empty_agrees and not (gold and words):
            f1s.append(float(gold == words))
        else:
            f1s.append(harmonic(shared(gold, words), gold, words))
    return float(plain(prediction) in map(plain, texts)), max(f1s)


def official_v1(golds, predictions):
    pairs = [
        official_raw(texts, predictions[question], empty_agrees=False)
        for question, texts in golds.items()
        if question in predictions
    ]
    return tuple(sum(column) / len(golds) for column in zip(*pairs, strict=True))


def official_v2(golds, predictions, no_answer=None, threshold=1.0):
    """Return the report of evaluate-v2.0, in shares."""
    has_answer = {question: bool(texts) for question, texts in golds.items()}
    raw = {"exact": {}, "f1": {}}
    for q, texts in golds.items():
        texts = [text for text in texts if plain(text)] or [""]
        pair = official_raw(texts, predictions[q], empty_agrees=True)
        raw["exact"][q], raw["f1"][q] = pair
    odds = no_answer or dict.fromkeys(golds, 0.0)
    report = {}
    for name, scores in raw.items():
        final = {
            q: float(not has_answer[q]) if odds[q] > threshold else s
            for q, s in scores.items()
        }
        for prefix, part in (
            ("", list(golds)),
            ("HasAns_", [q for q in golds if has_answer[q]]),
            ("NoAns_", [q for q in golds if not has_answer[q]]),
        ):
            total = sum(final[q] for q in part)
            report[prefix + name] = total / len(part) if part else 0.0
        if no_answer is None or name == "exact":
            continue
        # Walk up the no-answer scores, from all refused to all answered.
        current = best = sum(not value for value in has_answer.values())
        best_threshold = 0.0
        for q in sorted(odds, key=lambda q: odds[q]):
            if has_answer[q]:
                current += scores[q]
            elif predictions[q]:
                current -= 1
            if current > best:
                best, best_threshold = current, odds[q]
        report[f"best_{name}"] = best / len(golds)
        report[f"best_{name}_thresh"] = best_threshold
    return report


def assert_equals_official_v2(golds, predictions, no_answer=None, threshold=1.0):
    result = score_v2(golds, predictions, no_answer, threshold)
    report = {}
    for prefix, part in (
        ("", result.all),
        ("HasAns_", result.answerable),
        ("NoAns_", result.unanswerable),
    ):
        report |= {f"{prefix}exact": part.exact, f"{prefix}f1": part.f1}
    if best := result.best_f1:
        report |= {"best_f1": best.score, "best_f1_thresh": best.threshold}
    expected = official_v2(golds, predictions, no_answer, threshold)
    assert report == pytest.approx(expected, rel=1e-12, abs=0)
    assert report.get("best_f1_thresh") == expected.get("best_f1_thresh")
    return result


def assert_equals_official_v1(golds, predictions):
    result = score_v1(golds, predictions)
    exact, f1 = official_v1(golds, predictions)
    assert (result.exact, result.f1) == pytest.approx((exact, f1), rel=1e-12)
    return result


def noisy(golds, seed):
    """Draw answers that are right, near, wrong or none."""
    rng = random.Random(seed)
    pool = [text for texts in golds.values() for text in texts]
    predictions = {}
    for question, texts in golds.items():
        text = rng.choice(texts or pool)
        words = text.split()
        predictions[question] = rng.choice(
            [
                text,
                text.upper() + ".",
                f"the  {text}, an",
                " ".join(words[1:]),
                " ".join([*words, *rng.choice(pool).split()]),
                " ".join(words[:1] * 2),
                rng.choice(pool),
                "",
            ]
        )
    return predictions


def no_answer_scores(golds, seed, decimals=None):
    rng = random.Random(seed)
    values = {q: rng.betavariate(1 + 2 * (not t), 2) for q, t in golds.items()}
    if decimals is not None:
        values = {q: round(value, decimals) for q, value in values.items()}
    items = list(values.items())
    rng.shuffle(items)  # the official script's ties go by the order of this file
    return dict(items)


@pytest.mark.parametrize(
    ("gold", "predicted", "exact", "f1"),
    [
        ("Denver Broncos", "the denver broncos!", 1, 1),
        ("Denver Broncos", "Broncos", 0, 2 / 3),
        ("to be or not to be", "to to to", 0, 2 * (2 / 3) * (2 / 6) / (2 / 3 + 2 / 6)),
        ("Denver", "Carolina", 0, 0),
        ("Denver", "", 0, 0),
        ("the", "an", 1, 0),  # both normalise to nothing
    ],
)
def test_v1_cases_by_hand(gold, predicted, exact, f1):
    result = score_v1({"q": [gold]}, {"q": predicted})
    assert (result.exact, result.f1) == (exact, pytest.approx(f1, rel=1e-15))


def test_v1_takes_the_best_gold_answer_and_0_without_a_prediction():
    golds = {"q": ["Santa Clara", "Levi's Stadium in Santa Clara", "California"]}
    result = score_v1(golds | {"r": ["y"]}, {"q": "Stadium in Santa Clara", "s": "z"})
    assert result == AnswerScores(0.0, pytest.approx(4 / 9, rel=1e-15), 2)


@pytest.mark.parametrize(
    ("gold", "predicted", "score"),
    [
        ([], "", 1),
        ([], "the", 1),  # normalises to nothing
        ([], "Paris", 0),
        (["Paris"], "", 0),
        (["the", "Paris"], "", 0),  # gold that normalises to nothing is left out
        (["the"], "", 1),  # unless there is no other
    ],
)
def test_v2_empty_answers_by_hand(gold, predicted, score):
    result = assert_equals_official_v2({"q": gold}, {"q": predicted})
    assert (result.all.exact, result.all.f1) == (score, score)
    part, other = result.answerable, result.unanswerable
    if not gold:
        part, other = other, part
    assert part == result.all
    assert other == AnswerScores(0.0, 0.0, 0)


def test_nothing_scores_zero():
    assert score_v1({}, {}) == AnswerScores(0.0, 0.0, 0)
    result = score_v2({}, {}, {})
    assert (result.best_f1.score, result.best_f1.attained) == (0, 0)


@pytest.mark.parametrize(
    ("golds", "predictions", "odds", "f1", "best", "attained"),
    [
        # Without answerable questions; all above 0 are refused.
        ([[], []], ["x", ""], [0.5, 0.1], 0.5, 1, 1),
        # The official script parts equal no-answer scores.
        ([["x"], []], ["x", "y"], [0.5, 0.5], 0.5, 1, 0.5),
        # Refusing all is not attained where scores are below zero.
        ([[], []], ["x", "y"], [-2.0, 1.0], 0.0, 1, 0.5),
        # Only articles are an answer to the official threshold alone.
        ([[], ["x"]], ["the", "x"], [0.1, 0.2], 1, 0.5, 0.5),
    ],
)
def test_best_thresholds_by_hand(golds, predictions, odds, f1, best, attained):
    columns = (dict(zip("qr", column, strict=True)) for column in (golds, predictions))
    no_answer = dict(zip("qr", odds, strict=True))
    result = assert_equals_official_v2(*columns, no_answer)
    assert result.all.f1 == f1
    assert (result.best_f1.score, result.best_f1.attained) == (best, attained)


@pytest.mark.parametrize("seed", exhaustive_but(range(40), range(400)))
def test_small_sets_equal_the_official_definition(seed):
    rng = random.Random(seed)
    words = ["the", "Paris", "Rome", "an", "Rome Paris", "", "Paris, Rome", "a-b"]
    golds = {
        f"q{n}": rng.sample(words, rng.choice([0, 0, 1, 2]))
        for n in range(rng.randrange(1, 7))
    }
    predictions = {q: rng.choice(words) for q in golds}
    odds = {q: rng.choice([0.0, 0.2, 0.5, 1.0]) for q in golds}
    assert_equals_official_v2(golds, predictions)
    assert_equals_official_v2(golds, predictions, odds, rng.choice([0.0, 0.2, 1.0]))
    answered = {q: texts for q, texts in golds.items() if texts}
    if answered:
        assert_equals_official_v1(answered, predictions)


def test_dev_gold_scores_one(data_folder):
    golds = read_golds(data_folder / "squad_v1.1" / "dev.json")
    first, last = ({q: t[n] for q, t in golds.items()} for n in (0, -1))
    assert score_v1(golds, first) == AnswerScores(1.0, 1.0, 10_570)
    # One question's last answer is ".", which has no words and so, officially, no F1.
    result = score_v1(golds, last)
    assert (result.exact, result.f1) == (1, pytest.approx(10_569 / 10_570, rel=1e-15))
    golds = read_golds(data_folder / "squad_v2.0" / "dev.json")
    result = score_v2(golds, {q: t[0] if t else "" for q, t in golds.items()})
    assert result.all == AnswerScores(1.0, 1.0, 11_873)
    assert result.answerable == AnswerScores(1.0, 1.0, 5_928)
    assert result.unanswerable == AnswerScores(1.0, 1.0, 5_945)


@pytest.mark.parametrize("seed", range(2))
def test_noisy_v1_dev_equals_the_official_definition(data_folder, seed):
    golds = read_golds(data_folder / "squad_v1.1" / "dev.json")
    result = assert_equals_official_v1(golds, noisy(golds, seed))
    assert 0.3 < result.exact < result.f1 < 0.8


@pytest.mark.parametrize("decimals", [None, 2])
def test_noisy_v2_dev_equals_the_official_definition(data_folder, decimals):
    golds = read_golds(data_folder / "squad_v2.0" / "dev.json")
    predictions = noisy(golds, seed=2)
    odds = no_answer_scores(golds, 3, decimals)
    result = assert_equals_official_v2(golds, predictions, odds, 0.6)
    assert result.best_f1.score > result.all.f1


def test_best_scores_are_attained_where_no_answer_scores_differ(data_folder):
    golds = read_golds(data_folder / "squad_v2.0" / "dev.json")
    predictions = {q: t if normalize(t) else "" for q, t in noisy(golds, 4).items()}
    odds = no_answer_scores(golds, 5)
    assert len(set(odds.values())) == len(odds)
    result = score_v2(golds, predictions, odds)
    best = result.best_f1
    again = score_v2(golds, predictions, odds, best.threshold)
    assert again.all.f1 == best.attained
    assert best.attained == pytest.approx(best.score, rel=1e-12)


@pytest.mark.parametrize(
    ("gold", "predicted", "exact", "f1"),
    [
        ("红楼梦", "《红楼梦》", 1.0, 1.0),
        ("红楼梦", "红楼", 0.0, 2 * 1 * (2 / 3) / (1 + 2 / 3)),
        ("1998年5月", "1998年", 0.0, 2 * 1 * (2 / 4) / (1 + 2 / 4)),  # 1998 年 5 月
        ("สวัสดี", "สวัสดี", 1.0, 1.0),
        ("the 中文 Web", "中文 web", 0.0, 2 * 1 * (3 / 4) / (1 + 3 / 4)),
        ("红楼梦", "北京", 0.0, 0.0),
    ],
)
def test_scripts_without_spaces_count_characters(gold, predicted, exact, f1):
    golds, predictions = {"q": [gold]}, {"q": predicted}
    for result in (
        score_v1(golds, predictions, by_characters=True),
        score_v2(golds, predictions, by_characters=True).all,
    ):
        assert (result.exact, result.f1) == (exact, pytest.approx(f1))
    by_words = score_v1(golds, predictions)
    assert by_words.f1 in (0.0, 1.0) or " " in gold
