"""The generator vs. published vectors and JAX's own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax.models.random_bits import sixteen_bits, threefry2x32

# Random123's kat_vectors: rounds, counter, key, result.
PI = (0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344)
ONES = (0xFFFFFFFF, 0xFFFFFFFF)
PUBLISHED = [
    (13, (0, 0), (0, 0), (0x9D1C5EC6, 0x8BD50731)),
    (13, ONES, ONES, (0xFD36D048, 0x2D17272C)),
    (13, *PI, (0xBA3E4725, 0xF27D669E)),
    (20, (0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    (20, ONES, ONES, (0x1CB996FC, 0xBB002BE7)),
    (20, *PI, (0xC4923A9C, 0x483DF7A0)),
]


def words(pair):
    return tuple(np.uint32(word) for word in pair)


@pytest.mark.parametrize(("rounds", "counter", "key", "wanted"), PUBLISHED)
def test_published_vectors(rounds, counter, key, wanted):
    with np.errstate(over="ignore"):
        found = threefry2x32(words(key), words(counter), rounds)
    assert tuple(map(int, found)) == wanted


def test_twenty_rounds_are_those_of_jax():
    rng = np.random.default_rng(0)
    key = jnp.asarray(rng.integers(2**32, size=2, dtype=np.uint32))
    counter = jnp.asarray(rng.integers(2**32, size=(2, 500), dtype=np.uint32))
    found = jnp.stack(threefry2x32(tuple(key), tuple(counter), rounds=20))
    wanted = jax.extend.random.threefry_2x32(key, counter.reshape(-1))
    np.testing.assert_array_equal(found.reshape(-1), wanted)


def test_words_are_cut_into_all_their_bits():
    first, second = words((0x12345678, 0x9ABCDEF0))
    found = [hex(part) for part in sixteen_bits((first, second))]
    assert found == ["0x5678", "0x1234", "0xdef0", "0x9abc"]
