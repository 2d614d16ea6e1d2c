"""Sums over pairs of elements of a set, without an array of all pairs."""

import functools
import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from dicejax.losses.cross_entropy import require_integers
from dicejax.losses.elements import Elements
from dicejax.losses.probabilities import log_probabilities
from dicejax.losses.ranking import flattened, gathered

Surrogate = Literal["squared_hinge", "logistic"]
Scores = Literal["probability", "log_odds"]

# Positives and others of the pairs that are in memory at once.
BLOCK = (64, 1024)
# Elements, or pairs in the blocks of small sets, that are in memory at once.
AT_ONCE = 2048


class Totals(NamedTuple):
    """Floats `[...]` of each set and class: a sum over positives, and the counts."""

    summed: Array
    positives: Array
    negatives: Array


def over_positives(
    elements: Elements,
    axes: tuple[int, ...],
    of_positive: Callable[..., Array],
    *,
    surrogate: Surrogate,
    scores: Scores,
    margin: float | Array,
    scale: float | Array,
    groups: int,
    axis_name: str | tuple[str, ...] | None,
) -> Totals:
    """Sum a function of each positive's pairs over the positives of each set.

    Each class of a softmax is compared with all others. Under `axis_name` each device
    compares its own elements with the whole set.

    `of_positive` takes the sums of surrogates of the differences, score of the positive
    less score of the other: `[R]` over the negatives of the set and, with 2 `groups`,
    `[R]` over its positives, itself included.
    """
    require_integers(elements)
    softmax = elements.form == "softmax"
    where = elements.where[..., None] if softmax else elements.where
    log_p, log_q = log_probabilities(elements)
    score = jnp.exp(log_p) if scores == "probability" else log_p - log_q
    # A positive is 1, a negative 0, and a masked element -1, in a byte: as floats these
    # would take more memory than the scores. Shaped like the logits: an element is a
    # positive of one class, or of none.
    label = jnp.where(where, elements.targets, -1).astype(jnp.int8)
    score, label = flattened(score, axes), flattened(label, axes)
    arrays = [score, label]
    if axis_name is not None:
        arrays += [gathered(one, axis_name) for one in arrays]
    sets, dtype, size = score.shape[:-1], score.dtype, arrays[-1].shape[-1]
    # One for each set, so that its gradient is summed outside of all control flow: of a
    # hyper-parameter used in a branch that only some devices take, it would wait for
    # the others for ever.
    setting = jnp.asarray(scale if surrogate == "logistic" else margin, dtype)
    settings = jnp.broadcast_to(setting, (math.prod(sets),))

    def of_set(arrays: tuple[Array, ...]) -> Array:
        setting, own, label, *of_others = arrays
        others, their_label = of_others or (own, label)
        if surrogate == "logistic":
            own, others = setting * own, setting * others
        else:
            others += setting
        is_positive = label == 1
        weights = jnp.stack([their_label == kind for kind in (0, 1)[:groups]])
        found = own, is_positive, others, weights.astype(dtype)
        sums = (_in_blocks if surrogate == "logistic" else _by_sorting)(*found)
        return jnp.sum(jnp.where(is_positive, of_positive(*sums), 0))

    # Many small sets at a time, large ones one by one: then the memory is that of one,
    # and blocks of pairs without a positive are skipped.
    at_once = AT_ONCE // max(size**2 if surrogate == "logistic" else size, 1)
    flat = (one.reshape(math.prod(sets), one.shape[-1]) for one in arrays)
    summed = jax.lax.map(
        jax.checkpoint(of_set),
        (settings, *flat),
        batch_size=at_once if at_once > 1 else None,
    )
    count = [jnp.sum(label == kind, axis=-1, dtype=dtype) for kind in (1, 0)]
    found = (summed.reshape(sets), *count)
    return Totals(*(found if axis_name is None else jax.lax.psum(found, axis_name)))


def _by_sorting(own: Array, is_positive: Array, others: Array, weights: Array) -> Array:
    """Return sum_j w_j max(0, s_j - s_i)^2 for own i: `[K, R]`."""
    del is_positive
    size = own.shape[-1]
    keys = jnp.concatenate([own, others])
    order = jnp.argsort(-jax.lax.stop_gradient(keys))
    # Own scores are in the order, but weigh nothing.
    weights = jnp.pad(weights, [(0, 0), (size, 0)])
    sums = _from_above(2, keys[order], weights[:, order])
    return _unsorted(sums, order, size)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _from_above(power: int, keys: Array, weights: Array) -> Array:
    """Return sum_j w_j (k_j - k_i)^power over j up to i, for keys in falling order.

    Sums of non-negative terms only: expanding the square would lose small differences
    of large keys. For the same reason the derivative is such a sum too.
    """
    total = jnp.cumsum(weights, axis=-1)
    if power == 0:
        return total
    gaps = -jnp.diff(keys, prepend=keys[:1])
    first = jnp.cumsum(_before(total) * gaps, axis=-1)
    if power == 1:
        return first
    return jnp.cumsum((_before(first) + first) * gaps, axis=-1)


@_from_above.defjvp
def _from_above_jvp(
    power: int, primals: tuple[Array, Array], tangents: tuple[Array, Array]
) -> tuple[Array, Array]:
    (keys, weights), (change, of_weights) = primals, tangents
    tangent = _from_above(power, keys, of_weights)
    if power > 0:
        lower = functools.partial(_from_above, power - 1, keys)
        tangent += power * (lower(weights * change) - change * lower(weights))
    return _from_above(power, keys, weights), tangent


def _before(sums: Array) -> Array:
    """Return what was reached one place earlier."""
    return jnp.pad(sums, [(0, 0), (1, 0)])[:, :-1]


def _in_blocks(
    own: Array,
    is_positive: Array,
    others: Array,
    weights: Array,
    block: tuple[int, int] = BLOCK,
) -> Array:
    """Return sum_j w_j log(1 + exp(s_j - s_i)) for positive i: `[K, R]`.

    Positives come first, as do others that weigh something, so that blocks of neither
    are skipped.
    """
    rows, order = _blocks(
        jnp.stack([own, is_positive.astype(own.dtype)]), is_positive, block[0]
    )
    columns = jnp.concatenate([others[None], weights])
    columns, _ = _blocks(columns, jnp.any(weights > 0, axis=0), block[1])

    def pairs(row: Array, column: Array) -> Array:
        losses = jax.nn.softplus(column[0] - row[0][:, None])
        return jnp.einsum(
            "ij,kj->ki", losses, column[1:], precision=jax.lax.Precision.HIGHEST
        )

    def nothing(row: Array, column: Array) -> Array:
        return jnp.broadcast_to(jnp.zeros_like(row[0]), (len(column) - 1, row.shape[1]))

    # Checkpoints at both levels: else each block of pairs would keep its inputs.
    @jax.checkpoint
    def of_rows(row: Array) -> Array:
        @jax.checkpoint
        def of_columns(column: Array) -> Array:
            matters = jnp.any(row[1] > 0) & jnp.any(column[1:] > 0)
            return jax.lax.cond(matters, pairs, nothing, row, column)

        return jnp.sum(jax.lax.map(of_columns, columns), axis=0)

    sums = jax.lax.map(of_rows, rows)  # [blocks, K, B]
    sums = jnp.moveaxis(sums, 1, 0).reshape(len(weights), -1)[:, : own.shape[-1]]
    return _unsorted(sums, order, own.shape[-1])


def _unsorted(sums: Array, order: Array, size: int) -> Array:
    """Undo the sort of sums `[K, S]` by order `[S]`; return the first `size` places."""
    nothing = jnp.zeros_like(sums, shape=(len(sums), size))
    return nothing.at[:, order].set(sums, mode="drop", unique_indices=True)


def _blocks(arrays: Array, used: Array, block: int) -> tuple[Array, Array]:
    """Return arrays `[A, S]` as `[blocks, A, B]`, the used places first, and order."""
    size = arrays.shape[-1]
    block = min(block, max(size, 1))
    order = jnp.argsort(~used)
    padded = jnp.pad(arrays[:, order], [(0, 0), (0, -size % block)])
    return jnp.moveaxis(padded.reshape(len(arrays), -1, block), 1, 0), order
