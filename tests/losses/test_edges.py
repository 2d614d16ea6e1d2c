"""Values and gradients at the edges of the inputs: none is NaN, each has its limit."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from dicejax import losses

from .cases import BINARY, MULTI_LABEL, SOFTMAX, draw
from .every import EVERY, one_of_each, over, parameters, value_and_gradients

pytestmark = pytest.mark.slow  # as a whole

# Far enough for p = 0 in float64, and within the exponents of the oracle.
FAR = 1e5


def at_edge(case, edge):
    """Return logits, labels, where; infinite logits at random, or of any but gold."""
    logits, labels, where = draw(case.form, seed=5)
    rng = np.random.default_rng(6)
    chosen = rng.random(logits.shape) < 0.3
    if edge == "other classes at -inf":
        gold = labels == 1
        if case.form == SOFTMAX:
            gold = labels[..., None] == np.arange(logits.shape[-1])
        chosen &= ~gold
    elif case.form == SOFTMAX:  # one class at least is possible
        chosen[..., 0] = False
    if edge == "1e30":
        return (np.sign(logits) * np.float32(1e30)), labels, where
    return np.where(chosen, -np.inf, logits).astype(np.float32), labels, where


def run(case, logits, labels, where):
    """Return losses, and the gradient of their sum with respect to the logits."""
    settings = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), parameters(case))
    (_, values), (gradient, slopes) = value_and_gradients(case.name)(
        logits, settings, labels, where
    )
    assert not any(np.isnan(slope).any() for slope in slopes.values())
    return np.asarray(values), np.asarray(gradient)


def moved(logits, distance):
    return np.where(np.isneginf(logits), -distance, logits).astype(np.float32)


def limit(case, logits, labels, where):
    """Return the oracle's limit as what is -inf goes there."""
    reference = case.oracle if case.reference else case.loss
    near, far = (
        np.asarray(reference(moved(logits, distance), labels, where=where))
        for distance in (FAR, 2 * FAR)
    )
    return np.where(np.isclose(near, far, rtol=1e-3, atol=1e-3), near, np.inf)


def of_log_odds(case):
    return case.settings.get("scores") == "log_odds"


@over(EVERY, fast=one_of_each)
def test_infinite_logits_have_the_limit_of_finite_ones(case):
    for edge in ("other classes at -inf", "any class at -inf"):
        logits, labels, where = at_edge(case, edge)
        values, gradient = run(case, logits, labels, where)
        assert not np.isnan(values).any(), edge
        if of_log_odds(case):  # cut to 1e15: a square without a limit
            assert np.isfinite(gradient).all()
            continue
        want = limit(case, logits, labels, where)
        np.testing.assert_allclose(values, want, rtol=2e-5, atol=1e-6, err_msg=edge)
        if edge.startswith("other") and "label_smoothing" not in case.settings:
            assert np.isfinite(values).all()
        _, near = run(case, moved(logits, 1e4), labels, where)
        np.testing.assert_allclose(gradient, near, rtol=2e-5, atol=1e-6, err_msg=edge)


@over(EVERY, fast=one_of_each)
def test_logits_of_1e30_are_finite(case):
    values, gradient = run(case, *at_edge(case, "1e30"))
    assert np.isfinite(values).all()
    assert np.isfinite(gradient).all()


@over(EVERY, fast=lambda cases: one_of_each(cases)[::4])
def test_empty_batches_single_classes_and_half_precision_have_gradients(case):
    logits, labels, where = draw(case.form, "empty")
    values, gradient = run(case, logits, labels, where)
    assert not values.any()
    assert gradient.shape == logits.shape

    logits, labels, where = draw(case.form)
    short = logits.astype(jnp.bfloat16)
    values, gradient = run(case, short, labels, where)
    want, slopes = run(case, short.astype(np.float32), labels, where)
    np.testing.assert_allclose(values, want, rtol=1e-6)
    np.testing.assert_allclose(gradient.astype(float), slopes, rtol=1e-2, atol=1e-6)

    if case.reference and "single_class" in case.kinds:
        logits, labels, where = draw(case.form, "single_class")
        logits[0, 0] = -np.inf
        loss = case.of_first_classes(1).loss
        both = jax.value_and_grad(lambda z: loss(z, labels, where=where).sum())
        value, gradient = jax.jit(both)(logits)
        assert not np.isnan(value)
        assert np.isfinite(gradient).all()


@over([c for c in EVERY if c.reference and c.takes_soft], fast=one_of_each)
def test_float_labels_give_what_integers_give_at_infinity(case):
    logits, labels, where = at_edge(case, "any class at -inf")
    seen = where if labels.ndim == where.ndim else where[..., None]
    where, labels = np.ones_like(where), np.where(seen & (labels >= 0), labels, 0)
    soft = labels.astype(np.float32)
    if case.form == SOFTMAX:
        soft = np.eye(logits.shape[-1], dtype=np.float32)[labels]
    values, gradient = run(case, logits, soft, where)
    want, slopes = run(case, logits, labels, where)
    np.testing.assert_allclose(values, want, rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(gradient, slopes, rtol=2e-5, atol=1e-6)


LOGITS = np.array([[1.0, 0.5, -np.inf], [-np.inf, 0.5, 2.0]], np.float32)
LABELS = np.array([0, 2])
ONE_HOT = np.eye(3, dtype=np.float32)[LABELS]


@pytest.mark.parametrize("labels", [LABELS, ONE_HOT], ids=["integers", "floats"])
def test_cross_entropy_of_barred_classes_is_that_of_optax_and_torch(labels):
    theirs = optax.losses.softmax_cross_entropy_with_integer_labels
    if labels.ndim == 2:
        theirs = optax.losses.safe_softmax_cross_entropy
    got, want = (
        jax.jit(jax.value_and_grad(lambda z, loss=loss: loss(z, labels).sum()))(LOGITS)
        for loss in (losses.cross_entropy, theirs)
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), got, want)

    torch = pytest.importorskip("torch")
    z = torch.tensor(LOGITS, requires_grad=True)
    total = torch.nn.functional.cross_entropy(z, torch.tensor(LABELS), reduction="sum")
    total.backward()
    np.testing.assert_allclose(got[0], total.item(), rtol=1e-6)
    np.testing.assert_allclose(got[1], z.grad.numpy(), rtol=1e-5, atol=1e-7)


def test_an_impossible_gold_class_costs_infinity_with_the_slope_of_torch():
    torch = pytest.importorskip("torch")
    labels = 2 - LABELS
    z = torch.tensor(LOGITS, requires_grad=True)
    theirs = torch.nn.functional.cross_entropy(
        z, torch.tensor(labels), reduction="none"
    )
    theirs.sum().backward()
    assert np.isposinf(theirs.detach().numpy()).all()
    assert np.isposinf(losses.cross_entropy(LOGITS, labels)).all()
    gradient = jax.grad(lambda z: losses.cross_entropy(z, labels).sum())(LOGITS)
    np.testing.assert_allclose(gradient, z.grad.numpy(), rtol=1e-6)
    # A weight of 0 takes no part.
    weights = {"class_weights": np.array([0.0, 1.0, 0.0])}
    assert not losses.cross_entropy(LOGITS, labels, **weights).any()


@pytest.mark.parametrize("smoothing", [0.0, jnp.zeros(()), 0.2])
def test_smoothing_of_a_barred_class_is_infinite_and_none_is_not(smoothing):
    values = losses.cross_entropy(LOGITS, LABELS, label_smoothing=smoothing)
    plain = losses.cross_entropy(LOGITS, LABELS)
    want = np.inf if smoothing > 0 else plain
    np.testing.assert_allclose(values, np.broadcast_to(want, 2), rtol=1e-6)


def test_plus_infinity_is_the_limit_too():
    for name in (SOFTMAX, BINARY, MULTI_LABEL):
        logits, labels, where = draw(name, seed=7)
        layout = {SOFTMAX: {}, BINARY: {"class_axis": None}}
        settings = layout.get(name, {"multi_label": True})
        logits.reshape(-1)[::3] = np.inf
        far = np.where(np.isposinf(logits), 1e6, logits).astype(np.float32)
        got = losses.cross_entropy(logits, labels, where=where, **settings)
        want = losses.cross_entropy(far, labels, where=where, **settings)
        want = np.where(want > 1e5, np.inf, want)
        np.testing.assert_allclose(got, want, rtol=1e-6)
