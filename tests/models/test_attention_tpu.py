"""The TPU's attention kernel, interpreted, vs. plain attention."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

from dicejax.mesh import MeshShape
from dicejax.models import attention, attention_tpu
from dicejax.models.dropout import DropoutKeys
from dicejax.models.heads import TokenHead
from dicejax.objectives import CrossEntropy, SelfAdjustingDice
from dicejax.training.accumulation import loss_and_gradient
from dicejax.training.sharding import global_batch, put

from ..training import worker
from .small import encoder_of, network_of

exhaustive = pytest.mark.exhaustive


def row(*lengths, width=128):
    """Return the segments of a row: 0 for padding, else numbered."""
    numbers = iter(range(1, 200))
    ids = [0 if n < 0 else next(numbers) for n in lengths]
    return np.pad(np.repeat(ids, np.abs(lengths)), (0, width - np.abs(lengths).sum()))


PATTERNS = [
    row(128),
    row(50, 30, 48),
    row(70, 20),  # padding on the right
    row(-40, 60, 28),  # padding on the left
    [1, 2, 3, *[4] * 100, *range(5, 30)],  # single tokens
    row(-128),
]


def interpret(patch, kernel=attention_tpu):
    """Take a kernel on this platform; return its calls."""
    call, calls = pl.pallas_call, []

    def interpreted(kernel, **options):
        calls.append(kernel)
        return call(kernel, interpret=True, **options)

    patch.setattr(pl, "pallas_call", interpreted)
    patch.setattr(attention, "_KERNELS", {"cpu": kernel})
    return calls


@pytest.fixture
def interpreted(monkeypatch):
    return interpret(monkeypatch)


def arrays(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    return [jnp.asarray(rng.normal(size=shape), dtype) for _ in range(4)]


def both(query, key, value, cotangent, **settings):
    """Return outputs and gradients, of the kernel's path and of the plain one."""

    def attended(mask, *arrays):
        return attention.attend(*arrays, mask, **settings)

    mask = attention.segment_mask(settings["segment_ids"])
    if (window := settings.get("window")) is not None:
        places = np.arange(query.shape[1])
        mask &= np.abs(places[:, None] - places) <= window

    def differentiated(mask, query, key, value, cotangent):
        out, pull = jax.vjp(functools.partial(attended, mask), query, key, value)
        return out, *pull(cotangent)

    batch = query, key, value, cotangent
    plain = [x.astype(jnp.float32) for x in batch]
    kernel = jax.jit(functools.partial(differentiated, None))
    return kernel(*batch), jax.jit(differentiated)(mask, *plain)


LONG = [row(128, 90, width=256), row(1, 255, width=256)]
LONGER = [row(256, 90, width=512), row(1, 511, width=512)]


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize(
    ("segments", "dtype", "width", "rate"),
    [
        (PATTERNS, "float32", 64, 0.3),
        pytest.param(PATTERNS, "float32", 64, 0.0, marks=exhaustive),
        (PATTERNS, "bfloat16", 64, 0.1),
        pytest.param(PATTERNS, "bfloat16", 64, 0.0, marks=exhaustive),
        pytest.param(PATTERNS, "float32", 32, 0.3, marks=exhaustive),
        (PATTERNS, "float32", 128, 0.0),
        pytest.param(PATTERNS, "float32", 128, 0.3, marks=exhaustive),
        pytest.param(PATTERNS, "float32", 256, 0.3, marks=exhaustive),
        (LONG, "float32", 64, 0.3),  # block by block
        pytest.param(LONGER, "float32", 64, 0.3, marks=exhaustive),
    ],
)
def test_output_and_gradients_are_those_of_plain_attention(
    segments, dtype, width, rate
):
    segments = jnp.asarray(segments, jnp.int32)
    rows, length = segments.shape
    batch = arrays((rows, length, max(1, 128 // width) * 2, width), dtype)
    if width == 128:  # a head of keys and values serves two of queries
        batch[1:3] = (x[:, :, :1] for x in batch[1:3])
    keys = DropoutKeys.for_rows(jax.random.key(3), jnp.arange(rows))

    settings = {"segment_ids": segments, "rng": keys, "dropout_rate": rate}
    assert attention.fits_kernel(batch[0].shape, batch[0].dtype)
    kernel, plain = both(*batch, **settings)
    # bfloat16 rounds the weights, the slopes and the results to 8 bits.
    tolerance = 2e-6 if dtype == "float32" else 2**-6
    for got, expected in zip(kernel, plain, strict=True):
        assert got.dtype == dtype
        limit = tolerance * max(1.0, np.abs(expected).max())
        got = np.asarray(got, np.float32)
        np.testing.assert_allclose(got, expected, rtol=0, atol=limit)


@pytest.mark.usefixtures("interpreted")
def test_dropped_weights_are_those_of_the_plain_path(caplog):
    # Values that name their key: an output is the sum over the keys that were kept.
    segments = jnp.ones((1, 128), jnp.int32)
    keys = DropoutKeys.for_rows(jax.random.key(0), jnp.arange(1))
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
        (100, 4, 64, "float32"),
        (2048, 4, 64, "bfloat16"),
        (1024, 4, 64, "float32"),
        (128, 3, 64, "float32"),
        (128, 4, 48, "float32"),
        (128, 4, 192, "float32"),
        (128, 4, 64, "float16"),
        (128, 4, 64, "float64"),
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


def test_other_platforms_take_the_plain_path(monkeypatch):
    monkeypatch.setattr(attention, "fits_kernel", None)  # is not even asked
    query, key, value, _ = arrays((1, 128, 2, 64), jnp.float32)
    segments = jnp.ones((1, 128), jnp.int32)
    attention.attend(query, key, value, segment_ids=segments)


SPLIT = {"data": 2, "fsdp": 2, "tensor": 2}
MESHES = {
    "1 device": ({"data": 1}, "dsc", 1),
    "data 8": ({"data": 8}, "dsc", 1),
    "data 2, fsdp 2, tensor 2": (SPLIT, "dsc", 1),
    "micro-batches, dsc": (SPLIT, "dsc", 2),
    "micro-batches, ce": (SPLIT, "ce", 2),
}
OBJECTIVES = {"dsc": SelfAdjustingDice(), "ce": CrossEntropy()}


def errors_on_meshes(*names, kernel=attention_tpu):
    """Return by mesh the error of the kernel's gradient, relative to its largest entry.

    Expected is the gradient of plain attention on one device, with dropout. Rows have
    several segments and are padded on either side.
    """
    settings = {"vocab": 48, "depth": 1, "initializer_range": 0.2}
    settings |= {"max_position_embeddings": 128}
    network = network_of(encoder_of("bert", 256, 32, **settings), TokenHead(classes=4))
    rng, shape = np.random.default_rng(0), (8, 128)
    segments = np.sort(rng.integers(0, 5, shape), axis=1)
    segments[1] = np.where(segments[1] == 4, 0, segments[1])
    batch = {
        "input_ids": rng.integers(0, 48, shape),
        "segment_ids": segments,
        "position_ids": np.broadcast_to(np.arange(128), shape),
        "token_type_ids": np.zeros(shape, int),
        "tags": rng.integers(0, 4, shape),
    }

    def gradient(params, batch, name, mesh=None, micro_batches=1):
        objective = OBJECTIVES[name].reading("tags")
        options = {"objective_state": objective.initial_state(), "network": network}
        options |= {"mesh": mesh, "micro_batches": micro_batches}
        options |= {"rng": jax.random.key(7), "objective": objective}

        @jax.jit
        def compute(params, batch):
            return loss_and_gradient(params, batch, **options).gradients

        return jax.device_get(compute(params, batch))

    params = jax.device_get(jax.jit(network.init)(jax.random.key(0)))
    losses = {MESHES[name][1] for name in names}
    plain = {loss: gradient(params, batch, loss) for loss in losses}
    errors = {}
    with pytest.MonkeyPatch.context() as patch:
        calls = interpret(patch, kernel)
        for name in names:
            calls.clear()
            shape, loss, micro_batches = MESHES[name]
            mesh = MeshShape(**shape).make(jax.devices()[: np.prod([*shape.values()])])
            placed = put(params, mesh), global_batch(batch, mesh)
            got = gradient(*placed, loss, mesh, micro_batches)
            assert len(calls) >= 2, "the kernel is not taken"
            pairs = [*zip(*map(jax.tree.leaves, (got, plain[loss])), strict=True)]
            largest = max(np.abs(x).max() for x, _ in pairs)
            errors[name] = max(np.abs(x - y).max() for x, y in pairs) / largest
    return errors


@pytest.mark.slow
@pytest.mark.parametrize(
    "names", [[*MESHES][2:3], pytest.param([*MESHES], marks=exhaustive)], ids=len
)
def test_meshes_have_the_gradient_of_plain_attention_on_one_device(names, tmp_path):
    errors = worker.call(errors_on_meshes, *names, folder=tmp_path, devices=8)
    assert len(errors) == len(names)
    assert max(errors.values()) < 2e-6, errors
