"""Inputs of a formula, masked, upcast and class axis last, and their probabilities.

The derivative of (1-p)^alpha is infinite where p rounds to 1; times the zero derivative
of p it gives NaN. So log p and log(1-p) come straight from the logits, and neither is
ever a difference of rounded numbers.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.nn import log_sigmoid, log_softmax, sigmoid, softmax
from jax.scipy.special import logsumexp

Form = Literal["softmax", "binary", "multi_label"]

# Replaces log 0: finite, so that 0 * log 0 is 0 and no gradient is NaN.
LOG_ZERO = -1e30
# Replaces an infinite logit, for the same reason: above any other, and with room for a
# factor of 1000 in float32. A log probability below IMPOSSIBLE comes from one.
INFINITE, IMPOSSIBLE = 1e34, -1e32


class Elements(NamedTuple):
    """Checked inputs of a loss, lined up.

    Attributes:
      logits: float32 or float64, `[..., C]`, or `[...]` in the binary form. Finite,
        and zeros where masked.
      labels: hard ones int32: `[...]` (softmax and binary) or `[..., C]` (multi-label),
        0 where masked. Soft ones: probabilities like the logits, zeros where masked.
      where: bool, shaped like hard labels; False where masked by the caller, or by a
        label out of range, such as -100.
      form: a softmax over the last axis, a sigmoid without a class axis, or one for
        each class of the last axis.
      hard: whether labels are integers.
      axes: label axes that form a set, sorted and not negative.
      axis_name: axes of a `shard_map` that the set is spread over.
      classes: numbers of the classes on the last axis; None for all.
    """

    logits: Array
    labels: Array
    where: Array
    form: Form
    hard: bool
    axes: tuple[int, ...]
    axis_name: str | tuple[str, ...] | None
    classes: tuple[int, ...] | None = None

    @property
    def targets(self) -> Array:
        """Probabilities shaped like the logits; zeros where masked."""
        if not self.hard:
            return self.labels
        softmax = self.form == "softmax"
        gold = one_hot(self.labels, self.logits.shape[-1]) if softmax else self.labels
        sharding = jax.typeof(self.logits).sharding
        if softmax and any(sharding.spec):  # the labels do not say how classes lie
            gold = jax.sharding.reshard(gold, sharding)
        return self.mask(gold).astype(self.logits.dtype)

    def require_integers(self) -> None:
        """Raise a ValueError for soft labels."""
        if not self.hard:
            raise ValueError("labels are floats but this loss needs integers")

    def mask(self, values: Array) -> Array:
        """Return `values` (`[...]` or `[..., C]`) with exact zeros where masked."""
        where = self.where
        if values.ndim > where.ndim:
            where = where[..., None]
        return jnp.where(where, values, 0)

    def total(self, *values: Array) -> tuple[Array, ...]:
        """Return the sums of values over the set, on all devices."""
        sums = tuple(jnp.sum(value, axis=self.axes) for value in values)
        return sums if self.axis_name is None else jax.lax.psum(sums, self.axis_name)


def prepare(
    logits: Array,
    labels: Array,
    where: Array | None,
    class_axis: int | None,
    multi_label: bool = False,
    axis: int | tuple[int, ...] | None = None,
    axis_name: str | tuple[str, ...] | None = None,
) -> Elements:
    """Mask, upcast and line up inputs that the contract has checked."""
    form = form_of(class_axis, multi_label)
    hard = not jnp.issubdtype(labels.dtype, jnp.floating)
    dtype = jnp.promote_types(logits.dtype, jnp.float32)
    if class_axis is not None:
        logits = jnp.moveaxis(logits, class_axis, -1)
        if multi_label or not hard:
            labels = jnp.moveaxis(labels, class_axis, -1)
    mask_shape = logits.shape[:-1] if form == "softmax" else logits.shape
    if where is None:
        where = jnp.ones(mask_shape, bool)
    elif form == "multi_label":
        where = jnp.broadcast_to(where[..., None], mask_shape)

    if hard:
        labels = labels.astype(jnp.int32)
        classes = logits.shape[-1] if form == "softmax" else 2
        where = where & (labels >= 0) & (labels < classes)
    # Masked values are replaced before the maths, not multiplied by 0 after it: a NaN
    # or an infinity would survive the product, and its gradient too.
    axes = set_axes(axis, where.ndim - (form == "multi_label"))
    elements = Elements(logits, labels, where, form, hard, axes, axis_name)
    return elements._replace(
        logits=_finite(elements.mask(logits).astype(dtype)),
        labels=elements.mask(labels).astype(labels.dtype if hard else dtype),
    )


@jax.custom_jvp
def _finite(logits: Array) -> Array:
    """Replace infinities by INFINITE, with slope 1: p of that class has none itself."""
    return jnp.clip(logits, -INFINITE, INFINITE)


@_finite.defjvp
def _finite_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    return _finite(*primals), tangents[0]


def if_impossible(log_p: Array, weights: float | Array = 1) -> Array:
    """Return infinity where what has a weight has probability 0, else 0: to be added.

    Infinity comes last, as a constant: a factor of 0 or a slope would make it NaN.
    """
    return jnp.where((log_p < IMPOSSIBLE) & (weights > 0), jnp.inf, 0)


def one_hot(labels: Array, classes: int) -> Array:
    """Return one-hot bools `[..., C]` of ints `[...]`."""
    return labels[..., None] == jnp.arange(classes)


def form_of(class_axis: int | None, multi_label: bool) -> Form:
    """Return "binary", "multi_label" or "softmax"."""
    if class_axis is None:
        return "binary"
    return "multi_label" if multi_label else "softmax"


def set_axes(axis: int | tuple[int, ...] | None, ndim: int) -> tuple[int, ...]:
    """Return `axis` as sorted non-negative axes of labels with `ndim` axes."""
    if axis is None:
        return tuple(range(ndim))
    axes = axis if isinstance(axis, tuple) else (axis,)
    if any(not -ndim <= index < ndim for index in axes):
        raise ValueError(f"axis is {axis} but labels has {ndim} axes")
    axes = tuple(index % ndim for index in axes)
    if len(set(axes)) < len(axes):
        raise ValueError(f"axis is {axis} but names an axis twice")
    return tuple(sorted(axes))


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


def as_problems(elements: Elements) -> Elements:
    """Return the classes of a softmax as sigmoids of the same probabilities."""
    log_p, log_q = log_probabilities(elements)
    labels = elements.targets
    if elements.hard:
        labels = labels.astype(jnp.int32)
    where = elements.where[..., None] & (labels >= 0)  # with the shards of labels
    problems = elements._replace(where=where, form="multi_label", labels=labels)
    return problems._replace(logits=_finite(problems.mask(log_p - log_q)))


def probabilities(elements: Elements) -> Array:
    """Return p of every class, shaped like the logits."""
    return (softmax if elements.form == "softmax" else sigmoid)(elements.logits)


def gold_logit(elements: Elements) -> Array:
    """Return log p/(1-p) of the hard labels, shaped like the labels.

    A softmax is a sigmoid of the gold logit less the logsumexp of the others, so that
    all forms share one formula: p is sigmoid(d), 1 - p is sigmoid(-d).
    """
    z, labels = elements.logits, elements.labels
    if elements.form != "softmax":
        return jnp.where(labels == 1, z, -z)
    return _log_odds(z, labels)


@jax.custom_jvp
def _log_odds(logits: Array, labels: Array) -> Array:
    return _log_odds_and_rest(logits, labels)[0]


def _log_odds_and_rest(logits: Array, labels: Array) -> tuple[Array, Array]:
    """Return the gold class's log odds, and the softmax of the other classes."""
    gold = one_hot(labels, logits.shape[-1])
    others = jnp.where(gold, jnp.finfo(logits.dtype).min, logits)
    largest = lax.stop_gradient(jnp.max(others, axis=-1))
    exponentials = jnp.exp(others - largest[..., None])
    total = jnp.sum(exponentials, axis=-1)
    log_odds = at_label(logits, labels) - largest - jnp.log(total)
    return log_odds, exponentials / total[..., None]


@_log_odds.defjvp
def _log_odds_jvp(
    primals: tuple[Array, Array], tangents: tuple[Array, Array]
) -> tuple[Array, Array]:
    # By hand: one pass over the classes, where that of a gather and of a logsumexp
    # takes three.
    logits, labels = primals
    log_odds, rest = _log_odds_and_rest(logits, labels)
    slopes = jnp.where(one_hot(labels, logits.shape[-1]), 1, -rest)
    return log_odds, jnp.sum(slopes * tangents[0], axis=-1)


def at_label(values: Array, labels: Array) -> Array:
    """Return the value of each element's label: `[..., C]` or `[C]` at `[...]`."""
    shards = (*jax.typeof(values).sharding.spec, *jax.typeof(labels).sharding.spec)
    if any(shards):  # on an Explicit mesh, where a gather cannot say its sharding
        gold = one_hot(labels, values.shape[-1])
        return jnp.sum(jnp.where(gold, values, 0), axis=-1)
    if values.ndim == 1:
        return values.at[labels].get(mode="promise_in_bounds")
    return jnp.take_along_axis(
        values, labels[..., None], axis=-1, mode="promise_in_bounds"
    )[..., 0]


def over_labels(
    elements: Elements,
    value: Callable[[Array, Array], Array],
    class_weights: Array | None = None,
) -> Array:
    """Return sum_c y_c w_c value(log p_c, log(1 - p_c)), 0 where masked.

    In the binary and the multi-label form the sum runs over class 1 and class 0. The
    value is infinite at p = 0: so is the sum if y and w are above 0 there.
    """
    softmax, weights = elements.form == "softmax", class_weights
    if elements.hard:
        labels, gold = elements.labels, gold_logit(elements)
        log_p, log_q = log_sigmoid(gold), log_sigmoid(-gold)
        of_labels: float | Array = 1.0
        if weights is not None and softmax:
            of_labels = at_label(weights, labels)
        elif weights is not None:
            of_labels = jnp.where(labels == 1, weights[..., 1], weights[..., 0])
        values = of_labels * value(log_p, log_q) + if_impossible(log_p, of_labels)
        return elements.mask(values)
    (log_p, log_q), y = log_probabilities(elements), elements.labels
    if softmax:
        y = y if weights is None else y * weights
        values = y * value(log_p, log_q) + if_impossible(log_p, y)
        return elements.mask(jnp.sum(values, axis=-1))
    of_1, of_0 = y, 1 - y
    if weights is not None:
        of_1, of_0 = of_1 * weights[..., 1], of_0 * weights[..., 0]
    values = of_1 * value(log_p, log_q) + if_impossible(log_p, of_1)
    values += of_0 * value(log_q, log_p) + if_impossible(log_q, of_0)
    return elements.mask(values)


def self_adjust(
    log_p: Array, log_q: Array, alpha: Array | float, *, stop_gradient_weight: bool
) -> Array:
    """Return `(1-p)^alpha p` from `log p` and `log q = log(1-p)`."""
    log_weight = alpha * log_q
    if stop_gradient_weight:
        log_weight = jax.lax.stop_gradient(log_weight)
    return jnp.exp(log_p + log_weight)
