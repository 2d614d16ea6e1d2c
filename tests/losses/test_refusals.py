"""Errors of the losses and their messages: shapes, types, values, choices."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax import losses
from dicejax.losses import (
    adjust_logits,
    cross_entropy,
    dice,
    ghm_regression,
    ghm_state,
    majority_or_minority,
    mcc,
    overlap_counts,
    self_adjusting_dice,
    soft_f1,
    unified_focal,
)
from dicejax.losses import hard_negative_mask as mine

from .cases import BINARY, COUNTS, FORMS, MULTI_LABEL, SOFTMAX, draw, layout
from .every import EVERY, RANGES, raises

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


def over(cases):
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


def refuses(message, loss, **arguments):
    """Check the error, eagerly and where arrays are known under jit."""
    with raises(message):
        loss(**arguments)
    with raises(message):
        jax.jit(lambda: loss(**arguments))()


def refuses_traced(message, loss, *, logits, labels, **settings):
    """Check the error where arrays are traced."""
    arrays = {"where": settings.pop("where")} if "where" in settings else {}
    with raises(message):
        jax.jit(functools.partial(loss, **settings))(logits, labels, **arrays)


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
            if "has value" not in message:
                refuses_traced(message, loss, **arguments)


# Values outside, with the interval; else [0, inf) and below 0.
UNIT, BELOW_ONE, POSITIVE = ("[0, 1]", 1.5), ("[0, 1)", 1.0), ("(0, inf)", 0.0)
OUTSIDE = {
    "amplification": POSITIVE,
    "delta": UNIT,
    "epsilon": ("[-1, inf)", -1.5),
    "k": ("[1, inf)", 0.5),
    "label_smoothing": UNIT,
    "momentum": BELOW_ONE,
    "offset": ("[-inf, inf)", -np.inf),
    "scale": POSITIVE,
    "slope": POSITIVE,
    "weight": UNIT,
    ("weighted_cross_entropy", "beta"): BELOW_ONE,
    ("focal", "beta"): BELOW_ONE,
    ("soft_f1", "beta"): POSITIVE,
    ("anyloss", "beta"): POSITIVE,
    ("asymmetric", "margin"): BELOW_ONE,
    ("pairwise_auc", "margin"): POSITIVE,
    ("average_precision", "margin"): POSITIVE,
    ("auc_margin", "margin"): POSITIVE,
    ("class_balanced", "beta"): BELOW_ONE,
    ("log_dice", "smooth"): ("[1e-12, inf)", 0.0),
    "barrier": ("[1, inf)", 0.5),
    "max_fpr": ("(0, 1]", 1.5),
    ("focal_tversky", "gamma"): ("[1, 8]", 0.5),
    ("unified_focal", "gamma"): BELOW_ONE,
}


@over(CASES)
def test_hyper_parameters_out_of_their_range_are_refused(case):
    logits, labels, _ = draw(case.form)
    function = case.function.__name__
    for name in RANGES[function]:
        by_name = OUTSIDE.get(name, ("[0, inf)", -0.5))
        interval, value = OUTSIDE.get((function, name), by_name)
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
        ("adjust_logits", "class_counts", FORMS),
        ("ldam", "class_counts", (SOFTMAX, BINARY)),
        ("ldam", "class_weights", (SOFTMAX, BINARY)),
        ("vs", "class_counts", (SOFTMAX, BINARY)),
        ("vs", "class_weights", (SOFTMAX, BINARY)),
        ("distribution_balanced", "class_counts", (MULTI_LABEL,)),
    ],
)
def test_per_class_arrays_want_the_shape_of_the_form(name, argument, forms):
    for form in forms:
        arrays = dict(zip(("logits", "labels"), draw(form)[:2], strict=True))
        if name == "adjust_logits":
            del arrays["labels"]
        if name in ("ldam", "vs"):
            arrays["class_counts"] = COUNTS[form]
        loss = functools.partial(getattr(losses, name), **layout(name, form))
        expected = PER_CLASS_SHAPES[form]
        for shape in {*PER_CLASS_SHAPES.values(), (), (4,)} - {expected}:
            message = f"{argument} has shape {shape}, not {expected}"
            refuses(message, loss, **arrays | {argument: np.ones(shape)})
        for bad in (-3.0, np.nan) if argument == "class_weights" else (0.0, np.nan):
            values = np.ones(expected)
            values[-1] = bad
            message = f"{argument} is {bad} but must be in "
            refuses(message, loss, **arrays | {argument: values})


@over([case for case in CASES if not case.takes_soft])
def test_losses_of_decisions_refuse_probabilities_or_take_them(case):
    # Lovasz and the distribution-balanced loss are meant for hard labels, but defined.
    if case.function in (losses.lovasz_softmax, losses.distribution_balanced):
        return
    if case.settings.get("form") == "gold":
        return
    logits = draw(case.form).logits
    soft = np.full(logits.shape, 0.5, np.float32)
    message = "labels are floats but this loss needs integers"
    refuses(message, case.loss, logits=logits, labels=soft)


FOUR, COLUMN = np.ones(4, np.float32), np.ones((4, 1), bool)
REGRESSION = {"predictions": FOUR, "targets": FOUR, "state": ghm_state()}
MINING = {"scores": FOUR, "positives": FOUR > 0}
ADJUSTED = {"logits": LOGITS, "class_counts": COUNTS[SOFTMAX]}
ARGUMENTS = {ghm_regression: REGRESSION, mine: MINING, adjust_logits: ADJUSTED}
NOT_FLOAT, BELOW_0 = "has dtype int64, not a float", "but must be in [0, inf)"
NOT_POSITIVE, NOT_OF_3 = "but must be in (0, inf)", "but there are 3 classes"
BAD_ARGUMENTS = [
    (ghm_regression, {"predictions": np.ones(4, int)}, NOT_FLOAT),
    (ghm_regression, {"targets": np.ones(4, int)}, NOT_FLOAT),
    (ghm_regression, {"targets": FOUR[1:]}, "has shape (3,) but predictions has (4,)"),
    (ghm_regression, masks(1), "has shape (1,) but predictions (4,) wants (4,)"),
    (ghm_regression, {"where": FOUR}, "has dtype float32, not bool"),
    (ghm_regression, {"mu": 0.0}, f"is 0.0 {NOT_POSITIVE}"),
    (ghm_regression, {"mu": np.nan}, f"is nan {NOT_POSITIVE}"),
    (ghm_regression, {"momentum": 1.0}, "is 1.0 but must be in [0, 1)"),
    (mine, {"scores": np.ones(4, int)}, NOT_FLOAT),
    (
        mine,
        {"positives": COLUMN},
        "has shape (4, 1) and dtype bool but scores (4,) wants (4,) of bool",
    ),
    (mine, masks(4, 1), "has shape (4, 1) but scores (4,) wants (4,)"),
    (mine, {"negatives_per_positive": -1.0}, f"is -1.0 {BELOW_0}"),
    (mine, {"minimum": -1}, f"is -1 {BELOW_0}"),
    (mine, {"axis": 1}, "is 1 but labels has 1 axes"),
    (adjust_logits, {"tau": -1.0}, f"is -1.0 {BELOW_0}"),
    (self_adjusting_dice, {"alpha": np.ones(3)}, "has shape (3,), not ()"),
    (overlap_counts, {"alpha": np.inf}, f"is inf {BELOW_0}"),
    (dice, {"smooth": -2}, f"is -2 {BELOW_0}"),
    (dice, {"absent": "drop"}, "is 'drop' but must be 'smooth' or 'skip'"),
    (dice, {"axis": 2}, "is 2 but labels has 2 axes"),
    (dice, {"axis": (0, -2)}, "is (0, -2) but names an axis twice"),
    (soft_f1, {"exclude_class": 3}, f"is 3 {NOT_OF_3}"),
    (soft_f1, {"exclude_class": -1}, f"is -1 {NOT_OF_3}"),
    (unified_focal, {"background": 3}, f"is 3 {NOT_OF_3}"),
    (majority_or_minority, {"majority_class": 3}, f"is 3 {NOT_OF_3}"),
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
    (
        self_adjusting_dice,
        {"labels": 0 * LOGITS, "axis": (), "form": "gold"},
        "are float32, not integers; use form='one_versus_rest'",
    ),
    (
        mcc,
        {"variant": "multiclass", "multi_label": True, "labels": YES_OR_NO},
        "is 'multiclass' but the classes are sigmoids",
    ),
]


@pytest.mark.parametrize(("function", "bad", "message"), BAD_ARGUMENTS)
def test_arguments_out_of_bounds_are_refused(function, bad, message):
    message, data = f"{next(iter(bad))} {message}", {"logits": LOGITS, "labels": LABELS}
    with jax.enable_x64(True):
        refuses(message, function, **ARGUMENTS.get(function, data) | bad)
    if function not in ARGUMENTS:
        refuses_traced(message, function, **data | bad)


@pytest.mark.parametrize(
    ("keyword", "message"),
    [
        ("gamma", "dice: got an unexpected keyword argument 'gamma'"),
        ("smoth", "'smoth'; did you mean smooth?"),
        ("reduction", "'reduction'; losses are not reduced: take .mean()"),
    ],
)
def test_unknown_keywords_are_refused(keyword, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        dice(LOGITS, LABELS, **{keyword: 1.0})


def test_labels_that_are_no_array_or_integer_one_hot_are_refused():
    with pytest.raises(ValueError, match="labels is a list, not an array"):
        dice(LOGITS, LABELS.tolist())
    one_hot = jnp.zeros(LOGITS.shape, int)
    with pytest.raises(ValueError, match="one-hot labels are floats"):
        dice(LOGITS, one_hot)


def test_names_of_the_command_line_lead_to_functions():
    with pytest.raises(AttributeError, match="'dsc'; did you mean self_adjusting_dice"):
        losses.dsc  # noqa: B018
