"""Hard negative mining: the negatives that a model gets most wrong."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dicejax.losses.contract import NON_NEGATIVE, check_hyperparameters, check_mask
from dicejax.losses.elements import set_axes
from dicejax.losses.ranking import over_set, unsorted


def hard_negative_mask(
    scores: Array,
    positives: Array,
    *,
    where: Array | None = None,
    axis: int | tuple[int, ...] | None = None,
    negatives_per_positive: float | Array = 3.0,
    minimum: float | Array = 1,
    axis_name: str | tuple[str, ...] | None = None,
) -> Array:
    r"""Masks all but the positives and the hardest negatives of each set.

    .. math:: k = \max(\text{minimum}, \lfloor \text{ratio} \cdot n_+ \rfloor)

    The k negatives of the highest score stay: exactly k, or all if there are fewer. Of
    equal scores the first stays. Pass the result as the `where` of any loss.

    Args:
      scores: floats `[...]`, higher for harder: losses, or the probability of a
        positive.
      positives: bool `[...]`, which elements are positive.
      where: bool `[...]`; False leaves an element out: it is neither counted nor kept.
      axis: the axes that form a set. None: all, so one set; -1: one set per row.
      negatives_per_positive: the ratio, at least 0.
      minimum: negatives that stay in any case, without positives too; at least 0.
      axis_name: name or names of the `shard_map` axes over which the set is spread.

    Returns:
      Bool `[...]`: a positive, or one of the k hardest negatives; no gradient passes.

    Raises:
      ValueError: if shapes or types do not fit, or a known number is negative.

    Source: Shrivastava et al., CVPR 2016; the ratio of Liu et al., ECCV 2016,
    section 2.2 (https://arxiv.org/abs/1512.02325).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import hard_negative_mask
      >>> scores = jnp.array([0.2, 0.9, 0.8, 0.7, 0.1])
      >>> positives = jnp.array([True, False, False, False, False])
      >>> mask = hard_negative_mask(scores, positives, negatives_per_positive=2.0)
      >>> print(mask)
      [ True  True  True False False]
    """
    shape = jnp.shape(scores)
    if not jnp.issubdtype(jnp.result_type(scores), jnp.floating):
        raise ValueError(f"scores has dtype {jnp.result_type(scores)}, not a float")
    if jnp.result_type(positives) != np.bool_ or jnp.shape(positives) != shape:
        raise ValueError(
            f"positives has shape {jnp.shape(positives)} and dtype"
            f" {jnp.result_type(positives)} but scores {shape} wants {shape} of bool"
        )
    check_mask(where, shape, f"scores {shape}")
    bounds = {"negatives_per_positive": NON_NEGATIVE, "minimum": NON_NEGATIVE}
    arguments = {"negatives_per_positive": negatives_per_positive, "minimum": minimum}
    check_hyperparameters(arguments, bounds, jnp.float32)
    return _mine(scores, positives, where, axis=axis, axis_name=axis_name, **arguments)


@jax.jit(static_argnames=("axis", "axis_name"))
def _mine(
    scores, positives, where, *, axis, negatives_per_positive, minimum, axis_name
):
    seen = jnp.ones(positives.shape, bool) if where is None else where
    axes = set_axes(axis, positives.ndim)
    positives &= seen
    negatives = seen & ~positives

    def kept(scores, positives, negatives):
        number = jnp.sum(positives, axis=-1, keepdims=True)
        wanted = jnp.maximum(jnp.floor(negatives_per_positive * number), minimum)
        # Negatives first, the highest score first; the sort is stable.
        order = jnp.lexsort((-scores, ~negatives), axis=-1)
        ranks = jnp.broadcast_to(jnp.arange(scores.shape[-1]), scores.shape)
        rank = unsorted(ranks, order)
        return positives | (negatives & (rank < wanted))

    return over_set(kept, (scores, positives, negatives), axes, axis_name)
