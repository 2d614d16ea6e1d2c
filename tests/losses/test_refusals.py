"""Errors of the losses and their messages: shapes, types, values, choices."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax import losses
from dicejax.losses import (
    cross_entropy,
    dice,
    ghm_regression,
    ghm_state,
    hard_negative_mask,
    majority_or_minority,
    overlap_counts,
    self_adjusting_dice,
    soft_f1,
    unified_focal,
)

from .cases import BINARY, COUNTS, FORMS, MULTI_LABEL, SOFTMAX, draw
from .every import EVERY, LAYOUTS, RANGES

# Each loss in each form it has.
CASES = list({(case.function, case.form): case for case in EVERY}.values())
LOGITS = np.random.default_rng(0).normal(size=(8, 6, 3)).astype(np.float32)
LABELS = np.random.default_rng(1).integers(0, 3, (8, 6))
YES_OR_NO = np.random.default_rng(2).integers(0, 2, (8, 6, 3))
NANS = np.full((8, 6, 3), np.nan)


def masks(*shape):
    return {"where": np.ones(shape, bool)}


def wants(shape, logits=(8, 6, 3)):
    return f"but logits {logits} wants {shape}"


TWO_CLASSES = "but 2 classes want 0 to 1, or -100 for masked"
THREE_CLASSES = "but 3 classes want 0 to 2, or -100 for masked"
# What does not fit each form, and the end of the message.
BAD_ARRAYS = {
    SOFTMAX: {
        f"labels has shape (8, 128) {wants((8, 64), (8, 64, 9))}": {
            "logits": jnp.zeros((8, 64, 9)),
            "labels": jnp.zeros((8, 128), int),
        },
        f"labels has shape (8, 6, 3) {wants((8, 6))}": {"labels": YES_OR_NO},
        f"labels has shape (8, 6) {wants((8, 6, 3))} for float labels": {
            "labels": np.zeros((8, 6))
        },
        f"labels has shape (8, 6) {wants((8, 6, 3))}": {"class_axis": None},
        f"labels has shape (8, 6) {wants((6, 3))}": {"class_axis": 0},
        f"where has shape (8, 1) {wants((8, 6))}": masks(8, 1),
        f"where has shape (8, 6, 3) {wants((8, 6))}": masks(8, 6, 3),
        "where has dtype float32, not bool": {"where": np.ones((8, 6), np.float32)},
        "logits has dtype int32, not a float": {"logits": LOGITS.astype(np.int32)},
        "labels has dtype bool, not integer or float": {"labels": LABELS > 0},
        "class_axis is 3 but logits has shape (8, 6, 3)": {"class_axis": 3},
        "logits has shape (8, 6, 0): no classes on axis 2": {"logits": LOGITS[..., :0]},
        f"labels has value 3 {THREE_CLASSES}": {"labels": LABELS + (LABELS == 2)},
        f"labels has value -1 {THREE_CLASSES}": {"labels": LABELS - (LABELS == 0)},
        f"labels has value 2 {TWO_CLASSES}": {
            "labels": np.full((8, 6, 3), 2),
            "class_axis": None,
        },
        "labels has value -100.0 but probabilities want 0 to 1": {
            "labels": np.full((8, 6, 3), -100.0)
        },
        "labels has value nan but probabilities want 0 to 1": {"labels": NANS},
    },
    MULTI_LABEL: {
        f"labels has shape (8, 6) {wants((8, 6, 3))} in the multi-label form": {
            "labels": LABELS
        },
        f"labels has value 2 {TWO_CLASSES}": {"labels": 2 * YES_OR_NO},
        "labels has value 1.5 but probabilities want 0 to 1": {
            "labels": 1.5 * YES_OR_NO
        },
        "labels has value nan but probabilities want 0 to 1": {"labels": NANS},
        f"where has shape (8, 6, 3) {wants((8, 6))}": masks(8, 6, 3),
        f"where has shape (6, 3) {wants((8, 6))}": masks(6, 3),
        "where has dtype int64, not bool": {"where": np.ones((8, 6), np.int64)},
    },
    BINARY: {
        f"labels has shape (8, 6, 1) {wants((8, 6, 3))}": {
            "labels": YES_OR_NO[..., :1]
        },
        f"labels has value 2 {TWO_CLASSES}": {"labels": 2 * YES_OR_NO},
        "labels has value nan but probabilities want 0 to 1": {"labels": NANS},
        f"where has shape (8, 6, 1) {wants((8, 6, 3))}": masks(8, 6, 1),
    },
}


def raises(message):
    return pytest.raises(ValueError, match="^" + re.escape(message))


def over(cases):
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


def refuses(message, loss, **arguments):
    """Check the error, eagerly and where arrays are known under jit."""
    with raises(message):
        loss(**arguments)
    with raises(message):
        jax.jit(lambda: loss(**arguments))()


@pytest.mark.parametrize(
    ("form", "message"), [(form, bad) for form in FORMS for bad in BAD_ARRAYS[form]]
)
def test_arrays_that_do_not_fit_are_refused(form, message):
    losses_of_form = [case.loss for case in CASES if case.form == form]
    labels = LABELS if form == SOFTMAX else YES_OR_NO
    arguments = {"logits": LOGITS, "labels": labels} | BAD_ARRAYS[form][message]
    with jax.enable_x64(True):
        for loss in losses_of_form + [overlap_counts] * (form == SOFTMAX):
            refuses(message, loss, **arguments)


@over(CASES)
def test_shapes_are_checked_under_jit_too(case):
    logits, labels, where = draw(case.form)
    for wrong in ({"labels": labels[:, :2]}, {"where": where[:1]}):
        arguments = {"labels": labels, "where": where} | wrong
        (name,) = wrong
        shape = re.escape(str(arguments[name].shape))
        with pytest.raises(ValueError, match=f"^{name} has shape {shape} but logits"):
            jax.jit(case.loss)(logits, **arguments)


# Values outside, with the interval; else [0, inf) and below 0.
UNIT, BELOW_ONE, POSITIVE = ("[0, 1]", 1.5), ("[0, 1)", 1.0), ("(0, inf)", 0.0)
OUTSIDE = {
    ("cross_entropy", "label_smoothing"): UNIT,
    ("weighted_cross_entropy", "label_smoothing"): UNIT,
    ("weighted_cross_entropy", "k"): ("[1, inf)", 0.5),
    ("weighted_cross_entropy", "beta"): BELOW_ONE,
    ("focal", "k"): ("[1, inf)", 0.5),
    ("focal", "beta"): BELOW_ONE,
    ("poly", "epsilon"): ("[-1, inf)", -1.5),
    ("majority_or_minority", "weight"): UNIT,
    ("ldam", "scale"): POSITIVE,
    ("asymmetric", "margin"): BELOW_ONE,
    ("distribution_balanced", "scale"): POSITIVE,
    ("focal_tversky", "gamma"): ("[1, 8]", 0.5),
    ("soft_f1", "beta"): POSITIVE,
    ("sigmoid_f1", "slope"): POSITIVE,
    ("sigmoid_f1", "offset"): ("[-inf, inf)", -np.inf),
    ("pairwise_auc", "margin"): POSITIVE,
    ("pairwise_auc", "scale"): POSITIVE,
    ("average_precision", "margin"): POSITIVE,
    ("average_precision", "scale"): POSITIVE,
    ("anyloss", "beta"): POSITIVE,
    ("anyloss", "amplification"): POSITIVE,
    ("unified_focal", "weight"): UNIT,
    ("unified_focal", "delta"): UNIT,
    ("unified_focal", "gamma"): BELOW_ONE,
    ("ghm", "momentum"): BELOW_ONE,
}


@over(CASES)
def test_hyper_parameters_out_of_their_range_are_refused(case):
    logits, labels, _ = draw(case.form)
    function = case.function.__name__
    for name in RANGES[function]:
        interval, value = OUTSIDE.get((function, name), ("[0, inf)", -0.5))
        refused = {value, np.nan, np.inf}
        errors = {bad: f"{name} is {bad} but must be in {interval}" for bad in refused}
        errors[(0.5,) * 3] = f"{name} has shape (3,), not ()"
        for bad, message in errors.items():
            setting = {name: np.array(bad) if isinstance(bad, tuple) else bad}
            refuses(message, case.loss, logits=logits, labels=labels, **setting)


PER_CLASS_SHAPES = {SOFTMAX: (3,), BINARY: (2,), MULTI_LABEL: (3, 2)}


@pytest.mark.parametrize(
    ("name", "argument", "forms"),
    [
        ("cross_entropy", "class_weights", FORMS),
        ("focal", "class_weights", FORMS),
        ("logit_adjusted", "class_counts", FORMS),
        ("ldam", "class_counts", (SOFTMAX, BINARY)),
        ("ldam", "class_weights", (SOFTMAX, BINARY)),
        ("vs", "class_counts", (SOFTMAX, BINARY)),
        ("vs", "class_weights", (SOFTMAX, BINARY)),
        ("distribution_balanced", "class_counts", (MULTI_LABEL,)),
    ],
)
def test_per_class_arrays_want_the_shape_of_the_form(name, argument, forms):
    for form in forms:
        logits, labels, _ = draw(form)
        (case,) = (c for c in CASES if (c.function.__name__, c.form) == (name, form))
        wanted = PER_CLASS_SHAPES[form]
        for shape in {*PER_CLASS_SHAPES.values(), (), (4,)} - {wanted}:
            message = f"{argument} has shape {shape}, not {wanted}"
            arrays = {"logits": logits, "labels": labels, argument: np.ones(shape)}
            refuses(message, case.loss, **arrays)
        for bad in (-3.0, np.nan) if argument == "class_weights" else (0.0, np.nan):
            values = np.ones(wanted)
            values[-1] = bad
            message = f"{argument} is {bad} but must be in "
            arrays = {"logits": logits, "labels": labels, argument: values}
            refuses(message, case.loss, **arrays)


@pytest.mark.parametrize("form", FORMS)
def test_adjusted_logits_want_counts_of_the_form(form):
    adjust = functools.partial(losses.adjust_logits, draw(form).logits, **LAYOUTS[form])
    wanted = PER_CLASS_SHAPES[form]
    with raises(f"class_counts has shape (5,), not {wanted}"):
        adjust(class_counts=np.ones(5))
    with raises("class_counts is 0.0 but must be in (0, inf)"):
        adjust(class_counts=np.zeros(wanted))
    with raises("tau is -1.0 but must be in [0, inf)"):
        adjust(class_counts=COUNTS[form], tau=-1.0)


@over([case for case in CASES if not case.takes_soft])
def test_losses_of_decisions_refuse_probabilities_or_take_them(case):
    # Lovasz and the distribution-balanced loss are meant for hard labels, but defined.
    if case.function in (losses.lovasz_softmax, losses.distribution_balanced):
        return
    if case.settings.get("form") == "gold":
        return
    logits = draw(case.form).logits
    soft = np.full(logits.shape, 0.5, np.float32)
    message = "labels are floats but this loss wants integers"
    refuses(message, case.loss, logits=logits, labels=soft)


FOUR = np.ones(4, np.float32)
REGRESSION = {"predictions": FOUR, "targets": FOUR, "state": ghm_state()}
MINING = {"scores": FOUR, "positives": FOUR > 0}
BAD_ARGUMENTS = [
    (ghm_regression, {"predictions": np.ones(4, int)}, "has dtype int64, not a float"),
    (ghm_regression, {"targets": np.ones(4, int)}, "has dtype int64, not a float"),
    (ghm_regression, {"targets": FOUR[1:]}, "has shape (3,) but predictions has (4,)"),
    (ghm_regression, masks(1), "has shape (1,) but predictions (4,) wants (4,)"),
    (ghm_regression, {"where": FOUR}, "has dtype float32, not bool"),
    (ghm_regression, {"mu": 0.0}, "is 0.0 but must be in (0, inf)"),
    (ghm_regression, {"mu": np.nan}, "is nan but must be in (0, inf)"),
    (ghm_regression, {"momentum": 1.0}, "is 1.0 but must be in [0, 1)"),
    (hard_negative_mask, {"scores": np.ones(4, int)}, "has dtype int64, not a float"),
    (
        hard_negative_mask,
        {"positives": np.ones((4, 1), bool)},
        "has shape (4, 1) and dtype bool but scores (4,) wants (4,) of bool",
    ),
    (hard_negative_mask, masks(4, 1), "has shape (4, 1) but scores (4,) wants (4,)"),
    (
        hard_negative_mask,
        {"negatives_per_positive": -1.0},
        "is -1.0 but must be in [0, inf)",
    ),
    (hard_negative_mask, {"minimum": -1}, "is -1 but must be in [0, inf)"),
    (hard_negative_mask, {"axis": 1}, "is 1 but labels has 1 axes"),
]


@pytest.mark.parametrize(("function", "bad", "message"), BAD_ARGUMENTS)
def test_regression_and_mining_refuse_what_does_not_fit(function, bad, message):
    arguments = MINING if function is hard_negative_mask else REGRESSION
    with jax.enable_x64(True):
        refuses(f"{next(iter(bad))} {message}", function, **arguments | bad)


BELOW_0 = "but must be in [0, inf)"


@pytest.mark.parametrize(
    ("loss", "settings", "message"),
    [
        (self_adjusting_dice, {"alpha": np.ones(3)}, "has shape (3,), not ()"),
        (overlap_counts, {"alpha": np.inf}, f"is inf {BELOW_0}"),
        (dice, {"smooth": -2}, f"is -2 {BELOW_0}"),
        (dice, {"absent": "drop"}, "is 'drop' but must be 'smooth' or 'skip'"),
        (dice, {"axis": 2}, "is 2 but labels has 2 axes"),
        (dice, {"axis": (0, -2)}, "is (0, -2) but names an axis twice"),
        (soft_f1, {"exclude_class": 3}, "is 3 but there are 3 classes"),
        (soft_f1, {"exclude_class": -1}, "is -1 but there are 3 classes"),
        (unified_focal, {"background": 3}, "is 3 but there are 3 classes"),
        (majority_or_minority, {"majority_class": 3}, "is 3 but there are 3 classes"),
        (cross_entropy, {"class_weights": [1.0, -3.0, 1.0]}, f"is -3.0 {BELOW_0}"),
        (cross_entropy, {"class_weights": (1.0, 3.0)}, "has shape (2,), not (3,)"),
        (
            self_adjusting_dice,
            {"form": "silver"},
            "is 'silver' but must be 'gold' or 'one_versus_rest'",
        ),
        (
            self_adjusting_dice,
            {"axis": None, "form": "gold"},
            "is None but form='gold' wants axis=(); use form='one_versus_rest'",
        ),
    ],
)
def test_settings_out_of_bounds_are_refused(loss, settings, message):
    message = f"{next(iter(settings))} {message}"
    refuses(message, loss, logits=LOGITS, labels=LABELS, **settings)
    # Known values are seen inside a jit of traced arrays as well.
    with raises(message):
        jax.jit(functools.partial(loss, **settings))(LOGITS, LABELS)


def test_gold_form_refuses_soft_labels():
    with raises("labels are float32, not integers; use form='one_versus_rest'"):
        self_adjusting_dice(LOGITS, np.zeros_like(LOGITS), axis=(), form="gold")


def test_unknown_keywords_are_refused():
    with pytest.raises(TypeError, match="gamma"):
        dice(LOGITS, LABELS, gamma=1.0)
