"""Classification scores vs. scikit-learn."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sklearn

from dicejax.metrics.classification import (
    ClassScores,
    ConfusionMatrix,
    confusion,
    scores,
)

CORNERS = {
    "perfect": ([0, 1, 2, 1], [0, 1, 2, 1]),
    "all wrong": ([0, 1, 2], [1, 2, 0]),
    "all gold one class": ([1, 1, 1], [0, 1, 1]),
    "all predicted one class": ([0, 1, 2, 1], [1, 1, 1, 1]),
    "both one class": ([1, 1], [1, 1]),
    "both one class, not the same": ([1, 1], [0, 0]),
    "a class only predicted": ([0, 0, 1], [0, 2, 1]),
    "a class only in gold": ([0, 2, 1], [0, 0, 1]),
    "a class in neither": ([0, 2, 2], [2, 2, 0]),
    "one example": ([0], [0]),
}


def pairs(classes=4):
    """Draw gold and predicted classes of the same examples."""
    label = st.integers(0, classes - 1)
    return st.lists(st.tuples(label, label), min_size=1, max_size=30).map(
        lambda items: tuple(map(list, zip(*items, strict=True)))
    )


def assert_equals_sklearn(gold, predicted, classes=4, labels=None):
    matrix = confusion(gold, predicted, classes)
    expected = sklearn.confusion_matrix(gold, predicted, labels=range(classes))
    assert np.array_equal(matrix.counts, expected)
    result = scores(matrix, labels)
    assert result.accuracy == pytest.approx(
        sklearn.accuracy_score(gold, predicted), rel=1e-14
    )
    with warnings.catch_warnings():  # of classes that were only predicted
        warnings.simplefilter("ignore")
        matthews = sklearn.matthews_corrcoef(gold, predicted)
    assert result.matthews == pytest.approx(matthews, rel=1e-12, abs=1e-15)
    theirs = sklearn.precision_recall_fscore_support(
        gold, predicted, labels=labels, average="macro", zero_division=0
    )[:3]
    macro = result.macro
    assert (macro.precision, macro.recall, macro.f1) == pytest.approx(theirs, rel=1e-14)
    theirs = sklearn.precision_recall_fscore_support(
        gold, predicted, labels=range(classes), zero_division=0
    )
    for ours, *row in zip(result.per_class, *theirs, strict=True):
        assert (ours.precision, ours.recall, ours.f1, ours.support) == pytest.approx(
            tuple(row), rel=1e-14
        )
    return result


@pytest.mark.parametrize("corner", CORNERS)
def test_corner_cases_equal_sklearn(corner):
    assert_equals_sklearn(*CORNERS[corner])
    assert_equals_sklearn(*CORNERS[corner], labels=[0, 1, 2, 3])


@given(pairs(), st.none() | st.sets(st.integers(0, 3), min_size=1).map(sorted))
def test_random_cases_equal_sklearn_over_all_or_some_classes(case, labels):
    assert_equals_sklearn(*case, labels=labels)


@pytest.mark.parametrize("seed", range(3))
def test_large_imbalanced_cases_equal_sklearn(seed):
    rng = np.random.default_rng(seed)
    gold = rng.choice(4, 100_000, p=[0.97, 0.02, 0.009, 0.001])
    predicted = np.where(rng.random(100_000) < 0.1, rng.integers(0, 4, 100_000), gold)
    result = assert_equals_sklearn(gold, predicted)
    assert result.macro.f1 < result.accuracy


@given(pairs(), st.integers(0, 30))
def test_matrices_of_parts_add_up_to_that_of_the_whole(case, cut):
    gold, predicted = case
    first = confusion(gold[:cut], predicted[:cut], 4)
    assert first + confusion(gold[cut:], predicted[cut:], 4) == confusion(*case, 4)


def test_nothing_scores_zero():
    result = scores(confusion([], [], 2))
    nothing = ClassScores(0.0, 0.0, 0.0, 0)
    assert (result.accuracy, result.matthews) == (0, 0)
    assert {result.macro, *result.per_class} == {nothing}


def test_matthews_does_not_overflow():
    many = 10**11
    matrix = ConfusionMatrix(((9 * many, many), (many, 9 * many)))
    assert scores(matrix).matthews == pytest.approx(0.8, rel=1e-15)
