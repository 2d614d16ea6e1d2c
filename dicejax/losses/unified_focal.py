"""Unified focal loss: focal cross-entropy and focal Tversky with shared weights."""

from typing import Literal

import jax.numpy as jnp
from jax import Array
from jax.nn import log_sigmoid

from dicejax.losses.contract import loss
from dicejax.losses.declaration import BELOW_ONE, NON_NEGATIVE, UNIT_INTERVAL, Absent
from dicejax.losses.elements import Elements, gold_logit, if_impossible, prepare
from dicejax.losses.overlap import count
from dicejax.losses.tversky import power, tversky_of

Variant = Literal["asymmetric", "symmetric"]


@loss(
    kind="set",
    weight=UNIT_INTERVAL.tuned(0.1, 0.9, why="a mixture of both its parts"),
    delta=UNIT_INTERVAL.tuned(0.5, 0.9, why="from even to nearly all for rare classes"),
    gamma=BELOW_ONE.tuned(0.1, 0.9, why="inside [0, 1), where it is defined"),
    smooth=NON_NEGATIVE,
)
def unified_focal(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    axis: int | tuple[int, ...] | None = None,
    class_axis: int | None = -1,
    weight: float | Array = 0.5,
    delta: float | Array = 0.6,
    gamma: float | Array = 0.5,
    smooth: float | Array = 1e-6,
    variant: Variant = "asymmetric",
    background: int = 0,
    absent: Absent = "smooth",
    axis_name: str | tuple[str, ...] | None = None,
) -> Array:
    r"""Unified focal loss of a set: one value for all classes.

    .. math::
        L = \lambda F + (1 - \lambda) T, \qquad
        \mathrm{TI}_c = \frac{I_c + \epsilon}
        {I_c + \delta \mathrm{FN}_c + (1 - \delta) \mathrm{FP}_c + \epsilon}

    Symmetric: F is the mean over elements of
    :math:`-\delta (1 - p_y)^{1 - \gamma} \log p_y` and T the mean over classes of
    :math:`(1 - \mathrm{TI}_c)^\gamma`. Asymmetric: only the background fades in F,
    :math:`-(1 - \delta)(1 - p_y)^\gamma \log p_y`, the others have
    :math:`-\delta \log p_y`; and only the others are enhanced in T,
    :math:`(1 - \mathrm{TI}_c)^{1 - \gamma}`, the background has
    :math:`1 - \mathrm{TI}_c`. The binary form has the classes 0 and 1.

    Use it to combine CE's slope at the start with an overlap loss at the end.

    Pitfalls: `variant="symmetric"` with :math:`\gamma = 0`: T is a constant. A class
    without gold adds about :math:`(1 - \lambda) / C` without gradient unless
    `absent="skip"`. Defaults are tuned on images. Integer labels only.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      axis: label axes that form a set. None: all; `()`: each element; -1: each row.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      weight: lambda, the share of F.
      delta: weight of false negatives, and of all but the background in F.
      gamma: in [0, 1): strength of fading and of enhancing.
      smooth: added to numerator and denominator, in counts: weighs less in large sets.
      variant: "asymmetric" or "symmetric".
      background: label of the frequent class, O in tagging.
      absent: loss of a class without gold: "smooth" by its false positives, "skip" 0.
      axis_name: `shard_map` axes that the set is spread over; not needed under `jit`.

    Returns:
      Floats, the label axes that `axis` does not name. A fully masked set gives 0.
      Labels must be integers.

    Raises:
      ValueError: if a shape, axis, known label or hyper-parameter is out of range.

    Source: Yeung et al., Computerized Medical Imaging and Graphics 2022, eq. 11 to 14
    (https://arxiv.org/abs/2102.04525). There gamma and 1 - gamma of the symmetric T
    are as here; in words it suppresses the background and enhances the rest.

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import unified_focal
      >>> logits = jnp.array([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
      >>> round(float(unified_focal(logits, jnp.array([0, 1, 1]))), 3)
      0.631
    """
    elements = prepare(logits, labels, where, class_axis, False, axis, axis_name)
    elements.require_integers()
    if elements.form == "binary":  # as a softmax over 0 and z
        z = elements.logits
        two = jnp.stack([jnp.zeros_like(z), z], axis=-1)
        elements = elements._replace(logits=two, form="softmax")
    classes = elements.logits.shape[-1]
    if not 0 <= background < classes:
        raise ValueError(f"background is {background} but there are {classes} classes")

    focal = _focal(elements, delta, gamma, variant, background)
    total, number = elements.total(focal, elements.where.astype(focal.dtype))
    tversky = tversky_of(
        count(elements), alpha=1 - delta, beta=delta, smooth=smooth, absent=absent
    )
    if variant == "symmetric":
        tversky = power(tversky, gamma)
    else:
        # A product, not a choice: that needs shards alike on an Explicit mesh.
        is_background = jnp.arange(classes) == background
        risen = power(tversky, 1 - gamma)
        tversky = risen + is_background * (tversky - risen)
    losses = weight * total / jnp.maximum(number, 1)
    losses += (1 - weight) * jnp.mean(tversky, axis=-1)
    return jnp.where(number > 0, losses, 0)


def _focal(
    elements: Elements,
    delta: float | Array,
    gamma: float | Array,
    variant: Variant,
    background: int,
) -> Array:
    gold = gold_logit(elements)
    log_p, log_q = log_sigmoid(gold), log_sigmoid(-gold)
    if variant == "symmetric":
        weights = delta * jnp.exp((1 - gamma) * log_q)
    else:
        fading = (1 - delta) * jnp.exp(gamma * log_q)
        weights = jnp.where(elements.labels == background, fading, delta)
    return elements.mask(-weights * log_p + if_impossible(log_p, weights))
