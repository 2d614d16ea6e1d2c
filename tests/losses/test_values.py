"""The values of every loss in every form against its oracle."""

import jax
import numpy as np
import pytest

from dicejax import losses
from dicejax.losses import OverlapCounts, adjust_logits

from . import oracle, oracle_pointwise, oracle_sets
from .cases import BINARY, CASES, COUNTS, FORMS, LAYOUTS, draw
from .every import covering, one_of_each, over

pytestmark = pytest.mark.slow  # as a whole

WITH_CLASSES = [case for case in CASES if case.form != BINARY]


# Each takes a compilation: of one case of a loss, or with --exhaustive of all.
OF_OTHER_SHAPES = ("soft", "empty", "single_class")
FIRST = {case.name for case in one_of_each(CASES)}


@over(CASES, fast=covering)
def test_values_are_those_of_the_oracle(case, request):
    every_kind = case.name in FIRST or request.config.getoption("exhaustive")
    for kind in set(case.kinds) - {*(() if every_kind else OF_OTHER_SHAPES)}:
        case_of_kind = case.of_first_classes(1) if kind == "single_class" else case
        logits, labels, where = draw(case.form, kind)
        got = case_of_kind.loss(logits, labels, where=where)
        want = case_of_kind.oracle(logits, labels, where=where)
        assert got.shape == want.shape
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6, err_msg=kind)
        if kind == "all_masked":
            assert not np.any(got)


@over(CASES, fast=one_of_each)
def test_values_are_those_of_the_oracle_in_float64(case):
    logits, labels, where = draw(case.form)
    with jax.enable_x64(True):
        got = case.loss(logits.astype(np.float64), labels, where=where)
    assert got.dtype == np.float64
    want = case.oracle(logits, labels, where=where)
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-13)


@over(WITH_CLASSES, fast=one_of_each)
def test_the_class_axis_may_stand_anywhere(case):
    for kind in ("random", "soft") if case.takes_soft else ("random",):
        logits, labels, where = draw(case.form, kind, seed=1)
        want = case.oracle(logits, labels, where=where)
        if labels.ndim == logits.ndim:
            labels = np.moveaxis(labels, -1, 0)
        got = case.loss(np.moveaxis(logits, -1, 0), labels, where=where, class_axis=0)
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)


COUNTED = oracle.Counts(
    intersection=np.array([2.0, 0.0, 0.0, 0.0]),
    predicted=np.array([3.0, 0.5, 0.0, 0.0]),
    actual=np.array([5.0, 0.0, 4.0, 0.0]),
)


@pytest.mark.parametrize(
    ("name", "settings", "want"),
    [
        ("dice", {"smooth": 1.0}, [4 / 9, 0.5 / 1.5, 4 / 5, 0.0]),
        ("dice", {"smooth": 0.0}, [0.5, 1.0, 1.0, 0.0]),
        ("dice", {"smooth": 0.5, "absent": "skip"}, [4 / 8.5, 0.0, 4 / 4.5, 0.0]),
        ("tversky", {"smooth": 1.0}, [2 / 5, 0.25 / 1.25, 2 / 3, 0.0]),
        # 1 false positive, 3 false negatives.
        (
            "tversky",
            {"alpha": 0.25, "beta": 1.0, "smooth": 0.0},
            [3.25 / 5.25, 1.0, 1.0, 0.0],
        ),
        (
            "tversky",
            {"alpha": 2.0, "beta": 0.0, "smooth": 0.5},
            [2 / 4.5, 1 / 1.5, 0.0, 0.0],
        ),
        (
            "tversky",
            {"alpha": 1.0, "beta": 1.0, "smooth": 1.0, "absent": "skip"},
            [4 / 7, 0.0, 4 / 5, 0.0],
        ),
    ],
)
def test_losses_of_counts_by_hand(name, settings, want):
    ours = getattr(losses, f"{name}_from_counts")
    got = ours(OverlapCounts(**COUNTED._asdict()), **settings)
    np.testing.assert_allclose(got, want, rtol=1e-6)
    theirs = {"dice": oracle, "tversky": oracle_sets}[name]
    got = getattr(theirs, f"{name}_from_counts")(COUNTED, **settings)
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
