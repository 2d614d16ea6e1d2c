r"""The gradient of the data set's soft F1, and its cosine with another gradient.

The F1 of a data set is of counts over all its batches, so its slope at one batch takes
the counts of the others as constants. With the soft counts of former batches
:math:`I', P', Y'` (true positives, predicted, actual: sums of probabilities) and those
of this batch :math:`I(z), P(z), Y`:

.. math::
    F_\mathrm{micro} = \frac{2 \sum_c (I'_c + I_c)}
        {\sum_c (P'_c + P_c + Y'_c + Y_c)}, \qquad
    \frac{\partial F}{\partial z} = \frac{2}{D} \frac{\partial I}{\partial z}
        - \frac{F}{D} \frac{\partial P}{\partial z}

with D the denominator and c over the positive classes; macro is the mean of the same
quotient over the classes that have gold in any batch. Where no class is negative micro
F1 is accuracy, and only macro is computed.

During training, the former counts are those of the analysed steps, which fade by
`FADING` from one to the next: about the last ten count.
"""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import Array

from dicejax.losses import OverlapCounts, overlap_counts
from dicejax.training.gradients.measures import Groups

FADING = 0.9
Average = Literal["micro", "macro"]


def averages(groups: Groups) -> tuple[Average, ...]:
    """Return the averages of F1 defined for an output, the primary one first."""
    return ("micro", "macro") if groups.has_negative else ("macro",)


def counts_of(logits: Array, labels: Array, groups: Groups) -> OverlapCounts:
    """Compute the soft counts of a batch, `[C]` each."""
    where = labels >= 0
    if groups.multi_label:  # a mask is of whole elements there, -100 of entries
        labels, where = jnp.where(where, labels, -100), None
    return overlap_counts(logits, labels, where=where, multi_label=groups.multi_label)


def no_counts(classes: int) -> OverlapCounts:
    """Return counts of zero."""
    zeros = jnp.zeros(classes)
    return OverlapCounts(intersection=zeros, predicted=zeros, actual=zeros)


def soft_f1(counts: OverlapCounts, groups: Groups, average: Average) -> Array:
    """Return the F1 of counts, a scalar; 0 for 0 / 0.

    >>> groups = Groups(("O", "PER"), has_negative=True, multi_label=False)
    >>> ten = jnp.array([50.0, 10.0])
    >>> counts = OverlapCounts(
    ...     intersection=jnp.array([45.0, 6.0]), predicted=ten, actual=ten)
    >>> round(float(soft_f1(counts, groups, "micro")), 3)
    0.6
    """
    if groups.has_negative and not groups.multi_label:
        counts = jax.tree.map(lambda x: x[1:], counts)
    has_gold = counts.actual > 0
    if average == "micro":
        counts = jax.tree.map(jnp.sum, counts)
    sizes = counts.predicted + counts.actual
    scores = 2 * counts.intersection / jnp.where(sizes > 0, sizes, 1)
    if average == "micro":
        return scores
    return jnp.sum(jnp.where(has_gold, scores, 0)) / jnp.maximum(jnp.sum(has_gold), 1)


def descent(
    logits: Array,
    labels: Array,
    former: OverlapCounts,
    groups: Groups,
    average: Average,
) -> tuple[Array, Array]:
    """Return the soft F1 with this batch, and the gradient of one minus it."""

    def loss(logits: Array) -> Array:
        counts = former + counts_of(logits, labels, groups)
        return 1 - soft_f1(counts, groups, average)

    value, gradient = jax.value_and_grad(loss)(logits)
    return 1 - value, gradient


def cosine(first: Any, second: Any) -> Array:
    """Return the cosine of the angle between two trees of arrays; 0 for one of zeros.

    >>> print(cosine({"a": jnp.array([3e-30, 0.0])}, {"a": jnp.array([1.0, 1.0])}))
    0.70710677
    """
    a, b = _scaled_leaves(first), _scaled_leaves(second)
    lengths = jnp.sqrt(_dot(a, a)) * jnp.sqrt(_dot(b, b))
    return _dot(a, b) / jnp.where(lengths > 0, lengths, 1)


def _dot(a: list[Array], b: list[Array]) -> Array:
    return jnp.asarray(sum(jnp.sum(x * y) for x, y in zip(a, b, strict=True)))


def _scaled_leaves(tree: Any) -> list[Array]:
    """Scale to a largest entry of 1, against underflow of squares."""
    leaves = [x.astype(jnp.float32) for x in jax.tree.leaves(tree)]
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(x)) for x in leaves]))
    scale = jnp.where(largest > 0, largest, 1)
    return [x / scale for x in leaves]
