"""Losses for multi-label classification with rare positives."""

import jax
import jax.numpy as jnp
from jax import Array
from jax.nn import log_sigmoid, sigmoid, softplus
from jax.scipy.special import logsumexp

from dicejax.losses.class_weights import effective_number
from dicejax.losses.contract import loss
from dicejax.losses.declaration import (
    BELOW_ONE,
    CLASS_COUNTS,
    EFFECTIVE_BETA,
    FOCUSING,
    NON_NEGATIVE,
    POSITIVE,
)
from dicejax.losses.elements import (
    LOG_ZERO,
    if_impossible,
    log_probabilities,
    prepare,
)

_HUGE = 1e30


@loss(
    kind="pointwise",
    multi_label=True,
    gamma_negative=NON_NEGATIVE.tuned(
        0.0, 8.0, why="from no focusing to twice the usual 4"
    ),
    gamma_positive=NON_NEGATIVE.tuned(
        0.0, 2.0, why="from no focusing to twice the usual 1"
    ),
    margin=BELOW_ONE.tuned(
        0.0, 0.2, why="above this, uncertain negatives are left out"
    ),
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
    stop_gradient_weight: bool = False,
) -> Array:
    r"""Asymmetric loss (ASL): focal loss with faster decay and a margin for negatives.

    .. math::
        L = -y (1 - p)^{\gamma_+} \log p
        - (1 - y) p_m^{\gamma_-} \log(1 - p_m), \qquad p_m = \max(p - m, 0)

    Use it with many labels, most of them absent and some wrongly so.

    Pitfalls: Negatives under the margin have slope 0, so p is not a probability and the
    threshold must be tuned. With a margin a negative of p = 1 has slope 0 too:
    confident mistakes stay. Its authors train with weights that have no gradient
    (`stop_gradient_weight`): slopes differ by up to 0.4 of at most 1.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: 0 or 1, or float probabilities, like the logits; -100 masks one entry.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      gamma_positive: exponent for positives.
      gamma_negative: exponent for negatives.
      margin: m, in [0, 1). With margin 0 and equal exponents it is `focal`.
      stop_gradient_weight: whether :math:`(1-p)^{\gamma_+}` and :math:`p_m^{\gamma_-}`
        are constants for gradients, as in their authors' code by default. False is
        the gradient of the formula, which the paper's section 2.4 analyses.

    Returns:
      Floats `[..., C]`, `[...]` in the binary form, 0 where masked.

    Raises:
      ValueError: if a shape, axis, known label or hyper-parameter is out of range.

    Source: Ridnik et al., ICCV 2021, eq. 7 (https://arxiv.org/abs/2009.14119).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import asymmetric
      >>> losses = asymmetric(jnp.array([[2.0, 2.0, -4.0]]), jnp.array([[1, 0, 0]]))
      >>> [round(x, 3) for x in losses[0].tolist()]
      [0.015, 0.846, 0.0]
    """
    elements = prepare(logits, labels, where, class_axis, True)
    y = elements.targets
    log_p, log_q = log_probabilities(elements)

    def stop(weight: Array) -> Array:
        return jax.lax.stop_gradient(weight) if stop_gradient_weight else weight

    of_1 = -stop(jnp.exp(gamma_positive * log_q)) * log_p
    # log p_m = log p + log(1 - m / p) and 1 - p_m = 1 - p + m, where p exceeds m.
    log_m = log_or_zero(margin)
    is_over = log_p > log_m
    log_share = jnp.log(-jnp.expm1(jnp.where(is_over, log_m - log_p, -1)))
    log_rest = jnp.logaddexp(log_q, log_m)
    of_0 = -stop(jnp.exp(gamma_negative * (log_p + log_share))) * log_rest
    losses = y * of_1 + if_impossible(log_p, y) + (1 - y) * jnp.where(is_over, of_0, 0)
    return elements.mask(losses + if_impossible(log_q, (1 - y) * (margin == 0)))


@loss(kind="pointwise", class_name="ZLPR", multi_label=True)
def zlpr(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    class_axis: int | None = -1,
) -> Array:
    r"""Zero-bounded log-sum-exp and pairwise rank-based loss (ZLPR).

    .. math::
        L = \log\left(1 + \sum_{c: y_c = 0} e^{z_c}\right)
        + \log\left(1 + \sum_{c: y_c = 1} e^{-z_c}\right)

    Ranks every positive over 0 and every negative below, so 0 is the threshold and any
    number of labels may be predicted; positives are not outweighed by the number of
    negatives. For soft labels t the terms weigh 1 - t and t.

    Use it with any number of labels per element and 0 as the threshold.

    Pitfalls: Logits are ranking scores: their sigmoid is no probability. A wrong label
    at the extreme takes the slope of all others on its side, as in a softmax. Class
    frequencies are not used.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: 0 or 1, or float probabilities, like the logits; -100 masks one entry.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      class_axis: axis of the classes; None for the binary form, logits of class 1.

    Returns:
      Floats `[...]`, one per element, 0 where masked.

    Raises:
      ValueError: if a shape, axis, known label or hyper-parameter is out of range.

    Source: Su et al., 2022, eq. 13 (https://arxiv.org/abs/2208.02955).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import zlpr
      >>> losses = zlpr(jnp.array([[3.0, -3.0, -3.0]]), jnp.array([[1, 0, 0]]))
      >>> [round(x, 3) for x in losses.tolist()]
      [0.144]
    """
    elements = prepare(logits, labels, where, class_axis, True)
    if elements.form == "binary":
        raise ValueError("class_axis is None but zlpr ranks the classes of an element")
    z, y, where = elements.logits, elements.targets, elements.where

    def over(exponents: Array, weights: Array) -> Array:
        # Weights in the exponents: w e^z = e^(z + log w).
        seen = where & (weights > 0)
        logs = exponents + jnp.log(jnp.where(seen, weights, 1))
        largest = logsumexp(jnp.where(seen, logs, jnp.finfo(z.dtype).min), axis=-1)
        return softplus(largest) + if_impossible(-largest)

    return over(z, 1 - y) + over(-z, y)


@loss(
    kind="pointwise",
    multi_label=True,
    class_counts=CLASS_COUNTS,
    alpha=NON_NEGATIVE,
    beta=NON_NEGATIVE,
    mu=NON_NEGATIVE.tuned(
        0.1, 0.9, why="where weights rise: they are of shares in [0, 1]"
    ),
    kappa=NON_NEGATIVE.tuned(
        0.005, 0.5, scale="log", why="from a tenth to ten times the usual value"
    ),
    scale=POSITIVE.tuned(
        1.0, 10.0, scale="log", why="from no delay of negatives to no easy ones"
    ),
    gamma=FOCUSING,
)
def distribution_balanced(
    logits: Array,
    labels: Array,
    *,
    class_counts: Array,
    where: Array | None = None,
    class_axis: int | None = -1,
    alpha: float | Array = 0.1,
    beta: float | Array = 10.0,
    mu: float | Array = 0.3,
    kappa: float | Array = 0.05,
    scale: float | Array = 2.0,
    gamma: float | Array = 0.0,
) -> Array:
    r"""Distribution-balanced loss: weights for label co-occurrence, tolerant negatives.

    .. math::
        L_c &= \hat r_c \left[ y_c \log(1 + e^{-(z_c - \nu_c)})
        + \frac{1 - y_c}{\lambda} \log(1 + e^{\lambda (z_c - \nu_c)}) \right] \\
        \hat r_c &= \alpha + \sigma(\beta (r_c - \mu)), \quad
        r_c = \frac{1 / n_c}{\sum_{j: y_j = 1} 1 / n_j}, \quad
        \nu_c = \kappa \log\left(\frac{N}{n_c} - 1\right)

    r corrects class-balanced sampling, which would draw an element once for each of its
    labels; without labels it is infinite. With `gamma` each logarithm is that of a
    focal loss (DB-focal): :math:`-\log q` becomes :math:`-(1 - q)^\gamma \log q`, q the
    probability of the label by the shifted and scaled logit. The experiments of its
    authors have :math:`\gamma = 2`, and a factor of 2 for all.

    Use it with long-tailed, co-occurring labels and known counts.

    Pitfalls: An element without any label has the largest weight, :math:`\alpha + 1`,
    for all its negatives: where most elements have none, as in tagging, they dominate.
    Its hyper-parameters must be tuned together. A count of 0 is refused.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: 0 or 1 as integers or bools, shaped like the logits; -100 masks one entry.
      class_counts: positive floats `[C, 2]`: numbers of elements without and with each
        class (n). N is the largest sum of the two.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      alpha: lower end of the weights.
      beta: steepness of the weight around mu.
      mu: value of r with half weight.
      kappa: strength of the shift by class frequency; 0 for none.
      scale: lambda, the tolerance that delays the slope of negatives; 1 for none.
      gamma: focusing exponent of DB-focal; 0 for none.

    Returns:
      Floats `[..., C]`, 0 where masked; the paper divides their sum by C.

    Raises:
      ValueError: if a shape, axis, known label or hyper-parameter is out of range.

    Source: Wu et al., ECCV 2020, eq. 4 to 9, and section 4 for DB-focal
    (https://arxiv.org/abs/2007.09654).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import distribution_balanced
      >>> logits, labels = jnp.zeros((1, 2)), jnp.array([[1, 0]])
      >>> counts = jnp.array([[990.0, 10.0], [600.0, 400.0]])
      >>> losses = distribution_balanced(logits, labels, class_counts=counts)
      >>> [round(x, 3) for x in losses[0].tolist()]
      [0.895, 0.054]
    """
    elements = prepare(logits, labels, where, class_axis, True)
    if elements.form == "binary":
        raise ValueError("class_axis is None but the classes of an element are weighed")
    y = elements.targets
    positives, total = class_counts[:, 1], jnp.max(jnp.sum(class_counts, axis=-1))
    # A class that every element has: as if half an element lacked it.
    shift = kappa * jnp.log(jnp.maximum(total - positives, 0.5) / positives)
    # r is infinite, here huge, for an element without a label.
    rates = jnp.sum(y / positives, axis=-1, keepdims=True)
    r = jnp.where(rates > 0, 1 / (jnp.where(rates > 0, rates, 1) * positives), _HUGE)
    weights = alpha + sigmoid(beta * (r - mu))
    z = elements.logits - shift
    of_1 = _focused(z, gamma)
    of_0 = _focused(-scale * z, gamma)
    losses = weights * (y * of_1 + (1 - y) / scale * of_0)
    losses += if_impossible(log_sigmoid(z), y)
    losses += if_impossible(log_sigmoid(-scale * z), 1 - y)
    return elements.mask(losses)


@loss(
    kind="pointwise",
    multi_label=True,
    class_counts=CLASS_COUNTS,
    gamma=FOCUSING,
    beta=EFFECTIVE_BETA,
)
def class_balanced(
    logits: Array,
    labels: Array,
    *,
    class_counts: Array,
    where: Array | None = None,
    class_axis: int | None = -1,
    beta: float | Array = 0.999,
    gamma: float | Array = 0.0,
) -> Array:
    r"""Class-balanced sigmoid or focal loss: all classes weigh as the element's label.

    .. math::
        L_c = \frac{\sum_j y_j w_j}{\sum_j y_j} \left[ -y_c (1 - p_c)^\gamma \log p_c
        - (1 - y_c) p_c^\gamma \log(1 - p_c) \right], \quad
        w_j \propto \frac{1 - \beta}{1 - \beta^{n_j}}

    with the weights of `class_weights.effective_number`, by the number of elements with
    each class. Where an element has one label, as in a softmax, its sigmoids of all
    other classes have the weight of that label too, unlike those of `focal` with
    `scheme="effective_number"`.

    Use it with long-tailed classes and sigmoids, one or several labels an element. The
    softmax form is `weighted_cross_entropy` with `scheme="effective_number"`.

    Pitfalls: A rare label with a frequent one gets the mean of both weights. Without a
    label an element weighs 1, which its authors leave open. beta must suit the counts.
    Start the bias of the output at minus the log of the number of classes, or their
    negatives rule the first steps.

    Args:
      logits: floats `[..., C]`, or `[...]` in the binary form.
      labels: 0 or 1 as integers or bools, shaped like the logits; -100 masks one entry.
      class_counts: positive floats `[C, 2]`: numbers of elements without and with each
        class (n).
      where: bool `[...]`; False masks an element, whatever its logits and label.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      beta: in [0, 1): 0 weighs all classes equally, values near 1 by 1 / n.
      gamma: focusing exponent; 0 is the sigmoid cross-entropy.

    Returns:
      Floats `[..., C]`, 0 where masked; the paper sums over C.

    Raises:
      ValueError: if a shape, axis, known label or hyper-parameter is out of range.

    Source: Cui et al., CVPR 2019, section 4 (https://arxiv.org/abs/1901.05555); the
    mean over several labels, the code of Wu et al., ECCV 2020.

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import class_balanced
      >>> counts = jnp.array([[50.0, 5000.0], [5000.0, 50.0]])
      >>> logits, labels = jnp.zeros((2, 2)), jnp.array([[1, 0], [0, 1]])
      >>> losses = class_balanced(logits, labels, class_counts=counts, beta=0.99)
      >>> [[round(x, 3) for x in row] for row in losses.tolist()]
      [[0.393, 0.393], [0.994, 0.994]]
    """
    elements = prepare(logits, labels, where, class_axis, True)
    if elements.form == "binary":
        raise ValueError("class_axis is None but the classes of an element are weighed")
    elements.require_integers()
    y, z = elements.targets, elements.logits
    of_class = effective_number(class_counts[:, 1], beta=beta).astype(z.dtype)
    present = jnp.sum(y, axis=-1, keepdims=True)
    weight = jnp.sum(y * of_class, axis=-1, keepdims=True)
    weight = jnp.where(present > 0, weight / jnp.maximum(present, 1), 1)
    gold = jnp.where(y == 1, z, -z)
    losses = weight * _focused(gold, gamma) + if_impossible(log_sigmoid(gold), weight)
    return elements.mask(losses)


def _focused(z: Array, gamma: float | Array) -> Array:
    """Return the focal loss of log-odds of the label."""
    # Finite, so that gamma 0 is neutral at a logit of infinity too.
    log_q = jnp.maximum(log_sigmoid(-z), LOG_ZERO)
    return -jnp.exp(gamma * log_q) * log_sigmoid(z)


def log_or_zero(weights: float | Array) -> Array:
    """Return the log of non-negative weights, finite at 0."""
    weights = jnp.asarray(weights)
    is_0 = weights <= 0
    return jnp.where(is_0, LOG_ZERO, jnp.log(jnp.where(is_0, 1, weights)))
