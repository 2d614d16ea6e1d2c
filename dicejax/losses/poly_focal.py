"""Poly-1 focal loss: focal loss with its first polynomial term reweighted."""

import jax.numpy as jnp
from jax import Array

from dicejax.losses.contract import loss
from dicejax.losses.declaration import NON_NEGATIVE, Bounds
from dicejax.losses.elements import over_labels, prepare


@loss(
    kind="pointwise",
    gamma=NON_NEGATIVE.tuned(0.0, 5.0, why="what Lin et al. 2017 try"),
    epsilon=Bounds(-1.0, float("inf")).tuned(
        -1.0, 5.0, why="from the least allowed to a slope near p = 1 six times as steep"
    ),
)
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
