"""Dropout: its bits, its rate, its scale, and which bits decide for an element."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax.models.dropout import (
    DropoutKeys,
    dropout,
    keep_below,
    keep_mask,
    key_words,
    sixteen_bits,
    threefry2x32,
)

KEYS = jax.random.split(jax.random.key(5), 3)


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


@pytest.mark.parametrize(("rounds", "counter", "key", "expected"), PUBLISHED)
def test_published_vectors(rounds, counter, key, expected):
    with np.errstate(over="ignore"):
        got = threefry2x32(words(key), words(counter), rounds)
    assert tuple(map(int, got)) == expected


def test_words_are_cut_into_all_their_bits():
    first, second = words((0x12345678, 0x9ABCDEF0))
    parts = [hex(part) for part in sixteen_bits((first, second))]
    assert parts == ["0x5678", "0x1234", "0xdef0", "0x9abc"]


def decided(key, shape, axis, place):
    """Return the 16 bits that decide for one element of a row."""
    quarter, along = divmod(place[axis], -(-shape[axis] // 4))
    other = 0
    for number, size in enumerate(shape):
        if number != axis:
            other = other * size + place[number]
    with np.errstate(over="ignore"):
        return sixteen_bits(threefry2x32(words(key), words((along, other))))[quarter]


PLACES = [((2, 3, 8), 2), ((8, 3), 0), ((5, 6), 0), ((7,), 0)]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("shape", "axis"), PLACES)
def test_the_bits_of_each_element_are_those_of_its_key_and_place(shape, axis, packed):
    threshold = 40_000
    mask = np.asarray(keep_mask(KEYS, threshold, shape, axis, packed))
    for row, key in enumerate(np.asarray(key_words(KEYS)).tolist()):
        for place in np.ndindex(*shape):
            expected = decided(key, shape, axis, place) < threshold
            assert mask[row][place] == expected


@pytest.mark.parametrize("shape", [(1000, 100), (1000, 101), (8, 125, 100)])
@pytest.mark.parametrize("rate", [1e-9, 1 / 65536, 0.1, 0.5, 1 - 1e-9])
def test_dropout_drops_its_rate_and_keeps_the_mean(shape, rate):
    keep = keep_below(rate) / 65536
    assert abs(keep - (1 - rate)) <= 1 / 65536
    out = np.asarray(dropout(jnp.ones(shape), rate, jax.random.key(3)), np.float64)
    spread = np.sqrt(keep * (1 - keep) / out.size)
    assert abs((out != 0).mean() - keep) <= 5 * spread
    np.testing.assert_allclose(out[out != 0], 1 / keep, rtol=1e-6)


def test_decisions_are_independent_of_those_nearby():
    # The four quarters of an axis share a block; neighbours have neighbouring counters.
    shape = (4, 64, 64)
    dropped = np.asarray(keep_mask(KEYS, 2**15, shape, 2), float) - 0.5
    error = 0.25 / np.sqrt(dropped.size)
    assert abs(dropped.mean()) < 5 * 0.5 / np.sqrt(dropped.size)
    shifts = [(0, 0, 0, by) for by in (1, 2, 16, 32, 48)]
    shifts += [(0, 0, 1, 0), (0, 0, 1, 16), (0, 1, 0, 0), (1, 0, 0, 0), (1, 1, 1, 1)]
    for shift in shifts:
        moved = np.roll(dropped, shift, axis=(0, 1, 2, 3))
        assert abs((moved * dropped).mean()) < 5 * error, shift


def test_bits_are_uniform():
    # Shares below 15 thresholds, of 1,600 blocks each in four quarters.
    drawn = np.stack([keep_mask(KEYS, 4096 * n, (400, 4, 4), 0) for n in range(1, 16)])
    share = drawn.reshape(15, 3, 4, -1).mean(-1)
    expected = np.arange(1, 16)[:, None, None] / 16
    error = np.sqrt(expected * (1 - expected) / 1600)
    # One of 180 is five standard errors off once in 10,000 draws.
    assert (np.abs(share - expected) < 5 * error).all()


def test_rows_draw_by_their_key_alone():
    x = jnp.ones((3, 8, 5))
    keys = DropoutKeys(KEYS, KEYS[0])
    whole = dropout(x, 0.4, keys)
    turned = dropout(x[::-1], 0.4, DropoutKeys(KEYS[::-1], KEYS[0]))
    np.testing.assert_array_equal(turned[::-1], whole)
    np.testing.assert_array_equal(dropout(x[1], 0.4, KEYS[1], axis=0), whole[1])
    assert not (whole[0] == whole[1]).all()


def test_raw_keys_and_other_generators_draw_too():
    x = jnp.ones((2, 40))
    raw = dropout(x, 0.5, jax.random.PRNGKey(7))
    np.testing.assert_array_equal(raw, dropout(x, 0.5, jax.random.key(7)))
    other = DropoutKeys.for_rows(jax.random.key(7, impl="rbg"), jnp.arange(2))
    out = dropout(x, 0.5, other)
    assert 0 < (out == 0).mean() < 1
