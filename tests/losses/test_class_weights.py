"""Class weights made from counts: the formulas, and bounds of counts and settings."""

import jax
import numpy as np
import pytest
from sklearn.utils.class_weight import compute_class_weight

from dicejax.losses import class_weights

COUNTS = [
    np.array([900, 90, 10]),
    np.array([[7, 1], [3, 5], [1, 1]]),
    [1, 2, 3, 4.5],
    [10**6, 10**7],
]


def log_ratio(n, k=1.0):
    return np.log((n.sum() - n) / n + k) / np.log(10)


def inverse(n):
    return n.sum() / (len(n) * n)


def inverse_square_root(n):
    return n.sum() / np.sqrt(n).sum() / np.sqrt(n)


def effective_number(n, beta=0.999):
    weights = (1 - beta) / (1 - beta**n)
    return len(n) * weights / weights.sum()


FORMULAS = [log_ratio, inverse, inverse_square_root, effective_number]


@pytest.mark.parametrize(
    ("formula", "settings"),
    [
        *((formula, {}) for formula in FORMULAS),
        (log_ratio, {"k": 4.0}),
        *((effective_number, {"beta": beta}) for beta in (0.99, 0.9, 0.5, 0.0)),
    ],
)
def test_weights_are_those_of_the_formula(formula, settings):
    function = getattr(class_weights, formula.__name__)
    for double, close in ((False, 1e-5), (True, 1e-10)):
        with jax.enable_x64(double):
            got = jax.jit(lambda: [function(n, **settings) for n in COUNTS])()
        for n, ours in zip(COUNTS, got, strict=True):
            want = np.apply_along_axis(formula, -1, np.array(n, float), **settings)
            np.testing.assert_allclose(ours, want, rtol=close)


def test_inverse_weights_are_those_of_scikit_learn():
    labels = np.repeat(np.arange(3), [7, 2, 31])
    expected = compute_class_weight("balanced", classes=np.arange(3), y=labels)
    got = class_weights.inverse(np.bincount(labels))
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_effective_numbers_of_betas_near_1_lose_no_digits():
    # (1 - beta) / (1 - beta^2) is 1 / (1 + beta).
    got = class_weights.effective_number([1, 2], beta=1 - 1e-6)
    expected = np.array([1, 1 / (2 - 1e-6)])
    np.testing.assert_allclose(got, 2 * expected / expected.sum(), rtol=1e-6)


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_count_of_0_is_taken_as_1_and_proportions_do_for_counts(formula):
    function = getattr(class_weights, formula.__name__)
    got = function(np.array([40, 0, 3]))
    np.testing.assert_array_equal(got, function(np.array([40, 1, 3])))
    assert np.isfinite(got).all()
    if formula in (inverse, inverse_square_root):
        shares, counts = function([0.75, 0.2, 0.05]), function([75, 20, 5])
        np.testing.assert_allclose(shares, counts, rtol=1e-5)


@pytest.mark.parametrize(
    ("formula", "counts", "settings", "message"),
    [
        *(
            (formula, [3.0, bad], {}, r"counts is .* but must be in \[0, inf\)")
            for formula in FORMULAS
            for bad in (-1.0, np.nan, np.inf)
        ),
        (log_ratio, [3, 4], {"k": -1.0}, "k is -1.0 but must be in"),
        (effective_number, [3, 4], {"beta": 1.0}, "beta is"),
        (effective_number, [3, 4], {"beta": -0.1}, "beta is"),
    ],
)
def test_counts_and_settings_out_of_bounds_are_refused(
    formula, counts, settings, message
):
    with pytest.raises(ValueError, match=message):
        getattr(class_weights, formula.__name__)(counts, **settings)
