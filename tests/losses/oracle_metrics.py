"""Reference losses of rankings and confusion matrices from their formulas."""

import math

import numpy as np

from .oracle import elementwise, of_elements, probabilities, set_axes
from .oracle_sets import over_sets


@of_elements
def _ranked(
    these,
    *,
    of_set,
    axis=None,
    surrogate="squared_hinge",
    scores="probability",
    margin=1.0,
    scale=1.0,
    barrier=2.0,
    max_fpr=1.0,
):
    """Apply of_set to a surrogate and the scores of positives and negatives of a set.

    A set without positives or without negatives has loss 0.
    """
    p, q = probabilities(these.logits, these.form)
    if scores == "probability":
        values = p.astype(float)
    else:
        # A single class has p = 1 and no negatives.
        values = elementwise(lambda p, q: (p / q).ln() if q else p, p, q)
    positive = these.where & (these.targets == 1)
    negative = these.where & (these.targets == 0)

    def loss(t):
        if surrogate == "logistic":
            return float(np.logaddexp(0.0, -scale * t))
        return {
            "squared_hinge": max(0.0, margin - t) ** 2,
            "squared": (margin - t) ** 2,
            "hinge": max(0.0, margin - t),
            "barrier_hinge": max(
                margin - barrier * (margin + t), margin - t, barrier * (t - margin)
            ),
        }[surrogate]

    def split(values, positive, negative):
        groups = values[positive], values[negative]
        return of_set(loss, *groups) if all(map(len, groups)) else 0.0

    return over_sets(split, these.element_axes, axis, values, positive, negative)


def pairwise_auc(logits, labels, **settings):
    def of_set(loss, positives, negatives):
        share = settings.get("max_fpr", 1.0) * len(negatives)
        total, highest = 0.0, sorted(negatives, reverse=True)
        for place, j in enumerate(highest[: math.ceil(share)]):
            weight = min(1.0, share - place)
            total += weight * np.mean([loss(i - j) for i in positives])
        return total / share

    return _ranked(logits, labels, of_set=of_set, **settings)


def average_precision(logits, labels, **settings):
    def of_set(loss, positives, negatives):
        precisions = []
        for i in positives:
            above = [
                sum(loss(i - j) for j in group) for group in (positives, negatives)
            ]
            precisions.append(above[0] / sum(above))
        return 1 - np.mean(precisions)

    return _ranked(logits, labels, of_set=of_set, **settings)


@of_elements
def auc_margin(these, *, axis=None, margin=1.0):
    p = probabilities(these.logits, these.form)[0].astype(float)

    def of_set(p, y, where):
        p, y = p[where], y[where]
        groups = y, 1 - y
        if not all(group.sum() > 0 for group in groups):
            return 0.0
        a, b = (np.average(p, weights=group) for group in groups)
        spread = np.average((p - a) ** 2, weights=y)
        spread += np.average((p - b) ** 2, weights=1 - y)
        return spread + max(0.0, margin - a + b) ** 2

    arrays = p, these.targets, these.where
    return over_sets(of_set, these.element_axes, axis, *arrays)


@of_elements
def mcc(these, *, axis=None, variant="one_versus_rest"):
    p, y = probabilities(these.logits, these.form)[0].astype(float), these.targets
    if variant == "multiclass":
        # The soft confusion matrix of each set, classes last.
        pairs = np.where(these.where, y, 0)[..., :, None] * p[..., None, :]
        tables = pairs.sum(set_axes(axis, these.element_axes))
        result = np.zeros(tables.shape[:-2])
        for place in np.ndindex(result.shape):
            result[place] = 1 - _gorodkin(tables[place])
        return result
    q = probabilities(these.logits, these.form)[1].astype(float)
    return 2 * _of_confusion(these, p, q, axis, "mcc")


def _gorodkin(table):
    """R_K as in its definition; 1 for a set of a single class."""
    rows, columns = table.sum(1), table.sum(0)
    spreads = [(x * (x.sum() - x)).sum() for x in (rows, columns)]
    if not spreads[0] > 0:
        return 1.0
    k = range(len(table))
    common = sum(
        table[a, a] * table[b, c] - table[a, b] * table[c, a]
        for a in k
        for b in k
        for c in k
    )
    return common / math.sqrt(spreads[0] * spreads[1]) if spreads[1] > 0 else 0.0


@of_elements
def anyloss(these, *, axis=None, metric="f_beta", beta=1.0, amplification=73.0):
    p, _ = probabilities(these.logits, these.form)

    def decide(sign):
        return elementwise(
            lambda p, s: 1 / (1 + (-s * (p - p.from_float(0.5))).exp()),
            p,
            sign * float(amplification),
        )

    return _of_confusion(these, decide(1), decide(-1), axis, metric, beta)


def _of_confusion(these, yes, no, axis, metric, beta=1.0):
    y = these.targets
    counts = [yes * y, yes * (1 - y), no * y, no * (1 - y)]
    counts = [these.sum(count, axis) for count in counts]
    return np.vectorize(
        lambda *cells: _one_minus(metric, beta, *cells), otypes=[np.float64]
    )(*counts)


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
    matthews = (tp * tn - fp * fn) / math.sqrt(squared) if squared > 0 else 0.0
    return 1 - (1 + matthews) / 2
