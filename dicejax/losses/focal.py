"""Focal loss: what is right already hardly counts."""

import jax.numpy as jnp
from jax import Array

from dicejax.losses.contract import CLASS_WEIGHTS, NON_NEGATIVE, loss
from dicejax.losses.elements import prepare
from dicejax.losses.probabilities import over_labels


@loss(gamma=NON_NEGATIVE, class_weights=CLASS_WEIGHTS)
def focal(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    class_axis: int | None = -1,
    multi_label: bool = False,
    gamma: float | Array = 2.0,
    class_weights: Array | None = None,
) -> Array:
    r"""Focal loss of each element.

    .. math:: L = -\sum_c y_c w_c (1 - p_c)^\gamma \log p_c

    with p the softmax of the logits. In the binary and the multi-label form p is the
    sigmoid and the sum runs over the two outcomes, 1 - p and p. The alpha of RetinaNet
    is `class_weights=[1 - alpha, alpha]`.

    Args:
      gamma: 0 is cross-entropy; the larger, the less an easy element counts.

    Returns:
      Floats `[...]`, `[..., C]` in the multi-label form, 0 where masked.

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

    def value(log_p, log_q):
        return -jnp.exp(gamma * log_q) * log_p

    return over_labels(elements, value, class_weights)
