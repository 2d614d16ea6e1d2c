"""Hard negative mining: keep the hardest negatives only."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dicejax.losses.contract import check_hyperparameters, check_mask, jit_checked, loss
from dicejax.losses.declaration import NON_NEGATIVE, Bounds
from dicejax.losses.elements import over_labels, prepare, set_axes
from dicejax.losses.ranking import over_set, unsort


def _check_mined(arguments: dict[str, Any], bounds: dict[str, Bounds]) -> None:
    scores, positives = arguments["scores"], arguments["positives"]
    shape, dtype = jnp.shape(scores), jnp.result_type(scores)
    if not jnp.issubdtype(dtype, jnp.floating):
        raise ValueError(f"scores has dtype {dtype}, not a float")
    if jnp.result_type(positives) != np.bool_ or jnp.shape(positives) != shape:
        raise ValueError(
            f"positives has shape {jnp.shape(positives)} and dtype"
            f" {jnp.result_type(positives)} but scores {shape} wants {shape} of bool"
        )
    if arguments["where"] is not None:
        check_mask(arguments["where"], shape, f"scores {shape}")
    check_hyperparameters(arguments, bounds, scores)


@jit_checked(_check_mined, negatives_per_positive=NON_NEGATIVE, minimum=NON_NEGATIVE)
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
    r"""Mask all but the positives and the hardest negatives of each set.

    .. math:: k = \max(\text{minimum}, \lfloor \text{ratio} \cdot n_+ \rfloor)

    The k negatives with the highest scores are kept, or all if there are fewer; of
    equal scores the first. Pass the result as the `where` of any loss.

    Use it when negatives outnumber positives by hundreds. In an experiment the
    objective `Mined` applies it to any loss.

    Pitfalls: Positives labelled as negatives are the hardest negatives. Predicted p is
    too high, as negatives are undersampled. With ratio and minimum 0 only positives are
    kept, and everything is predicted positive. It sorts.

    Args:
      scores: floats `[...]`, higher for harder: losses, or the probability of a
        positive.
      positives: bool `[...]`, True for positive elements.
      where: bool `[...]`; False leaves an element out: neither counted nor kept.
      axis: the axes that form a set. None: all, so one set; -1: one set per row.
      negatives_per_positive: the ratio, at least 0.
      minimum: negatives kept in any case, even without positives; at least 0.
      axis_name: `shard_map` axes that the set is spread over; not needed under `jit`.

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
    return _mask(
        scores,
        positives,
        where,
        set_axes(axis, positives.ndim),
        negatives_per_positive,
        minimum,
        axis_name,
    )


def _mask(
    scores: Array,
    positives: Array,
    where: Array | None,
    axes: tuple[int, ...],
    negatives_per_positive: float | Array,
    minimum: float | Array,
    axis_name: str | tuple[str, ...] | None,
) -> Array:
    """Return the mask of `hard_negative_mask`, of checked arguments."""
    seen = jnp.ones(positives.shape, bool) if where is None else where
    positives &= seen
    negatives = seen & ~positives

    def hardest(scores: Array, positives: Array, negatives: Array) -> Array:
        number = jnp.sum(positives, axis=-1, keepdims=True)
        # A ratio of k / n, rounded down, times n would give k - 1.
        ratio = negatives_per_positive * (1 + 2**-20)
        limit = jnp.maximum(jnp.floor(ratio * number), minimum)
        # Negatives first, the highest score first; the sort is stable.
        order = jnp.lexsort((-scores, ~negatives), axis=-1)
        ranks = jnp.broadcast_to(jnp.arange(scores.shape[-1]), scores.shape)
        rank = unsort(ranks, order)
        return positives | (negatives & (rank < limit))

    return over_set(hardest, (scores, positives, negatives), axes, axis_name)


@loss(
    kind="batch",
    negatives_per_positive=NON_NEGATIVE.tuned(
        1.0,
        10.0,
        scale="log",
        why="from as many negatives as positives to most of them",
    ),
    minimum=NON_NEGATIVE,
)
def hard_negatives(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    class_axis: int | None = -1,
    multi_label: bool = False,
    negatives_per_positive: float | Array = 3.0,
    minimum: float | Array = 1.0,
    negative_class: int = 0,
    axis_name: str | tuple[str, ...] | None = None,
) -> Array:
    r"""Cross-entropy of the positives and the hardest negatives of the batch.

    .. math:: L_i = \frac{N}{\sum_j m_j} m_i \, \mathrm{CE}_i

    with m the `hard_negative_mask` of the cross-entropies and N the number of elements,
    so that the mean is that of the kept elements.

    Use it when negatives outnumber positives by hundreds.

    Pitfalls: Positives mislabelled as negatives are the hardest negatives. Predicted p
    is too high, as negatives are undersampled; with ratio and minimum 0 it is 1.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      multi_label: whether labels are 0 or 1 for each class `[..., C]`, for a sigmoid.
      negatives_per_positive: negatives kept per positive.
      minimum: negatives kept in any case.
      negative_class: label of the negatives, O in tagging; multi-label, always 0.
      axis_name: `shard_map` axes that the set is spread over; not needed under `jit`.

    Returns:
      Floats `[...]`, `[..., C]` in the multi-label form, 0 where masked or left out.
      Labels must be integers.

    Raises:
      ValueError: if a shape, axis, known label or hyper-parameter is out of range.

    Source: Shrivastava et al., CVPR 2016 (https://arxiv.org/abs/1604.03540).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import hard_negatives
      >>> logits, labels = jnp.array([2.0, 1.0, 0.0, -2.0]), jnp.array([1, 0, 0, 0])
      >>> losses = hard_negatives(
      ...     logits, labels, class_axis=None, negatives_per_positive=1.0
      ... )
      >>> [round(x, 3) for x in losses.tolist()]
      [0.254, 2.627, 0.0, 0.0]
    """
    elements = prepare(
        logits, labels, where, class_axis, multi_label, axis_name=axis_name
    )
    elements.require_integers()
    losses = over_labels(elements, lambda log_p, log_q: -log_p)
    negative = negative_class if elements.form == "softmax" else 0
    mask = _mask(
        losses,
        elements.labels != negative,
        elements.where,
        tuple(range(losses.ndim)),
        negatives_per_positive,
        minimum,
        axis_name,
    )
    numbers = jnp.sum(elements.where), jnp.sum(mask)
    if elements.axis_name is not None:
        numbers = jax.lax.psum(numbers, elements.axis_name)
    seen, stay = (count.astype(losses.dtype) for count in numbers)
    return jnp.where(mask, losses * (seen / jnp.maximum(stay, 1)), 0)
