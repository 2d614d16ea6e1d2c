"""Sums over pairs of scores, by sorting or in blocks, without an array of all."""

import functools

import jax
import jax.numpy as jnp
from jax import Array

# Positives and others of the pairs that are in memory at once.
BLOCK = (64, 1024)


def by_sorting(power: int, local: Array, others: Array, weights: Array) -> Array:
    """Return sum_j w_j max(0, s_j - s_i)^power for local i: `[K, R]`."""
    size = local.shape[-1]
    keys = jnp.concatenate([local, others])
    order = jnp.argsort(-jax.lax.stop_gradient(keys))
    # Local scores are in the order, but weigh nothing.
    weights = jnp.pad(weights, [(0, 0), (size, 0)])
    sums = _from_above(power, keys[order], weights[:, order])
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


def in_blocks(
    local: Array,
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
        jnp.stack([local, is_positive.astype(local.dtype)]), is_positive, block[0]
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
    sums = jnp.moveaxis(sums, 1, 0).reshape(len(weights), -1)[:, : local.shape[-1]]
    return _unsorted(sums, order, local.shape[-1])


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
