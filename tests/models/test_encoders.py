"""Properties of every encoder: packing, remat, precisions."""

import dataclasses
import functools
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax.data.pack import BatchLayout, fill, pack
from dicejax.models import attention
from dicejax.models.attention import attend
from dicejax.models.dropout import DropoutKeys

from .small import KINDS, drawn, encoder_of, network_of, quickly

LAYOUT = BatchLayout(tokens={"input_ids": 0, "token_type_ids": 0})
WIDTH = 16
RATES = dict.fromkeys(("mlp_dropout", "attention_dropout", "embedding_dropout"), 0.1)
SETTINGS = {
    "bert": {"max_position_embeddings": 32},
    "xlnet": {},
    # Fewer positions than the tokens of a row.
    "deberta": {"max_position_embeddings": 12, "position_buckets": 8},
    "mpnet": {"max_position_embeddings": 24},
    "modernbert": {"local_attention": 6, **RATES},
}
ENCODERS = {kind: encoder_of(kind, 24, 40, **SETTINGS[kind]) for kind in KINDS}
ENCODERS["looks back"] = dataclasses.replace(ENCODERS["xlnet"], attn_type="uni")


@pytest.fixture(params=KINDS)
def config(request):
    return ENCODERS[request.param]


def by_default(model_type):
    """Parametrize over the kinds of encoders; the others are exhaustive."""
    kinds = [
        pytest.param(kind, marks=[pytest.mark.exhaustive] * (kind != model_type))
        for kind in KINDS
    ]
    return pytest.mark.parametrize("config", kinds, indirect=True)


def sentences(config, lengths, seed=0):
    rng = np.random.default_rng(seed)
    return [
        {
            "input_ids": rng.integers(1, config.vocab_size, n),
            "token_type_ids": rng.integers(0, 2, n),
        }
        for n in lengths
    ]


@functools.partial(quickly, static_argnums=0)
def apply(network, params, batch, rng=None):
    return network.apply(params, batch, rng)["tags"]


@functools.partial(quickly, static_argnums=0)
def hidden_states(network, params, batch):
    return network.hidden_states(params, batch)


@pytest.mark.parametrize("config", [*KINDS, "looks back"], indirect=True)
def test_packed_and_unpacked_logits_agree(config):
    lengths = range(1, WIDTH + 1)
    examples, rows = sentences(config, lengths), pack(lengths, WIDTH)
    assert len(rows) < len(examples)
    network = network_of(config)
    params = drawn(network)
    packed = fill([[examples[i] for i in row] for row in rows], WIDTH, LAYOUT)
    alone = apply(network, params, fill([[e] for e in examples], WIDTH, LAYOUT))
    packed = apply(network, params, packed)
    for items, logits in zip(rows, packed, strict=True):
        start = 0
        for item in items:
            end = start + len(examples[item]["input_ids"])
            expected = alone[item, : end - start]
            np.testing.assert_allclose(logits[start:end], expected, atol=1e-5)
            start = end
    # The order of an example's tokens matters, so positions were those of each.
    assert np.abs(np.diff(alone[-1], axis=0)).max() > 1e-2


def test_segments_do_not_see_each_other(config):
    network = network_of(config)
    params = drawn(network)
    first, second, other = sentences(config, [6, 5, 5])
    rows = [[first, second], [first, other], [second, first], [other, first]]
    logits = np.asarray(apply(network, params, fill(rows, WIDTH, LAYOUT)))
    np.testing.assert_array_equal(logits[0, :6], logits[1, :6])
    np.testing.assert_array_equal(logits[2, 5:11], logits[3, 5:11])
    assert np.abs(logits[0, 6:11] - logits[1, 6:11]).max() > 1e-3


def test_padding_changes_nothing_on_either_side(config):
    network = network_of(config)
    params = drawn(network)
    batch = fill([sentences(config, [9])], WIDTH, LAYOUT)
    moved = {name: np.roll(array, 4, axis=1) for name, array in batch.items()}
    moved["input_ids"][moved["segment_ids"] == 0] = 7
    first, second = (apply(network, params, b) for b in (batch, moved))
    np.testing.assert_allclose(first[0, :9], second[0, 4:13], atol=1e-5)


@functools.partial(quickly, static_argnums=0)
def gradient(network, params, batch, rng):
    def loss(params):
        return (network.apply(params, batch, rng)["tags"] ** 2).sum()

    return jax.grad(loss)(params)


@by_default("bert")
@pytest.mark.parametrize(
    "policy", ["attention", pytest.param("layer", marks=pytest.mark.exhaustive)]
)
def test_remat_changes_no_gradient(config, policy):
    plain, remat = network_of(config), network_of(config, remat=policy)
    params = drawn(plain)
    batch = fill([sentences(config, [9, 6])], WIDTH, LAYOUT)
    expected, got = (
        gradient(network, params, batch, jax.random.key(5))
        for network in (plain, remat)
    )
    largest = max(np.abs(leaf).max() for leaf in jax.tree.leaves(expected))
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6 * largest)


def test_dropout_needs_a_key_and_follows_it(config):
    network = network_of(config)
    params = drawn(network)
    batch = fill([sentences(config, [9])], WIDTH, LAYOUT)
    none, again, first, same, other = (
        np.asarray(apply(network, params, batch, key))
        for key in (None, None, jax.random.key(0), jax.random.key(0), jax.random.key(1))
    )
    np.testing.assert_array_equal(none, again)
    np.testing.assert_array_equal(first, same)
    assert np.abs(first - none).max() > 1e-2
    assert np.abs(first - other).max() > 1e-2
    without = network_of(config.with_dropout(0.0, 0.0))
    undropped = apply(without, params, batch, jax.random.key(0))
    np.testing.assert_array_equal(undropped, none)


def draw_attention(rows, seed):
    """Draw query, key and value, scores to add, and a mask that hides no whole row."""
    rng = np.random.default_rng(seed)
    shapes = (rows, 4, 2, 3), (rows, 6, 2, 3), (rows, 6, 2, 3), (rows, 2, 4, 6)
    mask = rng.random((rows, 1, 4, 6)) < 0.6
    mask[..., 0] = True
    return *(rng.normal(size=shape) for shape in shapes), mask


def test_dropped_attention_weights_keep_the_mean():
    *arrays, bias, mask = map(jnp.float32, draw_attention(1, seed=0))
    expected = attend(*arrays, mask > 0, bias=bias)

    def dropped(rng):
        return attend(*arrays, mask > 0, bias=bias, dropout_rate=0.4, rng=rng)

    draws = np.asarray(jax.vmap(dropped)(jax.random.split(jax.random.key(0), 4000)))
    error = draws.std(0) / np.sqrt(len(draws))
    assert error.min() > 0
    # Five standard errors: one of 24 numbers is further off once in 70,000 draws.
    assert (np.abs(draws.mean(0) - expected) < 5 * error).all()


def test_attention_against_its_formula():
    query, key, value, bias, mask = draw_attention(2, seed=1)
    scores = np.einsum("btnh,bsnh->bnts", query, key) / np.sqrt(3) + bias
    weights = np.exp(scores) * mask
    weights /= weights.sum(-1, keepdims=True)
    expected = np.einsum("bnts,bsnh->btnh", weights, value)
    single = (x.astype(np.float32) for x in (query, key, value))
    got = attend(*map(jnp.asarray, single), mask, bias=bias.astype(np.float32))
    np.testing.assert_allclose(got, expected, atol=1e-6)
    with jax.enable_x64(True):
        got = attend(*map(jnp.asarray, (query, key, value)), mask, bias=bias)
        np.testing.assert_allclose(got, expected, atol=1e-14)


@pytest.mark.parametrize("tokens", [24, 132])
@pytest.mark.parametrize(("dtype", "bound"), [("float32", 2e-6), ("bfloat16", 0.02)])
@pytest.mark.parametrize(("rate", "rows"), [(0.0, 1), (0.3, 1), (0.3, 2)])
def test_attention_on_cpus_is_that_of_other_platforms(tokens, dtype, bound, rate, rows):
    rng = np.random.default_rng(2)
    shape, heads = (2, tokens, 3, 8), (2, tokens, 1, 8)
    arrays = [rng.normal(size=size) for size in (shape, heads, heads, shape)]
    *arrays, g = (jnp.asarray(x, dtype) for x in arrays)
    bias = jnp.float32(rng.normal(size=(rows, 3, tokens, tokens)))
    segments = jnp.asarray(np.sort(rng.integers(1, 4, (2, tokens))))
    keys = DropoutKeys.for_rows(jax.random.key(1), jnp.arange(2))

    def attended(*arrays):
        mask = attention.segment_mask(segments)
        return attend(*arrays[:3], mask, dropout_rate=rate, rng=keys, bias=arrays[3])

    @functools.partial(quickly, static_argnums=0)
    def value_and_gradients(platform, *arrays):
        with mock.patch.object(attention, "platform", lambda: platform):
            out, pull = jax.vjp(attended, *arrays)
            return out, *pull(g)

    both = [value_and_gradients(x, *arrays, bias) for x in ("cpu", "none")]
    for got, expected in zip(*both, strict=True):
        assert got.dtype == expected.dtype
        got, expected = (np.asarray(x, np.float32) for x in (got, expected))
        assert np.abs(got - expected).max() < bound * np.abs(expected).max()


def test_bfloat16_stays_near_float32(config):
    batch = fill([sentences(config, [9, 7])], WIDTH, LAYOUT)
    exact, rough = network_of(config), network_of(config, precision="bfloat16")
    params = drawn(exact)
    a, b = (hidden_states(network, params, batch) for network in (exact, rough))
    assert b.dtype == jnp.bfloat16
    # Eight bits of mantissa through two layers of unit-variance activations.
    assert np.abs(np.asarray(a) - np.asarray(b, np.float32)).mean() < 0.02
    logits, expected = (
        apply(n, params, batch, jax.random.key(0)) for n in (rough, exact)
    )
    assert logits.dtype == jnp.float32
    assert np.abs(np.asarray(logits - expected)).mean() < 0.02


@by_default("xlnet")
def test_float64_gradients_are_those_of_finite_differences(config):
    batch = fill([sentences(config, [9, 7])], WIDTH, LAYOUT)
    network = network_of(config, precision="float64")
    params, direction = (
        jax.tree.map(np.float64, drawn(network, seed)) for seed in (0, 1)
    )

    def along(step):
        moved = jax.tree.map(lambda x, d: x + step * d, params, direction)
        logits = network.apply(moved, batch, jax.random.key(2))["tags"]
        return jnp.tanh(logits).sum()

    with jax.enable_x64(True):
        loss, slope = quickly(along), quickly(jax.grad(along))(0.0)
        assert slope.dtype == jnp.float64
        h = 1e-5
        differences = float(loss(h) - loss(-h)) / (2 * h)
    assert abs(float(slope)) > 1
    np.testing.assert_allclose(float(slope), differences, rtol=1e-7)


@pytest.mark.parametrize(
    ("platform", "places", "remat", "depth", "turns"),
    [
        ("cpu", 10**9, "none", 6, 0),
        ("cpu", 10**9, "none", 7, 7),
        ("gpu", 10**7, "none", 7, 7),
        ("gpu", 10**9, "none", 24, 0),
        ("gpu", 10**9, "none", 25, 25),
        ("gpu", 10**9, "layer", 6, 6),
        ("tpu", 99_999_999, "none", 7, 7),
        ("tpu", 10**8, "none", 7, 0),
    ],
)
def test_many_layers_are_a_loop_but_in_long_trainings_on_accelerators(
    platform, places, remat, depth, turns
):
    network = network_of(encoder_of("bert", 8, 8, depth=depth), remat=remat)
    network = network.for_training(places, platform)
    params = jax.eval_shape(network.init, jax.random.key(0))
    batch = fill([[s] for s in sentences(network.encoder, [5])], 5, LAYOUT)
    program = jax.jit(network.apply).lower(params, batch).as_text()
    assert program.count("stablehlo.while") == (turns > 0)
    assert not turns or f"dense<{turns}> : tensor<i32>" in program
