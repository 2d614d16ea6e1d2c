"""Average precision vs. scikit-learn."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from dicejax.metrics.ranking import average_precision, average_precision_per_class


def binary_cases():
    score = st.one_of(st.sampled_from([0.0, 0.5, 1.0, -3.0]), st.floats(-1e6, 1e6))
    return st.lists(st.tuples(st.booleans(), score), min_size=1, max_size=30)


@given(binary_cases(), st.randoms(use_true_random=False))
def test_average_precision_equals_sklearn_in_any_order(case, rng):
    gold, scores = zip(*case, strict=True)
    ours = average_precision(gold, scores)
    if any(gold):
        theirs = average_precision_score(gold, scores)
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
    gold = rng.choice(5, 2_000, p=[0.6, 0.3, 0.09, 0.01, 0])
    right = gold[:, None] == np.arange(5)
    scores = np.round(rng.random((2_000, 5)) + 0.5 * right, decimals)
    result = average_precision_per_class(gold, scores)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # class 4 has no positives
        theirs = average_precision_score(right, scores, average=None)
    assert result.per_class == pytest.approx(tuple(theirs), rel=1e-12)
    assert result.per_class[4] == result.support[4] == 0
    assert result.macro == pytest.approx(theirs[:4].mean(), rel=1e-12)


def test_multi_label_gold_equals_sklearn():
    rng = np.random.default_rng(1)
    gold, scores = rng.random((500, 3)) < 0.1, rng.random((500, 3))
    result = average_precision_per_class(gold, scores)
    theirs = average_precision_score(gold, scores, average="macro")
    assert result.macro == pytest.approx(theirs, rel=1e-12)
    assert result.support == tuple(gold.sum(0))
