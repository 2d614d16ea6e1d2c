"""Every loss under grad, jvp and hessian against finite differences, in float64."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax import losses

from .cases import CASES, SOFTMAX, draw
from .every import (
    BY_NAME,
    HARMONISED,
    OTHERS,
    RANGES,
    one_of_each,
    over,
    parameters,
    with_static_settings,
)

STEP = 1e-5
CALLABLE = {name for name in losses.__all__ if name.islower()} - {
    "class_weights",  # a module
    "ghm_state",
    # Called by hard_negatives, dice and tversky.
    "hard_negative_mask",
    "dice_from_counts",
    "tversky_from_counts",
}
DIFFERENTIABLE = [
    case
    for case in [*CASES, *HARMONISED, *OTHERS]
    if not case.settings.get("stop_gradient_weight")
]


def test_no_loss_is_left_out():
    tested = {case.function.__name__ for case in DIFFERENTIABLE}
    assert tested == CALLABLE == RANGES.keys()


@functools.cache
def derivatives(name):
    """Return a jitted function of points, directions, parameters, labels, where.

    A point is logits and a number added to all scalar hyper-parameters. It returns
    losses, the gradient of their weighted sum, and the `jvp` of both.
    """
    case = with_static_settings(BY_NAME[name])

    def at(point, direction, parameters, labels, where):
        def losses_and_gradient(logits, by):
            changed = {n: p if p.ndim else p + by for n, p in parameters.items()}

            def total(logits):
                losses = case.loss(logits, labels, where=where, **changed)
                return losses.ravel() @ weights(losses.size), losses.ravel()

            gradient, losses = jax.grad(total, has_aux=True)(logits)
            return losses, gradient.ravel()

        return jax.jvp(losses_and_gradient, point, direction)

    return jax.jit(jax.vmap(at, (0, 0, None, None, None)))


def weights(size):
    return np.cos(np.arange(size))


def check(case, kind):
    logits, labels, where = draw(case.form, kind, seed=2, shape=(2, 3))
    n = logits.size + 1
    directions = np.eye(n)[:, :-1].reshape(n, *logits.shape), np.eye(n)[-1]
    middle = np.broadcast_to(logits, (n, *logits.shape)).astype(float), np.zeros(n)

    def at(step):
        points = jax.tree.map(lambda z, d: z + step * d, middle, directions)
        with jax.enable_x64(True):
            settings = jax.tree.map(jnp.asarray, parameters(case))
            if case.function is losses.log_dice:
                # Without overlap the slope by `smooth` is 1 / smooth: 1e5 by default,
                # and no step is small enough.
                settings["smooth"] = jnp.maximum(settings["smooth"], 0.1)
            program = derivatives(case.name)
            results = program(points, directions, settings, labels, where)
        return jax.device_get(results)

    (_, gradients), by_jvp = at(0.0)
    (ahead, _), (behind, _) = at(STEP), at(-STEP)
    differences = jax.tree.map(lambda a, b: (a - b) / (2 * STEP), ahead, behind)
    total = differences[0] @ weights(differences[0].shape[-1])
    for name, got, want in (
        ("jvp", by_jvp[0], differences[0]),
        ("grad", gradients[0], total[:-1]),
        ("hessian", by_jvp[1], differences[1]),
    ):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-8, err_msg=name)


@over(DIFFERENTIABLE, fast=one_of_each)
def test_jvp_grad_and_hessian_are_finite_differences(case):
    check(case, "random")
    # Where ranks or bins change, at ties, these have no derivative.
    changes = ("lovasz_softmax", "lovasz_hinge", "hard_negatives")
    if case.function.__name__ not in changes and "max_fpr" not in case.settings:
        check(case, "tied")


def of_elements(cases):
    """Return the losses that soft labels have a formula for."""
    return one_of_each([c for c in cases if c.form == SOFTMAX and not c.is_set])


@over([case for case in DIFFERENTIABLE if case.takes_soft], fast=of_elements)
def test_so_they_are_with_soft_labels(case):
    check(case, "soft")


@pytest.mark.parametrize("form", ["gold", "one_versus_rest"])
def test_a_stopped_weight_is_a_constant(form):
    logits, labels, where = draw(SOFTMAX, seed=2, shape=(2, 3))
    seen = (where & (labels >= 0))[..., None]
    y = seen & (labels[..., None] == np.arange(3))
    seen = y if form == "gold" else seen

    def ours(z):
        settings = {"axis": (), "form": form, "alpha": 0.7, "smooth": 1.0}
        settings |= {"squared": False, "stop_gradient_weight": True}
        return losses.self_adjusting_dice(z, labels, where=where, **settings).sum()

    def theirs(z, weight):
        f = weight * jax.nn.softmax(z)
        return jnp.where(seen, 1 - (2 * f * y + 1) / (f + y + 1), 0).sum()

    with jax.enable_x64(True):
        z = logits.astype(np.float64)
        weight = (1 - jax.nn.softmax(z)) ** 0.7
        got, want = jax.jit(jax.grad(ours))(z), jax.jit(jax.grad(theirs))(z, weight)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)
