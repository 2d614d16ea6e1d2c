"""Losses of a soft confusion matrix: AnyLoss and the Matthews correlation."""

import functools
from typing import Literal

import jax
import jax.numpy as jnp
from jax import Array

from dicejax.losses.averages import averaged, select
from dicejax.losses.contract import loss
from dicejax.losses.declaration import POSITIVE, Average
from dicejax.losses.elements import log_probabilities, prepare, probabilities


@loss(
    kind="set",
    class_name="AnyLoss",
    beta=POSITIVE.tuned(
        0.5,
        2.0,
        scale="log",
        only=("metric", "f_beta"),
        why="recall counts half or twice as much as precision",
    ),
    amplification=POSITIVE.tuned(
        2.0,
        73.0,
        scale="log",
        why="from the smallest to the largest value of its authors",
    ),
)
def anyloss(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    axis: int | tuple[int, ...] | None = None,
    class_axis: int | None = -1,
    multi_label: bool = False,
    metric: Literal[
        "f_beta", "accuracy", "balanced_accuracy", "g_mean", "mcc"
    ] = "f_beta",
    beta: float | Array = 1.0,
    amplification: float | Array = 73.0,
    axis_name: str | tuple[str, ...] | None = None,
    class_weights: Array | None = None,
    exclude_class: int | tuple[int, ...] | None = None,
    average: Average = "none",
) -> Array:
    r"""One minus a metric of each class, of amplified probabilities over a set.

    .. math:: L_c = 1 - M(TP, FP, FN, TN), \qquad TP = \sum_i A(p_{ic}) y_{ic}, \quad
        A(p) = \frac{1}{1 + e^{-L (p - 1/2)}}

    and likewise the other three counts. M is the F-beta score, accuracy, the mean of
    the recalls of positives and negatives (balanced accuracy), their geometric mean, or
    the Matthews coefficient r as (1 + r) / 2.

    Use it to train on the metric that is reported, when that is none of F1 and Jaccard.

    Pitfalls: Where :math:`L p (1 - p)` is small there is next to no slope: at
    :math:`L = 73` an element with p = 0.1 has :math:`10^{-10}` of the slope of one with
    p = 0.5. In a softmax of many classes no p is near 1/2 at first: lower
    `amplification`, or begin with cross-entropy.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      axis: label axes that form a set. None: all; `()`: each element; -1: each row.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      multi_label: whether labels are 0 or 1 for each class `[..., C]`, for a sigmoid.
      metric: "f_beta", "accuracy", "balanced_accuracy", "g_mean" or "mcc".
      beta: weight of recall against precision in "f_beta".
      amplification: the L of A; the larger, the nearer to decisions.
      axis_name: `shard_map` axes that the set is spread over; not needed under `jit`.
      class_weights: floats `[C]` that multiply the losses of classes, before any mean.
      exclude_class: class, or a tuple of them, left out: O for the F1 of tagging. The
        others keep their probabilities.
      average: "none" for a loss of each class; "macro" for their mean, with
        `absent="skip"` of those with gold in their set; "micro" for one set of all
        classes, in which an element occurs once for each. No effect in the binary form.

    Returns:
      Floats in [0, 1], the label axes that `axis` does not name, then `[C]`; no `[C]`
      in the binary form. 0 without gradient for a class without positives in its set
      (all but "accuracy") or without negatives (all but "accuracy" and "f_beta").

    Raises:
      ValueError: if a shape, axis, known label or hyper-parameter is out of range.

    Source: Han et al., KDD 2024 (https://arxiv.org/abs/2405.14745), for the binary
    form, in the form of its authors' code (https://github.com/doheonhan/anyloss), which
    has no Matthews coefficient.

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import anyloss
      >>> logits, labels = jnp.array([2.0, 0.1, -0.1, -2.0]), jnp.array([1, 1, 0, 1])
      >>> for metric in ("f_beta", "g_mean", "mcc"):
      ...     print(f"{anyloss(logits, labels, class_axis=None, metric=metric):.3f}")
      0.256
      0.269
      0.292
    """
    elements = prepare(logits, labels, where, class_axis, multi_label, axis, axis_name)
    elements = select(elements, exclude_class, average)
    p, y = probabilities(elements), elements.targets
    x = amplification * (p - 0.5)

    # Else each sum would keep its terms.
    @functools.partial(jax.checkpoint, static_argnums=2)
    def number(x: Array, y: Array, called: bool) -> Array:
        decided = jax.nn.sigmoid(x if called else -x)
        return elements.total(elements.mask(decided * y))[0]

    tp, fp = number(x, y, True), number(x, 1 - y, True)
    fn, tn = number(x, y, False), number(x, 1 - y, False)
    positives, negatives = tp + fn, fp + tn
    defined = (positives > 0) & (negatives > 0)
    if metric == "accuracy":
        losses = share(fp + fn, positives + negatives)
        defined = positives + negatives > 0
    elif metric == "f_beta":
        wrong = beta**2 * fn + fp
        losses = share(wrong, (1 + beta**2) * tp + wrong)
        defined = positives > 0
    elif metric == "balanced_accuracy":
        losses = (share(fn, positives) + share(fp, negatives)) / 2
    elif metric == "g_mean":
        losses = 1 - root(share(tp, positives) * share(tn, negatives))
    else:
        losses = (1 - matthews(tp, fp, fn, tn)) / 2
    losses = jnp.where(defined, losses, 0)
    return averaged(losses, elements, class_weights, average)


@loss(kind="set", class_name="MatthewsCorrelation")
def mcc(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    axis: int | tuple[int, ...] | None = None,
    class_axis: int | None = -1,
    multi_label: bool = False,
    variant: Literal["one_versus_rest", "multiclass"] = "one_versus_rest",
    axis_name: str | tuple[str, ...] | None = None,
    class_weights: Array | None = None,
    exclude_class: int | tuple[int, ...] | None = None,
    average: Average = "none",
) -> Array:
    r"""One minus the Matthews correlation of each class over a set, or of all classes.

    .. math::
        L_c = 1 - \frac{TP \cdot TN - FP \cdot FN}
        {\sqrt{(TP + FP)(TP + FN)(TN + FP)(TN + FN)}}, \qquad
        TP = \sum_i p_{ic} y_{ic}

    and likewise the other three counts. "multiclass" is one minus Gorodkin's
    :math:`R_K`, one value for a softmax, which scikit-learn computes of decisions:

    .. math::
        L = 1 - \frac{N \sum_c I_c - \sum_c P_c Y_c}
        {\sqrt{(N^2 - \sum_c P_c^2)(N^2 - \sum_c Y_c^2)}}

    Use it where right negatives count as well as right positives, and the metric is the
    Matthews coefficient (CoLA, MRPC).

    Pitfalls: In [0, 2]: 1 is chance. It is not convex, and where p is near 0 everywhere
    it has little slope; begin with cross-entropy. `anyloss` with "mcc" sharpens p
    before it counts, and halves the scale.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      axis: label axes that form a set. None: all; `()`: each element; -1: each row.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      multi_label: whether labels are 0 or 1 for each class `[..., C]`, for a sigmoid.
      variant: "one_versus_rest" or "multiclass", for a softmax only.
      axis_name: `shard_map` axes that the set is spread over; not needed under `jit`.
      class_weights: floats `[C]` that multiply the losses of classes, before any mean.
      exclude_class: class, or a tuple of them, left out: O for the F1 of tagging. The
        others keep their probabilities.
      average: "none" for a loss of each class; "macro" for their mean, with
        `absent="skip"` of those with gold in their set; "micro" for one set of all
        classes, in which an element occurs once for each. No effect in the binary form.

    Returns:
      Floats in [0, 2]: the label axes that `axis` does not name, then `[C]`; no `[C]`
      in the binary form and for "multiclass". 0 without gradient for a class without
      positives or without negatives in its set, or a set of a single class. Where all p
      are exactly 0, or all 1, it is 1, as chance is.

    Raises:
      ValueError: if a shape, axis or known label is out of range, or "multiclass" has
        no softmax.

    Source: Abhishek and Hamarneh, ISBI 2021, eq. 3 to 5
    (https://doi.org/10.1109/ISBI48211.2021.9433782); MONAI's `MCCLoss` for several
    classes; for "multiclass" Gorodkin 2004
    (https://doi.org/10.1016/j.compbiolchem.2004.09.006).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import mcc
      >>> logits = jnp.array([[4.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 4.0, 0.0]])
      >>> [round(x, 3) for x in mcc(logits, jnp.array([0, 1, 2])).tolist()]
      [0.053, 0.532, 1.0]
      >>> print(f"{mcc(logits, jnp.array([0, 1, 2]), variant='multiclass'):.3f}")
      0.434
    """
    elements = prepare(logits, labels, where, class_axis, multi_label, axis, axis_name)
    elements = select(elements, exclude_class, average)
    if variant == "multiclass" and elements.form != "softmax":
        raise ValueError("variant is 'multiclass' but the classes are sigmoids")
    p, q = (elements.mask(jnp.exp(x)) for x in log_probabilities(elements))
    y = elements.targets
    tp, fp, fn, tn = elements.total(p * y, p * (1 - y), q * y, q * (1 - y))
    positives, negatives = tp + fn, fp + tn
    if variant == "one_versus_rest":
        losses = 1 - matthews(tp, fp, fn, tn)
        losses = jnp.where((positives > 0) & (negatives > 0), losses, 0)
        return averaged(losses, elements, class_weights, average)
    # By shares, which do not overflow; 1 - sum x^2 is sum x (1 - x).
    n = positives + negatives
    gold, called = share(positives, n), share(tp + fp, n)
    spread = jnp.sum(gold * share(negatives, n), axis=-1)
    of_calls = jnp.sum(called * share(fn + tn, n), axis=-1)
    common = jnp.sum(share(tp, n) - called * gold, axis=-1)
    losses = 1 - share(common, spread) * root(share(spread, of_calls))
    losses = jnp.where(spread > 0, losses, 0)
    return averaged(losses, elements, class_weights, average)


def matthews(tp: Array, fp: Array, fn: Array, tn: Array) -> Array:
    """Return (TP TN - FP FN) / sqrt(...) by shares, which do not overflow or vanish."""
    positives, negatives = tp + fn, fp + tn
    n = positives + negatives
    predicted = share(tp + fp, n) * share(fn + tn, n)
    spread = share(share(positives, n) * share(negatives, n), predicted)
    return (share(tp, positives) - share(fp, negatives)) * root(spread)


# Below it a share is 0: the slope of 1 / x and of a root would overflow.
_TINY = 1e-18


def share(part: Array, whole: Array) -> Array:
    """Return part / whole, 0 where there is nothing."""
    some = whole > _TINY
    return jnp.where(some, part / jnp.where(some, whole, 1), 0)


def root(value: Array) -> Array:
    """Return the square root, without a slope at 0."""
    some = value > _TINY**2
    return jnp.where(some, jnp.sqrt(jnp.where(some, value, 1)), 0)
