"""Dropout drawn per row, independent of how a batch is divided."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
from jax import Array


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
        """Return independent keys with a leading axis of length `parts`."""
        of_rows = jax.vmap(functools.partial(jax.random.split, num=parts), out_axes=1)
        return DropoutKeys(of_rows(self.rows), jax.random.split(self.batch, parts))

    def __getitem__(self, index: int | slice) -> DropoutKeys:
        """Index the leading axis that `split` made."""
        return DropoutKeys(self.rows[index], self.batch[index])

    def __iter__(self) -> Iterator[DropoutKeys]:
        """Iterate over the leading axis that `split` made."""
        return (self[index] for index in range(len(self.batch)))


def dropout(x: Array, rate: float, keys: DropoutKeys | Array | None) -> Array:
    """Set a share `rate` of `x` to zero and scale the rest by `1 / (1 - rate)`.

    Each decision takes 16 random bits, two to a word, since drawing them dominates the
    cost; the rate is exact to 1/65536.

    Args:
      x: any shape; `[B, ...]` for a key per row.
      rate: in [0, 1).
      keys: a key for each row, or one key for all of `x`; None switches dropout off.
    """
    if keys is None or rate == 0.0:
        return x
    keep = round((1.0 - rate) * 65536)
    if isinstance(keys, DropoutKeys):
        bits = jax.vmap(lambda key: _bits16(key, x.shape[1:]))(keys.rows)
    else:
        bits = _bits16(keys, x.shape)
    return jnp.where(bits < keep, x * (65536 / keep), 0).astype(x.dtype)


@functools.partial(jax.jit, static_argnums=1)
def _bits16(key: Array, shape: tuple[int, ...]) -> Array:
    """Draw uniform integers in [0, 65536), as uint32."""
    if not shape or shape[-1] % 2:
        return jax.random.bits(key, shape, jnp.uint16).astype(jnp.uint32)
    half = (*shape[:-1], shape[-1] // 2)
    words = jax.random.bits(key, half, jnp.uint32)
    return jnp.concatenate([words & 0xFFFF, words >> 16], axis=-1)
