"""The losses written down from their formulas, without jax.

Probabilities are computed with 60 decimal digits and an exponent range without
underflow, from exp, sums and powers as the formulas have them: no log-space tricks. So
the oracle is right where float64 is not. Sums and ratios are float64 NumPy.
"""

from decimal import Context, Decimal

import numpy as np

CONTEXT = Context(prec=60, Emin=-(10**9), Emax=10**9)


def _probabilities(logits, binary):
    """p and 1 - p of each class as arrays of Decimal; 1 - p is a sum, not a rest."""
    rows = np.asarray(logits, np.float64)
    rows = np.stack([rows, np.zeros_like(rows)], -1) if binary else rows
    p, q = np.empty(rows.shape, object), np.empty(rows.shape, object)
    for place in np.ndindex(rows.shape[:-1]):
        row = [CONTEXT.exp(Decimal(float(x))) for x in rows[place]]
        total = sum_decimal(row)
        for c in range(len(row)):
            p[(*place, c)] = CONTEXT.divide(row[c], total)
            others = sum_decimal(row[:c] + row[c + 1 :])
            q[(*place, c)] = CONTEXT.divide(others, total)
    return (p[..., 0], q[..., 0]) if binary else (p, q)


def sum_decimal(values):
    total = Decimal(0)
    for value in values:
        total = CONTEXT.add(total, value)
    return total


def _powered(p, q, alpha):
    def one(p, q):
        if alpha == 0:
            return float(p)
        return float(CONTEXT.multiply(CONTEXT.power(q, Decimal(float(alpha))), p))

    return np.vectorize(one, otypes=[np.float64])(p, q)


def targets_and_mask(logits, labels, where, class_axis):
    """Logits and soft targets with the class axis last, and the mask."""
    logits, labels = np.asarray(logits, np.float64), np.asarray(labels)
    soft = np.issubdtype(labels.dtype, np.floating)
    shape = logits.shape
    if class_axis is not None:
        logits = np.moveaxis(logits, class_axis, -1)
        labels = np.moveaxis(labels, class_axis, -1) if soft else labels
        shape = logits.shape[:-1]
    mask = np.ones(shape, bool) if where is None else np.asarray(where)
    if not soft:
        mask = mask & (labels != -100)
        if class_axis is not None:
            labels = labels[..., None] == np.arange(logits.shape[-1])
    wide = mask if class_axis is None else mask[..., None]
    return np.where(wide, logits, 0), np.where(wide, labels, 0).astype(float), mask


def factor(logits, alpha, class_axis=-1):
    """(1-p)^alpha p of each class, the class axis last."""
    p, q = _probabilities(logits, class_axis is None)
    return _powered(p, q, alpha)


def counts(
    logits, labels, *, where=None, axis=None, class_axis=-1, squared=False, alpha=0.0
):
    logits, y, mask = targets_and_mask(logits, labels, where, class_axis)
    f = factor(logits, alpha, class_axis) * (
        mask if y.ndim == mask.ndim else mask[..., None]
    )
    axes = tuple(range(mask.ndim)) if axis is None else axis
    axes = axes if isinstance(axes, tuple) else (axes,)
    axes = tuple(a % mask.ndim for a in axes)
    power = 2 if squared else 1
    return (f * y).sum(axes), (f**power).sum(axes), (y**power).sum(axes)


def dice_of(counts, smooth=1.0, absent="smooth"):
    result = np.zeros_like(counts[0])
    for place in np.ndindex(result.shape):
        i, p, y = (one[place] for one in counts)
        if p + y + smooth > 0 and not (absent == "skip" and y == 0):
            result[place] = 1 - (2 * i + smooth) / (p + y + smooth)
    return result


def dice(logits, labels, *, smooth=1.0, absent="smooth", **settings):
    return dice_of(counts(logits, labels, **settings), smooth, absent)


def gold_self_adjusting_dice(
    logits, labels, *, where=None, class_axis=-1, alpha=0.01, smooth=1.0, squared=False
):
    logits, y, mask = targets_and_mask(logits, labels, where, class_axis)
    f = (factor(logits, alpha) * y).sum(-1)
    below = f**2 if squared else f
    return np.where(mask, 1 - (2 * f + smooth) / (below + 1 + smooth), 0)


def cross_entropy(
    logits,
    labels,
    *,
    where=None,
    class_axis=-1,
    label_smoothing=0.0,
    class_weights=None,
):
    logits, y, mask = targets_and_mask(logits, labels, where, class_axis)
    p, q = _probabilities(logits, class_axis is None)
    if class_axis is None:
        p, y = np.stack([q, p], -1), np.stack([1 - y, y], -1)
    classes = p.shape[-1]
    weights = np.ones(classes) if class_weights is None else np.asarray(class_weights)
    y = (1 - label_smoothing) * y + label_smoothing / classes
    log_p = np.vectorize(lambda one: float(CONTEXT.ln(one)), otypes=[float])(p)
    return np.where(mask, -(weights * y * log_p).sum(-1), 0)
