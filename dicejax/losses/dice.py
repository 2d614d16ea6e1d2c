"""Dice losses: one minus a soft F1 of each class, over a set."""

import dataclasses
import math
from typing import Literal

import jax.numpy as jnp
from jax import Array

from dicejax.losses.averages import averaged, select
from dicejax.losses.contract import check_counts, jit_checked, loss
from dicejax.losses.declaration import NON_NEGATIVE, SMOOTH, Absent, Average
from dicejax.losses.elements import prepare
from dicejax.losses.overlap import OverlapCounts, count


@jit_checked(check_counts, smooth=NON_NEGATIVE)
def dice_from_counts(
    counts: OverlapCounts, *, smooth: float | Array = 1e-5, absent: Absent = "smooth"
) -> Array:
    r"""Dice loss from the counts of a set.

    .. math:: L = 1 - \frac{2 I + \gamma}{P + Y + \gamma}

    Args:
      counts: counts from `overlap_counts`, or a sum of them.
      smooth: added to numerator and denominator, in counts: weighs less in large sets.
      absent: loss of a class without gold: "smooth" by its false positives, "skip" 0.

    Returns:
      Floats in the shape of the counts. An empty set (P + Y + gamma is 0, or less than
      the square root of the smallest normal float, 1e-19 in float32) gives loss 0 and
      gradient 0, for any `absent`.

    Raises:
      ValueError: if a known `smooth` is negative, or `absent` is not a choice.

    Source: Li et al., ACL 2020, footnote 4 (https://arxiv.org/abs/1911.02855v1); the
    squares are left to the counts.

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import OverlapCounts, dice_from_counts
      >>> counts = OverlapCounts(
      ...     intersection=jnp.array([3.0, 0.0]),
      ...     predicted=jnp.array([4.0, 1.0]),
      ...     actual=jnp.array([4.0, 0.0]),
      ... )
      >>> [round(x, 3) for x in dice_from_counts(counts).tolist()]
      [0.25, 1.0]
      >>> [round(x, 3) for x in dice_from_counts(counts, absent="skip").tolist()]
      [0.25, 0.0]
    """
    return dice_of(counts, smooth=smooth, absent=absent)


def dice_of(
    counts: OverlapCounts, *, smooth: float | Array, absent: Absent = "smooth"
) -> Array:
    """Return the loss as `dice_from_counts` does, of checked counts."""
    both = counts.predicted + counts.actual
    wrong = both - 2 * counts.intersection
    return share_of(wrong, both + smooth, counts.actual, absent)


def share_of(wrong: Array, denominator: Array, actual: Array, absent: Absent) -> Array:
    """Return wrong / denominator, and 0 where a set is empty or skipped.

    As 1 - right / denominator, without the rounding of the difference.
    """
    # Below this floor 1 / denominator^2, which the gradient holds, would overflow.
    left_out = denominator < math.sqrt(jnp.finfo(denominator.dtype).tiny)
    if absent == "skip":
        left_out |= actual == 0
    return jnp.where(left_out, 0, wrong / jnp.where(left_out, 1, denominator))


@loss(kind="set", smooth=SMOOTH)
def dice(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    axis: int | tuple[int, ...] | None = None,
    class_axis: int | None = -1,
    multi_label: bool = False,
    smooth: float | Array = 1e-5,
    squared: bool = False,
    absent: Absent = "smooth",
    axis_name: str | tuple[str, ...] | None = None,
    class_weights: Array | None = None,
    exclude_class: int | tuple[int, ...] | None = None,
    average: Average = "none",
) -> Array:
    r"""Dice loss of each class over a set: one minus a soft F1.

    .. math:: L_c = 1 - \frac{2 \sum p_c y_c + \gamma}{\sum p_c + \sum y_c + \gamma}

    With hard predictions and gamma 0 it is 1 - F1 of the class. `squared` sums squares
    in the denominator, which is the paper's DL: over a batch its footnote 4 (the preset
    `dl-set`), with `axis=()` its eq. 7, a loss of each element (the preset `dl`). At
    its defaults it is neither: they have no squares, and a smaller gamma.

    The mean of the losses of two halves of a batch is not the loss of the batch: add
    their `overlap_counts`, then take `dice_from_counts`.

    If the counts of a softmax were summed over its C classes too, without squares and
    with one gold class per element, P = Y = N: the loss would be 2 sum(1 - p_gold) / (2
    N + gamma), for a single element and gamma 0 just 1 - p_gold. That is a surrogate
    for accuracy, not for F1.

    Use it when F1 per class is the metric and each set holds several elements of each
    class.

    Pitfalls: Without squares and with :math:`2 Y (Y + \gamma)` below :math:`N \gamma`,
    N the elements of the set, a model that cannot yet separate elements is pushed to p
    = 0: all O. With `smooth=1` and N = 512 that is Y under 16, with 1e-5 none but 0.
    With squares the slope of false positives falls as :math:`p^2` for small p. A class
    without gold costs nearly 1 for any p well above `smooth` / N, almost without
    gradient. Of soft labels it trains p to 0 or 1: `dice_semimetric` has its optimum at
    the label.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      axis: label axes that form a set. None: all; `()`: each element; -1: each row.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      multi_label: whether labels are 0 or 1 for each class `[..., C]`, for a sigmoid.
      smooth: added to numerator and denominator, in counts: weighs less in large sets.
      squared: whether to sum squares in the denominator.
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

    Source: Li et al., ACL 2020, eq. 7 (one element) and footnote 4 (a set), both
    squared, eq. 6 unsquared (https://arxiv.org/abs/1911.02855v1). gamma is 1 there and
    in the presets; the default here is measured (`docs/losses-pitfalls.md`).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import dice
      >>> logits = jnp.array([[4.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 4.0, 0.0]])
      >>> [round(x, 3) for x in dice(logits, jnp.array([0, 1, 2])).tolist()]
      [0.035, 0.345, 0.966]
    """
    elements = prepare(logits, labels, where, class_axis, multi_label, axis, axis_name)
    elements = select(elements, exclude_class, average)
    counts = count(elements, squared=squared)
    losses = dice_of(counts, smooth=smooth, absent=absent)
    return averaged(losses, elements, class_weights, average, absent)


@loss(kind="set", smooth=SMOOTH)
def log_cosh_dice(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    axis: int | tuple[int, ...] | None = None,
    class_axis: int | None = -1,
    multi_label: bool = False,
    smooth: float | Array = 1e-5,
    squared: bool = False,
    absent: Absent = "smooth",
    axis_name: str | tuple[str, ...] | None = None,
    class_weights: Array | None = None,
    exclude_class: int | tuple[int, ...] | None = None,
    average: Average = "none",
) -> Array:
    r"""Log-cosh Dice loss: the slope fades as a class is learned.

    .. math:: L_c = \log \cosh(\mathrm{dice}_c)

    Its gradient is that of `dice` times tanh(dice), which tends to 0 with the loss.

    Use it when training with `dice` is unstable near its end.

    Pitfalls: The last errors have little slope: at a dice of 0.1 a tenth of that of
    `dice`. At most 0.434, so it needs a weight when added to cross-entropy.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      axis: label axes that form a set. None: all; `()`: each element; -1: each row.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      multi_label: whether labels are 0 or 1 for each class `[..., C]`, for a sigmoid.
      smooth: added to numerator and denominator, in counts: weighs less in large sets.
      squared: whether to sum squares in the denominator.
      absent: loss of a class without gold: "smooth" by its false positives, "skip" 0.
      axis_name: `shard_map` axes that the set is spread over; not needed under `jit`.
      class_weights: floats `[C]` that multiply the losses of classes, before any mean.
      exclude_class: class, or a tuple of them, left out: O for the F1 of tagging. The
        others keep their probabilities.
      average: "none" for a loss of each class; "macro" for their mean, with
        `absent="skip"` of those with gold in their set; "micro" for one set of all
        classes, in which an element occurs once for each. No effect in the binary form.

    Returns:
      Floats as those of `dice`, in [0, 0.434].

    Raises:
      ValueError: if a shape, axis, known label or hyper-parameter is out of range.

    Source: Jadon, CIBCB 2020, section II-L (https://arxiv.org/abs/2006.14822).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import log_cosh_dice
      >>> logits = jnp.array([[4.0, 0.0], [0.0, 4.0], [0.0, 4.0]])
      >>> [round(x, 4) for x in log_cosh_dice(logits, jnp.array([0, 1, 0])).tolist()]
      [0.0558, 0.0572]
    """
    elements = prepare(logits, labels, where, class_axis, multi_label, axis, axis_name)
    elements = select(elements, exclude_class, average)
    x = dice_of(count(elements, squared=squared), smooth=smooth, absent=absent)
    # log cosh x = x + log((1 + exp(-2x)) / 2), and x is not negative.
    losses = x + jnp.log1p(jnp.expm1(-2 * x) / 2)
    return averaged(losses, elements, class_weights, average, absent)


@loss(kind="set", smooth=dataclasses.replace(SMOOTH, low=1e-12))
def log_dice(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    axis: int | tuple[int, ...] | None = None,
    class_axis: int | None = -1,
    multi_label: bool = False,
    smooth: float | Array = 1e-5,
    squared: bool = False,
    absent: Absent = "smooth",
    axis_name: str | tuple[str, ...] | None = None,
    class_weights: Array | None = None,
    exclude_class: int | tuple[int, ...] | None = None,
    average: Average = "none",
) -> Array:
    r"""Log Dice loss of each class over a set: steepest for classes that are missed.

    .. math:: L_c = -\log \frac{2 \sum p_c y_c + \gamma}{\sum p_c + \sum y_c + \gamma}

    Its gradient is that of `dice` divided by 1 - dice, the soft F1: a class with a soft
    F1 of 0.01 weighs a hundred times as much as in `dice`, a learned class the same.

    Use it when `dice` leaves a rare class at p = 0, where its slope vanishes.

    Pitfalls: It is not bounded: a class that is missed costs up to :math:`\log(1 + Y /
    \gamma)` and more with its false positives, and rules the mean over classes. The
    smaller `smooth`, the more so; 0 is refused, where a missed class is infinite.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      axis: label axes that form a set. None: all; `()`: each element; -1: each row.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      multi_label: whether labels are 0 or 1 for each class `[..., C]`, for a sigmoid.
      smooth: added to numerator and denominator, in counts: weighs less in large sets.
      squared: whether to sum squares in the denominator.
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

    Source: Wong et al., MICCAI 2018 (https://arxiv.org/abs/1809.00076), their Dice term
    with the exponent 1; `log_loss` of segmentation-models-pytorch.

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import log_dice
      >>> logits = jnp.array([[4.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 4.0, 0.0]])
      >>> [round(x, 3) for x in log_dice(logits, jnp.array([0, 1, 2])).tolist()]
      [0.036, 0.424, 3.394]
    """
    elements = prepare(logits, labels, where, class_axis, multi_label, axis, axis_name)
    elements = select(elements, exclude_class, average)
    counts = count(elements, squared=squared)
    right = 2 * counts.intersection + smooth
    wrong = counts.predicted + counts.actual - 2 * counts.intersection
    # -log(right / (right + wrong)), exact where nearly nothing is wrong.
    losses = jnp.log1p(share_of(wrong, right, counts.actual, absent))
    return averaged(losses, elements, class_weights, average, absent)


@loss(kind="set", smooth=SMOOTH)
def dice_semimetric(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    axis: int | tuple[int, ...] | None = None,
    class_axis: int | None = -1,
    multi_label: bool = False,
    smooth: float | Array = 1e-5,
    variant: Literal["dml1", "dml2"] = "dml1",
    absent: Absent = "smooth",
    axis_name: str | tuple[str, ...] | None = None,
    class_weights: Array | None = None,
    exclude_class: int | tuple[int, ...] | None = None,
    average: Average = "none",
) -> Array:
    r"""Dice semimetric loss: a Dice loss minimised at p = y for soft labels too.

    .. math::
        \mathrm{DML}_1 = 1 - \frac{P + Y - D + \gamma}{P + Y + \gamma}, \quad
        \mathrm{DML}_2 = 1 - \frac{2 I + \gamma}{2 I + D + \gamma}, \quad
        D = \sum |p - y|

    For labels of 0 and 1 both equal `dice`. For soft labels both are 0 only where p = y
    everywhere.

    Use it with soft labels (distilled, averaged, smoothed), where `dice` trains p to 0
    or 1.

    Pitfalls: For labels of 0 and 1 it has all pitfalls of `dice`. The slope jumps at p
    = y. DML1 moves each p towards its y; DML2 may push one past it while others are
    wrong.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      axis: label axes that form a set. None: all; `()`: each element; -1: each row.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      multi_label: whether labels are 0 or 1 for each class `[..., C]`, for a sigmoid.
      smooth: added to numerator and denominator, in counts: weighs less in large sets.
      variant: "dml1" or "dml2".
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

    Source: Wang et al., MICCAI 2023 (https://arxiv.org/abs/2303.16296).

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import dice, dice_semimetric
      >>> labels = jnp.array([0.25, 0.75])
      >>> logits = jax.scipy.special.logit(labels)
      >>> print(f"{dice_semimetric(logits, labels, class_axis=None):.3f}")
      0.000
      >>> print(f"{dice(logits, labels, class_axis=None):.3f}")
      0.375
    """
    elements = prepare(logits, labels, where, class_axis, multi_label, axis, axis_name)
    elements = select(elements, exclude_class, average)
    # |p - y| = p + y - 2 min(p, y), and min(p, y) is p y for labels of 0 and 1.
    smaller = count(elements, intersection="minimum")
    if variant == "dml1":
        losses = dice_of(smaller, smooth=smooth, absent=absent)
    else:
        product = smaller if elements.hard else count(elements)
        difference = smaller.predicted + smaller.actual - 2 * smaller.intersection
        denominator = 2 * product.intersection + difference + smooth
        losses = share_of(difference, denominator, smaller.actual, absent)
    return averaged(losses, elements, class_weights, average, absent)
