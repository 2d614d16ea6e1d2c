"""Dropout drawn per row, independent of how a batch is divided."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.ad_checkpoint import checkpoint_name

from dicejax.models.random_bits import sixteen_bits, threefry2x32

DRAW = "dropout"
"""The name by which `jax.checkpoint` knows what was drawn."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class DropoutKeys:
    """PRNG keys for dropout: one per row of a batch, and one that all rows share.

    Micro-batches and shards of a batch drop what the whole batch drops.

    Attributes:
      rows: keys `[..., B]`.
      batch: keys `[...]`, for values computed once for all rows.

    >>> keys = DropoutKeys.of(jax.random.key(0), jnp.arange(4))
    >>> second_half = DropoutKeys.of(jax.random.key(0), jnp.arange(2, 4))
    >>> whole = dropout(jnp.ones((4, 6)), 0.5, keys)
    >>> bool((whole[2:] == dropout(jnp.ones((2, 6)), 0.5, second_half)).all())
    True
    """

    rows: Array
    batch: Array

    @classmethod
    def of(cls, key: Array, rows: Array) -> DropoutKeys:
        """Derive the keys of the rows with these numbers, int `[B]`, from one key."""
        fold = jax.vmap(jax.random.fold_in, in_axes=(None, 0))
        return cls(fold(key, rows + 1), jax.random.fold_in(key, 0))

    def split(self, parts: int) -> DropoutKeys:
        """Return independent keys with a leading axis of length `parts`, to index."""
        of_rows = jax.vmap(functools.partial(jax.random.split, num=parts), out_axes=1)
        return DropoutKeys(of_rows(self.rows), jax.random.split(self.batch, parts))

    def __getitem__(self, index: int | slice) -> DropoutKeys:
        return DropoutKeys(self.rows[index], self.batch[index])


def dropout(
    x: Array, rate: float, keys: DropoutKeys | Array | None, *, axis: int = 1
) -> Array:
    """Set a share `rate` of `x` to zero and scale the rest by `1 / (1 - rate)`.

    Each decision takes 16 random bits; the rate is exact to 1/65536. The bits depend on
    the key and the place in the row alone, see `keep_mask`.

    Args:
      x: any shape of at least two axes, `[B, ...]` for a key per row.
      rate: in [0, 1).
      keys: a key for each row, or one key for all of `x`; None switches dropout off.
      axis: axis whose four quarters share draws; one that no mesh splits. By default
        the tokens of hidden states.

    >>> dropout(jnp.ones((2, 4)), 0.5, jax.random.key(0)).tolist()
    [[2.0, 0.0, 2.0, 0.0], [0.0, 2.0, 0.0, 0.0]]
    """
    if keys is None or rate == 0.0:
        return x
    threshold = keep_below(rate)
    if isinstance(keys, DropoutKeys):
        mask = keep_mask(keys.rows, threshold, x.shape[1:], axis % x.ndim - 1)
    else:
        mask = keep_mask(keys[None], threshold, x.shape, axis % x.ndim)[0]
    mask = checkpoint_name(mask, DRAW)
    return jnp.where(mask, x * (65536 / threshold), 0).astype(x.dtype)


def keep_below(rate: float) -> int:
    """Return the 16-bit number below which bits keep an element."""
    return max(1, round((1.0 - rate) * 65536))


def key_words(keys: Array) -> Array:
    """Return the two words of each key, uint32 `[B, 2]`."""
    # Generators other than JAX's default have more; their keys are random throughout.
    return jax.random.key_data(keys)[..., :2]


@functools.partial(jax.jit, static_argnums=(1, 2, 3))
def keep_mask(keys: Array, threshold: int, shape: tuple[int, ...], axis: int) -> Array:
    """Decide for each element of each row whether it is kept: bool `[B, *shape]`.

    One block of 64 bits decides for four elements, a quarter of the axis apart, so that
    the quarters are computed side by side without a shuffle. Its counter is its index
    along the axis, and the index in the row over all other axes. The threshold is that
    of `keep_below`; the last quarter of an axis that 4 does not divide is cut short.
    """
    length = shape[axis]
    blocks = (*shape[:axis], -(-length // 4), *shape[axis + 1 :])
    along = lax.broadcasted_iota(jnp.uint32, blocks, axis)
    other = jnp.zeros(blocks, jnp.uint32)
    for place, size in enumerate(shape):
        if place != axis:
            index = lax.broadcasted_iota(jnp.uint32, blocks, place)
            other = other * np.uint32(size) + index
    words = key_words(keys).reshape(-1, 2, *(1 for _ in shape))
    drawn = threefry2x32((words[:, 0], words[:, 1]), (along, other))
    # Compared before they are joined: a mask has a quarter of the bytes of the bits.
    quarters = [bits < threshold for bits in sixteen_bits(drawn)]
    joined = jnp.concatenate(quarters, axis + 1)
    return lax.slice_in_dim(joined, 0, length, axis=axis + 1)
