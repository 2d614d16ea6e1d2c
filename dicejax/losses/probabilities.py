"""Probabilities in log space: p, 1 - p and (1-p)^alpha p, with finite gradients.

The plain form (1-p)^alpha has the derivative -alpha (1-p)^(alpha-1), infinite where p
rounds to 1; times the zero derivative of p it gives NaN. Here log p and log(1-p) come
straight from the logits, and neither is ever a difference of rounded numbers.
"""

import jax
import jax.numpy as jnp
from jax import Array
from jax.nn import log_sigmoid, log_softmax
from jax.scipy.special import logsumexp

from dicejax.losses.contract import Elements

# Stands for log 0: finite, so that 0 * log 0 is 0 and no gradient is NaN.
_LOG_ZERO = -1e30


def log_probabilities(elements: Elements) -> tuple[Array, Array]:
    """Returns `log p` and `log(1 - p)` of every class, shaped like the logits."""
    if elements.binary:
        return log_sigmoid(elements.logits), log_sigmoid(-elements.logits)
    log_p = log_softmax(elements.logits)  # [..., C]
    # p <= 1/2 for all but the largest: log1p is exact there. For the largest the others
    # are summed instead. The branch not taken gets a harmless input, so that its
    # gradient is finite too. Of classes tied at the top, argmax takes one: p <= 1/2.
    classes = log_p.shape[-1]
    largest = jnp.argmax(log_p, axis=-1, keepdims=True) == jnp.arange(classes)
    of_largest = logsumexp(jnp.where(largest, _LOG_ZERO, log_p), axis=-1, keepdims=True)
    of_others = jnp.log1p(-jnp.exp(jnp.where(largest, -1.0, log_p)))
    return log_p, jnp.where(largest, of_largest, of_others)


def gold_log_probabilities(elements: Elements) -> tuple[Array, Array]:
    """Returns `log p` and `log(1 - p)` of the gold class alone, `[...]`.

    For softmax and one-hot targets; a row of zeros gives p = 1.
    """
    log_p = log_softmax(elements.logits)  # [..., C]
    others = jnp.where(elements.targets > 0, _LOG_ZERO, log_p)
    return jnp.sum(elements.targets * log_p, axis=-1), logsumexp(others, axis=-1)


def self_adjusted(
    log_p: Array, log_q: Array, alpha: Array | float, *, stop_gradient_weight: bool
) -> Array:
    """Returns `(1-p)^alpha p` from `log p` and `log q = log(1-p)`."""
    log_weight = alpha * log_q
    if stop_gradient_weight:
        log_weight = jax.lax.stop_gradient(log_weight)
    return jnp.exp(log_p + log_weight)
