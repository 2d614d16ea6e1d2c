"""The GPU's attention kernels, interpreted, vs. plain attention."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax.models import attention, attention_gpu
from dicejax.models.dropout import DropoutKeys

from ..training import worker
from .small import encoder_of, network_of
from .test_attention_tpu import MESHES, arrays, both, errors_on_meshes, interpret, row


@pytest.fixture(autouse=True)
def calls(monkeypatch):
    return interpret(monkeypatch, attention_gpu)


def patterns(width):
    """Return rows of several segments, with padding on either side and on both."""
    tenth = width // 10
    return [
        row(3 * tenth, width - 3 * tenth, width=width),
        row(*[tenth] * 9, width=width),
        row(-2 * tenth, 4 * tenth, 1, 2 * tenth, width=width),
        row(-width, width=width),
    ]


@pytest.mark.parametrize(
    ("length", "width", "rate", "window"),
    [
        (64, 32, 0.3, None),
        (128, 64, 0.3, None),  # a block of keys is a quarter
        (192, 32, 0.1, None),  # blocks straddle quarters
        (512, 32, 0.3, None),  # quarters have several blocks
        (256, 128, 0.0, 40),
    ],
)
def test_output_and_gradients_are_those_of_plain_attention(
    length, width, rate, window, calls, monkeypatch
):
    monkeypatch.setattr(attention_gpu, "DTYPE", jnp.float32)
    segments = jnp.asarray(patterns(length), jnp.int32)
    batch = arrays((len(segments), length, 2, width), jnp.float32)
    if width == 128:  # a head of keys and values serves two of queries
        batch[1:3] = (x[:, :, :1] for x in batch[1:3])
    keys = DropoutKeys.for_rows(jax.random.key(3), jnp.arange(len(segments)))
    settings = {"segment_ids": segments, "window": window}
    kernel, plain = both(*batch, **settings, rng=keys, dropout_rate=rate)
    assert len(calls) == 3, "the kernel is not taken"
    for got, expected in zip(kernel, plain, strict=True):
        limit = 2e-6 * max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(got, expected, rtol=0, atol=limit)


def test_bfloat16_rounds_as_products_do():
    segments = jnp.asarray(patterns(128), jnp.int32)
    batch = arrays((len(segments), 128, 2, 32), jnp.bfloat16)
    for got, expected in zip(*both(*batch, segment_ids=segments), strict=True):
        assert got.dtype == jnp.bfloat16
        limit = 2**-6 * max(1.0, np.abs(expected).max())
        got = np.asarray(got, np.float32)
        np.testing.assert_allclose(got, expected, rtol=0, atol=limit)


def test_other_segments_change_nothing():
    segments = jnp.asarray(patterns(128), jnp.int32)
    batch = arrays((len(segments), 128, 2, 32), jnp.bfloat16)
    changed = (segments == 1)[:, :, None, None]
    moved = [jnp.where(changed, 1 - 3 * x, x) for x in batch]
    before, _ = both(*batch, segment_ids=segments)
    after, _ = both(*moved, segment_ids=segments)
    for x, y in zip(before, after, strict=True):
        np.testing.assert_array_equal(*(jnp.where(changed, 0, z) for z in (x, y)))
        assert (x != y).any(axis=(1, 2, 3)).tolist() == [True, True, True, False]


def test_blocks_without_a_segment_in_common_are_not_visited():
    # Four segments of 64 tokens; the last one is padding, as is half of the first.
    ids = np.repeat([1, 2, 3, 0], 64)
    ids[:32] = 0
    bounds = attention_gpu._bounds(jnp.asarray(ids)[None], 64, 32, None)
    assert bounds[0, :, :2].tolist() == [[0, 8], [2, 4], [4, 6], [0, 8]]
    bounds = attention_gpu._bounds(jnp.asarray(ids)[None], 64, 32, 33)
    assert bounds[0, :, :2].tolist() == [[0, 2], [2, 4], [4, 6], [6, 8]]
    assert (bounds[..., 2] == 33).all()


@pytest.mark.parametrize(
    ("length", "width", "dtype"),
    [(100, 64, "bfloat16"), (128, 48, "bfloat16"), (128, 64, "float32")],
)
def test_other_shapes_take_the_plain_path(length, width, dtype, calls, caplog):
    caplog.set_level("INFO", attention.__name__)
    query, key, value, _ = arrays((1, length, 2, width), dtype)
    segments = jnp.ones((1, length), jnp.int32)
    got = attention.attend(query, key, value, segment_ids=segments)
    mask = attention.segment_mask(segments)
    expected = attention.attend(query, key, value, mask)
    np.testing.assert_array_equal(got, expected)
    assert not calls
    assert "runs without the kernel attention_gpu" in caplog.text


@pytest.mark.parametrize("kind", ["bert", "modernbert"])
def test_encoders_run_it_forward_once(kind, calls, caplog):
    caplog.set_level("INFO", attention.__name__)
    settings = {"heads": 2, "depth": 3}
    if kind == "modernbert":
        settings["local_attention"] = 6
    network = network_of(encoder_of(kind, 64, 16, **settings), precision="bfloat16")
    shape = 2, 64
    batch = {
        "input_ids": jnp.ones(shape, jnp.int32),
        "segment_ids": jnp.ones(shape, jnp.int32),
        "position_ids": jnp.broadcast_to(jnp.arange(64), shape),
        "token_type_ids": jnp.zeros(shape, jnp.int32),
    }

    def loss(params):
        return network.apply(params, batch)["tags"].sum()

    params = jax.eval_shape(network.init, jax.random.key(0))
    jaxpr = str(jax.make_jaxpr(jax.grad(loss))(params))
    names = ("attention_forward", "attention_to_queries", "attention_to_keys")
    assert [jaxpr.count(f"name={name}\n") for name in names] == [1, 1, 1]
    assert "bfloat16 (2, 64, 2, 32) runs as one kernel, attention_gpu" in caplog.text


def errors_of_gpu_kernels(name):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention_gpu, "DTYPE", jnp.float32)
        return errors_on_meshes(name, kernel=attention_gpu)


@pytest.mark.slow
def test_a_mesh_has_the_gradient_of_plain_attention_on_one_device(tmp_path):
    name = [*MESHES][2]
    errors = worker.call(errors_of_gpu_kernels, name, folder=tmp_path, devices=8)
    assert errors[name] < 2e-6
