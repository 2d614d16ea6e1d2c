"""Class weights made from counts: numbers by hand and the formulas."""

import jax
import numpy as np
import pytest

from dicejax.losses import class_weights

FUNCTIONS = [
    class_weights.log_ratio,
    class_weights.inverse,
    class_weights.inverse_square_root,
    class_weights.effective_number,
]
COUNTS = [np.array([900, 90, 10]), np.array([[7, 1], [3, 5], [1, 1]]), [1, 2, 3, 4.5]]


def log_ratio(n, k=1.0):
    return np.log((n.sum() - n) / n + k) / np.log(10)


def inverse(n):
    return n.sum() / (len(n) * n)


def inverse_square_root(n):
    return n.sum() / np.sqrt(n).sum() / np.sqrt(n)


def effective_number(n, beta=0.999):
    weights = (1 - beta) / (1 - beta**n)
    return len(n) * weights / weights.sum()


@pytest.mark.parametrize("counts", COUNTS)
@pytest.mark.parametrize(
    ("function", "formula", "settings"),
    [
        (class_weights.log_ratio, log_ratio, {}),
        (class_weights.log_ratio, log_ratio, {"k": 4.0}),
        (class_weights.inverse, inverse, {}),
        (class_weights.inverse_square_root, inverse_square_root, {}),
        (class_weights.effective_number, effective_number, {}),
        (class_weights.effective_number, effective_number, {"beta": 0.9}),
        (class_weights.effective_number, effective_number, {"beta": 0.0}),
    ],
)
def test_weights_are_those_of_the_formula(function, formula, settings, counts):
    got = function(counts, **settings)
    n = np.asarray(counts, np.float64)
    want = np.apply_along_axis(lambda row: formula(row, **settings), -1, n)
    np.testing.assert_allclose(got, want, rtol=1e-5)
    with jax.enable_x64(True):
        np.testing.assert_allclose(function(counts, **settings), want, rtol=1e-10)


@pytest.mark.parametrize(
    ("function", "counts", "settings", "want"),
    [
        # lg(n / n_t) with K = 1.
        ("log_ratio", [1, 9, 90], {}, [2, np.log10(100 / 9), -np.log10(0.9)]),
        ("log_ratio", [1, 1], {"k": 9.0}, [1, 1]),
        ("inverse", [8, 2], {}, [5 / 8, 5 / 2]),
        ("inverse_square_root", [9, 1], {}, [10 / 12, 10 / 4]),
        # (1 - 1/2) / (1 - 1/2^n): 1, 2/3 and 4/7, times 3 / (47 / 21).
        ("effective_number", [1, 2, 3], {"beta": 0.5}, np.array([63, 42, 36]) / 47),
        ("effective_number", [5, 50], {"beta": 0.0}, [1, 1]),
    ],
)
def test_weights_by_hand(function, counts, settings, want):
    got = getattr(class_weights, function)(counts, **settings)
    np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_count_of_0_is_taken_as_1(function):
    got = function(np.array([40, 0, 3]))
    np.testing.assert_array_equal(got, function(np.array([40, 1, 3])))
    assert np.isfinite(got).all()


@pytest.mark.parametrize(
    "function", [class_weights.inverse, class_weights.inverse_square_root]
)
def test_proportions_do_for_counts(function):
    np.testing.assert_allclose(
        function([0.75, 0.2, 0.05]), function([75, 20, 5]), rtol=1e-5
    )


def test_effective_numbers_of_large_counts_lose_no_digits():
    # (1 - beta) / (1 - beta^2) is 1 / (1 + beta).
    got = class_weights.effective_number([1, 2], beta=1 - 1e-6)
    want = np.array([1, 1 / (2 - 1e-6)])
    np.testing.assert_allclose(got, 2 * want / want.sum(), rtol=1e-6)
    # And where beta^n is 0: every effective number is 1 / (1 - beta).
    got = class_weights.effective_number([10**6, 10**7], beta=0.9)
    np.testing.assert_allclose(got, [1, 1], rtol=1e-6)


@pytest.mark.parametrize(
    ("function", "counts", "settings", "message"),
    [
        *(
            (function, [3.0, bad], {}, r"counts is .* but must be in \[0, inf\)")
            for function in FUNCTIONS
            for bad in (-1.0, np.nan, np.inf)
        ),
        (class_weights.log_ratio, [3, 4], {"k": -1.0}, "k is -1.0 but must be in"),
        *(
            (class_weights.effective_number, [3, 4], {"beta": beta}, "beta is")
            for beta in (1.0, -0.1)
        ),
    ],
)
def test_counts_and_settings_out_of_bounds_are_refused(
    function, counts, settings, message
):
    with pytest.raises(ValueError, match=message):
        function(counts, **settings)
