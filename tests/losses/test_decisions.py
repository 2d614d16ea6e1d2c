"""Losses of decisions are the metrics of scikit-learn: Matthews and Jaccard."""

import jax
import numpy as np
import pytest
import sklearn.metrics

from dicejax.losses import lovasz_hinge, mcc

from .cases import CLASSES


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def decided(seed, size=60):
    """Return labels and decisions, right in two of three; class 2 is the rarest."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(CLASSES, size, p=[0.6, 0.3, 0.1])
    return labels, np.where(rng.random(size) < 2 / 3, labels, rng.permutation(labels))


@pytest.mark.parametrize("seed", range(3))
def test_mcc_of_decisions_is_scikit_learns(seed):
    labels, decisions = decided(seed)
    logits = 1e3 * np.eye(CLASSES)[decisions]
    score = sklearn.metrics.matthews_corrcoef
    each = [1 - score(labels == c, decisions == c) for c in range(CLASSES)]
    np.testing.assert_allclose(mcc(logits, labels), each, atol=1e-12)
    whole = mcc(logits, labels, variant="multiclass")
    np.testing.assert_allclose(whole, 1 - score(labels, decisions), atol=1e-12)
    binary = mcc(1e3 * (2.0 * (decisions == 2) - 1), labels == 2, class_axis=None)
    np.testing.assert_allclose(binary, each[2], atol=1e-12)


def test_two_classes_have_the_same_mcc_in_both_variants():
    labels = np.arange(8) % 3 % 2
    logits = np.random.default_rng(0).normal(size=(8, 2))
    each, whole = mcc(logits, labels), mcc(logits, labels, variant="multiclass")
    np.testing.assert_allclose(each, [whole, whole], rtol=1e-12)


@pytest.mark.parametrize("variant", ["one_versus_rest", "multiclass"])
def test_mcc_of_one_decision_for_all_is_chance_and_of_one_label_nothing(variant):
    logits, labels = np.zeros((4, 2)), np.array([0, 1, 0, 0])
    logits[:, 0] = 1e4
    np.testing.assert_allclose(mcc(logits, labels, variant=variant), 1.0)
    value, slope = jax.value_and_grad(
        lambda z: mcc(z, np.zeros(4, int), variant=variant).sum()
    )(np.ones((4, 2)))
    assert value == 0 and not slope.any()


@pytest.mark.parametrize("seed", range(3))
def test_lovasz_hinge_of_logits_of_1_is_twice_the_jaccard_loss(seed):
    labels, decisions = decided(seed)
    for c in range(CLASSES):
        # A wrong decision has the hinge 2, a right one 0.
        got = lovasz_hinge(2.0 * (decisions == c) - 1, labels == c, class_axis=None)
        score = sklearn.metrics.jaccard_score(labels == c, decisions == c)
        np.testing.assert_allclose(got, 2 * (1 - score), rtol=1e-12)
