"""Log Dice loss: minus the logarithm of a soft F1 of each class."""

import math

import jax.numpy as jnp
from jax import Array

from dicejax.losses.contract import loss
from dicejax.losses.declaration import SMOOTH, Absent
from dicejax.losses.dice import share_of
from dicejax.losses.elements import prepare
from dicejax.losses.overlap import count


@loss(kind="set", smooth=SMOOTH._replace(low=1e-12, high=math.inf))
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
    counts = count(elements, squared=squared)
    right = 2 * counts.intersection + smooth
    wrong = counts.predicted + counts.actual - 2 * counts.intersection
    # -log(right / (right + wrong)), exact where nearly nothing is wrong.
    return jnp.log1p(share_of(wrong, right, counts.actual, absent))
