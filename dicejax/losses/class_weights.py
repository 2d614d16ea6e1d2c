"""Class weights computed from class counts, or from a reached F-beta.

Counts are numbers `[..., C]` over the last axis: `[C]` for a softmax, `[2]` for one
binary problem, `[C, 2]` for several labels (of 0 and 1 for each class). A count of 0 is
treated as 1, so that every weight is finite. Unless one is 0, shares work as well as
counts, except in `effective_number`.
"""

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from dicejax.losses.contract import check_bounds
from dicejax.losses.declaration import (
    AT_LEAST_ONE,
    BELOW_ONE,
    NON_NEGATIVE,
    POSITIVE,
    UNIT_INTERVAL,
    Scheme,
)


def log_ratio(counts: ArrayLike, *, k: float | Array = 1.0) -> Array:
    r"""Return the log-ratio weights of the paper's weighted cross-entropy.

    .. math:: w_t = \lg \left( \frac{n - n_t}{n_t} + K \right)

    With K = 1 it is lg(n / n_t), 0 for a class that holds all elements.

    Use it for the paper's weighted cross-entropy; it is gentle with the rarest classes.

    Pitfalls: With K = 1 a class of nearly all elements weighs nearly 0. The mean weight
    is not 1.

    Args:
      counts: non-negative numbers `[..., C]`; n is their sum.
      k: K, at least 1, below which weights could be negative.

    Returns:
      Floats like the counts.

    Raises:
      ValueError: if a count is negative or not finite, or k is below 1.

    Source: Li et al., ACL 2020, section 3.2 (https://arxiv.org/abs/1911.02855v1).

    Example:
      >>> from dicejax.losses import class_weights
      >>> [round(x, 4) for x in class_weights.log_ratio([900, 90, 10]).tolist()]
      [0.0458, 1.0458, 2.0]
    """
    counts = _positive(counts)
    check_bounds("k", k, AT_LEAST_ONE)
    total = jnp.sum(counts, axis=-1, keepdims=True)
    return jnp.log10((total - counts) / counts + k)


def inverse(counts: ArrayLike) -> Array:
    r"""Return inverse-frequency weights: every class has the same total weight.

    .. math:: w_t = \frac{n}{C n_t}

    Use it when each class is to have the same total weight.

    Pitfalls: Of two classes one with 1 element in 10,000 weighs 5,000: that element
    dominates its batch.

    Args:
      counts: non-negative numbers `[..., C]`; n is their sum.

    Returns:
      Floats like the counts; the mean weight of an element is 1.

    Raises:
      ValueError: if a count is negative or not finite.

    Example:
      >>> from dicejax.losses import class_weights
      >>> [round(x, 4) for x in class_weights.inverse([6, 3, 1]).tolist()]
      [0.5556, 1.1111, 3.3333]
    """
    counts = _positive(counts)
    return _mean_one(1 / counts, counts)


def inverse_square_root(counts: ArrayLike) -> Array:
    r"""Return weights by the inverse square root of frequency, milder than `inverse`.

    .. math:: w_t \propto \frac{1}{\sqrt{n_t}}, \qquad \sum_t n_t w_t = n

    Use it as a compromise between no weights and `inverse`.

    Pitfalls: Weights still differ 100-fold for counts of 10,000 and 1.

    Args:
      counts: non-negative numbers `[..., C]`; n is their sum.

    Returns:
      Floats like the counts; the mean weight of an element is 1.

    Raises:
      ValueError: if a count is negative or not finite.

    Example:
      >>> from dicejax.losses import class_weights
      >>> weights = class_weights.inverse_square_root([64, 16])
      >>> [round(x, 4) for x in weights.tolist()]
      [0.8333, 1.6667]
    """
    counts = _positive(counts)
    return _mean_one(1 / jnp.sqrt(counts), counts)


def effective_number(counts: ArrayLike, *, beta: float | Array = 0.999) -> Array:
    r"""Return class-balanced weights: the inverse effective number of examples.

    .. math:: w_t \propto \frac{1 - \beta}{1 - \beta^{n_t}}, \qquad \sum_t w_t = C

    Use it where further examples of a frequent class add little.

    Pitfalls: :math:`\beta` must suit the counts: at 0.999 counts of 10,000 and
    1,000,000 weigh the same. It needs counts, not shares.

    Args:
      counts: non-negative numbers `[..., C]`.
      beta: in [0, 1): 0 weighs all classes equally, values near 1 approach `inverse`.

    Returns:
      Floats like the counts; the mean weight of a class is 1.

    Raises:
      ValueError: if a count is negative or not finite, or beta is outside [0, 1).

    Source: Cui et al., CVPR 2019, eq. 2 and section 4 (https://arxiv.org/abs/1901.05555).

    Example:
      >>> from dicejax.losses import class_weights
      >>> weights = class_weights.effective_number([5000, 50], beta=0.99)
      >>> [round(x, 4) for x in weights.tolist()]
      [0.5663, 1.4337]
    """
    counts = _positive(counts)
    check_bounds("beta", beta, BELOW_ONE)  # traced values pass
    # 1 - beta^n without the cancellation of a beta close to 1; at 0, 1 without slope.
    is_0 = jnp.equal(beta, 0)
    shares = -jnp.expm1(counts * jnp.log(jnp.where(is_0, 1, beta)))
    weights = 1 / jnp.where(is_0, 1, shares)
    return weights * counts.shape[-1] / jnp.sum(weights, axis=-1, keepdims=True)


def f_measure(f: Array, *, beta: float | Array = 1.0) -> Array:
    r"""Return the weights with which cross-entropy is led to a higher F-beta.

    .. math:: w_0 = F, \qquad w_1 = 1 + \beta^2 - F

    for negatives and positives, F the F-beta that is reached. The Bayes decision of
    these costs is positive where the probability exceeds :math:`F / (1 + \beta^2)`,
    which at the highest F is the best threshold.

    Use it where no threshold can be tuned; `objectives.Metro` estimates F anew after
    each epoch.

    Pitfalls: At F = 0 negatives weigh nothing, and all is called positive.

    Args:
      f: floats `[...]` in [0, 1].
      beta: above 0; recall counts beta times as much as precision.

    Returns:
      Floats `[..., 2]`, the weights of labels 0 and 1.

    Raises:
      ValueError: if f is outside [0, 1], or beta is not above 0.

    Source: Parambath et al., NeurIPS 2014 (https://nips.cc/virtual/2014/poster/4712).

    Example:
      >>> from dicejax.losses import class_weights
      >>> [round(x, 4) for x in class_weights.f_measure(0.5).tolist()]
      [0.5, 1.5]
    """
    check_bounds("f", f, UNIT_INTERVAL)
    check_bounds("beta", beta, POSITIVE)
    f = jnp.asarray(f, float)
    return jnp.stack([f, 1 + jnp.square(beta) - f], axis=-1)


def from_counts(
    counts: Array, *, scheme: Scheme, k: float | Array, beta: float | Array
) -> Array:
    """Return class weights by the name of a function, with its K or beta."""
    if scheme == "log_ratio":
        return log_ratio(counts, k=k)
    if scheme == "effective_number":
        return effective_number(counts, beta=beta)
    return (inverse if scheme == "inverse" else inverse_square_root)(counts)


def _positive(counts: ArrayLike) -> Array:
    counts = jnp.asarray(counts, float)
    if counts.ndim == 0 or counts.shape[-1] == 0:
        raise ValueError(f"counts has shape {counts.shape}: no classes")
    check_bounds("counts", counts, NON_NEGATIVE)
    return jnp.where(counts == 0, 1, counts)


def _mean_one(weights: Array, counts: Array) -> Array:
    total = jnp.sum(counts, axis=-1, keepdims=True)
    return weights * total / jnp.sum(counts * weights, axis=-1, keepdims=True)
