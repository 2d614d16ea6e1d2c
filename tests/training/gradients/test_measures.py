"""Sums over gradient elements vs. NumPy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, softmax

from dicejax.objectives import CrossEntropy
from dicejax.tasks import Target
from dicejax.training.gradients.measures import (
    HARDNESS_BINS,
    NORM_BINS,
    NORM_DECADES,
    GradientElements,
    Groups,
    alarms_of,
    by_kind,
    elements_of,
    measure,
)

TAGS = Groups.of_target(Target("classes", ("O", "PER", "LOC"), has_negative=True))
POINTERS = Groups.of_target(Target("multi_label", ("start", "end")))


@functools.partial(jax.jit, static_argnums=3)
def measured(logits, labels, gradient, groups):
    """Return the sums over the elements of a batch."""
    return measure(elements_of(logits, labels, gradient, groups), groups)


GRADIENT = jax.jit(jax.grad(CrossEntropy().loss))


def batch(kind, seed=0):
    """Return logits, partly masked labels, and cross-entropy's gradient."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=3, size=(4, 9, 3 if kind == "tags" else 2))
    shape = logits.shape[:-1] if kind == "tags" else logits.shape
    labels = rng.integers(0, logits.shape[-1], shape)
    labels[rng.random(shape) < 0.3] = -100
    return logits, labels, GRADIENT(jnp.asarray(logits, jnp.float32), labels)


def in_numpy(kind, logits, labels):
    """Return h, g and the group of labelled elements."""
    seen = labels >= 0
    if kind == "tags":
        away = softmax(logits, axis=-1) - np.eye(3)[np.maximum(labels, 0)]
        lengths = np.sqrt((away**2).sum(axis=-1))
        p = np.take_along_axis(
            softmax(logits, axis=-1), np.maximum(labels, 0)[..., None], -1
        )[..., 0]
        return (1 - p)[seen], lengths[seen], labels[seen]
    lengths = np.abs(expit(logits) - labels)
    group = np.where(labels == 1, [1, 2], 0)
    return lengths[seen], lengths[seen], group[seen]


BOTH = pytest.mark.parametrize(
    ("kind", "groups"), [("tags", TAGS), ("pointers", POINTERS)]
)


@BOTH
def test_sums_are_those_of_numpy(kind, groups):
    logits, labels, gradient = batch(kind)
    sums = measured(logits, labels, gradient, groups)
    hardness, norm, group = in_numpy(kind, logits, labels)
    assert len(hardness) > 20
    for number in range(3):
        h, g = hardness[group == number], norm[group == number]
        assert sums.count[number] == len(h)
        assert sums.hard[number] == (h >= 0.5).sum()
        np.testing.assert_allclose(sums.gradient_norm[number], g.sum(), rtol=1e-5)
        for values, weights in ((sums.hardness, None), (sums.hardness_norm, g)):
            expected, _ = np.histogram(h, HARDNESS_BINS, (0, 1), weights=weights)
            np.testing.assert_allclose(values[number], expected, rtol=1e-5, atol=1e-6)
        for side, mask in enumerate((h < 0.5, h >= 0.5)):
            expected, _ = np.histogram(np.log10(g[mask]), NORM_BINS, NORM_DECADES)
            np.testing.assert_array_equal(sums.norms[number, side], expected)
    assert sums.not_finite == 0 and not sums.dead.any()


def test_the_norm_of_a_mean_of_cross_entropies_is_alike_on_any_batch():
    # N in the definition: twice the elements, the same mean of norms.
    logits, labels, gradient = batch("tags")
    once = measured(logits, labels, gradient, TAGS)
    logits, labels = (np.concatenate([x, x]) for x in (logits, labels))
    gradient = GRADIENT(jnp.asarray(logits, jnp.float32), labels)
    twice = measured(logits, labels, gradient, TAGS).gradient_norm
    np.testing.assert_allclose(twice, 2 * once.gradient_norm, rtol=1e-5)


def test_elements_without_a_label_take_no_part_whatever_their_gradient():
    logits, labels, gradient = batch("tags")
    spoilt = np.where((labels < 0)[..., None], np.nan, np.asarray(gradient))
    for wrong in (spoilt, gradient):
        sums = measured(logits, labels, wrong, TAGS)
        assert sums.count.sum() == (labels >= 0).sum()
        assert jnp.isfinite(sums.gradient_norm).all() and sums.not_finite == 0


def test_lengths_whose_squares_are_too_small_are_right():
    gradient = jnp.array([[3e-30, 4e-30, 0.0]])
    elements = elements_of(jnp.zeros((1, 3)), jnp.array([1]), gradient, TAGS)
    np.testing.assert_allclose(elements.gradient_norm, [5e-30], rtol=1e-6)


def test_dead_saturated_and_infinite_elements_are_counted_and_reported():
    # Five of PER: all saturated, four of them nearly without gradient.
    norm = jnp.array([0.9, 1e-4, 1e-4, 9e-3, 0.0, 0.4, jnp.inf])
    hardness = jnp.array([0.9995] * 5 + [0.4, 0.6])
    group = jnp.array([1, 1, 1, 1, 1, 0, 0])
    elements = GradientElements(group, jnp.ones(7, bool), hardness, norm)
    sums = jax.jit(measure, static_argnums=1)(elements, TAGS)
    assert sums.hard.tolist() == [1, 5, 0]
    assert sums.dead.tolist() == [1, 4, 0]  # non-finite values count as 0
    assert sums.saturated.tolist() == [0, 5, 0]
    assert sums.not_finite == 1
    record = jax.tree.map(np.asarray, vars(sums))
    assert [*alarms_of(record, TAGS)] == [
        ("not finite", ""),
        ("dead", "PER"),
        ("saturated", "PER"),
    ]
    # Less than five hard elements, or less than half of them: no alarm.
    few = {"hard": [0, 4, 9], "dead": [0, 4, 4], "saturated": [0, 4, 4]}
    assert alarms_of(record | few | {"not_finite": 0}, TAGS) == {}


@BOTH
def test_kinds_of_pieces_share_the_whole_gradient(kind, groups):
    logits, labels, gradient = batch(kind)
    elements = elements_of(jnp.asarray(logits), labels, gradient, groups)
    kinds = np.random.default_rng(1).integers(0, 4, (4, 9))
    sums = by_kind(elements, jnp.asarray(kinds), 4)
    norm = np.asarray(elements.gradient_norm).reshape(4, 9, -1).sum(axis=-1)
    seen = (labels >= 0).reshape(4, 9, -1).sum(axis=-1)
    for number in range(4):
        mask = kinds == number
        assert sums["places"][number] == mask.sum()
        assert sums["labelled"][number] == seen[mask].sum()
        total = norm[mask].sum()
        np.testing.assert_allclose(sums["gradient_norm"][number], total, rtol=1e-5)
