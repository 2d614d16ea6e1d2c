"""The TPU's attention kernel, interpreted, vs. plain attention."""

import functools
import json
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax.models import attention, attention_tpu
from dicejax.models.dropout import DropoutKeys

exhaustive = pytest.mark.exhaustive


def row(*lengths, width=128):
    """Return the segments of a row: 0 for padding, else numbered."""
    numbers = iter(range(1, 200))
    ids = [[0 if n < 0 else next(numbers)] * abs(n) for n in lengths]
    ids = [one for part in ids for one in part]
    return ids + [0] * (width - len(ids))


PATTERNS = {
    "one segment": row(128),
    "several": row(50, 30, 48),
    "padding right": row(70, 20),
    "padding left": row(-40, 60, 28),
    "single tokens": [1, 2, 3, *[4] * 100, *range(5, 30)],
    "all padding": row(),
}


@pytest.fixture
def interpreted(monkeypatch):
    """Take the kernel on this platform."""
    call = functools.partial(attention_tpu.pl.pallas_call, interpret=True)
    monkeypatch.setattr(attention_tpu.pl, "pallas_call", call)
    monkeypatch.setattr(attention, "platform", lambda: "tpu")


def arrays(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    return [jnp.asarray(rng.normal(size=shape), dtype) for _ in range(4)]


def both(segments, heads, width, dtype, rate):
    """Return output and gradients by the kernel, and by plain attention in float32."""
    segments = jnp.asarray(segments, jnp.int32)
    rows, length = segments.shape
    batch = arrays((rows, length, heads, width), dtype)
    keys = DropoutKeys.of(jax.random.key(3), jnp.arange(rows))

    @functools.partial(jax.jit, static_argnums=0)
    def computed(by_kernel, query, key, value, cotangent):
        mask = None if by_kernel else attention.segment_mask(segments)

        def attended(query, key, value):
            arrays, settings = (query, key, value, mask), {"dropout_rate": rate}
            return attention.attend(*arrays, segment_ids=segments, rng=keys, **settings)

        out, pull = jax.vjp(attended, query, key, value)
        return out, *pull(cotangent)

    assert attention.runs_on_tpu(batch[0].shape, batch[0].dtype)
    kernels = computed(True, *batch)
    assert all(x.dtype == dtype for x in kernels)
    plain = computed(False, *(x.astype(jnp.float32) for x in batch))
    return [[np.asarray(x, np.float32) for x in one] for one in (kernels, plain)]


def close(got, expected, dtype):
    # bfloat16 rounds the weights, the slopes and the results to 8 bits.
    tolerance = 2e-6 if dtype == jnp.float32 else 2**-6
    for one, other in zip(got, expected, strict=True):
        limit = tolerance * max(1.0, np.abs(other).max())
        np.testing.assert_allclose(one, other, rtol=0, atol=limit)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize(
    ("dtype", "width", "rate"),
    [
        (jnp.float32, 64, 0.3),
        pytest.param(jnp.float32, 64, 0.0, marks=exhaustive),
        (jnp.bfloat16, 64, 0.1),
        pytest.param(jnp.bfloat16, 64, 0.0, marks=exhaustive),
        pytest.param(jnp.float32, 32, 0.3, marks=exhaustive),
        (jnp.float32, 128, 0.0),
        pytest.param(jnp.float32, 128, 0.3, marks=exhaustive),
        pytest.param(jnp.float32, 256, 0.3, marks=exhaustive),
    ],
)
def test_output_and_gradients_are_those_of_plain_attention(dtype, width, rate):
    heads = max(1, 128 // width) * 2
    close(*both(list(PATTERNS.values()), heads, width, dtype, rate), dtype)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("length", [256, pytest.param(512, marks=exhaustive)])
def test_longer_rows_go_block_by_block(length):
    segments = [row(length // 2, 90, width=length), row(1, length - 1, width=length)]
    close(*both(segments, 4, 64, jnp.float32, 0.3), jnp.float32)


@pytest.mark.usefixtures("interpreted")
def test_dropped_weights_are_those_of_the_plain_path(caplog):
    # Values that name their key: an output is the sum over the keys that were kept.
    segments = jnp.ones((1, 128), jnp.int32)
    keys = DropoutKeys.of(jax.random.key(0), jnp.arange(1))
    same = jnp.zeros((1, 128, 2, 64))
    names = jnp.broadcast_to(jnp.eye(128, 64)[None, :, None], (1, 128, 2, 64))
    shared = {"dropout_rate": 0.5, "rng": keys}
    mask = attention.segment_mask(segments)
    caplog.set_level("INFO", attention.__name__)
    got = attention.attend(same, same, names, segment_ids=segments, **shared)
    assert "float32 (1, 128, 2, 64) runs as one kernel" in caplog.text
    expected = attention.attend(same, same, names, mask, **shared)
    np.testing.assert_array_equal(got > 0, expected > 0)
    assert 0.45 < (got > 0).mean() < 0.55


@pytest.mark.parametrize(
    ("length", "heads", "width", "dtype"),
    [
        (100, 4, 64, jnp.float32),
        (2048, 4, 64, jnp.bfloat16),
        (1024, 4, 64, jnp.float32),
        (128, 3, 64, jnp.float32),
        (128, 4, 48, jnp.float32),
        (128, 4, 192, jnp.float32),
        (128, 4, 64, jnp.float16),
        (128, 4, 64, jnp.float64),
    ],
)
def test_other_shapes_take_the_plain_path(length, heads, width, dtype):
    assert not attention_tpu.fits(length, heads, width, jnp.dtype(dtype))


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("length", [96, 160])
def test_a_row_of_another_length_is_attended_by_the_plain_path(length, caplog):
    query, key, value, _ = arrays((1, length, 2, 64), jnp.float32)
    segments = jnp.asarray([row(length // 2, width=length)], jnp.int32)
    got = attention.attend(query, key, value, segment_ids=segments)
    mask = attention.segment_mask(segments)
    expected = attention.attend(query, key, value, mask)
    np.testing.assert_array_equal(got, expected)
    assert f"(1, {length}, 2, 64) runs without the kernel" in caplog.text


def test_other_platforms_take_the_plain_path():
    assert not attention.runs_on_tpu((2, 128, 4, 64), jnp.dtype("float32"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "names", ["data 2, fsdp 2, tensor 2", pytest.param("all", marks=exhaustive)]
)
def test_meshes_have_the_gradient_of_plain_attention_on_one_device(names):
    # Eight CPU devices have to be asked for before JAX is used.
    worker = Path(__file__).with_name("attention_worker.py")
    done = subprocess.run(
        [sys.executable, str(worker), names], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    errors = json.loads(done.stdout)
    assert len(errors) == (5 if names == "all" else 1)
    # Of a gradient's entries, over the largest of them.
    assert max(errors.values()) < 2e-6, errors
