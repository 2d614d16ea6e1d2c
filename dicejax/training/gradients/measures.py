"""Measurements of the gradient of a loss with respect to its logits: additive sums.

An element has one label: a token or a sequence in single-label classification, an entry
of it in multi-label classification. Of an element

    h = 1 - p_y            how wrong it is, in [0, 1]: the length of the gradient of its
                           own cross-entropy in the binary form, GHM's gradient norm
    g = N ||dL/dz||        its gradient norm, N labelled elements in the batch:
                           for a mean of cross-entropies ||p - y||, on any batch

It is hard for h >= 1/2 (for two classes: decided wrongly) and easy otherwise. Sums are
kept by group: the classes, or the negatives of all classes and the positives of each.
Under `jit` they are global, over all devices; elements without a label are left out.

Source: Li et al., AAAI 2019 (https://arxiv.org/abs/1811.05181), for h and its density.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from dicejax.tasks import Target

HARDNESS_BINS = 20
NORM_DECADES = (-6, 2)
NORM_BINS = 4 * (NORM_DECADES[1] - NORM_DECADES[0])
HARD = 0.5
DEAD_SHARE = 0.01
"""A hard element is dead if its gradient norm is below this share of its h."""
SATURATED = 0.999
"""A hard element is saturated that is at least as wrong as this."""


@dataclasses.dataclass(frozen=True)
class Groups:
    """The groups that the elements of an output fall into.

    Attributes:
      names: of each.
      has_negative: whether the first is of negatives.
      multi_label: whether each class is a binary decision.

    >>> Groups.of(Target("multi_label", ("start of PER", "start of LOC"))).names
    ('no', 'start of PER', 'start of LOC')
    """

    names: tuple[str, ...]
    has_negative: bool
    multi_label: bool

    @classmethod
    def of(cls, target: Target) -> Groups:
        """Return the groups of an output whose labels are not positions."""
        if target.kind == "multi_label":
            return cls(("no", *(target.classes or ("yes",))), True, True)
        return cls(target.classes, target.has_negative, False)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class GradientElements:
    """The elements of a batch, in the shape of their labels.

    Attributes:
      group: int, group of each element; 0 without a label.
      where: bool, whether there is a label.
      hardness: h, 0 without a label.
      gradient_norm: g, also without a label, where it ought to be 0.
    """

    group: Array
    where: Array
    hardness: Array
    gradient_norm: Array


def elements_of(
    logits: Array, labels: Array, gradient: Array, groups: Groups
) -> GradientElements:
    """Compute group, hardness and gradient norm of each element.

    Args:
      logits: `[..., C]`.
      labels: int `[...]`, or 0 and 1 `[..., C]` if multi-label; below 0: left out.
      gradient: gradient of the loss, like the logits.
      groups: groups of the output.
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
      count: `[G]`, elements.
      gradient_norm: `[G]`, the sum of g.
      hardness: `[G, HARDNESS_BINS]`, elements by h, from 0 to 1.
      hardness_norm: the same of g.
      norms: `[G, 2, NORM_BINS]`, elements by log10 g over NORM_DECADES, easy ones and
        hard ones; outliers are in the outer bins.
      hard: `[G]`, hard elements.
      dead: `[G]`, of them those with g under DEAD_SHARE times h.
      saturated: `[G]`, of them those with h of at least SATURATED.
      not_finite: elements whose gradient norm is not finite; it counts as 0.
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
    number = len(groups.names)
    weight = elements.where.astype(elements.gradient_norm.dtype)
    finite = jnp.isfinite(elements.gradient_norm)
    norm = jnp.where(elements.where & finite, elements.gradient_norm, 0)
    is_hard = elements.where & (elements.hardness >= HARD)

    def by_group(values: Array) -> Array:
        return _sums(values.astype(weight.dtype), elements.group, number)

    def by(bins: int, bin_of: Array, values: Array) -> Array:
        cells = elements.group * bins + bin_of
        return _sums(values, cells, number * bins).reshape(number, bins)

    hardness_bin = _bin(elements.hardness, HARDNESS_BINS)
    low, high = NORM_DECADES
    decades = jnp.log10(jnp.where(norm > 0, norm, 10.0**low))
    norm_bin = _bin((decades - low) / (high - low), NORM_BINS)
    return Measures(
        count=by_group(weight),
        gradient_norm=by_group(norm),
        hardness=by(HARDNESS_BINS, hardness_bin, weight),
        hardness_norm=by(HARDNESS_BINS, hardness_bin, norm),
        norms=by(2 * NORM_BINS, is_hard * NORM_BINS + norm_bin, weight).reshape(
            number, 2, NORM_BINS
        ),
        hard=by_group(is_hard),
        dead=by_group(is_hard & (norm < DEAD_SHARE * elements.hardness)),
        saturated=by_group(is_hard & (elements.hardness >= SATURATED)),
        not_finite=jnp.sum(elements.where & ~finite),
    )


def by_kind(elements: GradientElements, kinds: Array, number: int) -> dict[str, Array]:
    """Sum up the places of a batch by kind.

    Args:
      elements: `[B, T]`, or `[B, T, C]` if multi-label.
      kinds: int `[B, T]`, less than `number`.
      number: of kinds.

    Returns:
      `[number]` each: `places`, the `labelled` elements in them, and their
      `gradient_norm`,
      with that of elements without a label.
    """
    beyond = tuple(range(kinds.ndim, elements.where.ndim))
    norm = jnp.where(
        jnp.isfinite(elements.gradient_norm), elements.gradient_norm, 0
    ).sum(axis=beyond)
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
"""An alarm takes so many hard elements of a group in a batch."""
SHARE = 0.5
"""And at least this share of them dead, or saturated."""

MEANING = {
    "dead": f"get less than {DEAD_SHARE:.0%} of cross-entropy's gradient",
    "saturated": f"have less than {1 - SATURATED:.1%} for their own class",
}


@dataclasses.dataclass(frozen=True)
class Alarm:
    """A problem of a group of an output at a step.

    Attributes:
      kind: "dead": hard elements have next to no gradient to learn from. "saturated":
        they are so wrong that losses which are flat there never find them. "not
        finite": gradients are infinite or not numbers.
      group: name of the group; empty where all are meant.
      number: number of affected elements.
      of: number of elements.
    """

    kind: str
    group: str
    number: int
    of: int

    def __str__(self):
        if self.kind == "not finite":
            return f"{self.number} of {self.of} elements have no finite gradient"
        what = f"{self.number} of {self.of} hard elements of {self.group}"
        return f"{self.kind}: {what} {MEANING[self.kind]}"


def alarms_of(record: dict[str, Any], groups: Groups) -> list[Alarm]:
    """Return the alarms in the record of an output at a step.

    >>> groups = Groups(("O", "PER"), has_negative=True, multi_label=False)
    >>> record = {"count": [90, 10], "hard": [4, 8], "dead": [4, 6],
    ...     "saturated": [0, 2], "not_finite": 0}
    >>> for alarm in alarms_of(record, groups):
    ...     print(alarm)
    dead: 6 of 8 hard elements of PER get less than 1% of cross-entropy's gradient
    """
    alarms = []
    if record["not_finite"]:
        total = int(sum(record["count"]))
        alarms.append(Alarm("not finite", "", int(record["not_finite"]), total))
    for kind in MEANING:
        numbers = zip(groups.names, record[kind], record["hard"], strict=True)
        alarms += [
            Alarm(kind, name, int(number), int(hard))
            for name, number, hard in numbers
            if hard >= FEWEST and number >= SHARE * hard
        ]
    return alarms
