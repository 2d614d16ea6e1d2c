"""Reference losses from their formulas, without jax: elements, counts, Dice.

Probabilities have 60 decimal digits and an exponent range without underflow, from exp,
sums and powers as in the formulas. So the oracle is right where float64 is not. Sums
and ratios are float64 NumPy.
"""

import functools
import inspect
from decimal import Context, Decimal, localcontext
from typing import NamedTuple

import numpy as np

CONTEXT = Context(prec=60, Emin=-(10**9), Emax=10**9)
# A denominator below it is that of an empty set, which gives 0: 1e-19 in float32. (In
# float64 it is 1e-154; no test in float64 comes near either.)
EMPTY = np.sqrt(float(np.finfo(np.float32).tiny))


class Elements(NamedTuple):
    """Three arrays of one shape, `[..., C]`, or `[...]` in the binary form."""

    logits: np.ndarray
    targets: np.ndarray
    where: np.ndarray
    form: str

    @property
    def element_axes(self):
        return self.logits.ndim - (self.form != "binary")

    def sum(self, values, axis):
        """The sum of unmasked values over the axes of a set."""
        axes = set_axes(axis, self.element_axes)
        return np.where(self.where, values, 0.0).sum(axes)


class Counts(NamedTuple):
    intersection: np.ndarray
    predicted: np.ndarray
    actual: np.ndarray


def set_axes(axis, element_axes):
    axes = tuple(range(element_axes)) if axis is None else axis
    axes = axes if isinstance(axes, tuple) else (axes,)
    return tuple(a % element_axes for a in axes)


def elements(logits, labels, *, where=None, class_axis=-1, multi_label=False):
    """The class axis last, masked logits and targets 0."""
    logits, labels = np.asarray(logits, np.float64), np.asarray(labels)
    form = "multi_label" if multi_label else "softmax"
    form = "binary" if class_axis is None else form
    soft = np.issubdtype(labels.dtype, np.floating)
    mask = np.asarray(True if where is None else where)
    if form != "binary":
        logits = np.moveaxis(logits, class_axis, -1)
        mask = mask[..., None]
        if soft or multi_label:
            labels = np.moveaxis(labels, class_axis, -1)
        else:
            labels = labels[..., None]
    if not soft:
        classes = np.arange(logits.shape[-1]) if form == "softmax" else np.arange(2)
        mask = mask & np.isin(labels, classes)
        labels = labels == (classes if form == "softmax" else 1)
    mask = np.broadcast_to(mask, logits.shape)
    targets = np.where(mask, labels, 0).astype(np.float64)
    return Elements(np.where(mask, logits, 0.0), targets, mask, form)


def from_arrays(prepare):
    """Make losses of logits and labels from formulas of what `prepare` returns.

    Keywords that a formula does not take go to `prepare`.
    """

    def decorator(formula):
        names = inspect.signature(formula).parameters

        def loss(logits, labels, **settings):
            chosen = {n: settings.pop(n) for n in names if n in settings}
            return formula(prepare(logits, labels, **settings), **chosen)

        return loss

    return decorator


of_elements = from_arrays(elements)


def elementwise(formula, *arrays):
    """Return the formula at each place, computed in Decimal, as float64."""

    def at_place(*values):
        return float(formula(*(Decimal(value) for value in values)))

    with localcontext(CONTEXT):
        return np.vectorize(at_place, otypes=[np.float64])(*arrays)


def power(base, exponent):
    """Return the power of two Decimals, with 0^0 = 1."""
    return Decimal(1) if exponent == 0 else base**exponent


def probabilities(logits, form):
    """Return p and 1 - p of each class in Decimal; 1 - p is a sum, not a difference."""
    logits = np.asarray(logits, np.float64)
    return _probabilities(logits.tobytes(), logits.shape, form)


@functools.cache
def _probabilities(logits, shape, form):
    rows = np.frombuffer(logits).reshape(shape)
    rows = rows if form == "softmax" else np.stack([rows, np.zeros_like(rows)], -1)
    p, q = np.empty(rows.shape, object), np.empty(rows.shape, object)
    with localcontext(CONTEXT):
        for place in np.ndindex(rows.shape[:-1]):
            row = [Decimal(float(z)).exp() for z in rows[place]]
            total = sum(row, Decimal(0))
            for c, exponential in enumerate(row):
                p[(*place, c)] = exponential / total
                q[(*place, c)] = sum(row[:c] + row[c + 1 :], Decimal(0)) / total
    return (p, q) if form == "softmax" else (p[..., 0], q[..., 0])


def self_adjusted(these, alpha):
    """(1-p)^alpha p."""
    p, q = probabilities(these.logits, these.form)
    return elementwise(lambda p, q, alpha: power(q, alpha) * p, p, q, float(alpha or 0))


def counts(
    logits,
    labels,
    *,
    axis=None,
    squared=False,
    alpha=None,
    intersection="product",
    stop_gradient_weight=False,
    **layout,
):
    """I, P, Y of each class and set."""
    del stop_gradient_weight  # matters to gradients, not to values
    these = elements(logits, labels, **layout)
    f, y = self_adjusted(these, alpha), these.targets
    common = f * y if intersection == "product" else np.minimum(f, y)
    exponent = 2 if squared else 1
    return Counts(
        these.sum(common, axis),
        these.sum(f**exponent, axis),
        these.sum(y**exponent, axis),
    )


def one_minus_ratio(above, below, actual=None, absent="smooth"):
    """1 - above / below; 0 of an empty set and of a class to be skipped."""
    nothing = below < EMPTY
    if absent == "skip":
        nothing = nothing | (actual == 0)
    return np.where(nothing, 0.0, 1 - above / np.where(nothing, 1.0, below))


def dice_from_counts(counts, *, smooth=1e-5, absent="smooth"):
    i, p, y = counts
    return one_minus_ratio(2 * i + smooth, p + y + smooth, y, absent)


of_counts = from_arrays(counts)
dice = of_counts(dice_from_counts)


def log_cosh_dice(logits, labels, **settings):
    losses = dice(logits, labels, **settings)
    return elementwise(lambda x: ((x.exp() + (-x).exp()) / 2).ln(), losses)


@of_counts
def log_dice(counts, *, smooth=1e-5, absent="smooth"):
    i, p, y = counts
    skipped = (y == 0) & (absent == "skip")
    return np.where(skipped, 0.0, np.log((p + y + smooth) / (2 * i + smooth)))


def self_adjusting_dice(logits, labels, *, form="one_versus_rest", **settings):
    binary = settings.get("class_axis", -1) is None
    if form == "gold" and not binary and not settings.get("multi_label"):
        settings.pop("axis")
        return gold_self_adjusting_dice(logits, labels, **settings)
    defaults = {"alpha": 0.01, "smooth": 1.0, "squared": True}
    return dice(logits, labels, **defaults | settings)


@of_elements
def gold_self_adjusting_dice(
    these, *, alpha=0.01, smooth=1.0, squared=False, stop_gradient_weight=False
):
    """Return the loss of each element's gold class alone, whose target is 1."""
    del stop_gradient_weight
    f = (self_adjusted(these, alpha) * these.targets).sum(-1)
    below = f**2 if squared else f
    losses = one_minus_ratio(2 * f + smooth, below + 1 + smooth)
    return np.where(these.where[..., 0], losses, 0.0)
