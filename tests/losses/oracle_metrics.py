"""Reference losses of rankings and confusion matrices from their formulas."""

import math

import numpy as np

from .oracle import elements, elementwise, probabilities
from .oracle_sets import _over_sets


def _surrogate(difference, surrogate, margin, scale):
    if surrogate == "squared_hinge":
        return max(0.0, margin - difference) ** 2
    return float(np.logaddexp(0.0, -scale * difference))


def _ranked(of_set, logits, labels, scores, axis, layout):
    """Apply of_set to the scores of positives and of negatives of each set."""
    these = elements(logits, labels, **layout)
    p, q = probabilities(these.logits, these.form)
    if scores == "probability":
        values = p.astype(float)
    else:
        # A single class has p = 1 and no negatives.
        values = elementwise(lambda p, q: (p / q).ln() if q else p, p, q)
    positive = these.where & (these.targets == 1)
    negative = these.where & (these.targets == 0)

    def split(values, positive, negative):
        return of_set(values[positive], values[negative])

    return _over_sets(split, these.element_axes, axis, values, positive, negative)


def pairwise_auc(
    logits,
    labels,
    *,
    axis=None,
    surrogate="squared_hinge",
    scores="probability",
    margin=1.0,
    scale=1.0,
    **layout,
):
    def of_set(positives, negatives):
        if not len(positives) or not len(negatives):
            return 0.0
        pairs = [(i, j) for i in positives for j in negatives]
        return np.mean([_surrogate(i - j, surrogate, margin, scale) for i, j in pairs])

    return _ranked(of_set, logits, labels, scores, axis, layout)


def average_precision(
    logits,
    labels,
    *,
    axis=None,
    surrogate="squared_hinge",
    scores="probability",
    margin=1.0,
    scale=1.0,
    **layout,
):
    def of_set(positives, negatives):
        if not len(positives) or not len(negatives):
            return 0.0
        precisions = []
        for i in positives:
            above = [
                sum(_surrogate(i - j, surrogate, margin, scale) for j in group)
                for group in (positives, negatives)
            ]
            precisions.append(above[0] / sum(above))
        return 1 - np.mean(precisions)

    return _ranked(of_set, logits, labels, scores, axis, layout)


def anyloss(
    logits,
    labels,
    *,
    axis=None,
    metric="f_beta",
    beta=1.0,
    amplification=73.0,
    **layout,
):
    these = elements(logits, labels, **layout)
    p, _ = probabilities(these.logits, these.form)
    strength = float(amplification)
    yes = elementwise(
        lambda p, s: 1 / (1 + (-s * (p - p.from_float(0.5))).exp()), p, strength
    )
    no = elementwise(
        lambda p, s: 1 / (1 + (s * (p - p.from_float(0.5))).exp()), p, strength
    )
    y = these.targets
    counts = [
        these.sum(one, axis) for one in (yes * y, yes * (1 - y), no * y, no * (1 - y))
    ]
    result = np.zeros(counts[0].shape)
    for place in np.ndindex(result.shape):
        tp, fp, fn, tn = (float(one[place]) for one in counts)
        result[place] = _one_minus(metric, beta, tp, fp, fn, tn)
    return result


def _one_minus(metric, beta, tp, fp, fn, tn):
    n, positives, negatives = tp + fp + fn + tn, tp + fn, fp + tn
    if n == 0:
        return 0.0
    if metric == "accuracy":
        return 1 - (tp + tn) / n
    if positives == 0:
        return 0.0
    if metric == "f_beta":
        return 1 - (1 + beta**2) * tp / (beta**2 * positives + tp + fp)
    if negatives == 0:
        return 0.0
    recalls = tp / positives, tn / negatives
    if metric == "balanced_accuracy":
        return 1 - sum(recalls) / 2
    if metric == "g_mean":
        return 1 - math.sqrt(recalls[0] * recalls[1])
    squared = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    matthews = (tp * tn - fp * fn) / math.sqrt(squared)
    return 1 - (1 + matthews) / 2
