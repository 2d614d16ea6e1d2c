"""Cross-entropy and its nearest variants: the baseline of every comparison."""

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp
from jax import Array

from dicejax.losses import class_weights as schemes
from dicejax.losses.contract import loss
from dicejax.losses.declaration import (
    CLASS_COUNTS,
    CLASS_WEIGHTS,
    FOCUSING,
    OF_SCHEMES,
    UNIT_INTERVAL,
    Bounds,
    Scheme,
)
from dicejax.losses.elements import Elements, over_labels, prepare

# Not tuned: label smoothing is a separate loss in a comparison.
SMOOTHING = dataclasses.replace(UNIT_INTERVAL, off=0.0)
_EPSILON = Bounds(-1.0, float("inf")).tuned(
    -1.0, 5.0, why="from the smallest allowed to six times the slope near p = 1"
)


@loss("ce", kind="pointwise", label_smoothing=SMOOTHING, class_weights=CLASS_WEIGHTS)
def cross_entropy(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    class_axis: int | None = -1,
    multi_label: bool = False,
    label_smoothing: float | Array = 0.0,
    class_weights: Array | None = None,
) -> Array:
    r"""Cross-entropy of each element: the usual loss of a classifier.

    .. math::
        L = -\sum_c w_c \tilde y_c \log p_c, \qquad
        \tilde y_c = (1 - \varepsilon) y_c + \varepsilon / C

    with p the softmax of the logits. In the binary and the multi-label form p is the
    sigmoid, C is 2 and the sum runs over the two outcomes, 1 - p and p.

    Use it as the baseline, with `class_weights` (the paper's WCE) or `label_smoothing`.

    Pitfalls: Early gradients are proportional to class counts, so rare classes are
    learned late. The loss is not divided by the sum of the weights, so they change its
    size. It is infinite where the gold class has a logit of -inf, and with smoothing
    where any class has.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      multi_label: whether labels are 0 or 1 for each class `[..., C]`, for a sigmoid.
      label_smoothing: epsilon, in [0, 1]: part of the target spread over all classes.
      class_weights: w, floats `[C]`; `[2]` in the binary form, `[C, 2]` (of 0 and 1) in
        the multi-label form. None weighs all 1. Nothing is divided by their sum.

    Returns:
      Floats in nats, `[...]`, or `[..., C]` in the multi-label form, 0 where masked;
      float32, or float64 for float64 logits.

    Raises:
      ValueError: if a shape, axis, known label or hyper-parameter is out of range.

    Source: Li et al., ACL 2020, eq. 1, and eq. 2 with weights
    (https://arxiv.org/abs/1911.02855v1). Label smoothing: Szegedy et al., CVPR
    2016, section 7.

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import cross_entropy
      >>> logits = jnp.array([[2.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
      >>> [round(x, 3) for x in cross_entropy(logits, jnp.array([0, 2])).tolist()]
      [0.24, 1.099]
      >>> [round(x, 3) for x in cross_entropy(logits, jnp.array([0, -100])).tolist()]
      [0.24, 0.0]
    """
    elements = prepare(logits, labels, where, class_axis, multi_label)
    return _smoothed(elements, label_smoothing, class_weights)


def _smoothed(
    elements: Elements,
    label_smoothing: float | Array | None,
    class_weights: Array | None,
) -> Array:
    if label_smoothing is not None:
        classes = elements.logits.shape[-1] if elements.form == "softmax" else 2
        y = (1 - label_smoothing) * elements.targets + label_smoothing / classes
        elements = elements._replace(labels=y, hard=False)
    return over_labels(elements, _minus_log_p, class_weights)


def _minus_log_p(log_p: Array, log_q: Array) -> Array:
    return -log_p


@loss(
    "wce",
    kind="pointwise",
    class_counts=CLASS_COUNTS,
    label_smoothing=SMOOTHING,
    **OF_SCHEMES,
)
def weighted_cross_entropy(
    logits: Array,
    labels: Array,
    *,
    class_counts: Array,
    where: Array | None = None,
    class_axis: int | None = -1,
    multi_label: bool = False,
    scheme: Scheme = "log_ratio",
    k: float | Array = 1.0,
    beta: float | Array = 0.999,
    label_smoothing: float | Array = 0.0,
) -> Array:
    r"""Cross-entropy of each element, with class weights made from counts.

    .. math:: L = -\sum_c w_c(n) \tilde y_c \log p_c

    At its defaults it is the weighted CE of Li et al., ACL 2020 (the preset `wce`).

    Use it when rare classes are missed and the metric rewards recall.

    Pitfalls: Weights trade precision for recall. With K = 1 a class of nearly all
    elements weighs nearly 0. The loss is not divided by the sum of the weights, so they
    change its size. Infinite where `cross_entropy` is.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      class_counts: positive floats `[C]`, counts of the classes or proportional to
        them; `[2]` in the binary form, `[C, 2]` (of 0 and 1) in the multi-label form.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      multi_label: whether labels are 0 or 1 for each class `[..., C]`, for a sigmoid.
      scheme: a function of `class_weights`; "log_ratio" is the paper's.
      k: the K of "log_ratio", at least 1.
      beta: the beta of "effective_number", in [0, 1).
      label_smoothing: epsilon, in [0, 1]: part of the target spread over all classes.

    Returns:
      Floats `[...]`, `[..., C]` in the multi-label form, 0 where masked.

    Raises:
      ValueError: if a shape, axis, known label or hyper-parameter is out of range.

    Source: Li et al., ACL 2020, eq. 2 (https://arxiv.org/abs/1911.02855v1).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import weighted_cross_entropy
      >>> counts = jnp.array([90.0, 10.0])
      >>> logits, labels = jnp.zeros((2, 2)), jnp.array([0, 1])
      >>> losses = weighted_cross_entropy(logits, labels, class_counts=counts)
      >>> [round(x, 3) for x in losses.tolist()]
      [0.032, 0.693]
    """
    elements = prepare(logits, labels, where, class_axis, multi_label)
    weights = schemes.from_counts(class_counts, scheme=scheme, k=k, beta=beta)
    # The weights are float64 under `jax_enable_x64`.
    weights = weights.astype(elements.logits.dtype)
    return _smoothed(elements, label_smoothing, weights)


@loss(kind="pointwise", epsilon=_EPSILON)
def poly(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    class_axis: int | None = -1,
    multi_label: bool = False,
    epsilon: float | Array = 1.0,
) -> Array:
    r"""Poly-1 loss: cross-entropy with its first polynomial term reweighted.

    .. math:: L = \sum_c y_c \left( -\log p_c + \varepsilon (1 - p_c) \right)

    Use it to push confident elements more (:math:`\varepsilon` over 0) or less, with
    one hyper-parameter.

    Pitfalls: With :math:`\varepsilon = -1` the slope is :math:`-(1 - p)^2`, and
    training stalls early. Below -1 the loss would rise towards p = 1: refused.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      multi_label: whether labels are 0 or 1 for each class `[..., C]`, for a sigmoid.
      epsilon: in [-1, inf); above 0 the slope near p = 1 is steeper, below 0 flatter.

    Returns:
      Floats `[...]`, `[..., C]` in the multi-label form, 0 where masked.

    Raises:
      ValueError: if a shape, axis, known label or hyper-parameter is out of range.

    Source: Leng et al., ICLR 2022, eq. 6 (https://arxiv.org/abs/2204.12511).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import poly
      >>> logits = jnp.array([[2.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
      >>> [round(x, 3) for x in poly(logits, jnp.array([0, 2])).tolist()]
      [0.453, 1.765]
    """
    elements = prepare(logits, labels, where, class_axis, multi_label)
    return over_labels(
        elements, lambda log_p, log_q: -log_p - epsilon * jnp.expm1(log_p)
    )


@loss(
    kind="pointwise",
    gamma=FOCUSING,
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
    stop_gradient_weight: bool = False,
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
    are off. Mislabelled elements stay hard and dominate. Infinite where `cross_entropy`
    is.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
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
      stop_gradient_weight: whether :math:`(1-p)^\gamma` is a constant for gradients.
        False as in the paper, whose gradient has its slope.

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
    elements = prepare(logits, labels, where, class_axis, multi_label)
    if scheme != "none":
        if class_counts is None or class_weights is not None:
            raise ValueError(f"scheme is {scheme!r} and wants class_counts, no weights")
        class_weights = schemes.from_counts(class_counts, scheme=scheme, k=k, beta=beta)

    def value(log_p: Array, log_q: Array) -> Array:
        log_weight = gamma * log_q
        if stop_gradient_weight:
            log_weight = jax.lax.stop_gradient(log_weight)
        return -jnp.exp(log_weight) * log_p

    return over_labels(elements, value, class_weights)


@loss(kind="pointwise", gamma=FOCUSING, epsilon=_EPSILON)
def poly_focal(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    class_axis: int | None = -1,
    multi_label: bool = False,
    gamma: float | Array = 2.0,
    epsilon: float | Array = 1.0,
) -> Array:
    r"""Poly-1 focal loss: focal loss with its first polynomial term reweighted.

    .. math::
        L = \sum_c y_c \left( -(1 - p_c)^\gamma \log p_c
        + \varepsilon (1 - p_c)^{\gamma + 1} \right)

    Near p = 1 it is :math:`(1 + \varepsilon)` times `focal`; with :math:`\gamma = 0` it
    is `poly`.

    Use it to give focal loss back some slope at easy elements (:math:`\varepsilon` over
    0), or to take the rest of it away, as its authors do in detection.

    Pitfalls: As of `focal`, its optimum is not the true probability. With
    :math:`\varepsilon = -1` the first term is gone, so that training stalls early.
    Below -1 the loss would rise towards p = 1: refused.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      multi_label: whether labels are 0 or 1 for each class `[..., C]`, for a sigmoid.
      gamma: focusing exponent: 0 is `poly`, more down-weights easy elements.
      epsilon: in [-1, inf); 0 is `focal`.

    Returns:
      Floats `[...]`, `[..., C]` in the multi-label form, 0 where masked.

    Raises:
      ValueError: if a shape, axis, known label or hyper-parameter is out of range.

    Source: Leng et al., ICLR 2022 (https://arxiv.org/abs/2204.12511), Poly-1 of the
    focal loss; without its alpha.

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import poly_focal
      >>> logits = jnp.array([[2.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
      >>> [round(x, 3) for x in poly_focal(logits, jnp.array([0, 2])).tolist()]
      [0.021, 0.785]
    """
    elements = prepare(logits, labels, where, class_axis, multi_label)

    def value(log_p: Array, log_q: Array) -> Array:
        return jnp.exp(gamma * log_q) * (epsilon * jnp.exp(log_q) - log_p)

    return over_labels(elements, value)


@loss(
    "mom",
    kind="pointwise",
    weight=UNIT_INTERVAL.tuned(
        0.1, 1.0, why="to cross-entropy's 1; at 0 minorities have no gradient"
    ),
)
def majority_or_minority(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    class_axis: int | None = -1,
    weight: float | Array = 0.5,
    majority_class: int = 0,
) -> Array:
    r"""Majority-or-minority loss: more weight for the majority class, O in tagging.

    .. math::
        L = \lambda \, \mathrm{CE} + (1 - \lambda) \, [y = \mathrm{majority}] \,
        \mathrm{CE}

    Elements of the majority class weigh 1 and the others lambda, which reduces false
    positives.

    Use it when a tagger predicts entities where there are none.

    Pitfalls: With :math:`\lambda = 0` elements of minority classes have no gradient. It
    harms if entities are missed rather than invented. Integer labels only.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      weight: lambda, in [0, 1]; 1 is cross-entropy.
      majority_class: label of the majority, O in tagging; multi-label, 0 for negatives.

    Returns:
      Floats `[...]`, 0 where masked. Labels must be integers.

    Raises:
      ValueError: if a shape, axis, known label or hyper-parameter is out of range.

    Source: Nemoto et al., IEEE Access 2025 (https://arxiv.org/abs/2401.11431).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import majority_or_minority
      >>> losses = majority_or_minority(jnp.zeros((2, 3)), jnp.array([0, 2]))
      >>> [round(x, 3) for x in losses.tolist()]
      [1.099, 0.549]
    """
    elements = prepare(logits, labels, where, class_axis)
    elements.require_integers()
    classes = elements.logits.shape[-1] if elements.form == "softmax" else 2
    if not 0 <= majority_class < classes:
        raise ValueError(
            f"majority_class is {majority_class} but there are {classes} classes"
        )
    weights = jnp.where(jnp.arange(classes) == majority_class, 1, weight)
    return over_labels(elements, _minus_log_p, weights)
