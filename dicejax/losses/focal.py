"""Focal loss: down-weights well-classified elements."""

from typing import Literal

import jax.numpy as jnp
from jax import Array

from dicejax.losses import class_weights as schemes
from dicejax.losses.contract import loss
from dicejax.losses.declaration import (
    CLASS_COUNTS,
    CLASS_WEIGHTS,
    NON_NEGATIVE,
    OF_SCHEMES,
    Scheme,
)
from dicejax.losses.elements import prepare
from dicejax.losses.probabilities import over_labels


@loss(
    kind="pointwise",
    gamma=NON_NEGATIVE.tuned(0.0, 5.0, why="what Lin et al. 2017 try"),
    class_weights=CLASS_WEIGHTS,
    class_counts=CLASS_COUNTS,
    **OF_SCHEMES,
)
def focal(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    class_axis: int | None = -1,
    multi_label: bool = False,
    gamma: float | Array = 2.0,
    class_weights: Array | None = None,
    scheme: Literal["none", Scheme] = "none",
    k: float | Array = 1.0,
    beta: float | Array = 0.999,
    class_counts: Array | None = None,
) -> Array:
    r"""Focal loss of each element.

    .. math:: L = -\sum_c y_c w_c (1 - p_c)^\gamma \log p_c

    with p the softmax of the logits. In the binary and the multi-label form p is the
    sigmoid and the sum runs over the two outcomes, 1 - p and p. The alpha of RetinaNet
    is `class_weights=[1 - alpha, alpha]`; `scheme` makes weights from `class_counts`.
    At its defaults it is the FL of Li et al., ACL 2020 (the preset `fl`).

    Use it when many easy elements dominate few hard ones.

    Pitfalls: Its optimum is not the true probability: at :math:`\gamma = 2` an element
    that is positive 9 times in 10 is trained to p = 0.69, so thresholds and calibration
    are off. Mislabelled elements stay hard and dominate.

    Args:
      logits: finite floats `[..., C]`, or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      multi_label: whether labels are 0 or 1 for each class `[..., C]`, for a sigmoid.
      gamma: focusing exponent: 0 is cross-entropy, more down-weights easy elements.
      class_weights: w, floats `[C]`; `[2]` in the binary form, `[C, 2]` (of 0 and 1) in
        the multi-label form. None weighs all 1. Nothing is divided by their sum.
      scheme: a function of `class_weights`; "none" needs no class counts.
      k: the K of "log_ratio", at least 1.
      beta: the beta of "effective_number", in [0, 1).
      class_counts: positive floats like the class weights, for `scheme`.

    Returns:
      Floats `[...]`, `[..., C]` in the multi-label form, 0 where masked.

    Raises:
      ValueError: if a shape, axis, known label or hyper-parameter is out of range.

    Source: Lin et al., ICCV 2017, eq. 4 and 5 (https://arxiv.org/abs/1708.02002).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import focal
      >>> logits = jnp.array([[2.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
      >>> [round(x, 3) for x in focal(logits, jnp.array([0, 2])).tolist()]
      [0.011, 0.488]
      >>> round(float(focal(jnp.array(2.0), jnp.array(0), class_axis=None)), 3)
      1.65
    """
    if scheme != "none":
        if class_counts is None or class_weights is not None:
            raise ValueError(f"scheme is {scheme!r} and wants class_counts, no weights")
        class_weights = schemes.from_counts(class_counts, scheme=scheme, k=k, beta=beta)
    elements = prepare(logits, labels, where, class_axis, multi_label)

    def value(log_p: Array, log_q: Array) -> Array:
        return -jnp.exp(gamma * log_q) * log_p

    return over_labels(elements, value, class_weights)
