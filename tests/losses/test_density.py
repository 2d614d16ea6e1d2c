"""Gradient harmonising: the oracle over several batches, numbers by hand."""

import functools

import jax
import numpy as np
import pytest

from dicejax.losses import cross_entropy, ghm, ghm_regression, ghm_state

from . import oracle_density
from .cases import BINARY, FORMS, MULTI_LABEL, SOFTMAX, draw
from .every import LAYOUTS
from .oracle_density import Density

FORMS_AND_KINDS = [
    *((form, kind) for form in FORMS for kind in ("random", "extreme", "absent_class")),
    *((form, "soft") for form in (BINARY, MULTI_LABEL)),
    *((form, "single_class") for form in (SOFTMAX, MULTI_LABEL)),
]


def assert_same_state(got, want, rtol=1e-6):
    np.testing.assert_allclose(got.counts, want.counts, rtol=rtol)
    assert float(got.updates) == want.updates


def residuals(seed, shape=(3, 4)):
    """Return predictions, targets, where."""
    rng = np.random.default_rng(seed)
    targets = rng.normal(size=shape)
    predictions = targets + rng.normal(size=shape) * 10 ** rng.uniform(-4, 1, shape)
    return predictions, targets, rng.random(shape) < 0.75


@pytest.mark.parametrize("momentum", [0.0, 0.75])
@pytest.mark.parametrize(("form", "kind"), FORMS_AND_KINDS)
def test_three_successive_batches_match_the_oracle(form, kind, momentum):
    state, density = ghm_state(bins=6), Density(np.zeros(6))
    for seed in range(3):
        logits, labels, where = draw(form, kind, seed)
        settings = {"where": where, "momentum": momentum, **LAYOUTS[form]}
        got, state = ghm(logits, labels, state, **settings)
        want, density = oracle_density.ghm(logits, labels, density, **settings)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)
        assert_same_state(state, density)


@pytest.mark.parametrize("momentum", [0.0, 0.7])
def test_three_batches_of_regression_match_the_oracle(momentum):
    state, density = ghm_state(), Density(np.zeros(10))
    for seed in range(3):
        predictions, targets, where = residuals(seed)
        settings = {"where": where, "momentum": momentum, "mu": 0.1}
        with jax.enable_x64(True):
            got, state = ghm_regression(predictions, targets, state, **settings)
        want, density = oracle_density.ghm_regression(
            predictions, targets, density, **settings
        )
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-12)
        assert_same_state(state, density)


def test_weights_by_hand():
    # g is 1/4, 1/4, 1/4 and 3/4: bins 0, 0, 0 and 1 of two, both reached.
    z, labels = np.log([3.0, 3.0, 3.0, 1 / 3]), np.ones(4, int)
    entropy = -np.log([0.75, 0.75, 0.75, 0.25])
    loss = functools.partial(ghm, class_axis=None, momentum=0.5)
    losses, state = loss(z, labels, ghm_state(bins=2))
    want = np.array([4 / 6, 4 / 6, 4 / 6, 2]) * entropy
    np.testing.assert_allclose(losses, want, rtol=1e-6)
    np.testing.assert_allclose(state.counts, [1.5, 0.5])
    # Once more, half of it: averages (1.75, 0.25) / (1 - 1/4) = (7/3, 1/3), one bin.
    losses, state = loss(z[:2], labels[:2], state)
    np.testing.assert_allclose(state.counts, [1.75, 0.25])
    np.testing.assert_allclose(losses, 8 / 7 * entropy[:2], rtol=1e-6)
    assert float(state.updates) == 2


def test_regression_by_hand():
    # mu 3 and d 4: root 5, ASL1 2, g 4/5. d 0: root 3, ASL1 0, g 0.
    losses, state = ghm_regression(
        np.array([4.0, -4.0, 0.0], np.float32),
        np.zeros(3, np.float32),
        ghm_state(bins=5),
        mu=3.0,
        momentum=0.0,
    )
    np.testing.assert_allclose(losses, [1.5, 1.5, 0.0], rtol=1e-6)
    assert state.counts.tolist() == [1.0, 0.0, 0.0, 0.0, 2.0]


def test_the_largest_gradient_norm_falls_into_the_last_bin():
    z = np.array([1e4, -1e4], np.float32)  # g is 0 and 1
    losses, state = ghm(
        z, np.ones(2, int), ghm_state(bins=3), class_axis=None, momentum=0.0
    )
    assert state.counts.tolist() == [1.0, 0.0, 1.0]
    assert losses.tolist() == [0.0, 1e4]


def test_the_first_batch_does_not_depend_on_the_momentum():
    logits, labels, where = draw(SOFTMAX, seed=7)
    want, _ = ghm(logits, labels, ghm_state(), where=where, momentum=0.0)
    for momentum in (0.5, 0.99):
        got, _ = ghm(logits, labels, ghm_state(), where=where, momentum=momentum)
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_equal_densities_give_cross_entropy():
    p = (np.arange(10) + 0.5) / 10
    z, labels = np.log(p / (1 - p)), np.ones(10, int)
    losses, _ = ghm(z, labels, ghm_state(), class_axis=None)
    want = cross_entropy(z, labels, class_axis=None)
    np.testing.assert_allclose(losses, want, rtol=1e-5)


def test_weights_of_a_batch_for_itself_sum_to_its_size():
    predictions, targets, where = residuals(8)
    losses, _ = ghm_regression(
        predictions, targets, ghm_state(), where=where, momentum=0.0
    )
    difference = predictions - targets
    plain = np.sqrt(difference**2 + 0.02**2) - 0.02
    weights = np.asarray(losses)[where] / plain[where]
    np.testing.assert_allclose(weights.sum(), where.sum(), rtol=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_masked_entries_change_no_state(form):
    logits, labels, where = draw(form, seed=9)
    settings = LAYOUTS[form]
    _, want = ghm(logits, labels, ghm_state(), where=where, **settings)
    wide = where if form == BINARY else where[..., None]
    junk = np.where(wide, logits, np.float32(np.nan))
    junk_labels = np.where(where if form != MULTI_LABEL else wide, labels, -100)
    for mask in (where, None):
        _, state = ghm(junk, junk_labels, ghm_state(), where=mask, **settings)
        np.testing.assert_array_equal(state.counts, want.counts)


def test_masked_predictions_and_targets_change_nothing():
    x, y, where = residuals(10)
    want, wanted_state = ghm_regression(x, y, ghm_state(), where=where)
    junk = np.where(where, x, np.nan), np.where(where, y, np.inf)
    got, state = ghm_regression(*junk, ghm_state(), where=where)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(state.counts, wanted_state.counts)
    assert not np.asarray(got)[~where].any()


@pytest.mark.parametrize("kind", ["all_masked", "empty"])
def test_a_batch_of_nothing_gives_zeros_and_lets_the_average_decay(kind):
    logits, labels, where = draw(SOFTMAX, seed=11)
    _, before = ghm(logits, labels, ghm_state(), where=where)
    logits, labels, where = draw(SOFTMAX, kind)
    losses, state = ghm(logits, labels, before, where=where)
    assert losses.shape == labels.shape
    assert not losses.any()
    np.testing.assert_allclose(state.counts, 0.75 * before.counts)
