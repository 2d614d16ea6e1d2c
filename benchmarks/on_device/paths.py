"""Which attention? Each path forward and backward, and whether segments leak in it."""

from __future__ import annotations

import functools
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dicejax.models import attention_gpu
from dicejax.models.attention import attend, segment_mask
from dicejax.models.dropout import DropoutKeys, keep_below, key_words
from on_device.report import Report

SHAPES = (  # rows, tokens, heads: 16,384 tokens of BERT-base's layers
    (128, 128, 12),
    (32, 512, 12),
)
WIDTH = 64
UNIFORM = 128
"""Tokens of a segment where all have one length."""
NEEDS = 8.0
"""Seconds that a path needs, its compilation included."""


def run(report: Report) -> None:
    """Time every path on every shape in bfloat16."""
    shapes = ((2, 2 * UNIFORM, 2),) if report.smallest else SHAPES
    needs = 0.0 if report.smallest else NEEDS
    rounds = 1 if report.smallest else 20
    for rows, length, heads in shapes:
        shape = (rows, length, heads, WIDTH)
        packed = segments(rows, length, uniform=False)
        uniform = segments(rows, length, uniform=True)
        rivals = {"PyTorch, full rows": None, "PyTorch, mask": packed}
        measures: dict[str, Callable[[], dict[str, Any]]] = {
            name: functools.partial(
                measure, path, uniform if needs_uniform else packed, heads, rounds
            )
            for name, (path, needs_uniform) in PATHS.items()
        } | {name: functools.partial(pytorch, shape, x) for name, x in rivals.items()}
        for name, call in measures.items():
            text = "x".join(map(str, shape))
            report.attempt(call, needs=needs, shape=text, path=name)


def segments(rows: int, length: int, *, uniform: bool) -> np.ndarray:
    """Number the segments of rows: of CoNLL's lengths, or all of `UNIFORM` tokens."""
    if uniform:
        row = np.arange(length) // UNIFORM + 1
        return np.broadcast_to(row, (rows, length)).astype(np.int32)
    rng = np.random.default_rng(0)
    starts = rng.random((rows, length)) < 1 / 20  # a mean of 20 tokens
    return (starts.cumsum(axis=1) + 1).astype(np.int32)


Path = Callable[[Array, Array, Array, Array], Array]


RATE = 0.1


def xla(query: Array, key: Array, value: Array, segment_ids: Array) -> Array:
    """Call the package's plain path without dropout."""
    return attend(query, key, value, segment_mask(segment_ids))


def xla_dropout(query: Array, key: Array, value: Array, segment_ids: Array) -> Array:
    """Call the package's plain path with dropout of the weights."""
    keys = DropoutKeys.for_rows(jax.random.key(0), jnp.arange(len(query)))
    mask = segment_mask(segment_ids)
    return attend(query, key, value, mask, dropout_rate=RATE, rng=keys)


def kernel(
    query: Array,
    key: Array,
    value: Array,
    segment_ids: Array,
    rate: float = 0.0,
    **tiles: attention_gpu.Tiles,
) -> Array:
    """Call the package's kernel for GPUs."""
    rows, length, heads, width = query.shape
    keys = DropoutKeys.for_rows(jax.random.key(0), jnp.arange(rows))
    words = key_words(keys.rows)
    draws = jnp.concatenate([words, jnp.zeros_like(words[:, :1])], axis=1)
    form = attention_gpu.TiledForm(width, keep_below(rate) if rate else None, **tiles)
    flat = (x.reshape(rows, length, heads * width) for x in (query, key, value))
    return attention_gpu.attention(*flat, segment_ids, draws, form).reshape(query.shape)


kernel_dropout = functools.partial(kernel, rate=RATE)


def cudnn_mask(query: Array, key: Array, value: Array, segment_ids: Array) -> Array:
    """Call cuDNN with the mask of segments."""
    return jax.nn.dot_product_attention(
        query, key, value, mask=segment_mask(segment_ids), implementation="cudnn"
    )


def cudnn_uniform(query: Array, key: Array, value: Array, segment_ids: Array) -> Array:
    """Call cuDNN with each segment as a row, where all have one length."""
    del segment_ids
    shape, short = query.shape, (-1, UNIFORM, *query.shape[2:])
    query, key, value = (x.reshape(short) for x in (query, key, value))
    out = jax.nn.dot_product_attention(query, key, value, implementation="cudnn")
    return out.reshape(shape)


def cudnn_lengths(query: Array, key: Array, value: Array, segment_ids: Array) -> Array:
    """Call cuDNN with each segment as a row and lengths, as padded rows have them."""
    del segment_ids
    shape, short = query.shape, (-1, UNIFORM, *query.shape[2:])
    query, key, value = (x.reshape(short) for x in (query, key, value))
    lengths = jnp.full(len(query), UNIFORM, jnp.int32)
    out = jax.nn.dot_product_attention(
        query,
        key,
        value,
        query_seq_lengths=lengths,
        key_value_seq_lengths=lengths,
        implementation="cudnn",
    )
    return out.reshape(shape)


def pallas(query: Array, key: Array, value: Array, segment_ids: Array) -> Array:
    """Call JAX's Pallas kernel for GPUs, by segment ids, without dropout."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from jax.experimental.pallas.ops.gpu import attention as kernels
    scale = query.shape[-1] ** -0.5
    return kernels.mha(query, key, value, segment_ids, sm_scale=scale)


# Whether a path takes segments of one length alone.
PATHS: dict[str, tuple[Path, bool]] = {
    "XLA": (xla, False),
    "XLA, dropout": (xla_dropout, False),
    "kernel": (kernel, False),
    "kernel, dropout": (kernel_dropout, False),
    "cuDNN, mask": (cudnn_mask, False),
    "cuDNN, uniform segments": (cudnn_uniform, True),
    "cuDNN, lengths": (cudnn_lengths, True),
    "Pallas": (pallas, False),
}


def measure(
    path: Path, segment_ids: np.ndarray, heads: int, rounds: int
) -> dict[str, Any]:
    """Return times, memory, the difference and the leak of a path.

    The difference is from the package's path in float32 with the same draws. The leak
    is the largest change of outputs and gradients of segments that were not changed.
    """
    rng = np.random.default_rng(1)
    shape = (*segment_ids.shape, heads, WIDTH)
    arrays = [jnp.asarray(rng.normal(size=shape), jnp.bfloat16) for _ in range(4)]
    segment_ids = jnp.asarray(segment_ids)

    def both(path: Path):
        def backward(segment_ids: Array, cotangent: Array, *arrays: Array):
            out, pull = jax.vjp(lambda *qkv: path(*qkv, segment_ids), *arrays)
            return out, *pull(cotangent)

        return jax.jit(backward)

    forward = jax.jit(lambda segment_ids, _, *qkv: path(*qkv, segment_ids))
    arguments = (segment_ids, arrays[3], *arrays[:3])
    started = time.perf_counter()
    program = both(path).lower(*arguments).compile()
    compiled = time.perf_counter() - started
    plain = xla_dropout if path in (xla_dropout, kernel_dropout) else xla
    wide = [x.astype(jnp.float32) for x in arguments[1:]]
    with jax.default_matmul_precision("highest"):
        expected = both(plain)(segment_ids, *wide)
    outputs = program(*arguments)
    difference = max(share(x, y) for x, y in zip(outputs, expected, strict=True))
    return {
        "forward_ms": milliseconds(forward, arguments, rounds),
        "both_ms": milliseconds(program, arguments, rounds),
        "temporary_mib": program.memory_analysis().temp_size_in_bytes / 2**20,
        "compile_s": compiled,
        "difference": difference,
        "leak": leak(program, outputs, segment_ids, arguments),
    }


def share(value: Array, expected: Array) -> float:
    """Return the largest difference as a share of the largest entry."""
    largest = jnp.abs(value.astype(jnp.float32) - expected).max()
    return float(largest / jnp.abs(expected).max())


def leak(program: Any, before: Any, segment_ids: Array, arguments: Any) -> float:
    """Change the last segment of each row; return what changes in the others."""
    changed = (segment_ids == segment_ids[:, -1:])[:, :, None, None]
    _, cotangent, *qkv = arguments
    moved = [jnp.where(changed, x[::-1] * 2 + 1, x) for x in (cotangent, *qkv)]
    after = program(segment_ids, *moved)
    pairs = zip(before, after, strict=True)
    both = [(changed, jnp.abs(x - y).astype(jnp.float32)) for x, y in pairs]
    if not all(float(jnp.where(c, d, 0).max()) > 0 for c, d in both):
        raise ValueError("outputs of the changed segment stay as they were")
    return max(float(jnp.where(c, 0, d).max()) for c, d in both)


def milliseconds(call: Callable[..., Any], arguments: Any, rounds: int) -> float:
    """Return the median time of a call, after two that do not count."""
    jax.block_until_ready([call(*arguments) for _ in range(2)])
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        jax.block_until_ready([call(*arguments) for _ in range(4)])
        times.append((time.perf_counter() - start) / 4)
    return 1e3 * statistics.median(times)


def pytorch(
    shape: tuple[int, int, int, int], segment_ids: np.ndarray | None
) -> dict[str, Any]:
    """Return the times of PyTorch's attention with dropout, on its GPU.

    Args:
      shape: rows, tokens, heads, width of a head.
      segment_ids: int `[B, T]`, for a mask; None: full rows.
    """
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    rows, length, heads, width = shape
    options = {"device": "cuda", "dtype": torch.bfloat16, "requires_grad": True}
    query, key, value = (
        torch.randn(rows, heads, length, width, **options) for _ in range(3)
    )
    mask = None
    if segment_ids is not None:
        ids = torch.tensor(segment_ids, device="cuda")
        mask = (ids[:, None, :, None] == ids[:, None, None, :]).contiguous()

    def forward():
        return scaled_dot_product_attention(query, key, value, mask, dropout_p=0.1)

    cotangent = torch.randn_like(forward())

    def both() -> None:
        forward().backward(cotangent)

    def median(call: Callable[[], Any]) -> float:
        times = []
        for turn in range(22):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(4):
                call()
            torch.cuda.synchronize()
            if turn > 1:
                times.append((time.perf_counter() - start) / 4)
        return 1e3 * statistics.median(times)

    return {"forward_ms": median(forward), "both_ms": median(both)}
