"""Cross entropy, the baseline against which the other losses are compared."""

import jax.numpy as jnp
from jax import Array

from dicejax.losses.contract import CLASS_WEIGHTS, UNIT_INTERVAL, loss, prepare
from dicejax.losses.probabilities import log_probabilities


@loss(label_smoothing=UNIT_INTERVAL, class_weights=CLASS_WEIGHTS)
def cross_entropy(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    class_axis: int | None = -1,
    label_smoothing: float | Array = 0.0,
    class_weights: Array | None = None,
) -> Array:
    r"""Cross entropy of each element, in nats, not reduced.

    .. math::
        L = -\sum_c w_c \tilde y_c \log p_c, \qquad
        \tilde y_c = (1 - \varepsilon) y_c + \varepsilon / C

    with p the softmax of the logits. In the binary form p is the sigmoid and the sum
    runs over the two classes with probabilities 1 - p and p.

    Args:
        logits: finite floats `[..., C]`, or `[...]` in the binary form.
        labels: integers `[...]` in 0..C-1 (0 or 1 in the binary form; -100 is masked),
            or float probabilities shaped like the logits.
        where: bool `[...]`; False masks an element, whatever its logits and label.
        class_axis: the axis of the logits that holds the classes; None for the binary
            form, which has none.
        label_smoothing: epsilon, in [0, 1].
        class_weights: w, floats `[C]`; `[2]` in the binary form. None weighs all 1. The
            result is not divided by the sum of the weights.

    Returns:
        Floats `[...]`, 0 where masked; float32, or float64 for float64 logits. A label
        out of range that is known only at run time (under jit) counts as no class, a
        row of zeros for y; in the binary form as class 0.

    Raises:
        ValueError: if shapes do not fit, if a known label is out of range, or if a
            known hyper-parameter is.

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
    elements = prepare(logits, labels, where, class_axis)
    log_p, log_q = log_probabilities(elements)
    targets, classes = elements.targets, 2 if elements.binary else log_p.shape[-1]
    targets = (1 - label_smoothing) * targets + label_smoothing / classes
    if elements.binary:
        weight_0, weight_1 = (1, 1) if class_weights is None else class_weights
        losses = -(weight_1 * targets * log_p + weight_0 * (1 - targets) * log_q)
    else:
        weights = 1 if class_weights is None else class_weights
        losses = -jnp.sum(weights * targets * log_p, axis=-1)
    return elements.mask(losses)
