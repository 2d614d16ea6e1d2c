"""Fingerprints of arrays, equal however the arrays are divided over devices."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

_SPREAD = 2654435761  # of Knuth's multiplicative hashing, 2**32 over the golden ratio


@jax.jit
def fingerprint(tree: Any) -> Array:
    """Sum the bits of each array, each word times an odd number of its own.

    Sums of integers modulo 2**32 have no order, so the number is the same on one device
    and on many. A changed word always changes it; a damaged file, in which many have
    changed, leaves it as it was once in 2**32 times.

    >>> import numpy as np
    >>> x = np.arange(6, dtype=np.float32)
    >>> int(fingerprint(x)[0]) == int(fingerprint(x[::-1])[0])
    False

    Returns:
      uint32, one number for each array of the tree.
    """
    return jnp.stack([_of_array(leaf) for leaf in jax.tree.leaves(tree)])


def _of_array(x: Array) -> Array:
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    words = _words(x)
    place = jnp.zeros(words.shape, jnp.uint32)
    for axis, size in enumerate(words.shape):
        place = place * jnp.uint32(size) + lax.broadcasted_iota(
            jnp.uint32, words.shape, axis
        )
    return jnp.sum(words * (place * jnp.uint32(_SPREAD) | 1), dtype=jnp.uint32)


def _words(x: Array) -> Array:
    """The bits of an array as uint32; 64-bit types have two words each."""
    if x.dtype == jnp.bool_:
        return x.astype(jnp.uint32)
    match x.dtype.itemsize:
        case 1:
            return lax.bitcast_convert_type(x, jnp.uint8).astype(jnp.uint32)
        case 2:
            return lax.bitcast_convert_type(x, jnp.uint16).astype(jnp.uint32)
        case _:
            return lax.bitcast_convert_type(x, jnp.uint32)
