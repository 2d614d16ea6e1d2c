"""Logistic regressions are at the minimum of their objective."""

import numpy as np
import pytest
import scipy.sparse

from dicejax.controls import fit_logistic

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4))
SCORES = X @ RNG.normal(size=(4, 3))
CLASSES = (SCORES + RNG.gumbel(size=SCORES.shape)).argmax(axis=1)


def softmax(z):
    shares = np.exp(z - z.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("sparse", [False, True])
def test_gradient_is_zero_at_the_fit(sparse):
    x = scipy.sparse.csr_matrix(X) if sparse else X
    weights = RNG.uniform(0.5, 2.0, len(X))
    for strength, fitted in fit_logistic(
        x, CLASSES, strengths=(0.1, 10.0), weights=weights
    ):
        residual = softmax(fitted(x)) - np.eye(3)[CLASSES]
        slope = fitted.kernel / strength + X.T @ (weights[:, None] * residual)
        assert np.abs(slope).max() < 0.02 * np.abs(X.T @ weights).max()
        assert np.abs((weights[:, None] * residual).sum(axis=0)).max() < 0.05


def test_balanced_fit_weights_classes_by_their_inverse_frequency():
    rare = (SCORES[:, 0] > np.quantile(SCORES[:, 0], 0.9)).astype(int)
    ((_, plain),) = fit_logistic(X, rare, strengths=[1.0])
    ((_, balanced),) = fit_logistic(X, rare, strengths=[1.0], balanced=True)
    weights = len(rare) / (2 * np.bincount(rare)[rare])
    ((_, weighted),) = fit_logistic(X, rare, strengths=[1.0], weights=weights)
    np.testing.assert_allclose(balanced(X), weighted(X), atol=1e-3)
    assert (balanced(X).argmax(1) == 1).sum() > (plain(X).argmax(1) == 1).sum()


def test_labels_of_a_text_are_fitted_one_by_one():
    labels = np.stack([SCORES[:, 0] > 0, SCORES[:, 1] > 1], axis=1).astype(int)
    ((_, both),) = fit_logistic(X, labels, strengths=[1.0])
    for column in (0, 1):
        ((_, alone),) = fit_logistic(X, labels[:, column], strengths=[1.0])
        logits = alone(X)
        np.testing.assert_allclose(
            both(X)[:, column], logits[:, 1] - logits[:, 0], atol=1e-5
        )


def test_a_class_without_an_example_is_never_predicted():
    ((_, fitted),) = fit_logistic(X, CLASSES, strengths=[1.0], classes=5)
    assert fitted(X).shape == (len(X), 5)
    assert fitted(X).argmax(axis=1).max() < 3
    ((_, alone),) = fit_logistic(X, np.zeros(len(X), int), strengths=[1.0])
    assert (alone(X).argmax(axis=1) == 0).all()
