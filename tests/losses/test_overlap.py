"""Overlap counts and the Dice loss against the oracle and against scikit-learn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax.losses import OverlapCounts, dice, dice_from_counts, overlap_counts

from . import oracle

AXES = [
    *((axis, False) for axis in (None, (), 0, -1, (1, -2))),
    *((axis, True) for axis in ((), (-2,))),
]


def case(seed, scale=3.0, binary=False, soft=False):
    rng = np.random.default_rng(seed)
    shape = (3, 4) if binary else (3, 4, 5)
    logits = (scale * rng.normal(size=shape)).astype(np.float32)
    if soft:
        labels = rng.random(shape).astype(np.float32)
    else:
        labels = rng.integers(0, 2 if binary else 5, (3, 4))
        labels[1, 2] = -100
    return logits, labels, rng.random((3, 4)) < 0.7


def assert_counts(got, want, rtol=3e-6, atol=1e-6):
    for one, other in zip(jax.tree.leaves(got), want, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)


@pytest.mark.parametrize(("axis", "binary"), AXES)
def test_counts_match_the_oracle_over_every_axis(axis, binary):
    logits, labels, where = case(0, binary=binary)
    settings = {"where": where, "axis": axis, "class_axis": None if binary else -1}
    assert_counts(
        overlap_counts(logits, labels, **settings),
        oracle.counts(logits, labels, **settings),
    )


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("scale", [3.0, 1e4])
@pytest.mark.parametrize("binary", [False, True])
def test_counts_match_the_oracle_at_every_scale(binary, scale, squared, soft):
    logits, labels, where = case(1, scale, binary, soft)
    settings = {"where": where, "class_axis": None if binary else -1}
    for alpha in (0.0, 1e-3, 0.5, 8.0):
        assert_counts(
            overlap_counts(logits, labels, alpha=alpha, squared=squared, **settings),
            oracle.counts(logits, labels, alpha=alpha, squared=squared, **settings),
            rtol=2e-5,
        )


@pytest.mark.parametrize("class_axis", [0, 1, -2])
def test_class_axis_may_stand_anywhere(class_axis):
    logits, labels, where = case(2)
    _, soft, _ = case(2, soft=True)
    moved = np.moveaxis(logits, -1, class_axis)
    got = dice(moved, labels, where=where, axis=0, class_axis=class_axis)
    np.testing.assert_allclose(
        got, oracle.dice(logits, labels, where=where, axis=0), rtol=1e-5
    )
    moved_soft = np.moveaxis(soft, -1, class_axis)
    got = dice(moved, moved_soft, where=where, axis=0, class_axis=class_axis)
    np.testing.assert_allclose(
        got, oracle.dice(logits, soft, where=where, axis=0), rtol=1e-5
    )


@pytest.mark.parametrize("absent", ["smooth", "skip"])
@pytest.mark.parametrize("smooth", [0.0, 1e-4, 1.0, 10.0])
def test_dice_matches_the_oracle_with_absent_classes(smooth, absent):
    logits, labels, _ = case(3)
    labels = np.where(labels > 2, 0, labels)  # classes 3 and 4 have no gold
    for squared in (False, True):
        settings = {"smooth": smooth, "absent": absent, "squared": squared}
        got = dice(logits, labels, **settings)
        want = oracle.dice(logits, labels, **settings)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
        if absent == "skip":
            assert got[3:].tolist() == [0.0, 0.0]


def hard(predictions, classes):
    """Return logits whose softmax is exactly one-hot in float32."""
    return 1e4 * (predictions[..., None] == np.arange(classes)).astype(np.float32)


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("smooth", [0.0, 1.0])
def test_perfect_prediction_gives_zero(smooth, squared):
    # An element-wise numerator over a batch-wise denominator gives 2.62 here.
    labels = np.array([0, 1, 2, 0, 1, 2, 0, 0])
    for axis in (None, ()):
        losses = dice(
            hard(labels, 3), labels, axis=axis, smooth=smooth, squared=squared
        )
        assert not losses.any()


@pytest.mark.parametrize("absent", ["smooth", "skip"])
def test_fully_masked_and_empty_sets_give_zero_and_no_gradient(absent):
    logits, labels, where = case(5)
    where[:, 1] = False  # one set of four

    @jax.jit
    def both(z, smooth):
        def losses(z):
            return dice(z, labels, where=where, axis=0, smooth=smooth, absent=absent)

        return losses(z), jax.grad(lambda z: losses(z).sum())(z)

    for smooth in (0.0, 1.0):
        losses, gradient = map(np.asarray, both(logits, smooth))
        assert losses[0].any()
        assert not losses[1].any()
        assert np.isfinite(gradient).all()
        assert not gradient[:, 1].any()
        nothing = dice(
            np.ones((0, 4), np.float32), np.ones(0, int), smooth=smooth, absent=absent
        )
        assert nothing.tolist() == [0.0] * 4


@pytest.mark.parametrize("z", [0.0, -30.0, -45.0, -60.0, -87.0, -100.0, -1e4])
def test_vanishing_predictions_without_gold_have_finite_gradients(z):
    # 1 / P^2 overflows float32 below P = 1e-19, and 0 * inf is NaN.
    value, gradient = jax.value_and_grad(
        lambda z: dice(z, jnp.zeros(1, int), class_axis=None, smooth=0.0)
    )(jnp.array([z]))
    assert value == (1.0 if z > -43 else 0.0)
    assert gradient.tolist() == [0.0]


def test_single_class():
    logits, labels = np.ones((4, 1), np.float32), np.zeros(4, int)
    assert dice(logits, labels).tolist() == [0.0]
    counts = overlap_counts(logits, labels, alpha=0.5)
    assert_counts(counts, oracle.counts(logits, labels, alpha=0.5))


def test_summed_over_softmax_classes_it_is_an_accuracy_surrogate():
    logits, labels, _ = case(8)
    labels = abs(labels) % 5
    p_gold = np.take_along_axis(
        np.asarray(jax.nn.softmax(logits)), labels[..., None], -1
    )[..., 0]
    for smooth in (0.0, 1.0):
        counts = overlap_counts(logits, labels, axis=())
        summed = jax.tree.map(lambda one: one.sum(-1), counts)
        np.testing.assert_allclose(
            dice_from_counts(summed, smooth=smooth),
            2 * (1 - p_gold) / (2 + smooth),
            rtol=1e-5,
            atol=1e-6,
        )
        whole = jax.tree.map(lambda one: one.sum(), counts)
        np.testing.assert_allclose(
            dice_from_counts(whole, smooth=smooth),
            2 * (1 - p_gold).sum() / (2 * labels.size + smooth),
            rtol=1e-5,
        )


def test_counts_of_integers_are_accepted():
    counts = OverlapCounts(
        intersection=np.array([3, 0]),
        predicted=np.array([4, 1]),
        actual=np.array([4, 0]),
    )
    np.testing.assert_allclose(dice_from_counts(counts, smooth=0.0), [0.25, 1.0])
