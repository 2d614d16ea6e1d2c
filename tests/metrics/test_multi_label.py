"""Multi-label scores are scikit-learn's."""

import numpy as np
import pytest
from sklearn import metrics

from dicejax.metrics import multi_label, thresholds


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
    assert tuned.f1 == pytest.approx(np.mean([single.f1 for single in alone]))
    assert tuned.default_f1 == pytest.approx(
        metrics.f1_score(gold, scores >= 0.5, average="macro", zero_division=0)
    )
