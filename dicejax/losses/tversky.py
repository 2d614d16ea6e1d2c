"""Tversky losses: separate weights for false positives and false negatives."""

import jax.numpy as jnp
from jax import Array

from dicejax.losses.averages import averaged, select
from dicejax.losses.contract import check_counts, jit_checked, loss
from dicejax.losses.declaration import (
    NON_NEGATIVE,
    SHARE_OF_ERRORS,
    SMOOTH,
    Absent,
    Average,
    Bounds,
)
from dicejax.losses.dice import share_of
from dicejax.losses.elements import prepare
from dicejax.losses.overlap import Intersection, OverlapCounts, count


@jit_checked(check_counts, alpha=NON_NEGATIVE, beta=NON_NEGATIVE, smooth=NON_NEGATIVE)
def tversky_from_counts(
    counts: OverlapCounts,
    *,
    alpha: float | Array = 0.5,
    beta: float | Array = 0.5,
    smooth: float | Array = 1e-5,
    absent: Absent = "smooth",
) -> Array:
    r"""Tversky loss from the counts of a set.

    .. math::
        L = 1 - \frac{I + \gamma}{I + \alpha (P - I) + \beta (Y - I) + \gamma}

    Args:
      counts: counts from `overlap_counts`, or a sum of them.
      alpha: weight of false positives, P - I.
      beta: weight of false negatives, Y - I.
      smooth: added to numerator and denominator, in counts: weighs less in large sets.
      absent: loss of a class without gold: "smooth" by its false positives, "skip" 0.

    Returns:
      Floats in the shape of the counts; 0 for an empty set.

    Raises:
      ValueError: if a known weight is negative, or `absent` is not a choice.

    Source: Li et al., ACL 2020, eq. 9 over a set
    (https://arxiv.org/abs/1911.02855v1); Salehi et al., MLMI 2017.

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import OverlapCounts, tversky_from_counts
      >>> counts = OverlapCounts(
      ...     intersection=jnp.array(3.0),
      ...     predicted=jnp.array(3.0),
      ...     actual=jnp.array(6.0),
      ... )
      >>> round(float(tversky_from_counts(counts, alpha=0.3, beta=0.7)), 3)
      0.412
    """
    return tversky_of(counts, alpha=alpha, beta=beta, smooth=smooth, absent=absent)


def tversky_of(
    counts: OverlapCounts,
    *,
    alpha: float | Array,
    beta: float | Array,
    smooth: float | Array,
    absent: Absent,
) -> Array:
    """Return the loss as `tversky_from_counts` does, of checked counts."""
    false_positives = _at_least_0(counts.predicted - counts.intersection)
    false_negatives = _at_least_0(counts.actual - counts.intersection)
    wrong = alpha * false_positives + beta * false_negatives
    return share_of(wrong, counts.intersection + wrong + smooth, counts.actual, absent)


def _at_least_0(difference: Array) -> Array:
    """Clip negative rounding; a maximum would halve the slope at 0."""
    return jnp.where(difference < 0, 0, difference)


@loss(kind="set", alpha=SHARE_OF_ERRORS, beta=NON_NEGATIVE, smooth=SMOOTH)
def tversky(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    axis: int | tuple[int, ...] | None = None,
    class_axis: int | None = -1,
    multi_label: bool = False,
    alpha: float | Array = 0.5,
    beta: float | Array = 0.5,
    smooth: float | Array = 1e-5,
    intersection: Intersection = "product",
    absent: Absent = "smooth",
    axis_name: str | tuple[str, ...] | None = None,
    class_weights: Array | None = None,
    exclude_class: int | tuple[int, ...] | None = None,
    average: Average = "none",
) -> Array:
    r"""Tversky loss of each class over a set.

    .. math::
        L_c = 1 - \frac{I_c + \gamma}{I_c + \alpha \mathrm{FP}_c +
        \beta \mathrm{FN}_c + \gamma}, \quad
        \mathrm{FP} = \sum p (1 - y), \quad \mathrm{FN} = \sum (1 - p) y

    alpha weighs false positives and beta false negatives, as in the paper. With both
    1/2 it is `dice` of twice the smooth; with both 1, `jaccard`. With `axis=()` it is
    the paper's TL, eq. 9, a loss of each element (the preset `tl`); over a set it is
    none of the paper's losses.

    Use it to favour recall (:math:`\beta` over :math:`\alpha`) or precision; of soft
    labels with `intersection="minimum"`, which is least at p = y.

    Pitfalls: Some libraries swap :math:`\alpha` and :math:`\beta`. With :math:`\alpha =
    0` predicting everything positive costs nothing. Collapses to all O as `dice` does.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      axis: label axes that form a set. None: all; `()`: each element; -1: each row.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      multi_label: whether labels are 0 or 1 for each class `[..., C]`, for a sigmoid.
      alpha: weight of false positives.
      beta: weight of false negatives.
      smooth: added to numerator and denominator, in counts: weighs less in large sets.
      intersection: "product": p y; "minimum": the smaller of p and y, so that for soft
        labels p = y costs nothing. The same for labels of 0 and 1.
      absent: loss of a class without gold: "smooth" by its false positives, "skip" 0.
      axis_name: `shard_map` axes that the set is spread over; not needed under `jit`.
      class_weights: floats `[C]` that multiply the losses of classes, before any mean.
      exclude_class: class, or a tuple of them, left out: O for the F1 of tagging. The
        others keep their probabilities.
      average: "none" for a loss of each class; "macro" for their mean, with
        `absent="skip"` of those with gold in their set; "micro" for one set of all
        classes, in which an element occurs once for each. No effect in the binary form.

    Returns:
      Floats, one per set and class `[..., C]`, per set in the binary form; 0 if masked.

    Raises:
      ValueError: if a shape, axis, known label or hyper-parameter is out of range.

    Source: Li et al., ACL 2020, eq. 9 (https://arxiv.org/abs/1911.02855v1), smoothed,
    with a gamma of 1 in the preset. "minimum": Wang et al., MICCAI 2023 (https://arxiv.org/abs/2303.16296).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import tversky
      >>> logits = jnp.array([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
      >>> losses = tversky(logits, jnp.array([0, 1, 1]), alpha=0.3, beta=0.7)
      >>> [round(x, 3) for x in losses.tolist()]
      [0.241, 0.414]
    """
    elements = prepare(logits, labels, where, class_axis, multi_label, axis, axis_name)
    elements = select(elements, exclude_class, average)
    counts = count(elements, intersection=intersection)
    losses = tversky_of(counts, alpha=alpha, beta=beta, smooth=smooth, absent=absent)
    return averaged(losses, elements, class_weights, average, absent)


@loss(
    kind="set",
    alpha=SHARE_OF_ERRORS,
    beta=NON_NEGATIVE,
    gamma=Bounds(1.0, 8.0).tuned(
        1.0, 3.0, why="values of Abraham and Khan 2019; 1 is Tversky"
    ),
    smooth=SMOOTH,
)
def focal_tversky(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    axis: int | tuple[int, ...] | None = None,
    class_axis: int | None = -1,
    multi_label: bool = False,
    alpha: float | Array = 0.3,
    beta: float | Array = 0.7,
    gamma: float | Array = 4 / 3,
    smooth: float | Array = 1e-5,
    absent: Absent = "smooth",
    axis_name: str | tuple[str, ...] | None = None,
    class_weights: Array | None = None,
    exclude_class: int | tuple[int, ...] | None = None,
    average: Average = "none",
) -> Array:
    r"""Focal Tversky loss: a steeper slope for classes that are nearly learned.

    .. math:: L_c = \mathrm{tversky}_c^{1 / \gamma}

    gamma over 1 steepens the loss where it is small; gamma 1 is `tversky`.

    Use it when a class stays half learned.

    Pitfalls: The slope is multiplied by :math:`L^{1/\gamma - 1} / \gamma`, without
    bound as the loss L goes to 0. In its paper :math:`\alpha` weighs false negatives,
    here false positives.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      axis: label axes that form a set. None: all; `()`: each element; -1: each row.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      multi_label: whether labels are 0 or 1 for each class `[..., C]`, for a sigmoid.
      alpha: weight of false positives.
      beta: weight of false negatives.
      gamma: in [1, 8]; its authors use 4/3.
      smooth: added to numerator and denominator, in counts: weighs less in large sets.
      absent: loss of a class without gold: "smooth" by its false positives, "skip" 0.
      axis_name: `shard_map` axes that the set is spread over; not needed under `jit`.
      class_weights: floats `[C]` that multiply the losses of classes, before any mean.
      exclude_class: class, or a tuple of them, left out: O for the F1 of tagging. The
        others keep their probabilities.
      average: "none" for a loss of each class; "macro" for their mean, with
        `absent="skip"` of those with gold in their set; "micro" for one set of all
        classes, in which an element occurs once for each. No effect in the binary form.

    Returns:
      Floats as those of `tversky`.

    Raises:
      ValueError: if a shape, axis, known label or hyper-parameter is out of range.

    Source: Abraham and Khan, ISBI 2019, eq. 4 (https://arxiv.org/abs/1810.07842); there
    alpha weighs false negatives.

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import focal_tversky
      >>> logits = jnp.array([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
      >>> losses = focal_tversky(logits, jnp.array([0, 1, 1]))
      >>> [round(x, 3) for x in losses.tolist()]
      [0.344, 0.516]
    """
    elements = prepare(logits, labels, where, class_axis, multi_label, axis, axis_name)
    elements = select(elements, exclude_class, average)
    losses = tversky_of(
        count(elements), alpha=alpha, beta=beta, smooth=smooth, absent=absent
    )
    losses = power(losses, 1 / gamma)
    return averaged(losses, elements, class_weights, average, absent)


def power(values: Array, exponent: float | Array) -> Array:
    """Return values^exponent with value and gradient 0 where a value is 0.

    Values that rounding alone keeps from 0 count as 0: their slope would be a large
    multiple of noise.
    """
    nothing = values < jnp.finfo(values.dtype).eps / 4
    logs = jnp.log(jnp.where(nothing, 1, values))
    return jnp.where(nothing, 0, jnp.exp(exponent * logs))


@loss(kind="set", smooth=SMOOTH)
def jaccard(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    axis: int | tuple[int, ...] | None = None,
    class_axis: int | None = -1,
    multi_label: bool = False,
    smooth: float | Array = 1e-5,
    squared: bool = False,
    intersection: Intersection = "product",
    absent: Absent = "smooth",
    axis_name: str | tuple[str, ...] | None = None,
    class_weights: Array | None = None,
    exclude_class: int | tuple[int, ...] | None = None,
    average: Average = "none",
) -> Array:
    r"""Jaccard loss of each class over a set: one minus a soft intersection over union.

    .. math:: L_c = 1 - \frac{I_c + \gamma}{P_c + Y_c - I_c + \gamma}

    With `intersection="minimum"` it is the Jaccard metric loss of norm 1, with
    `squared` that of norm 2: for soft labels 0 where p = y, and only there.

    Use it when intersection over union is the metric.

    Pitfalls: Flatter than `dice` at the start: for `smooth=0` half the slope where
    nothing overlaps, twice at the end. Batch composition matters as for `dice`.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      axis: label axes that form a set. None: all; `()`: each element; -1: each row.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      multi_label: whether labels are 0 or 1 for each class `[..., C]`, for a sigmoid.
      smooth: added to numerator and denominator, in counts: weighs less in large sets.
      squared: whether to sum squares in P and Y.
      intersection: "product": p y; "minimum": the smaller of p and y, so that for soft
        labels p = y costs nothing. The same for labels of 0 and 1.
      absent: loss of a class without gold: "smooth" by its false positives, "skip" 0.
      axis_name: `shard_map` axes that the set is spread over; not needed under `jit`.
      class_weights: floats `[C]` that multiply the losses of classes, before any mean.
      exclude_class: class, or a tuple of them, left out: O for the F1 of tagging. The
        others keep their probabilities.
      average: "none" for a loss of each class; "macro" for their mean, with
        `absent="skip"` of those with gold in their set; "micro" for one set of all
        classes, in which an element occurs once for each. No effect in the binary form.

    Returns:
      Floats, one per set and class `[..., C]`, per set in the binary form; 0 if masked.

    Raises:
      ValueError: if a shape, axis, known label or hyper-parameter is out of range.

    Source: Rahman and Wang, ISVC 2016, eq. 3-5; for soft labels Wang et al., NeurIPS
    2023 (https://arxiv.org/abs/2302.05666).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import jaccard
      >>> logits = jnp.array([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
      >>> [round(x, 3) for x in jaccard(logits, jnp.array([0, 1, 1])).tolist()]
      [0.509, 0.504]
    """
    elements = prepare(logits, labels, where, class_axis, multi_label, axis, axis_name)
    elements = select(elements, exclude_class, average)
    if squared and intersection == "minimum":
        raise ValueError("squared needs intersection 'product', not 'minimum'")
    counts = count(elements, squared=squared, intersection=intersection)
    overlap = counts.intersection
    # With squares P - I alone may be negative.
    wrong = _at_least_0(counts.predicted + counts.actual - 2 * overlap)
    losses = share_of(wrong, overlap + wrong + smooth, counts.actual, absent)
    return averaged(losses, elements, class_weights, average, absent)
