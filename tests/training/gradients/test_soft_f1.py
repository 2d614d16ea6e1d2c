"""The gradient of the data set's soft F1: by hand, by differences, by the whole set."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, softmax

from dicejax import losses
from dicejax.losses import OverlapCounts
from dicejax.tasks import Target
from dicejax.training.gradients.measures import (
    Groups,
    averages,
    cosine,
    counts_of,
    descent,
    no_counts,
    soft_f1,
)

TAGS = Groups.of_target(
    Target("classes", ("O", "PER", "LOC", "ORG"), has_negative=True)
)
POS = Groups.of_target(Target("classes", ("ADJ", "NOUN", "VERB", "X")))
YES = Groups.of_target(Target("multi_label", ("start", "end", "both", "none")))


def made(groups, seed, rows=12):
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=2, size=(rows, 4))
    labels = (
        rng.integers(0, 2, (rows, 4))
        if groups.multi_label
        else rng.choice(4, rows, p=[0.7, 0.15, 0.15, 0.0])
    )
    labels[0] = -100
    return logits, labels


def sums(groups, logits, labels):
    """Return I, P, Y by class, and p and y of each element, in NumPy."""
    seen = labels >= 0
    if groups.multi_label:
        p, y = expit(logits) * seen, np.where(seen, labels, 0)
    else:
        y = np.eye(4)[np.maximum(labels, 0)] * seen[:, None]
        p = softmax(logits, axis=-1) * seen[:, None]
    return (p * y).sum(0), p.sum(0), y.sum(0), p, y


def by_hand(groups, former, logits, labels, average):
    """Return F1, and the gradient of one minus it, by the quotient rule."""
    *batch, p, y = sums(groups, logits, labels)
    right, predicted, actual = (a + b for a, b in zip(former, batch, strict=True))
    positive = np.arange(4) >= (groups.has_negative and not groups.multi_label)
    if average == "micro":
        size = (predicted + actual)[positive].sum()
        value = 2 * right[positive].sum() / size
        of_p = (2 * y / size - value / size) * positive
    else:
        counted = positive & (actual > 0)
        size = np.where(predicted + actual > 0, predicted + actual, 1)
        of_class = 2 * right / size
        value = of_class[counted].mean()
        of_p = (2 * y / size - of_class / size) * counted / counted.sum()
    if groups.multi_label:
        return value, -of_p * p * (1 - p) * (labels >= 0)
    return value, -p * (of_p - (p * of_p).sum(-1, keepdims=True))


CASES = pytest.mark.parametrize(
    ("groups", "average"),
    [(TAGS, "micro"), (TAGS, "macro"), (POS, "macro"), (YES, "micro"), (YES, "macro")],
)


@CASES
def test_the_slope_is_that_of_the_quotient_rule(groups, average):
    logits, labels = made(groups, 0)
    former = sums(groups, *made(groups, 1, rows=40))[:3]
    names = ("intersection", "predicted", "actual")
    counts = OverlapCounts(**dict(zip(names, former, strict=True)))
    value, gradient = by_hand(groups, former, logits, labels, average)
    z = jnp.asarray(logits, jnp.float32)
    score, slope = descent(z, labels, counts, groups, average)
    np.testing.assert_allclose(score, value, rtol=1e-5)
    np.testing.assert_allclose(slope, gradient, rtol=1e-4, atol=1e-8)
    assert np.abs(gradient).max() > 1e-4
    # By differences of the value by hand, which shares nothing with the slope by hand.
    step = np.zeros_like(logits)
    step[3, 1] = 1e-5
    above, below = (
        by_hand(groups, former, logits + sign * step, labels, average)[0]
        for sign in (1, -1)
    )
    difference = -(above - below) / 2e-5
    np.testing.assert_allclose(slope[3, 1], difference, rtol=1e-4, atol=1e-9)


@CASES
def test_batches_with_each_others_counts_make_the_loss_of_the_data_set(groups, average):
    parts = [made(groups, seed) for seed in (0, 1, 2)]
    parts = [(jnp.asarray(z, jnp.float32), y) for z, y in parts]
    logits, labels = map(np.concatenate, zip(*parts, strict=True))
    has_negative_class = groups.has_negative and not groups.multi_label
    whole = jax.grad(losses.soft_f1)(
        jnp.asarray(logits, jnp.float32),
        labels,
        multi_label=groups.multi_label,
        average=average,
        absent="skip",
        smooth=0.0,
        exclude_class=0 if has_negative_class else None,
    )
    counts = [counts_of(z, y, groups) for z, y in parts]
    slopes = []
    for index, (z, y) in enumerate(parts):
        former = sum(counts[:index] + counts[index + 1 :], no_counts(4))
        slopes.append(descent(z, y, former, groups, average)[1])
    np.testing.assert_allclose(np.concatenate(slopes), whole, rtol=2e-4, atol=1e-8)


def test_without_a_negative_class_micro_f1_is_accuracy():
    assert averages(POS) == ("macro",) and averages(TAGS)[0] == "micro"
    logits, labels = made(POS, 0)
    counts = counts_of(jnp.asarray(logits, jnp.float32), labels, POS)
    micro = soft_f1(counts, POS, "micro")
    seen = labels >= 0
    p = softmax(logits, -1)[seen, labels[seen]]
    np.testing.assert_allclose(micro, p.mean(), rtol=1e-5)


@pytest.mark.parametrize("average", ["micro", "macro"])
def test_no_labels_give_no_gradient(average):
    labels, counts = jnp.full(2, -100), no_counts(4)
    value, slope = descent(jnp.zeros((2, 4)), labels, counts, TAGS, average)
    assert value == 0 and not slope.any()


def test_cosines_are_those_of_numpy_for_numbers_of_any_size():
    a, b = np.random.default_rng(0).normal(size=(2, 30))
    expected = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    for size in (1e-30, 1.0, 1e30):
        first = {"x": jnp.asarray(size * a[:10]), "y": jnp.asarray(size * a[10:])}
        second = {"x": jnp.asarray(b[:10]), "y": jnp.asarray(b[10:])}
        np.testing.assert_allclose(cosine(first, second), expected, rtol=1e-5)
    assert cosine(jnp.zeros(3), jnp.ones(3)) == 0
