"""Reference pointwise losses from their formulas, without jax.

A sigmoid has two outcomes, 0 and 1, so that one sum over outcomes serves the softmax,
the binary and the multi-label form.
"""

from decimal import Decimal, localcontext
from typing import NamedTuple

import numpy as np

from .oracle import CONTEXT, elementwise, of_elements, power, probabilities


class Outcomes(NamedTuple):
    """Arrays [..., outcomes]: the outcomes of the last axis exclude each other."""

    p: np.ndarray
    q: np.ndarray  # 1 - p
    y: np.ndarray
    where: np.ndarray  # [...]


def outcomes(these):
    p, q = probabilities(these.logits, these.form)
    if these.form == "softmax":
        return Outcomes(p, q, these.targets, these.where[..., 0])
    y = np.where(these.where, these.targets, 0.0)
    pairs = ((q, p), (p, q), (1 - y, y))
    return Outcomes(*(np.stack(pair, -1) for pair in pairs), these.where)


def sum_over_outcomes(formula, these, *arrays):
    """Return the sum of formula(p, 1 - p, y, ...) over the outcomes, 0 where masked."""
    p, q, y, where = outcomes(these)
    arrays = (np.asarray(array, np.float64) for array in arrays)
    return np.where(where, elementwise(formula, p, q, y, *arrays).sum(-1), 0.0)


def weigh(p, q, y, w):
    """Cross-entropy of one outcome."""
    return -w * y * p.ln()


@of_elements
def cross_entropy(these, *, label_smoothing=0.0, class_weights=1.0):
    y = outcomes(these).y
    y = (1 - label_smoothing) * y + label_smoothing / y.shape[-1]
    return sum_over_outcomes(
        lambda p, q, _, y, w: weigh(p, q, y, w), these, y, class_weights
    )


def weights_of(class_counts, scheme="log_ratio", k=1.0):
    n = np.asarray(class_counts, np.float64)
    total = n.sum(-1, keepdims=True)
    if scheme == "inverse":
        return total / n.shape[-1] / n
    return np.log10((total - n) / n + k)


def weighted_cross_entropy(
    logits, labels, *, class_counts, scheme="log_ratio", k=1.0, beta=0.999, **settings
):
    weights = weights_of(class_counts, scheme, k)
    return cross_entropy(logits, labels, class_weights=weights, **settings)


@of_elements
def poly(these, *, epsilon=1.0):
    return sum_over_outcomes(lambda p, q, y, e: y * (-p.ln() + e * q), these, epsilon)


@of_elements
def brier(these):
    return sum_over_outcomes(lambda p, q, y: ((1 - y) * p - y * q) ** 2, these)


@of_elements
def poly_focal(these, *, gamma=2.0, epsilon=1.0):
    return sum_over_outcomes(
        lambda p, q, y, gamma, e: y * power(q, gamma) * (-p.ln() + e * q),
        these,
        gamma,
        epsilon,
    )


def majority_or_minority(logits, labels, *, majority_class=0, weight=0.5, **layout):
    losses = cross_entropy(logits, labels, **layout)
    of_majority = np.where(np.asarray(labels) == majority_class, losses, 0.0)
    return weight * losses + (1 - weight) * of_majority


@of_elements
def focal(
    these, *, gamma=2.0, class_weights=1.0, class_counts=None, scheme="none", k=1.0
):
    if scheme != "none":
        class_weights = weights_of(class_counts, scheme, k)
    return sum_over_outcomes(
        lambda p, q, y, gamma, w: -y * w * power(q, gamma) * p.ln(),
        these,
        gamma,
        class_weights,
    )


def prior_shift(class_counts, tau, form):
    """Return the shift of the logits by logit adjustment."""
    n = np.asarray(class_counts, np.float64)
    if form == "softmax":
        return tau * np.log(n)
    return tau * np.log(n[..., 1] / n[..., 0])


@of_elements
def logit_adjusted(these, *, class_counts, tau=1.0):
    shift = prior_shift(class_counts, tau, these.form)
    return sum_over_outcomes(weigh, these._replace(logits=these.logits + shift), 1.0)


def adjust_logits(logits, *, class_counts, tau=1.0, class_axis=-1, multi_label=False):
    logits = np.asarray(logits, np.float64)
    if class_axis is None:
        return logits - prior_shift(class_counts, tau, "binary")
    form, counts = "multi_label", class_counts
    if not multi_label:
        form, counts = "softmax", np.asarray(class_counts) / np.sum(class_counts)
    logits = np.moveaxis(logits, class_axis, -1) - prior_shift(counts, tau, form)
    return np.moveaxis(logits, -1, class_axis)


@of_elements
def ldam(these, *, class_counts, max_margin=0.5, scale=1.0, class_weights=1.0):
    n, z, y = np.asarray(class_counts, np.float64), these.logits, these.targets
    margin = max_margin * (n.min() / n) ** 0.25
    if these.form == "softmax":
        z = scale * (z - y * margin)
    else:
        z = scale * np.where(y == 1, z - margin[1], z + margin[0])
    return sum_over_outcomes(weigh, these._replace(logits=z), class_weights)


@of_elements
def vs(these, *, class_counts, tau=1.0, gamma=0.15, class_weights=1.0):
    n, z = np.asarray(class_counts, np.float64), these.logits
    factor, shift = (n / n.max()) ** gamma, tau * np.log(n / n.sum())
    w = class_weights * np.ones(len(n))
    if these.form == "softmax":
        return sum_over_outcomes(weigh, these._replace(logits=factor * z + shift), w)

    def of_label(y):
        sign, log_odds = 2 * y - 1, tau * np.log(n[y] / n[1 - y])
        x = factor[y] * sign * z + log_odds
        return elementwise(lambda w, x: w * (1 + (-x).exp()).ln(), w[y], x)

    losses = np.where(these.targets == 1, of_label(1), of_label(0))
    return np.where(these.where, losses, 0.0)


def of_labels(formula):
    """Make a loss of what has several labels if it has a class axis."""
    loss = of_elements(formula)

    def of_several(logits, labels, **settings):
        several = settings.get("class_axis", -1) is not None
        return loss(logits, labels, **settings, multi_label=several)

    return of_several


@of_labels
def asymmetric(these, *, gamma_positive=1.0, gamma_negative=4.0, margin=0.05):
    p, q = probabilities(these.logits, these.form)

    def formula(p, q, y, positive, negative, m):
        p_m, q_m = max(p - m, Decimal(0)), min(q + m, Decimal(1))
        of_1, of_0 = power(q, positive) * p.ln(), power(p_m, negative) * q_m.ln()
        return -y * of_1 - (1 - y) * of_0

    settings = (gamma_positive, gamma_negative, margin)
    losses = elementwise(formula, p, q, these.targets, *map(float, settings))
    return np.where(these.where, losses, 0.0)


@of_labels
def zlpr(these):
    z, t = these.logits, these.targets
    losses = np.zeros(z.shape[:-1])
    with localcontext(CONTEXT):
        for place in np.ndindex(losses.shape):
            of_0 = of_1 = Decimal(1)
            for c in np.flatnonzero(these.where[place]):
                z_c, t_c = Decimal(z[place][c]), Decimal(t[place][c])
                of_0 += (1 - t_c) * z_c.exp()
                of_1 += t_c * (-z_c).exp()
            losses[place] = float(of_0.ln() + of_1.ln())
    return losses


def focal_of_odds(against, gamma):
    """Focal loss of the odds against the label."""
    return power(against / (1 + against), gamma) * (1 + against).ln()


@of_labels
def class_balanced(these, *, class_counts, beta=0.999, gamma=0.0):
    n, y = np.asarray(class_counts, np.float64)[:, 1], these.targets
    weights = (1 - beta) / (1 - beta**n)
    weights = weights / weights.mean()
    labels = y.sum(-1, keepdims=True)
    of_label = (weights * y).sum(-1, keepdims=True) / np.maximum(labels, 1)
    w = np.broadcast_to(np.where(labels > 0, of_label, 1.0), y.shape)

    def formula(z, y, w, gamma):
        return w * focal_of_odds((-z if y else z).exp(), gamma)

    losses = elementwise(formula, these.logits, y, w, float(gamma))
    return np.where(these.where, losses, 0.0)


@of_labels
def distribution_balanced(
    these,
    *,
    class_counts,
    alpha=0.1,
    beta=10.0,
    mu=0.3,
    kappa=0.05,
    scale=2.0,
    gamma=0.0,
):
    counts, y = np.asarray(class_counts, np.float64), these.targets
    n, total = counts[:, 1], counts.sum(-1).max()
    of_positives = (y / n).sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        r = np.broadcast_to((1 / n) / of_positives, y.shape)
    nu = kappa * np.log(total / n - 1)

    def formula(y, x, r, alpha, beta, mu, scale, gamma):
        share = 1 / (1 + (-beta * (r - mu)).exp())
        of_1 = focal_of_odds((-x).exp(), gamma)
        of_0 = focal_of_odds((scale * x).exp(), gamma) / scale
        return (alpha + share) * (y * of_1 + (1 - y) * of_0)

    settings = map(float, (alpha, beta, mu, scale, gamma))
    losses = elementwise(formula, y, these.logits - nu, r, *settings)
    return np.where(these.where, losses, 0.0)
