"""Multi-label scores and average precision vs. scikit-learn."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from dicejax.metrics import multi_label, thresholds
from dicejax.metrics.ranking import average_precision, average_precision_per_class


def drawn(seed, rows=60, labels=5, values=None):
    """Return gold, predictions and scores, some labels and rows without any."""
    random = np.random.default_rng(seed)
    gold = random.random((rows, labels)) < np.linspace(0.6, 0.02, labels)
    gold[:3] = [[False], [True], [False]]
    scores = random.random((rows, labels))
    if values is not None:  # ties
        scores = np.round(scores * values) / values
    predicted = scores > 0.6
    gold[3:, -1] = predicted[:, -2] = False
    return gold, predicted, scores


@pytest.mark.parametrize("seed", range(5))
def test_decisions_are_scored_as_scikit_learn_scores_them(seed):
    gold, predicted, _ = drawn(seed)
    gold[:, 0] = predicted[:, 0] = False  # a label that nobody names
    result = multi_label.scores(gold, predicted)
    for average in ("micro", "macro"):
        for name in ("precision", "recall", "f1"):
            score = getattr(metrics, f"{name}_score")
            expected = score(gold, predicted, average=average, zero_division=0)
            mine = getattr(getattr(result, average), name)
            assert mine == pytest.approx(expected, abs=1e-12)
    each = metrics.f1_score(gold, predicted, average=None, zero_division=0)
    np.testing.assert_allclose([row.f1 for row in result.per_label], each, atol=1e-12)
    assert [row.support for row in result.per_label] == gold.sum(0).tolist()
    expected = metrics.accuracy_score(gold, predicted)
    assert result.subset_accuracy == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("values", [None, 3])
@pytest.mark.parametrize("labels", [1, 2, 6])
def test_ranking_is_scored_as_scikit_learn_scores_it(labels, values):
    gold, _, scores = drawn(0, labels=max(labels, 2), values=values)
    gold, scores = gold[:, :labels], scores[:, :labels]
    precision = multi_label.label_ranking_average_precision(gold, scores)
    if labels > 1:  # with one it takes gold for binary, which it refuses
        expected = metrics.label_ranking_average_precision_score(gold, scores)
        assert precision.mean() == pytest.approx(expected, abs=1e-12)
    assert ((precision > 0) & (precision <= 1)).all()
    assert precision[gold.sum(1) == 0].tolist() == [1.0] * int((gold.sum(1) == 0).sum())


def test_each_label_gets_the_threshold_that_it_would_get_alone():
    gold, _, scores = drawn(3, labels=4)
    gold[:, 3] = False
    names = ["a", "b", "c", "none"]
    tuned = thresholds.tune_per_label(scores, gold, names)
    alone = [thresholds.tune(scores[:, n], gold[:, n]) for n in range(4)]
    assert list(tuned.threshold.values()) == [single.threshold for single in alone]
    assert tuned.threshold["none"] == 0.5 and tuned.tuned == 3
    assert tuned.score == pytest.approx(np.mean([single.score for single in alone]))
    assert tuned.default_score == pytest.approx(
        metrics.f1_score(gold, scores >= 0.5, average="macro", zero_division=0)
    )


def binary_cases():
    score = st.one_of(st.sampled_from([0.0, 0.5, 1.0, -3.0]), st.floats(-1e6, 1e6))
    return st.lists(st.tuples(st.booleans(), score), min_size=1, max_size=30)


@given(binary_cases(), st.randoms(use_true_random=False))
def test_average_precision_equals_sklearn_in_any_order(case, rng):
    gold, scores = zip(*case, strict=True)
    ours = average_precision(gold, scores)
    if any(gold):
        theirs = metrics.average_precision_score(gold, scores)
        assert ours == pytest.approx(theirs, rel=1e-12)
    else:
        assert ours == 0
    rng.shuffle(case)
    assert average_precision(*zip(*case, strict=True)) == ours


@pytest.mark.parametrize(
    ("gold", "scores", "expected"),
    [
        ([1, 1, 0], [3, 2, 1], 1),
        ([0, 0, 1], [3, 2, 1], 1 / 3),
        ([0, 1, 0, 1], [5, 5, 5, 5], 0.5),  # all tied: the share of positives
        ([1, 1], [1, 2], 1),
        ([0, 0], [1, 2], 0),
        ([], [], 0),
        ([1, 0], [-np.inf, np.inf], 0.5),
    ],
)
def test_average_precision_by_hand(gold, scores, expected):
    assert average_precision(gold, scores) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("decimals", [1, 8])
def test_each_class_equals_sklearn(decimals):
    rng = np.random.default_rng(0)
    gold = rng.random((2_000, 5)) < [0.6, 0.3, 0.09, 0.01, 0]
    scores = np.round(rng.random((2_000, 5)) + 0.5 * gold, decimals)
    result = average_precision_per_class(gold, scores)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # class 4 has no positives
        theirs = metrics.average_precision_score(gold, scores, average=None)
    assert result.per_class == pytest.approx(tuple(theirs), rel=1e-12)
    assert result.per_class[4] == 0
    assert result.macro == pytest.approx(theirs[:4].mean(), rel=1e-12)
