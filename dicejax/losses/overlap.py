"""Overlap counts of predictions and labels over a set, shared by set losses."""

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp
from jax import Array

from dicejax.losses.contract import check_inputs, jit_checked
from dicejax.losses.declaration import NON_NEGATIVE
from dicejax.losses.elements import (
    Elements,
    log_probabilities,
    prepare,
    probabilities,
    self_adjust,
)

Intersection = Literal["product", "minimum"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class OverlapCounts:
    """Soft counts of a set, per class: `a + b` counts the union of disjoint sets.

    Attributes:
      intersection: I, soft true positives.
      predicted: P, soft true and false positives.
      actual: Y, true positives and false negatives of the labels.
    """

    intersection: Array
    predicted: Array
    actual: Array

    def __add__(self, other: "OverlapCounts") -> "OverlapCounts":
        """Add the counts of another, disjoint set."""
        if not isinstance(other, OverlapCounts):
            return NotImplemented
        mine, others = jnp.shape(self.actual), jnp.shape(other.actual)
        if mine != others:
            raise ValueError(f"counts of shape {mine} and {others} do not add")
        return jax.tree.map(jnp.add, self, other)


@jit_checked(check_inputs, alpha=NON_NEGATIVE)
def overlap_counts(
    logits: Array,
    labels: Array,
    *,
    where: Array | None = None,
    axis: int | tuple[int, ...] | None = None,
    class_axis: int | None = -1,
    multi_label: bool = False,
    squared: bool = False,
    alpha: float | Array | None = None,
    stop_gradient_weight: bool = False,
    intersection: Intersection = "product",
    axis_name: str | tuple[str, ...] | None = None,
) -> OverlapCounts:
    r"""Count predictions, labels and their overlap over a set, per class.

    .. math::
        f_c = (1 - p_c)^\alpha p_c, \quad
        I_c = \sum f_c y_c, \quad P_c = \sum f_c, \quad Y_c = \sum y_c

    with p the softmax of the logits, or their sigmoid in the other forms. `squared`
    makes it :math:`P_c = \sum f_c^2` and :math:`Y_c = \sum y_c^2`.

    Args:
      logits: floats `[..., C]`, of -inf for p = 0; or `[...]` in the binary form.
      labels: integers `[...]`, -100 is masked; or float probabilities like the logits.
      where: bool `[...]`; False masks an element, whatever its logits and label.
      axis: label axes that form a set. None: all; `()`: each element; -1: each row.
      class_axis: axis of the classes; None for the binary form, logits of class 1.
      multi_label: whether labels are 0 or 1 for each class `[..., C]`, for a sigmoid.
      squared: whether to sum squares in P and Y.
      alpha: exponent of the self-adjusting factor; None for plain probabilities.
      stop_gradient_weight: whether :math:`(1-p)^\alpha` is a constant for gradients.
      intersection: "product": f y; "minimum": the smaller of f and y, which for soft
        labels is largest where f is y. The same for labels of 0 and 1.
      axis_name: `shard_map` axes that the set is spread over; not needed under `jit`.

    Returns:
      Counts whose arrays have the label axes that `axis` does not name, in order, then
      `[C]`; no `[C]` in the binary form. In units of elements.

    Raises:
      ValueError: if a shape, axis, known label or hyper-parameter is out of range.

    Source: the sums of Li et al., ACL 2020, footnote 4, with the factor of eq. 11
    (https://arxiv.org/abs/1911.02855v1).

    Example:
      >>> import jax.numpy as jnp
      >>> from dicejax.losses import overlap_counts
      >>> logits = jnp.array([[99.0, 0.0], [99.0, 0.0], [0.0, 99.0]])
      >>> counts = overlap_counts(logits, jnp.array([0, 1, 1]))
      >>> print(counts.intersection, counts.predicted, counts.actual)
      [1. 1.] [2. 1.] [1. 2.]
    """
    elements = prepare(logits, labels, where, class_axis, multi_label, axis, axis_name)
    return count(
        elements,
        squared=squared,
        alpha=alpha,
        stop_gradient_weight=stop_gradient_weight,
        intersection=intersection,
    )


def count(
    elements: Elements,
    *,
    squared: bool = False,
    alpha: float | Array | None = None,
    stop_gradient_weight: bool = False,
    intersection: Intersection = "product",
) -> OverlapCounts:
    """Count as `overlap_counts` does, of prepared elements."""
    if alpha is None:
        f = probabilities(elements)
    else:
        log_p, log_q = log_probabilities(elements)
        f = self_adjust(log_p, log_q, alpha, stop_gradient_weight=stop_gradient_weight)
    f, y = elements.mask(f), elements.targets
    is_product = intersection == "product" or elements.hard
    overlap = f * y if is_product else jnp.minimum(f, y)
    squares = (f * f, y * y) if squared else (f, y)
    shared, predicted, actual = elements.total(overlap, *squares)
    return OverlapCounts(intersection=shared, predicted=predicted, actual=actual)
