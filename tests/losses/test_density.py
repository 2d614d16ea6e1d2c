"""Gradient harmonising: the oracle over several batches, numbers by hand."""

import functools

import jax
import numpy as np
import pytest

from dicejax.losses import ghm, ghm_regression, ghm_state

from . import oracle_density
from .cases import BINARY, FORMS, LAYOUTS, MULTI_LABEL, SOFTMAX, draw
from .every import HARMONISED
from .oracle_density import Density

KINDS = ("random", "extreme", "absent_class", "soft", "single_class")
FORMS_AND_KINDS = [
    (case.form, kind) for case in HARMONISED for kind in case.kinds if kind in KINDS
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


@pytest.mark.parametrize("form", FORMS)
def test_masked_entries_change_no_state(form):
    logits, labels, where = draw(form, seed=9)
    settings = LAYOUTS[form]
    _, expected = ghm(logits, labels, ghm_state(), where=where, **settings)
    wide = where if form == BINARY else where[..., None]
    junk = np.where(wide, logits, np.float32(np.nan))
    junk_labels = np.where(where if form != MULTI_LABEL else wide, labels, -100)
    for mask in (where, None):
        _, state = ghm(junk, junk_labels, ghm_state(), where=mask, **settings)
        np.testing.assert_array_equal(state.counts, expected.counts)
    x, y, where = residuals(10)
    expected = ghm_regression(x, y, ghm_state(), where=where)
    junk = np.where(where, x, np.nan), np.where(where, y, np.inf)
    got = ghm_regression(*junk, ghm_state(), where=where)
    jax.tree.map(np.testing.assert_array_equal, got, expected)
    assert not np.asarray(got[0])[~where].any()


@pytest.mark.parametrize("kind", ["all_masked", "empty"])
def test_a_batch_of_nothing_gives_zeros_and_lets_the_average_decay(kind):
    logits, labels, where = draw(SOFTMAX, seed=11)
    _, before = ghm(logits, labels, ghm_state(), where=where)
    logits, labels, where = draw(SOFTMAX, kind)
    losses, state = ghm(logits, labels, before, where=where)
    assert losses.shape == labels.shape
    assert not losses.any()
    np.testing.assert_allclose(state.counts, 0.75 * before.counts)
