"""Overlap counts against the oracle, and Dice of sets that are nearly empty."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax.losses import OverlapCounts, dice, dice_from_counts, overlap_counts

from . import oracle
from .cases import FORMS, LAYOUTS, SOFTMAX, draw

SETTINGS = [
    *({"axis": axis} for axis in (None, (), 0, -1, (1, -2), (-2,))),
    *({"alpha": alpha} for alpha in (0.0, 1e-3, 0.5, 8.0)),
    {"squared": True, "axis": 0},
    {"intersection": "minimum", "axis": -1},
    {"alpha": 0.5, "axis": ()},
    {"alpha": 1.5, "squared": True},
    {"alpha": 0.5, "intersection": "minimum", "stop_gradient_weight": True},
]


@pytest.mark.parametrize("kind", ["random", "extreme", "soft"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_counts_are_those_of_the_oracle(settings, form, kind):
    logits, labels, where = draw(form, kind)
    settings = {"where": where, **settings, **LAYOUTS[form]}
    got = overlap_counts(logits, labels, **settings)
    want = oracle.counts(logits, labels, **settings)
    for ours, theirs in zip(jax.tree.leaves(got), want, strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("z", [0.0, -30.0, -45.0, -60.0, -87.0, -100.0, -1e4])
def test_vanishing_predictions_without_gold_have_finite_gradients(z):
    # 1 / P^2 overflows float32 below P = 1e-19, and 0 * inf is NaN.
    value, gradient = jax.value_and_grad(
        lambda z: dice(z, jnp.zeros(1, int), class_axis=None, smooth=0.0)
    )(jnp.array([z]))
    assert value == (1.0 if z > -43 else 0.0)
    assert gradient.tolist() == [0.0]


def test_summed_over_softmax_classes_it_is_an_accuracy_surrogate():
    logits, labels, _ = draw(SOFTMAX, seed=8)
    labels = abs(labels) % 3
    p = np.take_along_axis(np.asarray(jax.nn.softmax(logits)), labels[..., None], -1)
    counts = overlap_counts(logits, labels, axis=())
    for axis, wrong, size in ((-1, 1 - p[..., 0], 1), (None, (1 - p).sum(), p.size)):
        summed = jax.tree.map(lambda x, axis=axis: x.sum(axis), counts)
        expected = 2 * wrong / (2 * size + 1)
        value = dice_from_counts(summed, smooth=1.0)
        np.testing.assert_allclose(value, expected, rtol=1e-5)


def test_counts_of_integers_are_accepted():
    numbers = {"intersection": [3, 0], "predicted": [4, 1], "actual": [4, 0]}
    counts = OverlapCounts(**{name: np.array(n) for name, n in numbers.items()})
    np.testing.assert_allclose(dice_from_counts(counts, smooth=0.0), [0.25, 1.0])
