"""Class weights, excluded classes and averages of every set loss, in float64.

The oracle has the loss of each class; weights, exclusion and means are NumPy's. Micro
is its binary form of the log odds, with classes as one more axis of the set.
"""

import dataclasses
import inspect

import jax
import numpy as np
import pytest
from scipy.special import logsumexp

from dicejax import losses

from . import oracle
from .cases import BINARY, CASES, CLASSES, MULTI_LABEL, SOFTMAX, draw
from .every import one_of_each, over, raises

OPTIONS = ("class_weights", "exclude_class", "average")
WEIGHTS = np.array([0.5, 3.0, 1.25])
TABLE = [
    {"class_weights": WEIGHTS},
    {"exclude_class": 0},
    {"exclude_class": (0, 2), "class_weights": WEIGHTS},
    {"average": "macro"},
    {"average": "macro", "exclude_class": 1, "class_weights": WEIGHTS},
    {"average": "micro"},
    {"average": "micro", "exclude_class": 2},
]
# Weights, exclusion and both means, which all set losses have from one function; a
# loss by itself only hands them on. Dice has each option alone too.
TOGETHER = TABLE[2::2]


def without_options(case):
    """Return the case with a loss of each class."""
    settings = {n: x for n, x in case.settings.items() if n not in OPTIONS}
    settings |= {"average": "none"}
    return dataclasses.replace(case, settings=settings)


EACH = [
    without_options(case)
    for case in CASES
    if case.is_set
    and case.form != BINARY
    and "average" in inspect.signature(case.function).parameters
    and case.settings.get("variant") != "multiclass"
]
SKIPPING = [case for case in EACH if case.settings.get("absent") == "skip"]


def one_of_each_form(cases):
    by_form = ([x for x in cases if x.form == f] for f in (SOFTMAX, MULTI_LABEL))
    return [case for few in by_form for case in one_of_each(few)]


def of_one_set(case, inputs, left):
    """Return arguments of the binary form with classes as an axis of the set."""
    logits, labels, where = inputs
    settings = {n: x for n, x in case.settings.items() if n not in OPTIONS}
    settings.pop("multi_label", None)
    if case.form == SOFTMAX:
        others = [np.delete(logits, c, -1) for c in range(CLASSES)]
        logits = logits - np.stack([logsumexp(x, axis=-1) for x in others], -1)
        if labels.ndim < logits.ndim:
            one_hot = labels[..., None] == np.arange(CLASSES)
            labels = np.where(labels[..., None] < 0, -100, one_hot)
    where = np.repeat(where[..., None], len(left), axis=-1)
    axis = settings.get("axis")
    if axis is not None:
        settings["axis"] = (*oracle.set_axes(axis, 2), 2)
    settings |= {"where": where, "class_axis": None}
    return logits[..., left], labels[..., left], settings


def expected(case, inputs, *, class_weights=1.0, exclude_class=(), average="none"):
    logits, labels, where = inputs
    left = np.setdiff1d(np.arange(CLASSES), exclude_class)
    if average == "micro":
        *arrays, settings = of_one_set(case, inputs, left)
        return case.reference(*arrays, **settings)
    settings = {n: x for n, x in case.settings.items() if n not in OPTIONS}
    if case.function in (losses.soft_f1, losses.sigmoid_f1):
        settings["average"] = "none"
    values = case.reference(logits, labels, where=where, **settings)
    values = (values * class_weights)[..., left]
    if average == "none":
        return values
    these = oracle.elements(
        logits, labels, where=where, multi_label=case.form == MULTI_LABEL
    )
    counted = these.sum(these.targets, settings.get("axis"))[..., left] > 0
    absent = inspect.signature(case.function).parameters.get("absent")
    if settings.get("absent", absent and absent.default) != "skip":
        counted = np.ones_like(counted)
    return values.sum(-1) / np.maximum(counted.sum(-1), 1)


FAST = [*one_of_each_form(EACH), *SKIPPING[:1]]


@over(EACH, fast=lambda cases: FAST)
def test_options_are_those_of_the_oracle(case, request):
    is_dice = case.function is losses.dice
    whole = is_dice or request.config.getoption("exhaustive")
    table = TABLE if whole else TOGETHER

    @jax.jit
    def values_of(logits, labels, where):
        return [case.loss(logits, labels, where=where, **x) for x in table]

    for kind in ("random", "all_masked", "absent_class", *["soft"] * is_dice):
        logits, labels, where = draw(case.form, kind)
        inputs = logits.astype(np.float64), labels, where
        with jax.enable_x64(True):
            values = values_of(*inputs)
        inputs = np.where(where[..., None], inputs[0], 0.0), labels, where
        for value, options in zip(values, table, strict=True):
            theirs = expected(case, inputs, **options)
            message = f"{kind} {options}"
            assert value.shape == theirs.shape, message
            np.testing.assert_allclose(
                value, theirs, rtol=1e-9, atol=1e-12, err_msg=message
            )


def test_the_class_axis_of_options_may_be_the_first():
    logits, labels, where = draw(SOFTMAX)

    def with_each(logits, class_axis):
        same = {"where": where, "class_axis": class_axis, "axis": 0}
        return [losses.dice(logits, labels, **same, **options) for options in TABLE]

    run = jax.jit(with_each, static_argnums=1)
    pairs = zip(run(np.moveaxis(logits, -1, 0), 0), run(logits, -1), strict=True)
    for first, last in pairs:
        np.testing.assert_allclose(first, last, rtol=1e-6)


def test_logits_where_masked_change_no_gradient_of_micro():
    logits, labels, where = draw(SOFTMAX, "all_masked")
    where[0, 0], labels[0, 0], logits[0, 0] = True, 1, [1.0, 2.0, 3.0]

    def micro(logits):
        return losses.dice(
            logits, labels, where=where, average="micro", exclude_class=0
        )

    gradient = np.asarray(jax.grad(micro)(logits))
    assert np.all(gradient[0, 0])
    assert not np.any(gradient[~where])


LOGITS, LABELS, _ = draw(SOFTMAX)
REFUSED = [
    ("dice", {"exclude_class": (0, 1, 2)}, "exclude_class is (0, 1, 2) but there"),
    ("dice", {"class_weights": [1.0, 2.0]}, "class_weights has shape (2,), not (3,)"),
    ("dice", {"class_weights": [1.0, -2.0, 1.0]}, "class_weights is -2.0 but must"),
    ("dice", {"average": "weighted"}, "average is 'weighted' but must be 'none', 'm"),
    (
        "dice",
        {"average": "micro", "class_weights": WEIGHTS},
        "average is 'micro', but needs no class_weights",
    ),
    ("mcc", {"variant": "multiclass", "average": "macro"}, "class_weights and average"),
    (
        "self_adjusting_dice",
        {"form": "gold", "axis": (), "exclude_class": 0},
        "form='gold' has a single value for all classes",
    ),
]


@pytest.mark.parametrize(("name", "settings", "message"), REFUSED)
def test_options_that_do_not_fit_are_refused(name, settings, message):
    with raises(message):
        getattr(losses, name)(LOGITS, LABELS, **settings)


def test_options_of_classes_want_a_class_axis():
    for options in ({"exclude_class": 0}, {"class_weights": WEIGHTS[:2]}):
        with raises(f"{next(iter(options))} wants a class axis"):
            losses.dice(
                LOGITS,
                LABELS[..., None] % 2 + 0 * LOGITS.astype(int),
                class_axis=None,
                **options,
            )
