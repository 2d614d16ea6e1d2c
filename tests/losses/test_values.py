"""Every loss in every form against its oracle: values, and gradients by differences."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax.losses import (
    OverlapCounts,
    adjust_logits,
    dice_from_counts,
    overlap_counts,
    tversky_from_counts,
)

from . import oracle, oracle_pointwise, oracle_sets
from .cases import BINARY, CASES, COUNTS, FORMS, MULTI_LABEL, SOFTMAX, draw

pytestmark = pytest.mark.slow  # as a whole

LAYOUTS = {
    SOFTMAX: {},
    BINARY: {"class_axis": None},
    MULTI_LABEL: {"multi_label": True},
}
WITH_CLASSES = [case for case in CASES if case.form != BINARY]
SOFT = [case for case in CASES if case.takes_soft]
# Where ranks change, at ties, the Lovasz extension has no derivative.
SMOOTH_AT_TIES = [case for case in CASES if case.function.__name__ != "lovasz_softmax"]


def one_of_each(cases):
    """A case of each loss in each form: for where settings make no difference."""
    return {(case.function, case.form): case for case in reversed(cases)}.values()


def named(cases):
    return [pytest.param(case, id=case.name) for case in cases]


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        pytest.param(case, kind, id=f"{case.name}-{kind}")
        for case in CASES
        for kind in case.kinds
    ],
)
def test_values_are_those_of_the_oracle(case, kind):
    if kind == "single_class":
        case = case.of_first_classes(1)
    logits, labels, where = draw(case.form, kind)
    got = case.loss(logits, labels, where=where)
    want = case.oracle(logits, labels, where=where)
    assert got.shape == want.shape
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)
    if kind == "all_masked":
        assert not np.any(got)


@pytest.mark.parametrize("case", named(one_of_each(WITH_CLASSES)))
def test_the_class_axis_may_stand_anywhere(case):
    logits, labels, where = draw(case.form, seed=1)
    want = case.oracle(logits, labels, where=where)
    if case.form == MULTI_LABEL:
        labels = np.moveaxis(labels, -1, 0)
    got = case.loss(np.moveaxis(logits, -1, 0), labels, where=where, class_axis=0)
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)


@functools.cache
def gradient_and_values(name):
    """The gradient of a weighted sum of a case's losses, and the losses."""
    (case,) = (case for case in CASES if case.name == name)

    @jax.jit
    @functools.partial(jax.grad, has_aux=True)
    def both(logits, labels, where, weights):
        losses = case.loss(logits, labels, where=where)
        return (losses * weights).sum(), losses

    return both


def assert_agrees_in_float64(case, kind, central_difference):
    logits, labels, where = draw(case.form, kind, seed=2, shape=(2, 3))
    logits = logits.astype(np.float64)
    theirs = functools.partial(case.oracle, where=where)
    if case.settings.get("stop_gradient_weight"):
        theirs = functools.partial(theirs, weighing=logits)
    want = theirs(logits, labels)
    weights = np.random.default_rng(3).normal(size=want.shape)
    with jax.enable_x64(True):
        both = gradient_and_values(case.name)
        gradient, got = both(jnp.asarray(logits), labels, where, weights)
    assert got.dtype == gradient.dtype == np.float64
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-13)
    wanted = central_difference(lambda z: (theirs(z, labels) * weights).sum(), logits)
    np.testing.assert_allclose(gradient, wanted, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("case", named(CASES))
def test_gradients_are_those_of_central_differences(case, central_difference):
    assert_agrees_in_float64(case, "random", central_difference)


@pytest.mark.parametrize("case", named(SMOOTH_AT_TIES))
def test_gradients_at_equal_logits(case, central_difference):
    assert_agrees_in_float64(case, "tied", central_difference)


@pytest.mark.parametrize("case", named(one_of_each(SOFT)))
def test_gradients_with_soft_labels(case, central_difference):
    assert_agrees_in_float64(case, "soft", central_difference)


@pytest.mark.parametrize("kind", ["random", "soft"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"squared": True, "axis": 0},
        {"intersection": "minimum", "axis": -1},
        {"alpha": 0.5, "axis": ()},
        {"alpha": 1.5, "squared": True},
        {"alpha": 0.5, "intersection": "minimum", "stop_gradient_weight": True},
    ],
)
def test_counts_are_those_of_the_oracle(form, kind, settings):
    logits, labels, where = draw(form, kind)
    settings = {"where": where, **settings, **LAYOUTS[form]}
    got = overlap_counts(logits, labels, **settings)
    want = oracle.counts(logits, labels, **settings)
    for name in ("intersection", "predicted", "actual"):
        np.testing.assert_allclose(
            getattr(got, name), getattr(want, name), rtol=2e-5, atol=1e-6
        )


COUNTED = oracle.Counts(
    intersection=np.array([2.0, 0.0, 0.0, 0.0]),
    predicted=np.array([3.0, 0.5, 0.0, 0.0]),
    actual=np.array([5.0, 0.0, 4.0, 0.0]),
)


@pytest.mark.parametrize(
    ("settings", "want"),
    [
        ({}, [4 / 9, 0.5 / 1.5, 4 / 5, 0.0]),
        ({"smooth": 0.0}, [0.5, 1.0, 1.0, 0.0]),
        ({"smooth": 0.5, "absent": "skip"}, [4 / 8.5, 0.0, 4 / 4.5, 0.0]),
    ],
)
def test_dice_of_counts_by_hand(settings, want):
    got = dice_from_counts(OverlapCounts(**COUNTED._asdict()), **settings)
    np.testing.assert_allclose(got, want, rtol=1e-6)
    got = oracle.dice_from_counts(COUNTED, **settings)
    np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize(
    ("settings", "want"),
    [
        ({}, [2 / 5, 0.25 / 1.25, 2 / 3, 0.0]),
        # 1 false positive, 3 false negatives.
        ({"alpha": 0.25, "beta": 1.0, "smooth": 0.0}, [3.25 / 5.25, 1.0, 1.0, 0.0]),
        ({"alpha": 2.0, "beta": 0.0, "smooth": 0.5}, [2 / 4.5, 1 / 1.5, 0.0, 0.0]),
        ({"alpha": 1.0, "beta": 1.0, "absent": "skip"}, [4 / 7, 0.0, 4 / 5, 0.0]),
    ],
)
def test_tversky_of_counts_by_hand(settings, want):
    got = tversky_from_counts(OverlapCounts(**COUNTED._asdict()), **settings)
    np.testing.assert_allclose(got, want, rtol=1e-6)
    got = oracle_sets.tversky_from_counts(COUNTED, **settings)
    np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("tau", [0.0, 0.4, 1.0])
def test_adjusted_logits_are_those_of_the_oracle(form, tau):
    logits, _, _ = draw(form)
    settings = {"class_counts": COUNTS[form], "tau": tau, **LAYOUTS[form]}
    want = oracle_pointwise.adjust_logits(logits, **settings)
    got = adjust_logits(logits, **settings)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
    if form != BINARY:
        settings["class_axis"] = 0
        got = adjust_logits(np.moveaxis(logits, -1, 0), **settings)
        np.testing.assert_allclose(np.moveaxis(got, 0, -1), want, rtol=1e-6, atol=1e-6)


def test_adjusted_logits_by_hand():
    got = adjust_logits(np.zeros((1, 3)), class_counts=np.array([6.0, 3.0, 1.0]))
    np.testing.assert_allclose(np.exp(got), [[10 / 6, 10 / 3, 10.0]], rtol=1e-6)
    got = adjust_logits(
        np.zeros(1), class_counts=np.array([80.0, 20.0]), tau=0.5, class_axis=None
    )
    np.testing.assert_allclose(np.exp(got), [2.0], rtol=1e-6)
