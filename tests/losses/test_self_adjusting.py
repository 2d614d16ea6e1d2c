"""The self-adjusting Dice loss: the oracle at every alpha, the optimum, the gradients.

Of ties, masks, soft labels and a single class see `test_values` and `test_laws`; of
the binary form, and that it is Dice without alpha, `test_relations`.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax import losses

from . import oracle
from .cases import SOFTMAX, draw

# Of each element, as in the paper.
self_adjusting_dice = functools.partial(
    losses.self_adjusting_dice, axis=(), form="gold", squared=False
)


@pytest.mark.parametrize("scale", [1.0, 10.0, 3e3])
@pytest.mark.parametrize(
    "settings",
    [
        {"form": "gold"},
        {"form": "gold", "squared": True},
        *({"form": "one_versus_rest", "axis": axis} for axis in ((), None, -1)),
    ],
)
def test_it_matches_the_oracle_at_every_alpha(settings, scale):
    logits, labels, where = draw(SOFTMAX)
    settings = {"where": where, "axis": (), "squared": False, **settings}
    for alpha in (0.0, 1e-3, 0.01, 0.5, 1.0, 2.0, 8.0):
        for smooth in (0.0, 0.5):
            arguments = np.float32(scale) * logits, labels
            chosen = settings | {"alpha": alpha, "smooth": smooth}
            got = self_adjusting_dice(*arguments, **chosen)
            expected = oracle.self_adjusting_dice(*arguments, **chosen)
            np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-6)


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
