"""Attention of short packed rows as one TPU kernel, dropout of the weights inside.

Scores, weights and random bits stay in the core's fast memory; the backward pass
computes them again. A program has one row and as many heads as fill 128 lanes. Scores
are kept transposed, `[keys, queries]`: sums over keys then run over sublanes, the four
quarters that share draws are whole tiles, and no product transposes a large operand.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from dicejax.models.dropout import sixteen_bits, threefry2x32
from dicejax.models.layers import PRODUCT

LANES = 128
QUERIES = 128
"""Queries per turn of the loop: as many as keep a row's scores near the registers."""
WINDOWS = False
TAKES = (
    "rows of 128, 256, 384, ... tokens, up to 1,024 in bfloat16 and 512 in float32, of "
    "batches that the mesh divides"
)
LARGEST = 256 * 2**10
"""Bytes of a program's queries: the backward pass of more takes over 16 MiB."""


@dataclasses.dataclass(frozen=True)
class Form:
    """Static settings of the kernel."""

    width: int  # of a head
    threshold: int | None  # 16-bit bound of the weights that are kept; None: no dropout

    # Factor of the scores; width of a program's heads side by side; how many they are.
    scale = property(lambda self: self.width**-0.5)
    lanes = property(lambda self: max(LANES, self.width))
    heads = property(lambda self: self.lanes // self.width)


def fits(length: int, heads: int, width: int, dtype: jnp.dtype) -> bool:
    """Whether the kernel takes rows of this length with these heads.

    Up to 1,024 tokens in bfloat16 and 512 in float32, by the 128; heads whose widths
    fill 128 lanes, or one of 256 at half the length.

    >>> fits(1024, 16, 64, jnp.dtype("bfloat16"))
    True
    >>> fits(100, 16, 64, jnp.dtype("bfloat16"))
    False
    """
    lanes = max(LANES, width)
    return (
        dtype in (jnp.bfloat16, jnp.float32)
        and length % QUERIES == 0
        and 0 < length * lanes * dtype.itemsize <= LARGEST
        and lanes % width == 0
        and lanes % LANES == 0
        and heads * width % lanes == 0
    )


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def attention(
    query: Array, key: Array, value: Array, segment_ids: Array, draws: Array, form: Form
) -> Array:
    """Compute attention within segments: `softmax(q k^T / sqrt(H)) v` for each head.

    Arrays and result are `[B, T, N * H]`, of sizes that `fits` allows; `segment_ids`
    is int `[B, T]`. `draws`, uint32 `[B, 3]`, has the two words of a row's key, and the
    number of the first head, which is not 0 where heads are split over devices.
    """
    return _call(_forward, form, segment_ids, draws, (query, key, value), 1)[0]


def _attention_fwd(
    query: Array, key: Array, value: Array, segment_ids: Array, draws: Array, form: Form
) -> tuple[Array, tuple[Array, ...]]:
    # Small, and all that running the kernel forward again would give.
    out = checkpoint_name(
        attention(query, key, value, segment_ids, draws, form), PRODUCT
    )
    return out, (query, key, value, segment_ids, draws)


def _attention_bwd(
    form: Form, residuals: tuple[Array, ...], cotangent: Array
) -> tuple[Array | None, ...]:
    query, key, value, segment_ids, draws = residuals
    arrays = (query, key, value, cotangent)
    return *_call(_backward, form, segment_ids, draws, arrays, 3), None, None


attention.defvjp(_attention_fwd, _attention_bwd)


def _call(
    kernel: Callable[..., None],
    form: Form,
    segment_ids: Array,
    draws: Array,
    arrays: tuple[Array, ...],
    results: int,
) -> list[Array]:
    """Run a kernel over rows and groups of heads."""
    rows, length, width = arrays[0].shape
    block = pl.BlockSpec((1, length, form.lanes), lambda row, group: (row, 0, group))
    of_row = pl.BlockSpec((1, 1, length), lambda row, group: (row, 0, 0))
    scores = rows * length * length
    products = len(arrays) + results - 2  # 2 forward, 5 backward
    return pl.pallas_call(
        functools.partial(kernel, form=form),
        grid=(rows, width // form.lanes),
        in_specs=[
            pl.BlockSpec(memory_space=pltpu.SMEM),
            of_row,
            *(block for _ in arrays),
        ],
        out_specs=[block] * results,
        out_shape=[jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays[:results]],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel")
        ),
        cost_estimate=pl.CostEstimate(
            flops=2 * products * scores * width,
            transcendentals=scores * (width // form.width),
            bytes_accessed=(len(arrays) + results) * arrays[0].nbytes,
        ),
        name=f"attention{kernel.__name__}",
    )(draws.reshape(-1), segment_ids.astype(jnp.int32)[:, None], *arrays)


def _forward(
    draws: Array, segments: Array, query: Array, key: Array, value: Array, out: Array,
    *, form: Form,
) -> None:  # fmt: skip
    program = _Program(draws, segments, form)
    keys, values = key[0], value[0]

    def block(start: Array) -> None:
        rows = pl.ds(start, QUERIES)
        queries = query[0, rows]
        total = jnp.zeros((form.lanes, QUERIES), jnp.float32)
        for head in range(form.heads):
            weights, norm = program.weights(keys, program.select(queries, head), start)
            dropped = program.drop(weights, head, start).astype(values.dtype)
            part = _product(values, dropped, (0, 0)) * (program.boost / norm)
            total += program.select(part, head, axis=0)
        out[0, rows] = total.T.astype(out.dtype)

    program.over_queries(block)


def _backward(
    draws: Array, segments: Array, query: Array, key: Array, value: Array,
    out_bar: Array, query_bar: Array, key_bar: Array, value_bar: Array, *, form: Form,
) -> None:  # fmt: skip
    program = _Program(draws, segments, form)
    keys, values = key[0], value[0]

    # Constant factors, `boost` of the kept weights and `scale` of the scores, are left
    # to the sums.
    def block(start: Array, sums: tuple[Array, Array]) -> tuple[Array, Array]:
        rows = pl.ds(start, QUERIES)
        queries, bars = query[0, rows], out_bar[0, rows]
        keys_sum, values_sum = sums
        queries_sum = jnp.zeros((form.lanes, QUERIES), jnp.float32)
        for head in range(form.heads):
            head_queries, head_bars = (program.select(x, head) for x in (queries, bars))
            weights, norm = program.weights(keys, head_queries, start)
            weights = weights / norm
            dropped = program.drop(weights, head, start).astype(values.dtype)
            values_sum += _product(dropped, head_bars, (1, 0))
            slope = _product(values, head_bars, (1, 1))
            slope = program.drop(slope, head, start)
            slope = weights * (slope - (weights * slope).sum(0, keepdims=True))
            slope = slope.astype(keys.dtype)
            keys_sum += _product(slope, head_queries, (1, 0))
            part = _product(keys, slope, (0, 0))
            queries_sum += program.select(part, head, axis=0)
        factor = program.boost * form.scale
        query_bar[0, rows] = (queries_sum * factor).T.astype(query_bar.dtype)
        return keys_sum, values_sum

    zeros = jnp.zeros(keys.shape, jnp.float32)
    keys_sum, values_sum = program.over_queries(block, (zeros, zeros))
    key_bar[0] = (keys_sum * (program.boost * form.scale)).astype(key_bar.dtype)
    value_bar[0] = (values_sum * program.boost).astype(value_bar.dtype)


class _Program:
    """A row and a group of heads: what forward and backward pass share."""

    def __init__(self, draws: Array, segments: Array, form: Form):
        row, group = pl.program_id(0), pl.program_id(1)
        first, second, head = (draws[3 * row + place] for place in range(3))
        self.key = first, second
        self.first_head = head + (group * form.heads).astype(jnp.uint32)
        self.form = form
        self.segments = segments
        self.length = segments.shape[2]
        # As a column, in every lane.
        of_keys = jnp.broadcast_to(segments[0], (QUERIES, self.length))
        self.segments_of_keys = of_keys.T
        self.boost = 1.0 if form.threshold is None else 65536 / form.threshold

    def over_queries(self, block: Callable[..., Any], carried: Any = None) -> Any:
        """Fold a function of a block's start and the last block's result."""

        def turn(number: Array, carried: Any) -> Any:
            start = pl.multiple_of(number * QUERIES, QUERIES)
            return block(start, carried) if carried is not None else block(start)

        return lax.fori_loop(0, self.length // QUERIES, turn, carried)

    def select(self, x: Array, head: int, axis: int = 1) -> Array:
        """Set the lanes of other heads to zero, so that products are of one head."""
        if self.form.heads == 1:
            return x
        place = lax.broadcasted_iota(jnp.int32, x.shape, axis) - head * self.form.width
        in_head = (place >= 0) & (place < self.form.width)
        return jnp.where(in_head, x, jnp.zeros_like(x))

    def weights(self, keys: Array, queries: Array, start: Array) -> tuple[Array, Array]:
        """Return weights of a head `[T, Q]` before division by their sum `[1, Q]`."""
        scores = _product(keys, queries, (1, 1)) * self.form.scale
        of_queries = self.segments[0, :, pl.ds(start, QUERIES)]
        seen = self.segments_of_keys == of_queries
        scores = jnp.where(seen, scores, np.finfo(np.float32).min)
        weights = jnp.exp(scores - scores.max(0, keepdims=True))
        return weights, weights.sum(0, keepdims=True)

    def drop(self, weights: Array, head: int, start: Array) -> Array:
        """Set the weights to zero that `dropout.keep_mask` drops; not yet scaled."""
        if self.form.threshold is None:
            return weights
        shape = (self.length // 4, QUERIES)
        of_head = self.first_head + np.uint32(head)
        first = of_head * np.uint32(self.length) + start.astype(jnp.uint32)
        counter = (
            lax.broadcasted_iota(jnp.uint32, shape, 0),
            lax.broadcasted_iota(jnp.uint32, shape, 1) + first,
        )
        bits = jnp.concatenate(sixteen_bits(threefry2x32(self.key, counter)))
        return jnp.where(bits < np.uint32(self.form.threshold), weights, 0.0)


def _product(a: Array, b: Array, contract: tuple[int, int]) -> Array:
    dims = (((contract[0],), (contract[1],)), ((), ()))
    return lax.dot_general(a, b, dims, preferred_element_type=jnp.float32)
