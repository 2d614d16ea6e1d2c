"""Relations between losses: neutral settings, and one form from another.

In float64 to rounding; each side is a separate formula.
"""

import functools

import jax
import numpy as np
import pytest

from dicejax import losses

from .cases import (
    BINARY,
    COUNTS,
    FORMS,
    LAYOUTS,
    MULTI_LABEL,
    SOFTMAX,
    WEIGHTS,
    draw,
    layout,
    of_form,
)
from .every import EVERY, ghm, over

EXCLUSIVE, SIGMOIDS, MANY = (SOFTMAX, BINARY), (BINARY, MULTI_LABEL), (MULTI_LABEL,)


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def loss_of(name, form, /, **settings):
    """Return the loss of a name in a form, with settings; per-class ones by form."""
    loss = ghm if name == "ghm" else getattr(losses, name)
    return functools.partial(loss, **of_form(settings, form), **layout(name, form))


def evaluated(loss, kind, form, seed=0):
    logits, labels, where = draw(form, kind, seed)
    return np.asarray(loss(logits.astype(np.float64), labels, where=where))


def assert_same(got, expected):
    np.testing.assert_allclose(got, expected, rtol=1e-13, atol=1e-15)


ONES = {SOFTMAX: np.ones(3), BINARY: np.ones(2), MULTI_LABEL: np.ones((3, 2))}
COUNTED, WEIGHED = {"class_counts": COUNTS}, {"class_weights": WEIGHTS}
EVENLY = {"class_weights": ONES}
TAU = COUNTED | {"tau": 0.7}
BATCH = {"squared": False, "smooth": 0.5}
ADJUSTED = BATCH | {"alpha": 0.7}
SMOOTH, SMOOTHED = {"smooth": 0.5}, {"label_smoothing": 0.3}
EXPONENTS = {"gamma_positive": 1.5, "gamma_negative": 1.5}
EQUALLY, WIDE = {"beta": 0.0, "gamma": 1.5}, {"margin": 2.5}
ERRORS = {"alpha": 0.2, "beta": 0.6}
NO_SCHEME = COUNTED | {"k": 1e9, "scheme": "effective_number", "beta": 0.0}
UNIFORM = {"weighting": "uniform", "absent": "smooth", "smooth": 0.5}
CE = ("cross_entropy", {})
DSC = "self_adjusting_dice"
# Forms, a loss with settings, and its equivalent.
SAME = [
    (FORMS, "focal", {"gamma": 0.0}, *CE),
    (FORMS, "focal", {"gamma": 0.0} | WEIGHED, "cross_entropy", WEIGHED),
    (FORMS, "focal", EVENLY, "focal", {}),
    (FORMS, "poly", {"epsilon": 0.0}, *CE),
    (FORMS, "poly_focal", {"gamma": 0.0, "epsilon": 0.7}, "poly", {"epsilon": 0.7}),
    (FORMS, "poly_focal", {"epsilon": 0.0}, "focal", {}),
    (FORMS, "weighted_cross_entropy", NO_SCHEME, *CE),
    (FORMS, "cross_entropy", {"label_smoothing": 0.0}, "poly", {"epsilon": 0.0}),
    (FORMS, "cross_entropy", EVENLY, *CE),
    (FORMS, "cross_entropy", EVENLY | SMOOTHED, "cross_entropy", SMOOTHED),
    (FORMS, "logit_adjusted", COUNTED | {"tau": 0.0}, *CE),
    (EXCLUSIVE, "ldam", COUNTED | {"max_margin": 0.0}, *CE),
    (EXCLUSIVE, "ldam", COUNTED | {"max_margin": 0.0} | WEIGHED, CE[0], WEIGHED),
    (EXCLUSIVE, "vs", COUNTED | {"tau": 0.0, "gamma": 0.0}, *CE),
    (EXCLUSIVE, "vs", TAU | {"gamma": 0.0}, "logit_adjusted", TAU),
    (EXCLUSIVE, "majority_or_minority", {"weight": 1.0}, *CE),
    (SIGMOIDS, "asymmetric", {"margin": 0.0} | EXPONENTS, "focal", {"gamma": 1.5}),
    (MANY, "class_balanced", COUNTED | {"beta": 0.0}, *CE),
    (MANY, "class_balanced", COUNTED | EQUALLY, "focal", {"gamma": 1.5}),
    (FORMS, "pairwise_auc", {"max_fpr": 1.0}, "pairwise_auc", {}),
    (FORMS, "pairwise_auc", {"surrogate": "squared"}, "pairwise_auc", {}),
    (FORMS, "auc_margin", WIDE, "pairwise_auc", {"surrogate": "squared"} | WIDE),
    (FORMS, "ghm", {"bins": 1}, *CE),
    (FORMS, "ghm", {"momentum": 0.0}, "ghm", {"momentum": 0.5}),
    (FORMS, "tversky", {"smooth": 0.25}, "dice", SMOOTH),
    (FORMS, "focal_tversky", {"gamma": 1.0} | ERRORS, "tversky", ERRORS),
    (FORMS, "tversky", {"alpha": 1.0, "beta": 1.0}, "jaccard", {}),
    (FORMS, "soft_f1", {"average": "none"} | SMOOTH, "dice", SMOOTH),
    (FORMS, "soft_f1", {"average": "none"}, "dice", {}),
    (SIGMOIDS, "sigmoid_f1", {"slope": 1.0, "offset": 0.0}, "soft_f1", {}),
    (FORMS, "dice_semimetric", {"variant": "dml1"}, "dice", {}),
    (FORMS, "dice_semimetric", {"variant": "dml2"}, "dice", {}),
    (FORMS, DSC, BATCH | {"alpha": 0.0}, "dice", SMOOTH),
    (FORMS, DSC, BATCH | {"alpha": 0.0, "axis": ()}, "dice", SMOOTH | {"axis": ()}),
    (FORMS, DSC, ADJUSTED | {"stop_gradient_weight": True}, DSC, ADJUSTED),
    (FORMS, "generalized_dice", UNIFORM, "soft_f1", {"average": "micro"} | SMOOTH),
]


@pytest.mark.parametrize(
    ("form", "name", "settings", "parent", "theirs"),
    [
        pytest.param(
            form,
            *rest,
            id=f"{form}-{rest[0]}-{rest[2]}-{number}",
            # By default one form of each relation, each form in turn.
            marks=[pytest.mark.exhaustive] * (form != forms[number % len(forms)]),
        )
        for number, (forms, *rest) in enumerate(SAME)
        for form in forms
    ],
)
def test_neutral_settings_give_the_parent_loss(form, name, settings, parent, theirs):
    child, parent = loss_of(name, form, **settings), loss_of(parent, form, **theirs)
    for kind in ("random", "tied"):
        assert_same(evaluated(child, kind, form), evaluated(parent, kind, form))


@pytest.mark.parametrize("form", FORMS)
def test_losses_that_are_functions_of_others(form):
    def value(name, **settings):
        return evaluated(loss_of(name, form, **settings), "random", form)

    close = functools.partial(np.testing.assert_allclose, rtol=1e-12)
    close(value("log_cosh_dice"), np.log(np.cosh(value("dice"))))
    close(value("log_dice"), -np.log(1 - value("dice")))
    x = value("dice", smooth=0.0)
    close(value("jaccard", smooth=0.0), 2 * x / (1 + x))
    entropy = value("cross_entropy")
    if form == MULTI_LABEL:  # without its parts; the weight is alpha + sigmoid(0)
        plain = COUNTED | {"kappa": 0.0, "scale": 1.0, "alpha": 0.5}
        close(value("distribution_balanced", beta=0.0, **plain), entropy)
        # A sigmoid of a great height: alpha + 1 for an element without labels.
        loss = loss_of("distribution_balanced", form, **plain)
        logits = np.linspace(-3, 3, 12).reshape(4, 3)
        nothing = loss(logits, np.zeros((4, 3), int))
        close(nothing, 1.5 * np.log1p(np.exp(logits)))
        return
    # The ends of its weight.
    focal = value("unified_focal", weight=1.0, delta=0.5, gamma=0.0)
    close(focal, 0.5 * entropy.sum() / (entropy > 0).sum())
    if form == SOFTMAX:
        sets = value("unified_focal", weight=0.0, delta=0.7, gamma=0.0, smooth=0.5)
        close(sets, value("tversky", alpha=0.3, beta=0.7, smooth=0.5).mean())
    else:  # of one class
        logits, labels, where = draw(BINARY)
        z, y = logits[..., None].astype(float), labels[..., None]
        close(losses.zlpr(z, y, where=where), entropy, atol=1e-15)


@pytest.mark.parametrize("form", FORMS)
def test_logit_adjustment_before_and_after_training_cancel(form):
    logits, labels, where = draw(form)
    logits, settings = logits.astype(float), {"class_counts": COUNTS[form], "tau": 0.6}
    adjusted = losses.adjust_logits(logits, **settings, **LAYOUTS[form])
    got = loss_of("logit_adjusted", form, **settings)(adjusted, labels, where=where)
    expected = loss_of("cross_entropy", form)(logits, labels, where=where)
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-15)


@over([case for case in EVERY if case.takes_soft])
def test_integer_labels_are_their_one_hot_probabilities(case):
    logits, labels, where = draw(case.form, seed=1)
    masked = labels == -100
    labels = np.where(masked, 0, labels)
    where &= ~(masked.any(-1) if case.form == MULTI_LABEL else masked)
    soft = np.eye(3)[labels] if case.form == SOFTMAX else labels.astype(float)
    logits = logits.astype(float)
    got = case.loss(logits, soft, where=where)
    want = case.loss(logits, labels, where=where)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-15)


# One logit z is the softmax of (0, z), for those that treat both outcomes alike.
BINARY_WEIGHTS = {"class_weights": WEIGHTS[BINARY]}
BINARY_COUNTS = {"class_counts": COUNTS[BINARY]}
OF_TWO_CLASSES = [
    ("cross_entropy", {}),
    ("cross_entropy", {"label_smoothing": 0.3} | BINARY_WEIGHTS),
    ("poly", {"epsilon": 2.0}),
    ("brier", {}),
    ("poly_focal", {"epsilon": 2.0}),
    ("majority_or_minority", {"weight": 0.2}),
    ("focal", {"gamma": 0.7} | BINARY_WEIGHTS),
    ("logit_adjusted", BINARY_COUNTS),
    ("ldam", BINARY_COUNTS | BINARY_WEIGHTS | {"scale": 3.0}),
    ("vs", BINARY_COUNTS | {"gamma": 0.0}),
    ("ghm", {"bins": 4}),
    ("unified_focal", {}),
    ("unified_focal", {"variant": "symmetric", "axis": -1}),
]


# Of a set, class 1 of that softmax.
PER_CLASS_SETS = [
    ("dice", {"squared": True}),
    ("log_cosh_dice", {}),
    ("log_dice", {"squared": True}),
    ("mcc", {}),
    ("auc_margin", {"margin": 0.3}),
    ("pairwise_auc", {"max_fpr": 0.37}),
    ("dice_semimetric", {"variant": "dml2"}),
    ("tversky", {"alpha": 0.2, "beta": 0.9}),
    ("focal_tversky", {}),
    ("jaccard", {}),
    ("soft_f1", {"average": "none", "beta": 2.0}),
    ("lovasz_softmax", {}),
    (DSC, BATCH | {"alpha": 0.4}),
    (DSC, BATCH | {"alpha": 0.4, "axis": ()}),
]


@pytest.mark.parametrize("kind", ["random", "extreme"])
@pytest.mark.parametrize(("name", "settings"), [*OF_TWO_CLASSES, *PER_CLASS_SETS])
def test_the_binary_form_is_a_softmax_of_0_and_z(name, settings, kind):
    z, labels, where = draw(BINARY, kind)
    z = z.astype(float)
    got = loss_of(name, BINARY, **settings)(z, labels, where=where)
    pairs = np.stack([np.zeros_like(z), z], axis=-1)
    want = loss_of(name, SOFTMAX, **settings)(pairs, labels, where=where)
    want = want[..., 1] if (name, settings) in PER_CLASS_SETS else want
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-15)


ENTRY_BY_ENTRY = [
    ("cross_entropy", {"label_smoothing": 0.3}),
    ("poly", {}),
    ("brier", {}),
    ("poly_focal", {}),
    ("lovasz_hinge", {}),
    ("focal", {"class_weights": WEIGHTS}),
    ("logit_adjusted", {"class_counts": COUNTS}),
    ("asymmetric", {}),
    *PER_CLASS_SETS,
    ("sigmoid_f1", {"average": "none", "slope": 2.0}),
]


@pytest.mark.parametrize(("name", "settings"), ENTRY_BY_ENTRY)
def test_the_multi_label_form_is_the_binary_form_class_by_class(name, settings):
    logits, labels, where = draw(MULTI_LABEL)
    logits = logits.astype(float)
    got = loss_of(name, MULTI_LABEL, **settings)(logits, labels, where=where)
    for number in range(3):
        of_class = {
            key: {BINARY: value[MULTI_LABEL][number]}
            if isinstance(value, dict)
            else value
            for key, value in settings.items()
        }
        loss = loss_of(name, BINARY, **of_class)
        expected = loss(logits[..., number], labels[..., number], where=where)
        assert_same(got[..., number], expected)
