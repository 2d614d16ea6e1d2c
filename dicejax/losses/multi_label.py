"""Losses for elements with several labels, each a rare yes among many noes."""

import jax
import jax.numpy as jnp
from jax import Array

from dicejax.losses.contract import (
    BELOW_ONE,
    NON_NEGATIVE,
    POSITIVE,
    Bounds,
    loss,
)
from dicejax.losses.elements import prepare
from dicejax.losses.elementwise import elementwise
from dicejax.losses.probabilities import LOG_ZERO, log1p, log_sigmoid

_HUGE = 1e30


@loss(
    multi_label=True,
    gamma_positive=NON_NEGATIVE,
    gamma_negative=NON_NEGATIVE,
    margin=BELOW_ONE,
)
def asymmetric(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    class_axis: int | None = -1,
    gamma_positive: float | Array = 1.0,
    gamma_negative: float | Array = 4.0,
    margin: float | Array = 0.05,
) -> Array:
    r"""Asymmetric loss (ASL): focal, but negatives fade faster, and end at a margin.

    .. math::
        L = -y (1 - p)^{\gamma_+} \log p
        - (1 - y) p_m^{\gamma_-} \log(1 - p_m), \qquad p_m = \max(p - m, 0)

    Negatives with p below m give nothing at all.

    Args:
      labels: 0 or 1 as integers or bools, or float probabilities, shaped like the
        logits; -100 masks one entry.
      gamma_positive: exponent for positives.
      gamma_negative: exponent for negatives.
      margin: m, in [0, 1). With margin 0 and equal exponents it is `focal`.

    Returns:
      Floats `[..., C]`, `[...]` in the binary form, 0 where masked.

    Source: Ridnik et al., ICCV 2021, eq. 7 (https://arxiv.org/abs/2009.14119).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import asymmetric
      >>> losses = asymmetric(jnp.array([[2.0, 2.0, -4.0]]), jnp.array([[1, 0, 0]]))
      >>> [round(x, 3) for x in losses[0].tolist()]
      [0.015, 0.846, 0.0]
    """
    elements = prepare(logits, labels, where, class_axis, multi_label=True)
    z, y = elements.logits, elements.labels
    settings = (gamma_positive, gamma_negative, margin)
    if elements.hard:
        return elements.mask(_asymmetric(z, y == 1, *settings))
    of_1 = _asymmetric(z, jnp.ones(z.shape, bool), *settings)
    of_0 = _asymmetric(z, jnp.zeros(z.shape, bool), *settings)
    return elements.mask(y * of_1 + (1 - y) * of_0)


@elementwise
def _asymmetric(
    z: Array, is_1: Array, gamma_positive: Array, gamma_negative: Array, margin: Array
) -> Array:
    """The loss of hard labels, by two exponentials and two logarithms an entry."""
    p, size = jax.nn.sigmoid(z), jnp.abs(z)
    small = jnp.exp(-size)
    # log p and log(1 - p) are differences from log(1 + small). With a margin, negatives
    # need other logs: of p_m and of 1 - p_m.
    shifted = ~is_1 & (margin > 0)
    is_off = shifted & (p <= margin)
    left = jnp.where(is_off, 1, p - margin)
    base = jnp.where(shifted, jnp.log(jnp.where(shifted, left, 1)), log1p(small))
    # Not minima: at z = 0 their slopes would be 1 or 0.
    log_p, log_q = (z - size) / 2 - base, (-z - size) / 2 - base
    log_rest = jnp.log(jnp.where(shifted & ~is_off, 1 - left, 1))
    power = jnp.where(is_1, gamma_positive * log_q, gamma_negative * log_p)
    power = jnp.where(shifted, gamma_negative * base, power)
    likelihood = jnp.where(is_1, log_p, jnp.where(shifted, log_rest, log_q))
    return jnp.where(is_off, 0, -jnp.exp(power) * likelihood)


@loss(multi_label=True)
def zlpr(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    class_axis: int = -1,
) -> Array:
    r"""Zero-bounded log-sum-exp and pairwise rank-based loss.

    .. math::
        L = \log\left(1 + \sum_{c: y_c = 0} e^{z_c}\right)
        + \log\left(1 + \sum_{c: y_c = 1} e^{-z_c}\right)

    Ranks every positive over 0 and every negative below, so 0 is the threshold and any
    number of labels may be predicted; no class drowns in the number of negatives. For
    soft labels t the terms weigh 1 - t and t.

    Args:
      labels: 0 or 1 as integers or bools, or float probabilities, shaped like the
        logits; an entry of -100 is left out of both sums.

    Returns:
      Floats `[...]`, one per element, 0 where masked.

    Source: Su et al., 2022, eq. 13 (https://arxiv.org/abs/2208.02955).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import zlpr
      >>> losses = zlpr(jnp.array([[3.0, -3.0, -3.0]]), jnp.array([[1, 0, 0]]))
      >>> [round(x, 3) for x in losses.tolist()]
      [0.144]
    """
    if class_axis is None:
        raise ValueError("class_axis is None but zlpr ranks the classes of an element")
    elements = prepare(logits, labels, where, class_axis, multi_label=True)
    z, y = elements.logits, elements.targets
    if not elements.hard:  # exponents that weigh: w e^z = e^(z + log w)
        of_0 = jnp.where(elements.where, z + _log(1 - y), LOG_ZERO)
        of_1 = jnp.where(elements.where, -z + _log(y), LOG_ZERO)
        return _log_one_plus_sum(of_0) + _log_one_plus_sum(of_1)
    sign = jnp.where(elements.where, 1 - 2 * y, 0)
    return _ranked(z, sign)


@jax.custom_vjp
def _ranked(z: Array, sign: Array) -> Array:
    """The loss of hard labels: sign 1 for negatives, -1 for positives, 0 for none."""
    return sum(_sums_of_signs(z, sign))


def _sums_of_signs(z: Array, sign: Array) -> tuple[Array, Array]:
    of_0 = _log_one_plus_sum(jnp.where(sign > 0, z, LOG_ZERO))
    of_1 = _log_one_plus_sum(jnp.where(sign < 0, -z, LOG_ZERO))
    return of_0, of_1


def _ranked_forward(z, sign):
    sums = _sums_of_signs(z, sign)
    return sum(sums), (z, sign, *sums)


def _ranked_backward(residuals, cotangent):
    z, sign, of_0, of_1 = residuals
    log_sum = jnp.where(sign > 0, of_0[..., None], of_1[..., None])
    share = sign * jnp.exp(-jnp.maximum(log_sum - sign * z, 0))
    return cotangent[..., None] * share, None


_ranked.defvjp(_ranked_forward, _ranked_backward)


def _log(weights: Array) -> Array:
    nothing = weights <= 0
    return jnp.where(nothing, LOG_ZERO, jnp.log(jnp.where(nothing, 1, weights)))


def _log_one_plus_sum(exponents: Array) -> Array:
    top = jnp.maximum(jnp.max(exponents, axis=-1, keepdims=True), 0)
    top = jax.lax.stop_gradient(top)
    sums = jnp.sum(jnp.exp(exponents - top), axis=-1)
    return top[..., 0] + jnp.log(jnp.exp(-top[..., 0]) + sums)


@loss(
    multi_label=True,
    positives=Bounds(0.0, float("inf"), "label", low_inside=False),
    total=POSITIVE,
    alpha=NON_NEGATIVE,
    beta=NON_NEGATIVE,
    mu=NON_NEGATIVE,
    kappa=NON_NEGATIVE,
    scale=POSITIVE,
)
def distribution_balanced(
    logits: Array,
    labels: Array,
    *,
    positives: Array,
    total: float | Array,
    where: Array | None = None,
    class_axis: int = -1,
    alpha: float | Array = 0.1,
    beta: float | Array = 10.0,
    mu: float | Array = 0.3,
    kappa: float | Array = 0.05,
    scale: float | Array = 2.0,
) -> Array:
    r"""Distribution-balanced loss: weights for label co-occurrence, tolerant negatives.

    .. math::
        L_c &= \hat r_c \left[ y_c \log(1 + e^{-(z_c - \nu_c)})
        + \frac{1 - y_c}{\lambda} \log(1 + e^{\lambda (z_c - \nu_c)}) \right] \\
        \hat r_c &= \alpha + \sigma(\beta (r_c - \mu)), \quad
        r_c = \frac{1 / n_c}{\sum_{j: y_j = 1} 1 / n_j}, \quad
        \nu_c = \kappa \log\left(\frac{N}{n_c} - 1\right)

    An element with several labels would be drawn once for each of them if classes were
    balanced by sampling: r takes that back. Elements without a label have r infinite.

    Args:
      labels: 0 or 1 as integers or bools, shaped like the logits; -100 masks one entry.
      positives: n, floats `[C]`: how many elements have each class.
      total: N, how many elements there are; more than any of the positives.
      alpha: lower end of the weights.
      beta: how steeply the weight rises around mu.
      mu: the r of half weight.
      kappa: strength of the shift by class frequency; 0 for none.
      scale: lambda, by which the slope of negatives is delayed; 1 for none.

    Returns:
      Floats `[..., C]`, 0 where masked; the paper divides their sum by C.

    Source: Wu et al., ECCV 2020, eq. 4 to 9 (https://arxiv.org/abs/2007.09654).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import distribution_balanced
      >>> logits, labels = jnp.zeros((1, 2)), jnp.array([[1, 0]])
      >>> losses = distribution_balanced(
      ...     logits, labels, positives=jnp.array([10.0, 400.0]), total=1000.0
      ... )
      >>> [round(x, 3) for x in losses[0].tolist()]
      [0.895, 0.054]
    """
    if class_axis is None:
        raise ValueError("class_axis is None but the classes of an element are weighed")
    elements = prepare(logits, labels, where, class_axis, multi_label=True)
    z, labels, y = elements.logits, elements.labels, elements.targets
    # A class that every element has: as if half an element lacked it.
    shift = kappa * jnp.log(jnp.maximum(total - positives, 0.5) / positives)
    rates = 1 / positives
    settings = (_drawn(y, rates), rates, shift, scale, alpha, beta, mu)
    if elements.hard:
        return elements.mask(_balanced(z, labels == 1, *settings))
    of_1 = _balanced(z, jnp.ones(z.shape, bool), *settings)
    of_0 = _balanced(z, jnp.zeros(z.shape, bool), *settings)
    return elements.mask(y * of_1 + (1 - y) * of_0)


def _drawn(targets: Array, rates: Array) -> Array:
    """1 / sum of the rates of an element's classes; huge where it has none."""
    highest = jax.lax.Precision.HIGHEST
    drawn = jnp.matmul(targets, rates[:, None], precision=highest)
    return jnp.where(drawn > 0, 1 / jnp.where(drawn > 0, drawn, 1), _HUGE)


@elementwise
def _balanced(
    z: Array,
    is_1: Array,
    drawn: Array,
    rates: Array,
    shift: Array,
    scale: Array,
    alpha: Array,
    beta: Array,
    mu: Array,
) -> Array:
    """The loss of hard labels."""
    # A sigmoid, by a tanh that costs half as much.
    rise = jnp.tanh(beta / 2 * (drawn * rates - mu))
    logs = log_sigmoid(jnp.where(is_1, z - shift, scale * (shift - z)))
    return -(alpha + (1 + rise) / 2) * logs * jnp.where(is_1, 1, 1 / scale)
