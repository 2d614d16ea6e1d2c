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
LOSSES = [case.loss for case in CASES if case.form == SOFTMAX] + [overlap_counts]
LOGITS = np.random.default_rng(0).normal(size=(8, 6, 3)).astype(np.float32)
LABELS = np.random.default_rng(1).integers(0, 3, (8, 6))

BAD_ARRAYS = {
    "labels has shape (8, 128) but logits (8, 64, 9) wants (8, 64)": {
        "logits": jnp.zeros((8, 64, 9)),
        "labels": jnp.zeros((8, 128), int),
    },
    "labels has shape (8, 6, 3) but logits (8, 6, 3) wants (8, 6)": {
        "labels": np.zeros((8, 6, 3), int)
    },
    "labels has shape (8, 6) but logits (8, 6, 3) wants (8, 6, 3) for float labels": {
        "labels": np.zeros((8, 6))
    },
    "labels has shape (8, 6) but logits (8, 6, 3) wants (8, 6, 3)": {
        "class_axis": None
    },
    "labels has shape (8, 6) but logits (8, 6, 3) wants (6, 3)": {"class_axis": 0},
    "where has shape (8, 1) but logits (8, 6, 3) wants (8, 6)": {
        "where": np.ones((8, 1), bool)
    },
    "where has shape (8, 6, 3) but logits (8, 6, 3) wants (8, 6)": {
        "where": np.ones((8, 6, 3), bool)
    },
    "where has dtype float32, not bool": {"where": np.ones((8, 6), np.float32)},
    "logits has dtype int32, not a float": {"logits": LOGITS.astype(np.int32)},
    "labels has dtype bool, not integer or float": {"labels": np.ones((8, 6), bool)},
    "class_axis is 3 but logits has shape (8, 6, 3)": {"class_axis": 3},
    "logits has shape (8, 6, 0): no classes on axis 2": {"logits": LOGITS[..., :0]},
    "labels has value 3 but 3 classes want 0 to 2, or -100 for masked": {
        "labels": np.where(LABELS == 1, 3, LABELS)
    },
    "labels has value -1 but 3 classes want 0 to 2, or -100 for masked": {
        "labels": np.where(LABELS == 1, -1, LABELS)
    },
    "labels has value 2 but 2 classes want 0 to 1, or -100 for masked": {
        "labels": np.full((8, 6, 3), 2),
        "class_axis": None,
    },
    "labels has value -100.0 but probabilities want 0 to 1": {
        "labels": np.full((8, 6, 3), -100.0)
    },
    "labels has value nan but probabilities want 0 to 1": {
        "labels": np.full((8, 6, 3), np.nan)
    },
}


def raises(message):
    return pytest.raises(ValueError, match="^" + re.escape(message))


def over(cases):
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


def refuses(message, loss, logits, labels, **settings):
    """Check the error, eagerly and where arrays are known under jit."""
    with raises(message):
        loss(logits, labels, **settings)
    with raises(message):
        jax.jit(lambda: loss(logits, labels, **settings))()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("message", BAD_ARRAYS)
def test_arrays_that_do_not_fit_are_refused(message, loss):
    refuses(message, loss, **{"logits": LOGITS, "labels": LABELS} | BAD_ARRAYS[message])


YES_OR_NO = np.random.default_rng(2).integers(0, 2, (8, 6, 3))
BAD_MULTI_LABEL = {
    "labels has shape (8, 6) but logits (8, 6, 3) wants (8, 6, 3) in the multi-label"
    " form": {"labels": LABELS},
    "labels has value 2 but 2 classes want 0 to 1, or -100 for masked": {
        "labels": 2 * YES_OR_NO
    },
    "labels has value 1.5 but probabilities want 0 to 1": {"labels": 1.5 * YES_OR_NO},
    "labels has value nan but probabilities want 0 to 1": {
        "labels": np.full((8, 6, 3), np.nan)
    },
    "where has shape (8, 6, 3) but logits (8, 6, 3) wants (8, 6)": {
        "where": np.ones((8, 6, 3), bool)
    },
    "where has shape (6, 3) but logits (8, 6, 3) wants (8, 6)": {
        "where": np.ones((6, 3), bool)
    },
    "where has dtype int64, not bool": {"where": np.ones((8, 6), np.int64)},
}
BAD_BINARY = {
    "labels has shape (8, 6, 1) but logits (8, 6, 3) wants (8, 6, 3)": {
        "labels": YES_OR_NO[..., :1]
    },
    "labels has value 2 but 2 classes want 0 to 1, or -100 for masked": {
        "labels": 2 * YES_OR_NO
    },
    "labels has value nan but probabilities want 0 to 1": {
        "labels": np.full((8, 6, 3), np.nan)
    },
    "where has shape (8, 6, 1) but logits (8, 6, 3) wants (8, 6, 3)": {
        "where": np.ones((8, 6, 1), bool)
    },
}


@pytest.mark.parametrize(
    ("form", "bad", "message"),
    [
        *((MULTI_LABEL, bad, message) for message, bad in BAD_MULTI_LABEL.items()),
        *((BINARY, bad, message) for message, bad in BAD_BINARY.items()),
    ],
)
def test_arrays_that_do_not_fit_a_form_are_refused(form, bad, message):
    arguments = {"logits": LOGITS, "labels": YES_OR_NO} | bad
    with jax.enable_x64(True):
        for case in CASES:
            if case.form == form:
                refuses(message, case.loss, **arguments)


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
        for bad in (value, np.nan, np.inf):
            message = f"{name} is {bad} but must be in {interval}"
            refuses(message, case.loss, logits, labels, **{name: bad})
        message = f"{name} has shape (3,), not ()"
        refuses(message, case.loss, logits, labels, **{name: np.full(3, 0.5)})


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
            refuses(message, case.loss, logits, labels, **{argument: np.ones(shape)})
        for bad in (-3.0, np.nan) if argument == "class_weights" else (0.0, np.nan):
            values = np.ones(wanted)
            values[-1] = bad
            message = f"{argument} is {bad} but must be in "
            refuses(message, case.loss, logits, labels, **{argument: values})


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


@pytest.mark.parametrize(
    ("loss", "settings"),
    [
        (soft_f1, {"exclude_class": 3}),
        (soft_f1, {"exclude_class": -1}),
        (unified_focal, {"background": 3}),
        (majority_or_minority, {"majority_class": 3}),
    ],
)
def test_classes_that_do_not_exist_are_refused(loss, settings):
    ((name, value),) = settings.items()
    refuses(
        f"{name} is {value} but there are 3 classes", loss, LOGITS, LABELS, **settings
    )


@over([case for case in CASES if not case.takes_soft])
def test_losses_of_decisions_refuse_probabilities_or_take_them(case):
    # Lovasz and the distribution-balanced loss are meant for hard labels, but defined.
    if case.function in (losses.lovasz_softmax, losses.distribution_balanced):
        return
    if case.settings.get("form") == "gold":
        return
    logits = draw(case.form).logits
    soft = np.full(logits.shape, 0.5, np.float32)
    refuses("labels are floats but this loss wants integers", case.loss, logits, soft)


REGRESSION = {
    "predictions has dtype int32, not a float": {"predictions": np.ones(4, np.int32)},
    "targets has dtype int32, not a float": {"targets": np.ones(4, np.int32)},
    "targets has shape (3,) but predictions has (4,)": {"targets": np.ones(3)},
    "where has shape (1,) but predictions (4,) wants (4,)": {"where": np.ones(1, bool)},
    "where has dtype float64, not bool": {"where": np.ones(4)},
    "mu is 0.0 but must be in (0, inf)": {"mu": 0.0},
    "mu is nan but must be in (0, inf)": {"mu": np.nan},
    "momentum is 1.0 but must be in [0, 1)": {"momentum": 1.0},
}


@pytest.mark.parametrize("message", REGRESSION)
def test_regression_refuses_what_does_not_fit(message):
    arguments = {"predictions": np.ones(4), "targets": np.zeros(4)}
    arguments |= {"state": ghm_state()} | REGRESSION[message]
    with jax.enable_x64(True):
        with raises(message):
            ghm_regression(**arguments)
        with raises(message):
            jax.jit(lambda: ghm_regression(**arguments))()


MINING = {
    "scores has dtype int32, not a float": {"scores": np.ones(4, np.int32)},
    "positives has shape (4, 1) and dtype bool but scores (4,) wants (4,) of bool": {
        "positives": np.ones((4, 1), bool)
    },
    "where has shape (4, 1) but scores (4,) wants (4,)": {
        "where": np.ones((4, 1), bool)
    },
    "negatives_per_positive is -1.0 but must be in [0, inf)": {
        "negatives_per_positive": -1.0
    },
    "minimum is -1 but must be in [0, inf)": {"minimum": -1},
    "axis is 1 but labels has 1 axes": {"axis": 1},
}


@pytest.mark.parametrize("message", MINING)
def test_mining_refuses_what_does_not_fit(message):
    arguments = {"scores": np.ones(4, np.float32), "positives": np.ones(4, bool)}
    with raises(message):
        hard_negative_mask(**arguments | MINING[message])
    with raises(message):
        jax.jit(lambda: hard_negative_mask(**arguments | MINING[message]))()


@pytest.mark.parametrize(
    ("loss", "settings", "message"),
    [
        (self_adjusting_dice, {"alpha": -1.0}, "alpha is -1.0 but must be in [0, inf)"),
        (self_adjusting_dice, {"alpha": np.nan}, "alpha is nan but"),
        (self_adjusting_dice, {"smooth": -2}, "smooth is -2 but must be in [0, inf)"),
        (self_adjusting_dice, {"alpha": np.ones(3)}, "alpha has shape (3,), not ()"),
        (overlap_counts, {"alpha": np.inf}, "alpha is inf but must be in [0, inf)"),
        (dice, {"smooth": -0.5}, "smooth is -0.5 but must be in [0, inf)"),
        (dice, {"absent": "drop"}, "absent is 'drop' but must be 'smooth' or 'skip'"),
        (dice, {"axis": 2}, "axis is 2 but labels has 2 axes"),
        (dice, {"axis": (0, -2)}, "axis is (0, -2) but names an axis twice"),
        (
            cross_entropy,
            {"label_smoothing": 1.5},
            "label_smoothing is 1.5 but must be in [0, 1]",
        ),
        (
            cross_entropy,
            {"class_weights": [1.0, -3.0, 1.0]},
            "class_weights is -3.0 but must be in [0, inf)",
        ),
        (
            cross_entropy,
            {"class_weights": (1.0, 3.0)},
            "class_weights has shape (2,), not (3,)",
        ),
        (
            self_adjusting_dice,
            {"form": "silver"},
            "form is 'silver' but must be 'gold' or 'one_versus_rest'",
        ),
        (
            self_adjusting_dice,
            {"form": "gold"},
            "axis is None but form='gold' wants axis=(); use form='one_versus_rest'",
        ),
    ],
)
def test_settings_out_of_bounds_are_refused(loss, settings, message):
    with raises(message):
        loss(LOGITS, LABELS, **settings)
    # Known values are seen inside a jit as well.
    with raises(message):
        jax.jit(functools.partial(loss, **settings))(LOGITS, LABELS)


def test_gold_form_refuses_soft_labels():
    with raises("labels are float32, not integers; use form='one_versus_rest'"):
        self_adjusting_dice(LOGITS, np.zeros_like(LOGITS), axis=(), form="gold")


def test_unknown_keywords_are_refused():
    with pytest.raises(TypeError, match="gamma"):
        dice(LOGITS, LABELS, gamma=1.0)
