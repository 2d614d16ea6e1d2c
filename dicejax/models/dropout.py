"""Dropout drawn per row, independent of how a batch is divided.

Its bits are a pure function of key and position: an XLA fusion and a TPU kernel draw
the same ones, in whichever order and on whichever device.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.ad_checkpoint import checkpoint_name

from dicejax.mesh import platform

DRAW = "dropout"
"""The name by which `jax.checkpoint` knows what was drawn."""
ROUNDS = 13
"""Threefry-2x32 passes BigCrush from 13 rounds on (Salmon et al., 2011)."""

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class DropoutKeys:
    """PRNG keys for dropout: one per row of a batch, and one that all rows share.

    Micro-batches and shards of a batch drop what the whole batch drops.
    """

    rows: Array  # keys [..., B]
    batch: Array  # keys [...], for values computed once for all rows

    @classmethod
    def for_rows(cls, key: Array, rows: Array) -> DropoutKeys:
        """Derive the keys of the rows with these numbers, int `[B]`, from one key."""
        fold = jax.vmap(jax.random.fold_in, in_axes=(None, 0))
        return cls(fold(key, rows + 1), jax.random.fold_in(key, 0))

    def split(self, parts: int) -> DropoutKeys:
        """Return independent keys with a leading axis of length `parts`, to index."""
        of_rows = jax.vmap(functools.partial(jax.random.split, num=parts), out_axes=1)
        return DropoutKeys(of_rows(self.rows), jax.random.split(self.batch, parts))

    def __getitem__(self, index: int | slice) -> DropoutKeys:
        return DropoutKeys(self.rows[index], self.batch[index])


Keys = DropoutKeys | Sequence[DropoutKeys | None]
"""Keys by number; each is None where dropout is off."""


def dropout(
    x: Array, rate: float, keys: DropoutKeys | Array | None, *, axis: int = 1
) -> Array:
    """Set a share `rate` of `x` to zero and scale the rest by `1 / (1 - rate)`.

    `x` is `[B, ...]` for a key per row; one key serves any shape, and None switches
    dropout off. Each decision takes 16 random bits: the rate, in [0, 1), is exact to
    1/65536. The bits depend on the key and the place in the row alone, see `keep_mask`.
    Four quarters of an axis share draws; it is one that no mesh splits, by default that
    of the tokens of hidden states.

    >>> dropout(jnp.ones((2, 4)), 0.5, jax.random.key(0)).tolist()
    [[2.0, 0.0, 2.0, 0.0], [0.0, 2.0, 0.0, 0.0]]
    """
    if keys is None or rate == 0.0:
        return x
    return scale_masked(x, draw_mask(x.shape, rate, keys, axis=axis), rate)


def draw_mask(
    shape: tuple[int, ...], rate: float, keys: DropoutKeys | Array, *, axis: int = 1
) -> Array:
    """Draw which elements of an array `dropout` keeps, bool in its shape."""
    packed, threshold = platform() == "cpu", keep_below(rate)
    axis %= len(shape)
    if isinstance(keys, DropoutKeys):
        mask = keep_mask(keys.rows, threshold, shape[1:], axis - 1, packed)
    else:
        mask = keep_mask(keys[None], threshold, shape, axis, packed)[0]
    return mask if packed else checkpoint_name(mask, DRAW)


def scale_masked(x: Array, mask: Array, rate: float) -> Array:
    """Zero the elements outside the mask, and scale the others by `1 / (1 - rate)`."""
    return jnp.where(mask, x * (65536 / keep_below(rate)), 0).astype(x.dtype)


def keep_below(rate: float) -> int:
    """Return the 16-bit number below which bits keep an element."""
    return max(1, round((1.0 - rate) * 65536))


def key_words(keys: Array) -> Array:
    """Return the two words of each key, uint32 `[B, 2]`."""
    # Generators other than JAX's default have more; their keys are random throughout.
    return jax.random.key_data(keys)[..., :2]


@functools.partial(jax.jit, static_argnums=(1, 2, 3, 4))
def keep_mask(
    keys: Array,
    threshold: int,
    shape: tuple[int, ...],
    axis: int,
    packed: bool = False,
) -> Array:
    """Decide for each element of each row whether it is kept: bool `[B, *shape]`.

    One block of 64 bits decides for four elements, a quarter of the axis apart, so that
    the quarters are computed side by side without a shuffle. Its counter is its index
    along the axis, and the index in the row over all other axes. The threshold is that
    of `keep_below`; the last quarter of an axis that 4 does not divide is cut short.

    For CPUs the decisions of a block are `packed` into one byte and taken apart again:
    XLA would draw each quarter by itself there, four times the work.
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

    def quarters(along: Array, other: Array) -> list[Array]:
        drawn = threefry2x32((words[:, 0], words[:, 1]), (along, other))
        return [bits < threshold for bits in sixteen_bits(drawn)]

    if packed:
        # XLA computes a concatenation once, and anything else in all that reads it.
        counters = (jnp.array_split(x, 2, axis) for x in (along, other))
        halves = [_in_one_byte(quarters(*x)) for x in zip(*counters, strict=True)]
        byte = checkpoint_name(jnp.concatenate(halves, axis + 1), DRAW)
        decided = [byte >> np.uint8(n) & np.uint8(1) != 0 for n in range(4)]
    else:
        decided = quarters(along, other)
    # Compared before they are joined: a mask has a quarter of the bytes of the bits.
    joined = jnp.concatenate(decided, axis + 1)
    return lax.slice_in_dim(joined, 0, length, axis=axis + 1)


def _in_one_byte(decisions: Sequence[Array]) -> Array:
    bits = (bit.astype(jnp.uint8) << np.uint8(n) for n, bit in enumerate(decisions))
    return functools.reduce(jnp.bitwise_or, bits)


def threefry2x32(
    key: tuple[Array, Array], counter: tuple[Array, Array], rounds: int = ROUNDS
) -> tuple[Array, Array]:
    """Encrypt counters: Threefry-2x32 (Salmon et al., 2011).

    "Parallel random numbers: as easy as 1, 2, 3",
    https://doi.org/10.1145/2063384.2063405. JAX's own generator takes 20 rounds, which
    are the most. The uint32 words of key and counter are broadcast against each other;
    those that are returned are uniform and independent of each other.
    """
    keys = (*key, key[0] ^ key[1] ^ _PARITY)
    first, second = counter[0] + key[0], counter[1] + key[1]
    for number in range(rounds):
        group, place = divmod(number, 4)
        first = first + second
        by = _ROTATIONS[group % 2][place]
        second = first ^ ((second << np.uint32(by)) | (second >> np.uint32(32 - by)))
        if place == 3:
            group += 1
            first = first + keys[group % 3]
            second = second + keys[(group + 1) % 3] + np.uint32(group)
    return first, second


def sixteen_bits(words: tuple[Array, Array]) -> tuple[Array, Array, Array, Array]:
    """Cut two uint32 words into four numbers in [0, 65536), as uint32."""
    first, second = words
    low, by = np.uint32(0xFFFF), np.uint32(16)
    return first & low, first >> by, second & low, second >> by
