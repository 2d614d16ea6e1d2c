"""Counter-based random bits: a pure function of key and position.

An XLA fusion and a TPU kernel that compute this function draw the same bits, in
whichever order and on whichever device.
"""

from __future__ import annotations

import numpy as np
from jax import Array

ROUNDS = 13
"""Threefry-2x32 passes BigCrush from 13 rounds on (Salmon et al., 2011)."""

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)


def threefry2x32(
    key: tuple[Array, Array], counter: tuple[Array, Array], rounds: int = ROUNDS
) -> tuple[Array, Array]:
    """Encrypt counters: Threefry-2x32 (Salmon et al., 2011).

    "Parallel random numbers: as easy as 1, 2, 3",
    https://doi.org/10.1145/2063384.2063405. JAX's own generator takes 20 rounds, which
    are the most. The uint32 words of key and counter are broadcast against each other;
    those that are returned are uniform and independent of each other.

    >>> import jax.numpy as jnp
    >>> zero = jnp.uint32(0)
    >>> [hex(word) for word in threefry2x32((zero, zero), (zero, zero))]
    ['0x9d1c5ec6', '0x8bd50731']
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
