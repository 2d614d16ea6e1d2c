"""Losses that peers compute as well: values and gradients of both are equal.

In float64, unless a peer casts down, with agreement to rounding. Each function
translates our loss and settings into its package's, summed over classes and elements.
"""

import numpy as np
import optax
import pytest

from dicejax import losses

from .adapters import (
    CLIPPED,
    ROUNDING,
    SHAPE,
    SINGLE,
    assert_same,
    case,
    in_torch,
    of_monai,
    of_optax,
    of_smp,
    of_torch,
    one_hot,
    ours,
    outcomes,
    probabilities,
    scaled,
    smp_losses,
)

COUNTS = np.array([1000.0, 200.0, 50.0, 10.0, 1.0])
WEIGHTS = np.array([0.5, 1.0, 2.0, 0.0, 3.0])
LOGITS, LABELS = case()
MASKED = LABELS.copy()
MASKED[1, 2:6] = -100
INPUTS = {
    "numbers": (LOGITS, LABELS),
    "masked": (LOGITS, MASKED),
    "absent": case(present=4),  # class 4
    "soft": (LOGITS, probabilities()),
    "outcomes": (LOGITS, outcomes()),
    "soft outcomes": (LOGITS, np.random.default_rng(3).random(SHAPE)),
    "one class": (LOGITS[..., 0], outcomes()[..., 0]),
}


def torch(loss, logits, labels, *, class_weights=None, **settings):
    if settings.keys() & {"multi_label", "class_axis"}:
        settings = {"reduction": "sum", "pos_weight": class_weights[..., 1:]}
        return of_torch("BCEWithLogitsLoss", logits, labels, **settings)
    settings |= {"reduction": "sum", "weight": class_weights}
    return of_torch("CrossEntropyLoss", logits, labels, **settings)


def optax_(loss, logits, labels, *, class_weights=None, smooth=0.0, **settings):
    binary = settings.pop("class_axis", 0) is None
    if loss == "cross_entropy":
        name = "softmax_cross_entropy"
        if settings.pop("multi_label", False):
            name = "sigmoid_binary_cross_entropy"
        elif labels.ndim < logits.ndim:
            name += "_with_integer_labels"
    elif loss == "focal":
        name = "sigmoid_focal_loss"
        settings["alpha"] = None if class_weights is None else class_weights[1]
    elif loss == "poly":
        name = "poly_loss_cross_entropy"
    else:  # which smooths Dice twice as much
        if settings.pop("exclude_class", None) == 0:
            settings["ignore_background"] = True
        name = "binary_dice_loss" if binary else "dice_loss"
        settings["smooth"] = smooth / 2 if loss == "dice" else smooth
        if binary:
            settings.pop("axis")
        else:
            settings |= {"axis": (0, 1), "reduction": "none"}
    return of_optax(name, logits, labels, **settings)


def smp(loss, logits, labels, *, class_weights=None, absent=None, **settings):
    mode = "multilabel" if settings.pop("multi_label", False) else "multiclass"
    mode = "binary" if settings.pop("class_axis", 0) is None else mode
    is_mean, classes = settings.pop("average", "none") == "macro", None
    if excluded := settings.pop("exclude_class", None):
        classes = [c for c in range(SHAPE[-1]) if c not in excluded]
    if loss == "focal":
        settings["alpha"] = balance_of(class_weights)
        mean = of_smp("FocalLoss", logits, labels, mode, **settings)
        return scaled(mean, logits.size)
    if loss == "dice":  # smoothed twice as much
        settings = {"smooth": settings["smooth"] / 2}
        settings |= {"ignore_index": -100} if (labels < 0).any() else {}
    if loss == "focal_tversky":
        settings["gamma"] = 1 / settings["gamma"]
    name = {"dice": "DiceLoss", "jaccard": "JaccardLoss"}.get(loss, "TverskyLoss")
    mean = of_smp(name, logits, labels, mode, classes=classes, **settings)
    return scaled(mean, 1 if is_mean or mode == "binary" else SHAPE[-1])


def monai(loss, logits, labels, *, class_weights=None, absent=None, **settings):
    if loss == "focal":
        if settings.pop("multi_label", False):
            settings["alpha"] = balance_of(class_weights)
        else:
            settings["weight"] = class_weights
        mean = of_monai("FocalLoss", logits, labels, **settings)
        return scaled(mean, logits.size)  # it averages over classes too
    smooth = settings.pop("smooth")
    settings["batch"] = settings.pop("axis", None) is None
    for name, theirs in (("squared", "squared_pred"), ("weighting", "w_type")):
        if name in settings:
            settings[theirs] = settings.pop(name)
    if loss == "jaccard":
        settings["jaccard"], smooth = True, 2 * smooth
    if loss == "dice_semimetric":
        settings["soft_label"] = settings.pop("variant") == "dml1"
    if (labels < 0).any():
        settings["ignore_index"] = -100
    if labels.ndim == logits.ndim:
        name = "sigmoid" if settings.pop("multi_label", False) else "softmax"
        settings[name] = True
    if class_weights is not None:
        settings["weight"] = class_weights
    if settings.pop("exclude_class", None) == 0:
        settings["include_background"] = False
        settings |= {"weight": class_weights[1:]} if "weight" in settings else {}
    is_mean = settings.pop("average", "none") == "macro"
    names = {"tversky": "TverskyLoss", "generalized_dice": "GeneralizedDiceLoss"}
    settings["reduction"] = "mean" if is_mean else "sum"
    name = names.get(loss, "DiceLoss")
    return of_monai(name, logits, labels, smooth=smooth, **settings)


def balance_of(class_weights):
    """Return alpha of equal weights [1 - alpha, alpha] of each class."""
    return None if class_weights is None else class_weights[0, 1]


def is_single(peer, loss, settings):
    """Return whether the peer computes weights, or norms of targets, in float32."""
    casts = loss in ("focal", "generalized_dice") or settings.get("squared")
    return peer is monai and casts


BINARY, MANY, CE = {"class_axis": None}, {"multi_label": True}, "cross_entropy"
BALANCE = {"class_weights": np.array([0.75, 0.25])}
BALANCES = {"class_weights": np.tile(BALANCE["class_weights"], (5, 1))}
POSITIVE = {"class_weights": np.array([1.0, 3.0])} | BINARY
POSITIVES = {"class_weights": np.stack([np.ones(5), WEIGHTS], -1)} | MANY
WEIGHED, SMOOTH = {"class_weights": WEIGHTS}, {"smooth": 0.5}
OF_REST, MACRO = {"exclude_class": 0} | SMOOTH, {"average": "macro"} | SMOOTH
MORE, LESS = {"alpha": 0.3, "beta": 0.7}, {"alpha": 0.9, "beta": 0.1}
# Inputs, loss, settings, peers.
MATCHES = [
    *(
        ("masked", CE, weights | {"label_smoothing": smoothing}, [torch])
        for smoothing in (0.0, 0.1, 1.0)
        for weights in ({}, WEIGHED)
    ),
    ("soft", CE, {}, [torch, optax_]),
    ("numbers", CE, {}, [optax_]),
    ("outcomes", CE, MANY, [optax_]),
    ("outcomes", CE, POSITIVE, [torch]),
    ("outcomes", CE, POSITIVES, [torch]),
    ("soft outcomes", CE, POSITIVE, [torch]),
    ("soft outcomes", CE, POSITIVES, [torch]),
    *(
        ("outcomes", "focal", BINARY | weights | {"gamma": gamma}, [optax_])
        for gamma in (0.0, 0.5, 1.0, 2.0, 5.0)
        for weights in ({}, BALANCE)
    ),
    ("outcomes", "focal", MANY | {"gamma": 1.5}, [smp, monai]),
    ("outcomes", "focal", MANY | BALANCES | {"gamma": 1.5}, [smp, monai]),
    *(("numbers", "focal", WEIGHED | {"gamma": g}, [monai]) for g in (0.5, 1.0, 2.0)),
    *(
        (inputs, "poly", {"epsilon": epsilon}, [optax_])
        for inputs in ("numbers", "soft")
        for epsilon in (-0.5, 1.0, 2.0)
    ),
    *(
        (
            "absent",
            "dice",
            {"smooth": smooth, "squared": squared, "axis": axis},
            [monai],
        )
        for smooth in (1e-5, 1.0)
        for squared in (False, True)
        for axis in (None, -1)
    ),
    ("outcomes", "dice", MANY | SMOOTH | {"axis": -1}, [monai]),
    ("masked", "dice", {"smooth": 1.0}, [monai, smp]),
    ("absent", "dice", {"smooth": 0.0, "absent": "skip"}, [smp]),
    ("absent", "dice", {"smooth": 1.0, "absent": "skip"}, [smp]),
    ("numbers", "dice", {"smooth": 0.0}, [optax_]),
    ("numbers", "dice", {"smooth": 1.0}, [optax_]),
    ("one class", "dice", BINARY | {"axis": -1, "smooth": 0.0}, [optax_]),
    ("one class", "dice", BINARY | {"axis": -1, "smooth": 1.0}, [optax_]),
    ("soft", "dice", SMOOTH, [monai]),  # without its option soft_label
    ("soft", "dice_semimetric", SMOOTH | {"variant": "dml1"}, [monai]),
    ("numbers", "jaccard", SMOOTH, [monai, smp]),
    ("numbers", "jaccard", {"smooth": 1.0}, [monai, smp]),
    *(
        ("numbers", "tversky", SMOOTH | weights, [monai, smp, optax_])
        for weights in (MORE, LESS, {"alpha": 1.0, "beta": 1.0})
    ),
    ("one class", "focal_tversky", BINARY | SMOOTH | MORE | {"gamma": 4 / 3}, [smp]),
    *(("absent", "dice", SMOOTH | WEIGHED | {"axis": a}, [monai]) for a in (None, -1)),
    ("absent", "dice", MACRO | WEIGHED, [monai]),
    ("absent", "dice", OF_REST | MACRO | WEIGHED, [monai]),
    ("outcomes", "dice", OF_REST | MACRO | WEIGHED | MANY, [monai]),
    ("numbers", "dice", OF_REST, [monai, optax_]),
    ("numbers", "jaccard", OF_REST, [monai]),
    ("numbers", "tversky", OF_REST | MORE, [monai, optax_]),
    ("numbers", "dice", MACRO | {"exclude_class": (0, 3)}, [smp]),
    ("numbers", "jaccard", MACRO | {"exclude_class": (0, 3)}, [smp]),
    ("outcomes", "tversky", MACRO | MANY | MORE | {"exclude_class": (1,)}, [smp]),
    *(
        # An absent class weighs as much as the largest weight of those present.
        ("absent", "generalized_dice", settings | {"axis": axis}, [monai])
        for weighting in ("square", "simple", "uniform")
        for plain in ({"weighting": weighting, "smooth": 0.0, "absent": "smooth"},)
        for settings in (plain, plain | {"exclude_class": 0})
        for axis in (None, -1)
    ),
]


@pytest.mark.parametrize(
    ("inputs", "loss", "settings", "peer"),
    [
        pytest.param(*row, peer, id=f"{row[1]}-{row[0]}-{peer.__name__}-{number}")
        for number, (*row, peers) in enumerate(MATCHES)
        for peer in peers
    ],
)
def test_values_and_gradients_are_those_of_the_peer(inputs, loss, settings, peer):
    logits, labels = INPUTS[inputs]
    mine = ours(getattr(losses, loss), logits, labels, **settings)
    theirs = peer(loss, logits, labels, **settings)
    single = is_single(peer, loss, settings)
    assert_same(mine, theirs, **SINGLE if single else ROUNDING)


def test_logit_adjustment_margins_and_scales_are_cross_entropies_of_changed_logits():
    log_priors = np.log(COUNTS / COUNTS.sum())
    margins = 0.5 * (COUNTS.min() / COUNTS) ** 0.25 * one_hot(LABELS)
    scales = (COUNTS / COUNTS.max()) ** 0.15
    weighted, entropy = {"class_weights": WEIGHTS}, optax.softmax_cross_entropy
    for name, settings, changed in (
        ("logit_adjusted", {}, lambda z: z + log_priors),
        ("logit_adjusted", {"tau": 0.5}, lambda z: z + 0.5 * log_priors),
        ("ldam", weighted | {"scale": 30.0}, lambda z: 30 * (z - margins)),
        ("vs", weighted, lambda z: scales * z + log_priors),
    ):
        weights = settings.get("class_weights", np.ones(5))
        targets = one_hot(LABELS) * weights

        def theirs(z, changed=changed, targets=targets):
            return entropy(changed(z), targets)

        settings = settings | {"class_counts": COUNTS}
        mine = ours(getattr(losses, name), LOGITS, LABELS, **settings)
        assert_same(mine, ours(theirs, LOGITS))


@pytest.mark.parametrize("batch", [False, True])
def test_lovasz_softmax_is_its_authors_code_in_smp(batch):
    logits, labels = INPUTS["absent"]  # they average over the classes present

    def mine(z):
        settings = {"axis": None if batch else -1, "average": "macro"}
        return losses.lovasz_softmax(z, labels, **settings).mean()

    peer = smp_losses().LovaszLoss("multiclass", per_image=not batch)
    single = logits.astype(np.float32)  # all it takes
    theirs = in_torch(lambda z, y: peer(z[..., None], y), single, labels)
    assert_same(ours(mine, logits), theirs, **SINGLE)


@pytest.mark.parametrize("gamma", [0.2, 0.5, 0.75])
def test_unified_focal_is_that_of_monai_which_halves_its_cross_entropy(gamma):
    module = pytest.importorskip("monai.losses.unified_focal_loss")
    logits, labels = case(shape=(1, 30, 2))
    parameters = {"delta": 0.7, "gamma": gamma}

    def peer(name):  # of probabilities [1, 2, 30, 1]
        loss = getattr(module, name)(to_onehot_y=True, **parameters)
        return in_torch(
            lambda z, y: loss(z.softmax(1)[..., None], y[:, None, :, None]),
            logits,
            labels,
        )

    def mine(weight):
        settings = {"weight": weight, "smooth": 1e-7, **parameters}
        return ours(losses.unified_focal, logits, labels, **settings)

    assert_same(mine(0.0), peer("AsymmetricFocalTverskyLoss"), **CLIPPED)
    # A mean over pixels and both classes, of which one is always 0: half the mean.
    assert_same(scaled(mine(1.0), 0.5), peer("AsymmetricFocalLoss"), **CLIPPED)
    whole = peer("AsymmetricUnifiedFocalLoss")
    pairs = zip(mine(1.0), mine(0.0), strict=True)
    assert_same([(pixel / 2 + area) / 2 for pixel, area in pairs], whole, **CLIPPED)
    assert float(mine(0.5)[0]) > whole[0] + 0.01
