"""The self-adjusting Dice loss: the oracle at every alpha, the optimum, the gradients.

Of ties, masks, soft labels and a single class see `test_values` and `test_laws`; that
it is Dice without alpha, `test_relations`.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax import losses

from . import oracle
from .cases import BINARY, SOFTMAX, draw

# Of each element, as in the paper.
self_adjusting_dice = functools.partial(
    losses.self_adjusting_dice, axis=(), form="gold", squared=False
)
REST = "one_versus_rest"


@pytest.mark.parametrize("scale", [1.0, 10.0, 3e3])
@pytest.mark.parametrize(
    ("labels_form", "settings"),
    [
        (SOFTMAX, {"form": "gold", "squared": False}),
        (SOFTMAX, {"form": "gold", "squared": True}),
        *((SOFTMAX, {"form": REST, "axis": axis}) for axis in ((), None, -1)),
        *((BINARY, {"form": REST, "axis": axis}) for axis in ((), None, -1)),
    ],
)
def test_it_matches_the_oracle_at_every_alpha(labels_form, settings, scale):
    logits, labels, where = draw(labels_form)
    logits = np.float32(scale) * logits
    settings = {"where": where, "axis": (), "squared": False, **settings}
    settings["class_axis"] = None if labels_form == BINARY else -1
    for alpha in (0.0, 1e-3, 0.01, 0.5, 1.0, 2.0, 8.0):
        for smooth in (0.0, 0.5):
            chosen = settings | {"alpha": alpha, "smooth": smooth}
            np.testing.assert_allclose(
                self_adjusting_dice(logits, labels, **chosen),
                oracle.self_adjusting_dice(logits, labels, **chosen),
                rtol=2e-5,
                atol=1e-6,
            )


def test_numbers_by_hand():
    # z = log 3: p = 3/4, f = (1/4) (3/4) = 3/16 with alpha = 1 and gamma = 1.
    f, z = 3 / 16, np.log([3.0])
    for label, want in ((1, 1 - (2 * f + 1) / (f + 2)), (0, 1 - 1 / (f + 1))):
        got = self_adjusting_dice(z, np.array([label]), class_axis=None, alpha=1.0)
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_gold_form_without_alpha_depends_on_p_gold_alone():
    logits, labels, _ = draw(SOFTMAX, seed=6)
    labels = abs(labels) % 3
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
            settings = {"alpha": alpha, "squared": squared, "class_axis": None}
            return self_adjusting_dice(
                z, jnp.ones(z.shape, int), stop_gradient_weight=stop, **settings
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
