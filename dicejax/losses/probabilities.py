"""Probabilities in log space: p, 1 - p and what is made of them, exact at every size.

The plain form (1-p)^alpha has the derivative -alpha (1-p)^(alpha-1), infinite where p
rounds to 1; times the zero derivative of p it gives NaN. Here log p and log(1-p) come
straight from the logits, and neither is ever a difference of rounded numbers.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array
from jax.nn import log_softmax
from jax.scipy.special import logsumexp

from dicejax.losses.elements import Elements
from dicejax.losses.elementwise import elementwise

# Stands for log 0: finite, so that 0 * log 0 is 0 and no gradient is NaN.
LOG_ZERO = -1e30


@jax.custom_jvp
def log_sigmoid(x: Array) -> Array:
    """Returns the log of 1 / (1 + exp(-x)), in a fifth of the time of jax.nn's."""
    return jnp.minimum(x, 0) - log1p(jnp.exp(-jnp.abs(x)))


@log_sigmoid.defjvp
def _log_sigmoid_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    return log_sigmoid(x), jax.nn.sigmoid(-x) * dx


def log1p(u: Array) -> Array:
    """Returns log(1 + u) for u in [0, 1], exact also for the smallest.

    XLA vectorises this on a CPU, but not its own log1p, and folds away the usual
    corrections for the rounding of 1 + u. So the smallest have their Taylor series.
    """
    terms = 18 if u.dtype == jnp.float64 else 8
    series = jnp.zeros_like(u)
    for k in range(terms, 0, -1):
        series = u * ((1 if k % 2 else -1) / k + series)
    return jnp.where(u < 0.1, series, jnp.log(1 + u))


def gold_logit(elements: Elements) -> Array:
    """Returns log p/(1-p) of what a hard label says, shaped like the labels.

    A softmax is a sigmoid of the gold logit less the logsumexp of the others, so that
    all forms share one formula: p is sigmoid(d), 1 - p is sigmoid(-d).
    """
    z, labels = elements.logits, elements.labels
    if elements.form != "softmax":
        return jnp.where(labels == 1, z, -z)
    return at_label(z, labels) - others_logsumexp(elements)


def others_logsumexp(elements: Elements) -> Array:
    """Returns the logsumexp of all classes but the gold one, for hard labels."""
    z = elements.logits
    gold = elements.labels[..., None] == jnp.arange(z.shape[-1])
    return logsumexp(jnp.where(gold, LOG_ZERO, z), axis=-1)


def at_label(values: Array, labels: Array) -> Array:
    """Returns the value of each element's label: `[..., C]` at `[...]` is `[...]`."""
    return jnp.take_along_axis(values, labels[..., None], axis=-1)[..., 0]


def log_probabilities(elements: Elements) -> tuple[Array, Array]:
    """Returns `log p` and `log(1 - p)` of every class, shaped like the logits."""
    if elements.form != "softmax":
        return log_sigmoid(elements.logits), log_sigmoid(-elements.logits)
    log_p = log_softmax(elements.logits)  # [..., C]
    # p <= 1/2 for all but the largest: log1p is exact there. For the largest the others
    # are summed instead. The branch not taken gets a harmless input, so that its
    # gradient is finite too. Of classes tied at the top, argmax takes one: p <= 1/2.
    classes = log_p.shape[-1]
    largest = jnp.argmax(log_p, axis=-1, keepdims=True) == jnp.arange(classes)
    of_largest = logsumexp(jnp.where(largest, LOG_ZERO, log_p), axis=-1, keepdims=True)
    of_others = jnp.log1p(-jnp.exp(jnp.where(largest, -1.0, log_p)))
    return log_p, jnp.where(largest, of_largest, of_others)


def over_labels(
    elements: Elements,
    value: Callable[..., Array],
    *parameters: Array,
    class_weights: Array | None = None,
) -> Array:
    """Returns sum_c y_c w_c value(log p_c, log(1 - p_c)), 0 where masked.

    In the binary and the multi-label form the sum runs over class 1 and class 0. The
    parameters, scalars, are handed to `value`, which must hold no other traced values.
    """
    weights = _label_weights(elements, class_weights)
    z, y = elements.logits, elements.labels

    def of_gold(z, labels, *parameters):
        gold = jnp.where(labels == 1, z, -z)
        return value(log_sigmoid(gold), log_sigmoid(-gold), *parameters)

    if elements.hard and elements.form == "softmax":
        gold = gold_logit(elements)
        values = value(log_sigmoid(gold), log_sigmoid(-gold), *parameters)
        return elements.mask(weights * values)
    if elements.hard:
        return elements.mask(weights * elementwise(of_gold)(z, y, *parameters))

    log_p, log_q = log_probabilities(elements)
    if elements.form == "softmax":
        values = value(log_p, log_q, *parameters)
        return elements.mask(jnp.sum(y * weights * values, axis=-1))
    weight_0, weight_1 = weights
    of_1, of_0 = value(log_p, log_q, *parameters), value(log_q, log_p, *parameters)
    return elements.mask(weight_1 * y * of_1 + weight_0 * (1 - y) * of_0)


def _label_weights(elements: Elements, class_weights: Array | None) -> Array:
    """Returns the weight of hard labels, or those of all classes for soft ones."""
    if class_weights is None:
        return 1 if elements.hard or elements.form == "softmax" else (1, 1)
    if elements.hard and elements.form != "multi_label":
        return class_weights[elements.labels]
    if elements.form == "softmax":
        return class_weights
    weight_0, weight_1 = class_weights[..., 0], class_weights[..., 1]
    if elements.hard:
        return jnp.where(elements.labels == 1, weight_1, weight_0)
    return weight_0, weight_1


def self_adjusted(
    log_p: Array, log_q: Array, alpha: Array | float, *, stop_gradient_weight: bool
) -> Array:
    """Returns `(1-p)^alpha p` from `log p` and `log q = log(1-p)`."""
    log_weight = alpha * log_q
    if stop_gradient_weight:
        log_weight = jax.lax.stop_gradient(log_weight)
    return jnp.exp(log_p + log_weight)
