"""The Brier score beside scikit-learn's, and its slope where the model is sure."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.metrics import brier_score_loss

from dicejax import losses


def test_its_mean_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    z, labels = rng.normal(size=(200, 4)) * 3, rng.integers(0, 4, 200)
    got = losses.brier(jnp.array(z, jnp.float32), jnp.array(labels))
    squares = (softmax(z, axis=-1) - np.eye(4)[labels]) ** 2
    np.testing.assert_allclose(got, squares.sum(-1), rtol=2e-5)
    z, labels = z[:, 0], labels % 2
    got = losses.brier(jnp.array(z, jnp.float32), jnp.array(labels), class_axis=None)
    # Theirs is of one of the two outcomes.
    assert got.mean() == pytest.approx(2 * brier_score_loss(labels, expit(z)), rel=1e-5)


def test_its_slope_vanishes_where_it_is_surely_wrong_and_that_of_ce_does_not():
    z = np.array([-100.0, -20.0, -5.0, 0.0, 5.0, 20.0, 100.0])
    ones = jnp.ones(len(z), int)

    def slopes(loss):
        def total(logits):
            return loss(logits, ones, class_axis=None).sum()

        return jax.grad(total)(jnp.array(z, jnp.float32))

    wrong, right = expit(-z), expit(z)
    np.testing.assert_allclose(
        slopes(losses.brier), -4 * right * wrong**2, rtol=1e-5, atol=1e-37
    )
    assert slopes(losses.brier)[0] == pytest.approx(0, abs=1e-30)
    np.testing.assert_allclose(
        slopes(losses.cross_entropy), -wrong, rtol=1e-5, atol=1e-37
    )


@pytest.mark.parametrize("limit", [1e4, np.inf])
def test_values_and_slopes_are_finite_where_p_is_0_or_1(limit):
    z = jnp.array([[limit, 0.0, 0.0], [-limit, 0.0, 0.0]])
    z = jnp.where(jnp.isposinf(z), 1e4, z)
    right, wrong = jnp.array([0, 1]), jnp.array([1, 0])
    np.testing.assert_allclose(losses.brier(z, right), [0, 0.5], atol=1e-7)
    np.testing.assert_allclose(losses.brier(z, wrong), [2, 1.5], rtol=1e-6)
    for labels in (right, wrong):
        slope = jax.grad(lambda z, y=labels: losses.brier(z, y).sum())(z)
        assert jnp.isfinite(slope).all() and slope[0] == pytest.approx(0, abs=1e-7)
