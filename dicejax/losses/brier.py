"""The squared error of probabilities."""

import jax.numpy as jnp
from jax import Array

from dicejax.losses.contract import loss
from dicejax.losses.elements import log_probabilities, prepare


@loss(kind="pointwise")
def brier(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    class_axis: int | None = -1,
    multi_label: bool = False,
) -> Array:
    r"""Brier score of each element: the squared error of its probabilities.

    .. math:: L = \sum_c (p_c - y_c)^2

    with p the softmax of the logits. In the binary and the multi-label form p is the
    sigmoid and the sum runs over the two outcomes, so that it is :math:`2 (p - y)^2`,
    twice what is often called the Brier score of two classes.

    Use it where some labels are wrong: it is at most 2, and its optimum is the true
    probability, as that of cross-entropy.

    Pitfalls: The slope vanishes where the model is surely wrong: in the binary form it
    is :math:`4 p (1 - p)^2` in the logit of the gold class, where cross-entropy has
    :math:`1 - p`. Such elements, as those of a rare class early on, are hardly learnt.
    That is why a classifier is not usually trained by squared error. The one of Hui and
    Belkin is of logits, not of probabilities, and keeps its slope.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      multi_label: whether labels are 0 or 1 for each class `[..., C]`, for a sigmoid.

    Returns:
      Floats in [0, 2], `[...]`, or `[..., C]` in the multi-label form, 0 where masked.

    Raises:
      ValueError: if a shape, axis or known label is out of range.

    Source: Brier, Monthly Weather Review 78(1), 1950, eq. 2. Squared error for
    classifiers: Hui and Belkin, ICLR 2021 (https://arxiv.org/abs/2006.07322).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import brier
      >>> logits = jnp.array([[2.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
      >>> [round(x, 3) for x in brier(logits, jnp.array([0, 2])).tolist()]
      [0.068, 0.667]
    """
    elements = prepare(logits, labels, where, class_axis, multi_label)
    y, (log_p, log_q) = elements.targets, log_probabilities(elements)
    # p - y without the cancellation of p and 1.
    squares = ((1 - y) * jnp.exp(log_p) - y * jnp.exp(log_q)) ** 2
    if elements.form == "softmax":
        return elements.mask(jnp.sum(squares, axis=-1))
    return elements.mask(2 * squares)
