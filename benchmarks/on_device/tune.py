"""Which tiles? Each of the attention kernels for GPUs at several sizes of its turns."""

from __future__ import annotations

import dataclasses
import functools
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dicejax.models import attention_gpu
from dicejax.models.attention_gpu import TiledForm, Tiles
from dicejax.models.dropout import keep_below
from on_device.paths import RATE, WIDTH, segments
from on_device.report import Report

SHAPES = ((128, 128, 12), (32, 512, 12))  # rows, tokens, heads
BY_QUERIES = (  # queries, keys, warps, stages
    (64, 32, 4, 2),
    (32, 32, 2, 2),
    (16, 32, 1, 2),
    (64, 64, 4, 2),
    (128, 32, 8, 2),
    (64, 128, 4, 2),
    (32, 16, 2, 2),
    (16, 16, 1, 2),
    (64, 32, 4, 1),
    (32, 32, 2, 1),
)
BY_KEYS = (
    (32, 32, 2, 2),
    (64, 32, 4, 2),
    (32, 32, 4, 2),
    (32, 64, 4, 2),
    (64, 64, 4, 2),
    (16, 32, 2, 2),
    (32, 16, 1, 2),
    (16, 16, 1, 2),
    (32, 32, 2, 1),
)
KERNELS = {
    "forward": BY_QUERIES,
    "to_queries": BY_QUERIES,
    "to_keys": BY_KEYS,
}
NEEDS = 2.0
"""Seconds that tiles need, their compilation included."""


def run(report: Report) -> None:
    """Time each kernel with each tiles, on rows of CoNLL's lengths, with dropout."""
    shapes = ((2, 128, 2),) if report.smallest else SHAPES
    for rows, length, heads in shapes:
        measures = prepare(rows, length, heads, 1 if report.smallest else 10)
        for name, choices in KERNELS.items():
            for choice in choices[:1] if report.smallest else choices:
                tiles = Tiles(*choice)
                report.attempt(
                    functools.partial(measures[name], tiles),
                    needs=0.0 if report.smallest else NEEDS,
                    shape=f"{rows}x{length}x{heads}x{WIDTH}",
                    kernel=name,
                    **dataclasses.asdict(tiles),
                )


def prepare(
    rows: int, length: int, heads: int, rounds: int
) -> dict[str, Callable[[Tiles], dict[str, Any]]]:
    """Return a function for each kernel that times it with tiles."""
    rng = np.random.default_rng(1)
    shape = rows, length, heads * WIDTH
    query, key, value, cotangent = (
        jnp.asarray(rng.normal(size=shape), jnp.bfloat16) for _ in range(4)
    )
    ids = jnp.asarray(segments(rows, length, uniform=False))
    draws = jnp.asarray(rng.integers(0, 2**32, (rows, 3)), jnp.uint32).at[:, 2].set(0)
    form = TiledForm(WIDTH, keep_below(RATE))
    inputs = ids, draws, query, key, value
    norms = jnp.full((rows, heads, length), 10.0)  # of any size: only time is measured

    def measure(kernel: Any, arguments: Any, kinds: str, results: str, tiles: Tiles):
        @jax.jit
        def call(*inputs):
            return attention_gpu._call(
                kernel, form, tiles, None, inputs, kinds, results
            )

        start = time.perf_counter()
        program = call.lower(*arguments).compile()
        compiled = time.perf_counter() - start
        jax.block_until_ready([program(*arguments) for _ in range(3)])
        times = []
        for _ in range(rounds):
            start = time.perf_counter()
            jax.block_until_ready([program(*arguments) for _ in range(10)])
            times.append((time.perf_counter() - start) / 10)
        return {"ms": 1e3 * statistics.median(times), "compile_s": compiled}

    forward, to_queries, to_keys = (
        getattr(attention_gpu, f"_{name}") for name in KERNELS
    )
    backward = *inputs, cotangent
    return {
        "forward": functools.partial(measure, forward, inputs, "qkk", "qn"),
        "to_queries": functools.partial(
            measure, to_queries, (*backward, query, norms), "qkkqqn", "qn"
        ),
        "to_keys": functools.partial(
            measure, to_keys, (*backward, norms, norms), "qkkqnn", "kk"
        ),
    }
