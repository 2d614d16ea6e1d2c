"""The self-adjusting Dice loss: the oracle, the optimum, the gradients."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax import losses
from dicejax.losses import dice

from . import oracle

# Of each element, as in the paper.
self_adjusting_dice = functools.partial(
    losses.self_adjusting_dice, axis=(), form="gold", squared=False
)
ALPHAS = [0.0, 1e-3, 0.01, 0.5, 1.0, 2.0, 8.0]


def case(seed, scale=3.0, binary=False):
    rng = np.random.default_rng(seed)
    logits = scale * rng.normal(size=(3, 4) if binary else (3, 4, 5))
    labels = rng.integers(0, 2 if binary else 5, (3, 4))
    labels[1, 2] = -100
    return logits.astype(np.float32), labels, rng.random((3, 4)) < 0.7


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("scale", [3.0, 30.0, 1e4])
def test_gold_form_matches_the_oracle(scale, squared):
    logits, labels, where = case(0, scale)
    for alpha in ALPHAS:
        for smooth in (0.0, 1.0):
            settings = {"where": where, "alpha": alpha, "smooth": smooth}
            settings["squared"] = squared
            np.testing.assert_allclose(
                self_adjusting_dice(logits, labels, **settings),
                oracle.gold_self_adjusting_dice(logits, labels, **settings),
                rtol=2e-5,
                atol=1e-6,
            )


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("axis", [(), None, -1])
@pytest.mark.parametrize("scale", [3.0, 1e4])
def test_one_versus_rest_matches_the_oracle(scale, axis, binary):
    logits, labels, where = case(1, scale, binary)
    for alpha in ALPHAS:
        settings = {"where": where, "axis": axis, "alpha": alpha, "smooth": 0.5}
        settings["class_axis"] = None if binary else -1
        np.testing.assert_allclose(
            self_adjusting_dice(logits, labels, form="one_versus_rest", **settings),
            oracle.dice(logits, labels, **settings),
            rtol=2e-5,
            atol=1e-6,
        )


def test_numbers_by_hand():
    # z = log 3: p = 3/4, f = (1/4) (3/4) = 3/16 with alpha = 1 and gamma = 1.
    f, z = 3 / 16, np.log([3.0])
    positive = self_adjusting_dice(z, np.array([1]), class_axis=None, alpha=1.0)
    negative = self_adjusting_dice(z, np.array([0]), class_axis=None, alpha=1.0)
    np.testing.assert_allclose(positive, 1 - (2 * f + 1) / (f + 2), rtol=1e-6)
    np.testing.assert_allclose(negative, 1 - 1 / (f + 1), rtol=1e-6)


def test_binary_form_takes_either_form_and_soft_labels():
    logits, labels, _ = case(2, binary=True)
    soft = np.where(labels == 1, 0.7, 0.1)
    for y in (labels, soft):
        gold = self_adjusting_dice(logits, y, class_axis=None, form="gold")
        rest = self_adjusting_dice(logits, y, class_axis=None, form="one_versus_rest")
        assert (gold == rest).all()
        want = oracle.dice(logits, y, class_axis=None, axis=(), alpha=0.01)
        np.testing.assert_allclose(gold, want, rtol=1e-5, atol=1e-6)


def test_soft_labels_one_versus_rest():
    logits, _, where = case(3)
    soft = np.random.default_rng(4).dirichlet(np.ones(5), (3, 4))
    settings = {"where": where, "alpha": 0.5, "axis": 0}
    got = self_adjusting_dice(logits, soft, form="one_versus_rest", **settings)
    np.testing.assert_allclose(got, oracle.dice(logits, soft, **settings), rtol=1e-5)


@pytest.mark.parametrize("axis", [(), None])
@pytest.mark.parametrize("binary", [False, True])
def test_without_alpha_it_is_dice(binary, axis):
    logits, labels, where = case(5, binary=binary)
    settings = {"where": where, "class_axis": None if binary else -1, "axis": axis}
    with jax.enable_x64(True):
        logits = logits.astype(float)
        got = self_adjusting_dice(
            logits, labels, alpha=0.0, form="one_versus_rest", **settings
        )
        want = dice(logits, labels, **settings)
    np.testing.assert_allclose(got, want, rtol=1e-13)


def test_gold_form_without_alpha_depends_on_p_gold_alone():
    logits, labels, _ = case(6)
    labels = abs(labels) % 5
    p = np.take_along_axis(np.asarray(jax.nn.softmax(logits)), labels[..., None], -1)
    got = self_adjusting_dice(logits, labels, alpha=0.0, smooth=0.5)
    np.testing.assert_allclose(
        got, ((1 - p) / (1 + p + 0.5))[..., 0], rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("squared", [False, True])
def test_positives_are_trained_to_one_over_one_plus_alpha(squared):
    @jax.jit
    def losses_and_slopes(z, alpha):
        def values(z, stop):
            return self_adjusting_dice(
                z,
                jnp.ones(z.shape, int),
                class_axis=None,
                alpha=alpha,
                squared=squared,
                stop_gradient_weight=stop,
            )

        slopes = [jax.grad(lambda z, s=s: values(z, s).sum())(z) for s in (False, True)]
        return values(z, False), values(z, True), *slopes

    for alpha in (0.01, 0.1, 0.5, 1.0):
        optimum = 1 / (1 + alpha)
        p = np.append(np.linspace(0.001, 0.999, 999), optimum)
        with jax.enable_x64(True):
            loss, stopped, slope, stopped_slope = map(
                np.asarray, losses_and_slopes(np.log(p) - np.log1p(-p), alpha)
            )
        np.testing.assert_allclose(p[loss.argmin()], optimum)
        assert (slope[p < optimum - 1e-9] < 0).all()
        assert (slope[p > optimum + 1e-9] > 0).all()
        assert abs(slope[-1]) < 1e-12
        # As a constant weight the factor moves no optimum: up, whatever p.
        assert (stopped == loss).all()
        assert (stopped_slope < 0).all()


@pytest.mark.parametrize("z", [10.0, 17.0, 20.0, 40.0, 80.0, 1e4])
@pytest.mark.parametrize("alpha", [0.0, 0.01, 0.1, 0.5, 1.0])
def test_saturated_gradients_are_right_not_just_finite(alpha, z):
    # Through (1 - p)^alpha they are NaN from z = 17 on in float32.
    p, q = 1 / (1 + np.exp(-z)), np.exp(-z) / (1 + np.exp(-z))
    f = q**alpha * p if z < 700 else float(alpha == 0) or np.exp(-alpha * z)
    slope = -3 / (f + 2) ** 2 * f * (q - alpha * p)  # dL/df f'(z) with gamma 1

    def binary(z):
        return self_adjusting_dice(z, 1, class_axis=None, alpha=alpha)

    def softmax(z):
        return self_adjusting_dice(jnp.stack([z, 0.0]), 0, alpha=alpha)

    # The softmax subtracts p from 1: an error of float32's epsilon, as in any softmax.
    for loss, atol in ((binary, 1e-30), (softmax, 3e-8)):
        got = jax.grad(loss)(jnp.float32(z))
        np.testing.assert_allclose(got, slope, rtol=2e-5, atol=atol)


@pytest.mark.parametrize("form", ["gold", "one_versus_rest"])
def test_ties_and_a_single_class(form):
    ties = np.array([[2.0, 2.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, -1e4]], np.float32)
    labels = np.array([1, 2, 0])
    for alpha in (0.0, 0.5, 8.0):
        for z, y in ((ties, labels), (np.ones((2, 1), np.float32), np.zeros(2, int))):
            got = self_adjusting_dice(z, y, alpha=alpha, form=form)
            want = (
                oracle.gold_self_adjusting_dice(z, y, alpha=alpha)
                if form == "gold"
                else oracle.dice(z, y, alpha=alpha, axis=())
            )
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("form", ["gold", "one_versus_rest"])
def test_labels_out_of_range_under_jit_are_masked(form):
    logits, labels, _ = case(9)
    wrong = np.where(labels == 3, 77, np.where(labels == 2, -1, labels))
    masked = (wrong == 77) | (wrong == -1) | (wrong == -100)

    @jax.jit
    @functools.partial(jax.grad, has_aux=True)
    def gradient_and_losses(logits, labels):
        values = self_adjusting_dice(logits, labels, form=form)
        return values.sum(), values

    got = gradient_and_losses(logits, wrong)
    for one in got:
        assert not np.asarray(one)[masked].any()
    want = gradient_and_losses(logits, np.where(masked, -100, labels))
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, other)
