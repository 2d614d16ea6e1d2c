"""ModernBERT: windows by blocks vs. by mask, both spellings, invalid settings."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax.data.pack import BatchLayout, fill
from dicejax.models.attention import attend, attend_near, segment_mask
from dicejax.models.huggingface import config_from
from dicejax.models.modernbert import BLOCK, BLOCKS_FROM

from .small import drawn, encoder_of, network_of, quickly

SMALL = encoder_of("modernbert", 16, 20, heads=2, depth=4, local_attention=6)


@pytest.mark.parametrize(
    ("length", "window", "block"),
    [(37, 3, 3), (37, 3, 5), (24, 4, 4), (5, 9, 9), (9, 1, 4), (7, 0, 1)],
)
def test_windows_by_blocks_are_those_of_the_mask(length, window, block):
    rng = np.random.default_rng(0)
    *arrays, cotangent = rng.normal(size=(4, 2, length, 2, 3)).astype(np.float32)
    parts = rng.multinomial(length, np.ones(5) / 5, size=2)  # padding on both sides
    segments = np.stack([np.repeat([0, 1, 2, 3, 0], part) for part in parts])
    near = np.abs(np.arange(length)[:, None] - np.arange(length)) <= window
    mask = segment_mask(segments) & near
    sizes = {"segment_ids": segments, "window": window, "block": block}
    ways = (
        lambda *arrays: attend_near(*arrays, **sizes),
        lambda *arrays: attend(*arrays, mask),
    )

    @quickly
    def both(arrays, cotangent):
        pairs = [jax.vjp(attention, *arrays) for attention in ways]
        return [(out, *pull(cotangent)) for out, pull in pairs]

    for got, expected in zip(*both(arrays, cotangent), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-5)


def test_a_window_costs_what_a_window_costs():
    """Operations by XLA's count: linear in the length, not its square."""

    def operations(length):
        shape = jax.ShapeDtypeStruct((1, length, 2, 8), jnp.float32)
        ids = jax.ShapeDtypeStruct((1, length), jnp.int32)
        run = jax.jit(functools.partial(attend_near, window=64, block=64))
        compiled = run.lower(shape, shape, shape, segment_ids=ids).compile()
        return compiled.cost_analysis()["flops"]

    assert operations(8192) < 8.5 * operations(1024)


@pytest.fixture
def long_rows():
    """Return sentences alone, and in one row that is computed by blocks."""
    lengths = (1, 2, 3, 7, 64, 65, 130)
    width = BLOCKS_FROM * max(BLOCK, SMALL.window) + 23
    assert sum(lengths) <= width
    rng = np.random.default_rng(0)
    ids = [rng.integers(1, 50, n) for n in lengths]
    examples = [{"input_ids": x, "token_type_ids": 0 * x} for x in ids]
    layout = BatchLayout(tokens={"input_ids": 0, "token_type_ids": 0})
    alone = fill([[example] for example in examples], max(lengths), layout)
    return lengths, alone, fill([examples], width, layout)


def test_long_packed_rows_are_the_unpacked_ones(long_rows):
    lengths, alone, packed = long_rows
    network = network_of(SMALL)
    params = drawn(network)
    apply = quickly(lambda batch: network.apply(params, batch)["tags"])
    expected, got = apply(alone), apply(packed)
    start = 0
    for row, length in enumerate(lengths):
        part = got[0, start : start + length]
        np.testing.assert_allclose(part, expected[row, :length], atol=1e-5)
        start += length


def test_dropout_of_long_rows_is_that_of_each_row(long_rows):
    """A row drops the same in any batch, its blocks not the same as each other."""
    batch = long_rows[2]
    network = network_of(dataclasses.replace(SMALL, attention_dropout=0.3))
    params = drawn(network)
    apply = quickly(lambda batch, key: network.apply(params, batch, key)["tags"])
    twice = {name: np.concatenate([array] * 2) for name, array in batch.items()}
    alone, both = (apply(b, jax.random.key(0)) for b in (batch, twice))
    np.testing.assert_allclose(alone[0], both[0], atol=1e-6)
    assert np.abs(both[0] - both[1]).max() > 1e-2


OLD = {
    "global_attn_every_n_layers": 2,
    "global_rope_theta": 160000.0,
    "local_rope_theta": 9000.0,
}
NEW = {
    "layer_types": ["full_attention", "sliding_attention"] * 2,
    "rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 160000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 9000.0},
    },
}


def test_both_spellings_say_the_same():
    base = {"model_type": "modernbert", "num_hidden_layers": 4}
    old, new = (config_from(base | words) for words in (OLD, NEW))
    for config in (old, new):
        assert config.full_layers == (True, False, True, False)
        assert (config.global_rope_theta, config.local_rope_theta) == (160e3, 9e3)
    assert hash(new) == hash(dataclasses.replace(new))
    # The regular pattern is one architecture, whichever words say it.
    regular = base | {"layer_types": ["full_attention"] + ["sliding_attention"] * 2}
    regular["layer_types"] += ["full_attention"]
    assert config_from(regular) == config_from(base)
