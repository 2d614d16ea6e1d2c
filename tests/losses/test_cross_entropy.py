"""Cross entropy against the oracle, hand-made numbers and central differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax.losses import cross_entropy

from . import oracle_pointwise as oracle


def softmax_case(seed, scale=3.0):
    rng = np.random.default_rng(seed)
    logits = (scale * rng.normal(size=(3, 4, 5))).astype(np.float32)
    labels = rng.integers(0, 5, (3, 4))
    labels[0, 1] = -100
    return logits, labels, rng.random((3, 4)) < 0.7


@pytest.mark.parametrize("scale", [3.0, 1e4])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"label_smoothing": 0.1},
        {"class_weights": np.array([1.0, 0.5, 2.0, 0.0, 3.0])},
        {"label_smoothing": 0.3, "class_weights": np.array([1.0, 0.5, 2.0, 4.0, 3.0])},
    ],
)
def test_softmax_matches_the_oracle(settings, scale):
    logits, labels, where = softmax_case(0, scale)
    got = cross_entropy(logits, labels, where=where, **settings)
    want = oracle.cross_entropy(logits, labels, where=where, **settings)
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("scale", [3.0, 1e4])
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize(
    "settings", [{}, {"label_smoothing": 0.2, "class_weights": np.array([0.5, 3.0])}]
)
def test_binary_matches_the_oracle(settings, soft, scale):
    rng = np.random.default_rng(1)
    logits = (scale * rng.normal(size=(3, 7))).astype(np.float32)
    labels = rng.random((3, 7)) if soft else rng.integers(0, 2, (3, 7))
    settings = {"where": rng.random((3, 7)) < 0.7, "class_axis": None, **settings}
    got = cross_entropy(logits, labels, **settings)
    np.testing.assert_allclose(
        got, oracle.cross_entropy(logits, labels, **settings), rtol=2e-6, atol=1e-6
    )


@pytest.mark.parametrize("class_axis", [0, 1, 2, -2])
def test_class_axis_and_soft_labels(class_axis):
    logits, _, where = softmax_case(2)
    labels = np.random.default_rng(3).dirichlet(np.ones(5), (3, 4))
    want = oracle.cross_entropy(logits, labels, where=where)
    moved = [np.moveaxis(one, -1, class_axis) for one in (logits, labels)]
    got = cross_entropy(*moved, where=where, class_axis=class_axis)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


def test_two_classes_are_the_binary_form():
    z, labels = np.linspace(-9, 9, 7, dtype=np.float32), np.array([0, 1, 1, 0, 1, 0, 1])
    settings = {"label_smoothing": 0.1, "class_weights": np.array([0.5, 2.0])}
    pair = np.stack([np.zeros_like(z), z], -1)
    np.testing.assert_allclose(
        cross_entropy(pair, labels, **settings),
        cross_entropy(z, labels, class_axis=None, **settings),
        rtol=1e-6,
        atol=1e-6,
    )


def test_uniform_logits_give_log_of_the_number_of_classes():
    losses = cross_entropy(np.zeros((2, 8), np.float32), np.array([0, 7]))
    np.testing.assert_allclose(losses, np.log(8), rtol=1e-6)


def test_one_class_and_no_elements():
    assert cross_entropy(np.ones((3, 1), np.float32), np.zeros(3, int)).tolist() == [
        0.0,
        0.0,
        0.0,
    ]
    assert cross_entropy(jnp.ones((0, 4)), jnp.ones(0, int)).shape == (0,)


@pytest.mark.parametrize("binary", [False, True])
def test_gradient_is_that_of_central_differences(binary, central_difference):
    rng = np.random.default_rng(4)
    logits = rng.normal(size=(3, 4))
    labels = rng.integers(0, 2, (3, 4) if binary else 3)
    settings = {"class_axis": None if binary else -1, "label_smoothing": 0.1}
    with jax.enable_x64(True):
        got = jax.grad(lambda z: cross_entropy(z, labels, **settings).sum())(
            jnp.asarray(logits)
        )
    want = central_difference(
        lambda z: oracle.cross_entropy(z, labels, **settings).sum(), logits
    )
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-9)
