"""F-beta as primary metric: scores, statistics and thresholds, beside scikit-learn."""

import dataclasses

import numpy as np
import pytest
from sklearn import metrics

from dicejax.data.examples import (
    LabelledText,
    MultiLabelText,
    Sentence,
    Span,
    TaggedWords,
)
from dicejax.metrics.thresholds import tune
from dicejax.tasks import (
    Classification,
    MachineReading,
    MultiLabelClassification,
    Prediction,
    Tagging,
    WordTagging,
)
from dicejax.tasks.scoring import score, total

RNG = np.random.default_rng(5)
BETAS = ["0.5", "1", "2", "10"]


def check(task, examples, predictions, labels, expected):
    """Compare the score, and the sum of the statistics of examples, with a number."""
    scores, shares = score(task, examples, predictions, labels)
    assert scores.values[task.primary_metric] == pytest.approx(expected, abs=1e-12)
    assert total(shares) == pytest.approx(expected, abs=1e-12)
    return scores


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("classes", ["ab", "abc"])
def test_classes(classes, beta):
    gold = RNG.choice(list(classes), 200)
    guesses = np.where(RNG.random(200) < 0.6, gold, RNG.choice(list(classes), 200))
    examples = [LabelledText("x", None, c, str(n), n) for n, c in enumerate(gold)]
    even = dict.fromkeys(classes, 1 / len(classes))
    decided = [Prediction((c,), even) for c in guesses]
    settings = {"beta": float(beta), "zero_division": 0}
    average = "macro" if len(classes) > 2 else None
    every = metrics.fbeta_score(gold, guesses, average=average, **settings)
    expected = every if average else every[1]
    task = Classification(primary_metric=f"f{beta}")
    scores = check(task, examples, decided, tuple(classes), expected)
    name = f"macro F{beta}" if average else f"F{beta} of 'b'"
    assert scores.name(task.primary_metric) == name
    each = metrics.fbeta_score(gold, guesses, average=None, **settings)
    of_one = Classification(primary_metric=f"f{beta}:a")
    labels = tuple(classes) if average else ("b", "a")
    scores = check(of_one, examples, decided, labels, each[0])
    assert next(iter(scores.values)) == f"f{beta}:a"
    assert scores.name(f"f{beta}:a") == f"F{beta} of 'a'"


@pytest.mark.parametrize("beta", ["1", "2"])
def test_a_class_of_train_that_a_split_lacks_counts_as_0(beta):
    """Else the score has fewer classes than its statistics, and training stops."""
    examples = [LabelledText("x", None, c, str(n), n) for n, c in enumerate("aabb")]
    decided = [Prediction((c,), dict.fromkeys("abc", 1 / 3)) for c in "abbb"]
    expected = metrics.fbeta_score(
        list("aabb"),
        list("abbb"),
        beta=float(beta),
        labels=list("abc"),
        average="macro",
        zero_division=0,
    )
    check(Classification(primary_metric=f"f{beta}"), examples, decided, "abc", expected)


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("average", ["micro", "macro"])
def test_several_labels(average, beta):
    names = np.array(["a", "b", "c"])
    gold, guesses = RNG.random((2, 100, 3)) < [0.1, 0.3, 0.5]
    examples = [
        MultiLabelText("x", None, tuple(names[row]), str(n), n)
        for n, row in enumerate(gold)
    ]
    chances = dict.fromkeys(names, 0.5)
    decided = [Prediction(tuple(names[row]), chances) for row in guesses]
    for metric, average_of, place in (
        (f"{average}_f{beta}", average, ()),
        (f"f{beta}:c", None, 2),
    ):
        task = MultiLabelClassification(primary_metric=metric)
        expected = metrics.fbeta_score(
            gold, guesses, beta=float(beta), average=average_of
        )
        check(task, examples, decided, tuple(names), np.asarray(expected)[place])
    assert task.score(examples, decided, names).name("macro_f2") == "macro F2"


def test_entities_by_hand():
    person, place = Span("PER", 0, 1), Span("LOC", 1, 2)
    examples = [
        Sentence(("x", "y", "z"), (person, place), 1),
        Sentence(("x", "y", "z"), (person,), 2),
        Sentence(("x", "y", "z"), (place,), 3),
    ]
    guesses = [(person,), (Span("PER", 0, 2), Span("LOC", 2, 3)), (place,)]
    decided = [Prediction(spans) for spans in guesses]
    # Right: PER of the first and LOC of the third. Missed: LOC of the first and PER of
    # the second. Found though there are none: both of the second.
    tp, fn, fp = 2, 2, 2
    for beta, text in ((2.0, "2"), (0.5, "0.5")):
        weighted = (1 + beta**2) * tp
        expected = weighted / (weighted + beta**2 * fn + fp)
        check(Tagging(primary_metric=f"f{text}"), examples, decided, (), expected)
    # Without the false LOC precision is 2 / 3 and recall 2 / 4.
    decided[1] = Prediction((Span("PER", 0, 2),))
    check(Tagging(primary_metric="f2"), examples, decided, (), 10 / (10 + 4 * 2 + 1))
    check(Tagging(primary_metric="f0.5"), examples, decided, (), 2.5 / (2.5 + 0.5 + 1))
    # Of PER one is right, one missed and one false; of LOC one right and one missed.
    check(Tagging(primary_metric="f2:PER"), examples, decided, (), 5 / (5 + 4 + 1))
    check(Tagging(primary_metric="f2:LOC"), examples, decided, (), 5 / (5 + 4))


def test_labels_of_words():
    gold, guesses = RNG.choice(list("abc"), (2, 90))
    examples = [
        TaggedWords(("w",) * 3, tuple(row), n)
        for n, row in enumerate(gold.reshape(-1, 3).tolist())
    ]
    decided = [Prediction(row) for row in guesses.reshape(-1, 3).tolist()]
    micro = metrics.fbeta_score(gold, guesses, beta=2, average="micro")
    check(WordTagging(primary_metric="f2"), examples, decided, tuple("abc"), micro)
    each = metrics.fbeta_score(gold, guesses, beta=2, average=None)
    check(WordTagging(primary_metric="f2:b"), examples, decided, tuple("abc"), each[1])


def test_a_threshold_is_that_of_the_primary_metric():
    chances = RNG.random(60)
    gold = np.where(RNG.random(60) < chances, "b", "a")
    gold[0] = "b"
    examples = [LabelledText("x", None, c, str(n), n) for n, c in enumerate(gold)]
    candidates = [{"a": 1 - p, "b": p} for p in chances.tolist()]
    limits = {}
    for metric, beta in {"f1": 1, "f2": 2, "f0.5:b": 0.5, "accuracy": 1}.items():
        task = Classification(primary_metric=metric, tune_threshold=True)
        tuned = task.tune(examples, candidates, ("a", "b"))
        tried = [
            metrics.fbeta_score(gold == "b", chances >= limit, beta=beta)
            for limit in chances
        ]
        assert tuned.score == pytest.approx(max(tried), abs=1e-12)
        decided = [task.decide(each, tuned.threshold) for each in candidates]
        if metric != "accuracy":
            check(task, examples, decided, ("a", "b"), tuned.score)
        assert str(tuned).startswith(f"F{beta:g} {tuned.score:.4f} at threshold ")
        limits[metric] = tuned.threshold
    # The more recall counts, the lower.
    assert limits["f2"] < limits["f1"] == limits["accuracy"] < limits["f0.5:b"]
    several = MultiLabelClassification(primary_metric="macro_f2", tune_thresholds=True)
    texts = [MultiLabelText("x", None, (c,), str(n), n) for n, c in enumerate(gold)]
    by_label = several.tune(texts, candidates, ("a", "b"))
    assert by_label.threshold["b"] == limits["f2"]
    assert str(by_label).startswith("macro F2 ")


def test_a_threshold_of_spans_is_that_of_the_primary_metric():
    spans = [Span("a", n, n + 1) for n in range(3)]
    rows = [list(zip(spans, (0.9, 0.2, 0.3), strict=True))]
    examples = [Sentence(("x", "y", "z"), tuple(spans[:2]), 1)]
    task = MachineReading(queries=(("a", "which"),), primary_metric="f0.5")
    # At 0.9 tp 1, fn 1; at 0.2 all are taken, tp 2, fp 1. Of F0.5 the first is better.
    tuned = task.tune(examples, rows, ("a",))
    assert tuned.score == pytest.approx(1.25 / (1.25 + 0.25))
    tuned = dataclasses.replace(task, primary_metric="f2").tune(examples, rows, ("a",))
    assert (tuned.threshold, tuned.score) == (0.2, pytest.approx(10 / (10 + 1)))


@pytest.mark.parametrize("metric", ["f0", "f-1", "f2.0", "f", "f1e3", "fx", "micro_f2"])
def test_what_is_no_f_beta_is_refused(metric):
    with pytest.raises(ValueError, match=r"another beta than 1 as f2 or f0\.5"):
        Classification(primary_metric=metric)
    with pytest.raises(ValueError, match="want f1, or f1:NAME"):
        Tagging(primary_metric=metric)


def test_a_beta_that_is_not_above_0_is_refused():
    with pytest.raises(ValueError, match="beta is 0; want above 0"):
        tune([0.5], [1], beta=0)
