"""Generalised Dice: one value for all classes of a set, rare ones weighing more."""

from typing import Literal

import jax
import jax.numpy as jnp
from jax import Array

from dicejax.losses.averages import select
from dicejax.losses.contract import loss
from dicejax.losses.declaration import NON_NEGATIVE, Absent
from dicejax.losses.dice import dice_of
from dicejax.losses.elements import prepare
from dicejax.losses.overlap import count


@loss(
    kind="set",
    smooth=NON_NEGATIVE.tuned(
        1e-6, 1.0, scale="log", why="up to one element of the rarest class"
    ),
)
def generalized_dice(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    axis: int | tuple[int, ...] | None = None,
    class_axis: int | None = -1,
    multi_label: bool = False,
    smooth: float | Array = 1e-5,
    weighting: Literal["square", "simple", "uniform"] = "square",
    absent: Absent = "skip",
    axis_name: str | tuple[str, ...] | None = None,
    exclude_class: int | tuple[int, ...] | None = None,
) -> Array:
    r"""Generalised Dice loss: one value for all classes, rare ones weighing more.

    .. math::
        L = 1 - \frac{2 \sum_c w_c I_c + \gamma}{\sum_c w_c (P_c + Y_c) + \gamma},
        \qquad w_c = 1 / Y_c^2

    Weights are those of the set: a class with one element in this batch and a hundred
    in the next weighs 10 000 times less there. Weights are rescaled so that the largest
    is 1, which keeps `smooth` in units of counts of the rarest class.

    Use it when classes differ in frequency and a single value is needed.

    Pitfalls: Weights vary from batch to batch. `absent="skip"`, its default, ignores
    false positives of absent classes.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      axis: label axes that form a set. None: all; `()`: each element; -1: each row.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      multi_label: whether labels are 0 or 1 for each class `[..., C]`, for a sigmoid.
      smooth: added to numerator and denominator, in counts: weighs less in large sets.
      weighting: "square": 1 / Y^2; "simple": 1 / Y; "uniform": 1.
      absent: weight of a class without gold in its set. "skip": 0. "smooth": that of
        the rarest class present, so that its false positives count.
      axis_name: `shard_map` axes that the set is spread over; not needed under `jit`.
      exclude_class: class, or a tuple of them, left out: O for the F1 of tagging. The
        others keep their probabilities.

    Returns:
      Floats, the label axes that `axis` does not name. A set without gold gives 0.

    Raises:
      ValueError: if a shape, axis, known label or hyper-parameter is out of range.

    Source: Sudre et al., DLMIA 2017, eq. 3 (https://arxiv.org/abs/1707.03237).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import generalized_dice
      >>> logits = jnp.array([[4.0, 0.0], [4.0, 0.0], [4.0, 0.0], [0.0, 0.0]])
      >>> round(float(generalized_dice(logits, jnp.array([0, 0, 0, 1]))), 3)
      0.271
    """
    elements = prepare(logits, labels, where, class_axis, multi_label, axis, axis_name)
    elements = select(elements, exclude_class)
    counts = count(elements)
    if elements.form == "binary":
        counts = jax.tree.map(lambda x: x[..., None], counts)
    actual, present = counts.actual, counts.actual > 0
    fewest = jnp.min(jnp.where(present, actual, jnp.inf), axis=-1, keepdims=True)
    share = jnp.where(present, fewest, 0) / jnp.where(present, actual, 1)
    power = {"square": 2, "simple": 1, "uniform": 0}[weighting]
    weights = jnp.where(present, share**power, absent == "smooth")
    weights = jax.lax.stop_gradient(weights.astype(actual.dtype))
    total = jax.tree.map(lambda x: jnp.sum(weights * x, axis=-1), counts)
    losses = dice_of(total, smooth=smooth)
    return jnp.where(jnp.any(present, axis=-1), losses, 0)
