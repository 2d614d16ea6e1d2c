r"""Measurements of the gradient of a loss with respect to its logits.

**Sums.** An element has one label: a token or a sequence in single-label
classification, an entry of it in multi-label classification. It has

    h = 1 - p_y            hardness in [0, 1]: the gradient norm of the element's
                           binary cross-entropy, GHM's gradient norm
    g = N ||dL/dz||        gradient norm, N labelled elements in the batch:
                           for a mean of cross-entropies ||p - y||, on any batch

It is hard for h >= 1/2 (for two classes: decided wrongly) and easy otherwise. There are
sums for each group: the classes, or the negatives of all classes and the positives of
each. Under `jit` they are global, over all devices, without unlabelled elements.

Source: Li et al., AAAI 2019 (https://arxiv.org/abs/1811.05181), for h and its density.

**Soft F1.** The F1 of a data set is of counts over all its batches, so its slope at one
batch takes the counts of the others as constants. With the soft counts of former
batches :math:`I', P', Y'` (true positives, predicted, actual: sums of probabilities)
and those of this batch :math:`I(z), P(z), Y`:

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

import dataclasses
import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import Array

from dicejax.losses import OverlapCounts, overlap_counts
from dicejax.tasks import Target

HARDNESS_BINS = 20
NORM_DECADES = (-6, 2)
NORM_BINS = 4 * (NORM_DECADES[1] - NORM_DECADES[0])
HARD = 0.5
DEAD_SHARE = 0.01
"""A hard element is dead if its gradient norm is below this share of its h."""
SATURATED = 0.999
"""A hard element is saturated if its h is at least this."""


@dataclasses.dataclass(frozen=True)
class Groups:
    """Groups of the elements of an output, the first maybe that of the negatives.

    >>> Groups.of_target(Target("multi_label", ("start of PER", "start of LOC"))).names
    ('no', 'start of PER', 'start of LOC')
    """

    names: tuple[str, ...]
    has_negative: bool
    multi_label: bool

    @classmethod
    def of_target(cls, target: Target) -> Groups:
        """Return the groups of an output whose labels are not positions."""
        if target.kind == "multi_label":
            return cls(("no", *(target.classes or ("yes",))), True, True)
        return cls(target.classes, target.has_negative, False)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class GradientElements:
    """Group, presence of a label, h and g of a batch's elements; 0 without a label."""

    group: Array
    where: Array
    hardness: Array
    gradient_norm: Array


def elements_of(
    logits: Array, labels: Array, gradient: Array, groups: Groups
) -> GradientElements:
    """Compute group, hardness and gradient norm of each element.

    Logits and gradient are `[..., C]`; labels are int `[...]`, or 0 and 1 `[..., C]` if
    multi-label, and -100 where there is no label.
    """
    classes = logits.shape[-1]
    where = (labels >= 0) & (labels < (2 if groups.multi_label else classes))
    gold = jnp.where(where, labels, 0)
    if groups.multi_label:
        away = jnp.where(gold == 1, -logits, logits)
        hardness = jax.nn.sigmoid(away)
        group = gold * (1 + jnp.arange(classes))
        norm = jnp.abs(gradient)
    else:
        log_p = jax.nn.log_softmax(logits)
        of_gold = jnp.take_along_axis(log_p, gold[..., None], axis=-1)[..., 0]
        hardness = -jnp.expm1(of_gold)
        group = gold
        norm = _length(gradient)
    return GradientElements(
        group, where, jnp.where(where, hardness, 0), jnp.sum(where) * norm
    )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Measures:
    """Sums over the elements of a batch; G groups.

    Attributes:
      count: `[G]`, number of elements.
      gradient_norm: `[G]`, sum of g.
      hardness: `[G, HARDNESS_BINS]`, number of elements by h, from 0 to 1.
      hardness_norm: `[G, HARDNESS_BINS]`, sum of g by h.
      norms: `[G, 2, NORM_BINS]`, number of easy and of hard elements by log10 g over
        NORM_DECADES; outliers are in the outer bins.
      hard: `[G]`, number of hard elements.
      dead: `[G]`, number of hard elements with g under DEAD_SHARE times h.
      saturated: `[G]`, number of hard elements with h of at least SATURATED.
      not_finite: number of elements whose gradient norm is not finite; it counts as 0.
    """

    count: Array
    gradient_norm: Array
    hardness: Array
    hardness_norm: Array
    norms: Array
    hard: Array
    dead: Array
    saturated: Array
    not_finite: Array


def measure(elements: GradientElements, groups: Groups) -> Measures:
    """Sum up the elements of a batch."""
    weight = elements.where.astype(elements.gradient_norm.dtype)
    finite = jnp.isfinite(elements.gradient_norm)
    norm = jnp.where(elements.where & finite, elements.gradient_norm, 0)
    is_hard = elements.where & (elements.hardness >= HARD)

    def by_group(values: Array, *bins: int, bin_of: Array | int = 0) -> Array:
        """Return the sums by group and by bin, `[G, *bins]`."""
        size = math.prod(bins)
        cells, number = elements.group * size + bin_of, len(groups.names) * size
        return _sums(values.astype(weight.dtype), cells, number).reshape(-1, *bins)

    hardness_bin = _bin(elements.hardness, HARDNESS_BINS)
    low, high = NORM_DECADES
    decades = jnp.log10(jnp.where(norm > 0, norm, 10.0**low))
    norm_bin = is_hard * NORM_BINS + _bin((decades - low) / (high - low), NORM_BINS)
    return Measures(
        count=by_group(weight),
        gradient_norm=by_group(norm),
        hardness=by_group(weight, HARDNESS_BINS, bin_of=hardness_bin),
        hardness_norm=by_group(norm, HARDNESS_BINS, bin_of=hardness_bin),
        norms=by_group(weight, 2, NORM_BINS, bin_of=norm_bin),
        hard=by_group(is_hard),
        dead=by_group(is_hard & (norm < DEAD_SHARE * elements.hardness)),
        saturated=by_group(is_hard & (elements.hardness >= SATURATED)),
        not_finite=jnp.sum(elements.where & ~finite),
    )


def by_kind(elements: GradientElements, kinds: Array, number: int) -> dict[str, Array]:
    """Sum up the places of a batch by kind, int `[B, T]` less than `number`.

    Elements are `[B, T]`, or `[B, T, C]` if multi-label. The sums, `[number]` each, are
    `places`, their `labelled` elements, and the `gradient_norm` of all their elements.
    """
    norm = elements.gradient_norm
    beyond = tuple(range(kinds.ndim, norm.ndim))
    norm = jnp.where(jnp.isfinite(norm), norm, 0).sum(axis=beyond)
    labelled = elements.where.sum(axis=beyond).astype(norm.dtype)
    sums = {"places": jnp.ones_like(norm), "labelled": labelled, "gradient_norm": norm}
    return {name: _sums(values, kinds, number) for name, values in sums.items()}


def _length(gradient: Array) -> Array:
    """Return the norm over the last axis without underflow of the squares."""
    largest = jnp.max(jnp.abs(gradient), axis=-1, keepdims=True)
    scale = jnp.where((largest > 0) & jnp.isfinite(largest), largest, 1)
    return scale[..., 0] * jnp.sqrt(jnp.sum((gradient / scale) ** 2, axis=-1))


def _bin(share: Array, bins: int) -> Array:
    return jnp.clip(jnp.floor(share * bins), 0, bins - 1).astype(jnp.int32)


def _sums(values: Array, cells: Array, number: int) -> Array:
    inside = cells[..., None] == jnp.arange(number)
    return jnp.sum(jnp.where(inside, values[..., None], 0), tuple(range(cells.ndim)))


FEWEST = 5
"""An alarm needs so many hard elements of a group in a batch."""
_SHARE = 0.5  # of them that are dead, or saturated
_MEANING = {
    "dead": f"get less than {DEAD_SHARE:.0%} of cross-entropy's gradient",
    "saturated": f"have less than {1 - SATURATED:.1%} for their own class",
}


def alarms_of(record: dict[str, Any], groups: Groups) -> dict[tuple[str, str], str]:
    """Return the alarms in the record of an output at a step.

    The messages to the user are by kind and name of the group, empty for all groups.
    "dead": hard elements have next to no gradient to learn from. "saturated": they are
    so wrong that losses which are flat there never find them. "not finite": gradients
    are infinite or not numbers.
    """
    alarms = {}
    if record["not_finite"]:
        share = f"{int(record['not_finite'])} of {int(sum(record['count']))}"
        alarms["not finite", ""] = f"{share} elements have no finite gradient"
    for kind, meaning in _MEANING.items():
        counts = zip(groups.names, record[kind], record["hard"], strict=True)
        for name, number, hard in counts:
            if hard >= FEWEST and number >= _SHARE * hard:
                share = f"{int(number)} of {int(hard)} hard elements of {name}"
                alarms[kind, name] = f"{kind}: {share} {meaning}"
    return alarms


FADING = 0.9
Average = Literal["micro", "macro"]


def averages(groups: Groups) -> tuple[Average, ...]:
    """Return the averages of F1 defined for an output, the primary one first."""
    return ("micro", "macro") if groups.has_negative else ("macro",)


def counts_of(logits: Array, labels: Array, groups: Groups) -> OverlapCounts:
    """Compute the soft counts of a batch, `[C]` each."""
    where = None if groups.multi_label else labels >= 0
    if groups.multi_label:  # a mask is of whole elements there, -100 of entries
        labels = jnp.where(labels >= 0, labels, -100)
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
