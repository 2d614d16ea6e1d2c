"""AnyLoss: one minus any metric of a soft confusion matrix."""

import functools
from typing import Literal

import jax
import jax.numpy as jnp
from jax import Array

from dicejax.losses.contract import loss
from dicejax.losses.declaration import POSITIVE
from dicejax.losses.elements import prepare, probabilities


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
        2.0, 73.0, scale="log", why="from the first to the last value of its authors"
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
    if metric == "accuracy":
        return share(fp + fn, positives + negatives)
    if metric == "f_beta":
        wrong = beta**2 * fn + fp
        losses = share(wrong, (1 + beta**2) * tp + wrong)
        return jnp.where(positives > 0, losses, 0)
    missed, alarms = share(fn, positives), share(fp, negatives)
    if metric == "balanced_accuracy":
        losses = (missed + alarms) / 2
    elif metric == "g_mean":
        losses = 1 - root(share(tp, positives) * share(tn, negatives))
    else:
        losses = (1 - matthews(tp, fp, fn, tn)) / 2
    return jnp.where((positives > 0) & (negatives > 0), losses, 0)


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
