"""Probabilities in log space: p, 1 - p and functions of them, exact at every size.

The plain form (1-p)^alpha has the derivative -alpha (1-p)^(alpha-1), infinite where p
rounds to 1; times the zero derivative of p it gives NaN. Here log p and log(1-p) come
straight from the logits, and neither is ever a difference of rounded numbers.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array
from jax.nn import log_sigmoid, log_softmax
from jax.scipy.special import logsumexp

from dicejax.losses.elements import Elements, one_hot

# Replaces log 0: finite, so that 0 * log 0 is 0 and no gradient is NaN.
LOG_ZERO = -1e30


def log_probabilities(elements: Elements) -> tuple[Array, Array]:
    """Return `log p` and `log(1 - p)` of every class, shaped like the logits."""
    z = elements.logits
    if elements.form != "softmax":
        return log_sigmoid(z), log_sigmoid(-z)
    log_p = log_softmax(z)
    # p <= 1/2 for all but the largest: log1p is exact there. For the largest the others
    # are summed instead. The branch not taken gets a harmless input, so that its
    # gradient is finite too. Of classes tied at the top, argmax takes one: p <= 1/2.
    largest = one_hot(jnp.argmax(z, axis=-1), z.shape[-1])
    of_largest = logsumexp(jnp.where(largest, LOG_ZERO, log_p), axis=-1, keepdims=True)
    of_others = jnp.log1p(-jnp.exp(jnp.where(largest, -1, log_p)))
    return log_p, jnp.where(largest, of_largest, of_others)


def gold_logit(elements: Elements) -> Array:
    """Return log p/(1-p) of the hard labels, shaped like the labels.

    A softmax is a sigmoid of the gold logit less the logsumexp of the others, so that
    all forms share one formula: p is sigmoid(d), 1 - p is sigmoid(-d).
    """
    z, labels = elements.logits, elements.labels
    if elements.form != "softmax":
        return jnp.where(labels == 1, z, -z)
    others = jnp.where(one_hot(labels, z.shape[-1]), LOG_ZERO, z)
    return at_label(z, labels) - logsumexp(others, axis=-1)


def at_label(values: Array, labels: Array) -> Array:
    """Return the value of each element's label: `[..., C]` or `[C]` at `[...]`.

    A sum over a mask: gathers need explicit shardings.
    """
    return jnp.sum(jnp.where(one_hot(labels, values.shape[-1]), values, 0), axis=-1)


def over_labels(
    elements: Elements,
    value: Callable[[Array, Array], Array],
    class_weights: Array | None = None,
) -> Array:
    """Return sum_c y_c w_c value(log p_c, log(1 - p_c)), 0 where masked.

    In the binary and the multi-label form the sum runs over class 1 and class 0.
    """
    y, weights = elements.targets, class_weights
    if elements.form != "softmax":
        log_p, log_q = log_probabilities(elements)
        of_1, of_0 = y * value(log_p, log_q), (1 - y) * value(log_q, log_p)
        if weights is not None:
            of_1, of_0 = weights[..., 1] * of_1, weights[..., 0] * of_0
        return elements.mask(of_1 + of_0)
    if elements.hard:
        gold = gold_logit(elements)
        values = value(log_sigmoid(gold), log_sigmoid(-gold))
        if weights is not None:
            values *= at_label(weights, elements.labels)
        return elements.mask(values)
    values = y * value(*log_probabilities(elements))
    values = values if weights is None else weights * values
    return elements.mask(jnp.sum(values, axis=-1))


def self_adjust(
    log_p: Array, log_q: Array, alpha: Array | float, *, stop_gradient_weight: bool
) -> Array:
    """Return `(1-p)^alpha p` from `log p` and `log q = log(1-p)`."""
    log_weight = alpha * log_q
    if stop_gradient_weight:
        log_weight = jax.lax.stop_gradient(log_weight)
    return jnp.exp(log_p + log_weight)
