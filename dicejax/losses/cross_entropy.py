"""Cross-entropy and its nearest variants: the baseline of every comparison."""

import jax.numpy as jnp
from jax import Array

from dicejax.losses.contract import CLASS_WEIGHTS, UNIT_INTERVAL, Bounds, loss
from dicejax.losses.elements import Elements, prepare
from dicejax.losses.probabilities import over_labels


@loss(label_smoothing=UNIT_INTERVAL, class_weights=CLASS_WEIGHTS)
def cross_entropy(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    class_axis: int | None = -1,
    multi_label: bool = False,
    label_smoothing: float | Array | None = None,
    class_weights: Array | None = None,
) -> Array:
    r"""Cross-entropy of each element, in nats, not reduced.

    .. math::
        L = -\sum_c w_c \tilde y_c \log p_c, \qquad
        \tilde y_c = (1 - \varepsilon) y_c + \varepsilon / C

    with p the softmax of the logits. In the binary and the multi-label form p is the
    sigmoid, C is 2 and the sum runs over the two outcomes, 1 - p and p.

    Weights made from counts are in `class_weights`.

    Args:
      label_smoothing: epsilon, in [0, 1]; None, which costs less than 0, for none.

    Returns:
      Floats `[...]`, `[..., C]` in the multi-label form, 0 where masked; float32, or
      float64 for float64 logits.

    Source: Li et al., ACL 2020, eq. 1, and eq. 2 with weights
    (https://aclanthology.org/2020.acl-main.45). Label smoothing: Szegedy et al., CVPR
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
    if label_smoothing is None:
        return over_labels(elements, _minus_log_p, class_weights)
    classes = logits.shape[class_axis] if elements.form == "softmax" else 2
    smoothed = (1 - label_smoothing) * elements.targets + label_smoothing / classes
    elements = elements._replace(labels=smoothed, hard=False)
    return over_labels(elements, _minus_log_p, class_weights)


def _minus_log_p(log_p: Array, log_q: Array) -> Array:
    return -log_p


@loss(epsilon=Bounds(-1.0, float("inf")))
def poly(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    class_axis: int | None = -1,
    multi_label: bool = False,
    epsilon: float | Array = 1.0,
) -> Array:
    r"""Poly-1 loss: cross-entropy with another first term of its Taylor series.

    .. math:: L = \sum_c y_c \left( -\log p_c + \varepsilon (1 - p_c) \right)

    Args:
      epsilon: in [-1, inf). Over 0 it pushes on where p is close to 1 already, below 0
        it lets go; 0 is cross-entropy.

    Returns:
      Floats `[...]`, `[..., C]` in the multi-label form, 0 where masked.

    Source: Leng et al., ICLR 2022, eq. 6 (https://arxiv.org/abs/2204.12511).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import poly
      >>> logits = jnp.array([[2.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
      >>> [round(x, 3) for x in poly(logits, jnp.array([0, 2])).tolist()]
      [0.453, 1.765]
    """
    elements = prepare(logits, labels, where, class_axis, multi_label)

    return over_labels(elements, lambda log_p, log_q: -log_p + epsilon * jnp.exp(log_q))


@loss(weight=UNIT_INTERVAL)
def majority_or_minority(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    class_axis: int | None = -1,
    majority_class: int = 0,
    weight: float | Array = 0.5,
) -> Array:
    r"""Majority-or-minority loss: the majority class, O in tagging, counts once more.

    .. math::
        L = \lambda \, \mathrm{CE} + (1 - \lambda) \, [y = \mathrm{majority}] \,
        \mathrm{CE}

    Elements of the majority keep their cross-entropy and the others weigh lambda, so
    that entities are not bought with false alarms.

    Args:
      majority_class: label of the majority.
      weight: lambda, in [0, 1]; 1 is cross-entropy.

    Returns:
      Floats `[...]`, 0 where masked. Labels must be integers.

    Source: Nemoto et al., IEEE Access 2025 (https://arxiv.org/abs/2401.11431).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import majority_or_minority
      >>> losses = majority_or_minority(jnp.zeros((2, 3)), jnp.array([0, 2]))
      >>> [round(x, 3) for x in losses.tolist()]
      [1.099, 0.549]
    """
    elements = prepare(logits, labels, where, class_axis)
    require_integers(elements)
    classes = logits.shape[class_axis] if elements.form == "softmax" else 2
    if not 0 <= majority_class < classes:
        raise ValueError(
            f"majority_class is {majority_class} but there are {classes} classes"
        )
    losses = over_labels(elements, _minus_log_p)
    return losses * jnp.where(elements.labels == majority_class, 1, weight)


def require_integers(elements: Elements) -> None:
    """Raises a ValueError for soft labels."""
    if not elements.hard:
        raise ValueError("labels are floats but this loss wants integers")
