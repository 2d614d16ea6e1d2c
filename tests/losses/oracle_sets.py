"""Reference set losses beyond Dice from their formulas, without jax."""

import itertools

import numpy as np

from .oracle import (
    counts,
    elementwise,
    of_counts,
    of_elements,
    one_minus_ratio,
    power,
    probabilities,
    set_axes,
)
from .oracle_pointwise import outcomes


def generalized_dice(
    logits, labels, *, smooth=1e-5, weighting="square", absent="skip", **settings
):
    sets = counts(logits, labels, **settings)
    if settings.get("class_axis", -1) is None:
        sets = [count[..., None] for count in sets]
    exponent = {"square": 2, "simple": 1, "uniform": 0}[weighting]
    result = np.zeros(sets[0].shape[:-1])
    for place in np.ndindex(result.shape):
        i, p, y = (count[place] for count in sets)
        w = np.array([1 / n**exponent if n > 0 else 0.0 for n in y])
        if absent == "smooth":
            w[y == 0] = w.max()
        if not w.any():
            continue
        w = w / w.max()  # `smooth` is in units of the rarest class
        above, below = 2 * (w * i).sum() + smooth, (w * (p + y)).sum() + smooth
        result[place] = one_minus_ratio(above, below)
    return result


@of_elements
def dice_semimetric(these, *, variant="dml1", axis=None, smooth=1e-5, absent="smooth"):
    p = probabilities(these.logits, these.form)[0].astype(float)
    y = these.targets
    actual = these.sum(y, axis)
    if variant == "dml1":
        above = 2 * these.sum(np.minimum(p, y), axis) + smooth
        below = these.sum(p, axis) + actual + smooth
    else:
        above = 2 * these.sum(p * y, axis) + smooth
        below = above + these.sum(abs(p - y), axis)
    return one_minus_ratio(above, below, actual, absent)


def tversky_from_counts(counts, *, alpha=0.5, beta=0.5, smooth=1e-5, absent="smooth"):
    i, p, y = counts
    below = i + alpha * (p - i) + beta * (y - i) + smooth
    return one_minus_ratio(i + smooth, below, y, absent)


tversky = of_counts(tversky_from_counts)


def focal_tversky(logits, labels, *, alpha=0.3, beta=0.7, gamma=4 / 3, **settings):
    losses = tversky(logits, labels, alpha=alpha, beta=beta, **settings)
    return np.maximum(losses, 0.0) ** (1 / gamma)


@of_counts
def jaccard(counts, *, smooth=1e-5, absent="smooth"):
    i, p, y = counts
    return one_minus_ratio(i + smooth, p + y - i + smooth, y, absent)


def soft_f1(logits, labels, *, average="macro", **settings):
    average = "none" if settings.get("class_axis", -1) is None else average
    return _soft_f1(logits, labels, average=average, **settings)


@of_counts
def _soft_f1(
    counts, *, average, beta=1.0, exclude_class=None, smooth=1e-5, absent="smooth"
):
    if exclude_class is not None:
        left = np.arange(counts[0].shape[-1]) != exclude_class
        counts = [count[..., left] for count in counts]
    i, p, y = (count.sum(-1) if average == "micro" else count for count in counts)
    above = (1 + beta**2) * i + smooth
    losses = one_minus_ratio(above, beta**2 * y + p + smooth, y, absent)
    if average != "macro":
        return losses
    counted = y > 0 if absent == "skip" else np.ones(y.shape, bool)
    return losses.sum(-1) / np.maximum(counted.sum(-1), 1)


def sigmoid_f1(logits, labels, *, slope=1.0, offset=0.0, **settings):
    scaled = slope * (np.asarray(logits, np.float64) + offset)
    multi_label = settings.get("class_axis", -1) is not None
    return soft_f1(scaled, labels, multi_label=multi_label, **settings)


@of_elements
def unified_focal(
    these,
    *,
    axis=None,
    weight=0.5,
    delta=0.6,
    gamma=0.5,
    smooth=1e-6,
    variant="asymmetric",
    background=0,
    absent="smooth",
):
    p, q, y, where = outcomes(these)

    def of_gold(p, q, y, delta, gamma, is_background):
        weight, exponent = delta, 1 - gamma
        if variant == "asymmetric":
            weight = 1 - delta if is_background else delta
            exponent = gamma if is_background else 0
        return -y * weight * power(q, exponent) * p.ln()

    is_background = np.arange(y.shape[-1]) == background
    terms = elementwise(of_gold, p, q, y, delta, gamma, is_background.astype(float))
    axes = set_axes(axis, where.ndim)
    size = where.sum(axes)
    focal = np.where(where, terms.sum(-1), 0.0).sum(axes) / np.maximum(size, 1)

    p, q = p.astype(float), q.astype(float)

    def of_set(values):
        return np.where(where[..., None], values, 0.0).sum(axes)

    i, positives, negatives = of_set(p * y), of_set(p * (1 - y)), of_set(q * y)
    below = i + delta * negatives + (1 - delta) * positives + smooth
    losses = one_minus_ratio(i + smooth, below, i + negatives, absent)
    exponent = np.where(is_background, 1.0, 1 - gamma)
    exponent = gamma if variant == "symmetric" else exponent
    tversky = (np.maximum(losses, 0.0) ** exponent).mean(-1)
    return np.where(size == 0, 0.0, weight * focal + (1 - weight) * tversky)


@of_elements
def lovasz_softmax(these, *, axis=None, absent="skip"):
    p = probabilities(these.logits, these.form)[0].astype(float)
    return _lovasz(these, abs(these.targets - p), axis, absent)


def lovasz_hinge(logits, labels, **settings):
    multi_label = settings.get("class_axis", -1) is not None
    return _lovasz_hinge(logits, labels, multi_label=multi_label, **settings)


@of_elements
def _lovasz_hinge(these, *, axis=None, absent="smooth"):
    signs = np.where(these.targets == 1, 1, -1)
    return _lovasz(these, np.maximum(0.0, 1 - signs * these.logits), axis, absent)


def _lovasz(these, errors, axis, absent):
    gold = these.where & (these.targets == 1)

    def of_set(errors, gold):
        if absent == "skip" and not gold.any():
            return 0.0
        return _choquet(errors, lambda missed: _jaccard_loss(missed, gold))

    errors = np.where(these.where, errors, 0.0)
    return over_sets(of_set, these.element_axes, axis, errors, gold)


def _jaccard_loss(missed, gold):
    """1 - |predicted and gold| / |predicted or gold|, `missed` where they differ."""
    predicted = missed ^ gold
    return 1 - (predicted & gold).sum() / max((predicted | gold).sum(), 1)


def _choquet(errors, loss):
    """The Lovasz extension: the integral of loss({errors >= t}) over t from 0."""
    steps = np.unique(np.append(errors, 0.0))
    return sum(
        (high - low) * loss(errors >= high) for low, high in itertools.pairwise(steps)
    )


def over_sets(of_set, element_axes, axis, *arrays):
    """Apply of_set to the elements of each set, flat, per class and remaining place."""
    axes = set_axes(axis, element_axes)
    rest = [a for a in range(arrays[0].ndim) if a not in axes]
    arrays = [array.transpose(*rest, *axes) for array in arrays]
    result = np.zeros(arrays[0].shape[: len(rest)])
    for place in np.ndindex(result.shape):
        result[place] = of_set(*(array[place].ravel() for array in arrays))
    return result
