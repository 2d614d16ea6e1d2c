"""Overlap of predictions with labels over a set, and the Dice loss made of it."""

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array

from dicejax.losses.contract import (
    NON_NEGATIVE,
    check_choice,
    counts_loss,
    loss,
    prepare,
    set_axes,
)
from dicejax.losses.probabilities import log_probabilities, self_adjusted


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class OverlapCounts:
    """Soft counts of a set, per class: `a + b` counts the union of disjoint sets.

    Attributes:
        intersection: I, what is predicted and actual: the soft true positives.
        predicted: P, what is predicted: soft true and false positives.
        actual: Y, what the labels hold: true positives and false negatives.
    """

    intersection: Array
    predicted: Array
    actual: Array

    def __add__(self, other: "OverlapCounts") -> "OverlapCounts":
        """Adds the counts of another, disjoint set."""
        if not isinstance(other, OverlapCounts):
            return NotImplemented
        mine, others = jnp.shape(self.actual), jnp.shape(other.actual)
        if mine != others:
            raise ValueError(f"counts of shape {mine} and {others} do not add")
        return jax.tree.map(jnp.add, self, other)


@loss(alpha=NON_NEGATIVE)
def overlap_counts(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    axis: int | tuple[int, ...] | None = None,
    class_axis: int | None = -1,
    squared: bool = False,
    alpha: float | Array = 0.0,
    stop_gradient_weight: bool = False,
) -> OverlapCounts:
    r"""Counts, for each class, predictions, labels and their overlap over a set.

    .. math::
        f_c = (1 - p_c)^\alpha p_c, \quad
        I_c = \sum f_c y_c, \quad P_c = \sum f_c, \quad Y_c = \sum y_c

    with p the softmax of the logits, or their sigmoid in the binary form. `squared`
    makes it :math:`P_c = \sum f_c^2` and :math:`Y_c = \sum y_c^2`.

    Args:
        logits: finite floats `[..., C]`, or `[...]` in the binary form.
        labels: integers `[...]` in 0..C-1 (0 or 1 in the binary form; -100 is masked),
            or float probabilities shaped like the logits.
        where: bool `[...]`; False leaves an element out of the set.
        axis: the axes of the labels (classes not counted) that form a set. None: all,
            so one set; `()`: none, so each element is a set; -1: one set per row.
        class_axis: the axis of the logits that holds the classes; None for the binary
            form, which has none.
        squared: whether to sum squares in P and Y.
        alpha: exponent of the self-adjusting factor; 0 leaves plain probabilities.
        stop_gradient_weight: whether :math:`(1-p)^\alpha` is a constant for gradients.

    Returns:
        Counts whose arrays have the label axes that `axis` does not name, in order,
        then `[C]`; no `[C]` in the binary form. In units of elements. A label out of
        range that is known only at run time (under jit) is actual for no class.

    Raises:
        ValueError: if shapes or `axis` do not fit, if a known label is out of range, or
            if a known `alpha` is negative.

    Source: the sums of Li et al., ACL 2020, eq. 8 and eq. 11
    (https://aclanthology.org/2020.acl-main.45).

    Example:
        >>> import jax.numpy as jnp
        >>> from dicejax.losses import overlap_counts
        >>> logits = jnp.array([[99.0, 0.0], [99.0, 0.0], [0.0, 99.0]])
        >>> counts = overlap_counts(logits, jnp.array([0, 1, 1]))
        >>> print(counts.intersection, counts.predicted, counts.actual)
        [1. 1.] [2. 1.] [1. 2.]
    """
    elements = prepare(logits, labels, where, class_axis)
    axes = set_axes(axis, elements.where.ndim)
    log_p, log_q = log_probabilities(elements)
    f = self_adjusted(log_p, log_q, alpha, stop_gradient_weight=stop_gradient_weight)
    f, y = elements.mask(f), elements.targets  # [..., C] or [...]
    return OverlapCounts(
        intersection=jnp.sum(f * y, axis=axes),
        predicted=jnp.sum(f * f if squared else f, axis=axes),
        actual=jnp.sum(y * y if squared else y, axis=axes),
    )


@counts_loss(smooth=NON_NEGATIVE)
def dice_from_counts(
    counts: OverlapCounts, *, smooth: float | Array = 1.0, absent: str = "smooth"
) -> Array:
    r"""Dice loss of counted sets.

    .. math:: L = 1 - \frac{2 I + \gamma}{P + Y + \gamma}

    Args:
        counts: what `overlap_counts` returns, or a sum of such.
        smooth: gamma, in units of counts: its weight shrinks as sets grow.
        absent: what a class without gold in its set gives. "smooth": the formula, so
            that its false positives count. "skip": loss 0 and gradient 0.

    Returns:
        Floats in the shape of the counts. An empty set (P + Y + gamma is 0, or less
        than the square root of the smallest normal float, 1e-19 in float32) gives loss
        0 and gradient 0, whatever `absent` says.

    Raises:
        ValueError: if a known `smooth` is negative, or `absent` is no choice.

    Source: Li et al., ACL 2020, eq. 8 (https://aclanthology.org/2020.acl-main.45),
    squares left to the counts.

    Example:
        >>> import jax.numpy as jnp
        >>> from dicejax.losses import OverlapCounts, dice_from_counts
        >>> counts = OverlapCounts(
        ...     intersection=jnp.array([3.0, 0.0]),
        ...     predicted=jnp.array([4.0, 1.0]),
        ...     actual=jnp.array([4.0, 0.0]),
        ... )
        >>> [round(x, 3) for x in dice_from_counts(counts).tolist()]
        [0.222, 0.5]
        >>> [round(x, 3) for x in dice_from_counts(counts, absent="skip").tolist()]
        [0.222, 0.0]
    """
    check_choice("absent", absent, ("smooth", "skip"))
    denominator = counts.predicted + counts.actual + smooth
    # Below this floor 1 / denominator^2, which the gradient holds, would overflow.
    empty = denominator < jnp.sqrt(jnp.finfo(denominator.dtype).tiny)
    if absent == "skip":
        empty |= counts.actual == 0
    numerator = 2 * counts.intersection + smooth
    return jnp.where(empty, 0, 1 - numerator / jnp.where(empty, 1, denominator))


@loss(smooth=NON_NEGATIVE)
def dice(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    axis: int | tuple[int, ...] | None = None,
    class_axis: int | None = -1,
    smooth: float | Array = 1.0,
    squared: bool = False,
    absent: str = "smooth",
) -> Array:
    r"""Dice loss of each class over a set: one minus a soft F1.

    .. math:: L_c = 1 - \frac{2 \sum p_c y_c + \gamma}{\sum p_c + \sum y_c + \gamma}

    With hard predictions and gamma 0 it is 1 - F1 of the class. `squared` sums squares
    below, which is the paper's DL.

    The loss depends on what the set is, so batch composition matters: the mean of the
    losses of two halves of a batch is not the loss of the batch. Add `overlap_counts`
    instead, then take `dice_from_counts`.

    It is the sum over elements for one class that makes an F1. If the counts of a
    softmax are summed over its C classes too, without squares and with one gold class
    per element, P = Y = N: the loss is 2 sum(1 - p_gold) / (2 N + gamma), for a single
    element and gamma 0 just 1 - p_gold. That is a surrogate for accuracy, not for F1.

    Args:
        logits: finite floats `[..., C]`, or `[...]` in the binary form.
        labels: integers `[...]` in 0..C-1 (0 or 1 in the binary form; -100 is masked),
            or float probabilities shaped like the logits.
        where: bool `[...]`; False leaves an element out of the set.
        axis: the axes of the labels (classes not counted) that form a set. None: all,
            so one set; `()`: none, so each element is a set; -1: one set per row.
        class_axis: the axis of the logits that holds the classes; None for the binary
            form, which has none.
        smooth: gamma, in units of counts: its weight shrinks as sets grow.
        squared: whether to sum squares below.
        absent: what a class without gold in its set gives. "smooth": the formula.
            "skip": loss 0 and gradient 0.

    Returns:
        Floats, the label axes that `axis` does not name, then `[C]`; no `[C]` in the
        binary form. A fully masked set gives 0. A label out of range that is known only
        at run time (under jit) is actual for no class.

    Raises:
        ValueError: if shapes or `axis` do not fit, if a known label is out of range, if
            a known `smooth` is negative, or `absent` is no choice.

    Source: Li et al., ACL 2020, eq. 7 (one element) and eq. 8 (a set), both squared,
    eq. 6 unsquared (https://aclanthology.org/2020.acl-main.45).

    Example:
        >>> import jax.numpy as jnp
        >>> from dicejax.losses import dice
        >>> logits = jnp.array([[4.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 4.0, 0.0]])
        >>> [round(x, 3) for x in dice(logits, jnp.array([0, 1, 2])).tolist()]
        [0.024, 0.258, 0.496]
    """
    counts = overlap_counts(
        logits,
        labels,
        where=where,
        axis=axis,
        class_axis=class_axis,
        squared=squared,
    )
    return dice_from_counts(counts, smooth=smooth, absent=absent)
