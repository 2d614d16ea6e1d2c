"""Attention of packed rows as GPU kernels, dropout of the weights inside.

Scores, weights and random bits stay in registers; the backward pass computes them again
from the logarithm of each softmax's sum. A program has a block of queries or of keys of
a row and a head. It visits the blocks of the other side from the first to the last that
has a segment in common with its own, which for short segments are two or three.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from dicejax.models.dropout import threefry2x32
from dicejax.models.layers import PRODUCT

LEAST = -(2.0**100)
"""Score of a masked pair: a power of two, so that its products are exact."""
WINDOWS = True
DTYPE = jnp.bfloat16
Words = tuple[Array, Array]
Residuals = tuple[Array | None, tuple[Array, ...]]  # the window, and arrays
Carry = TypeVar("Carry")
TAKES = "rows of 32, 64, 96, ... tokens in bfloat16, of batches that the mesh divides"


@dataclasses.dataclass(frozen=True)
class Tiles:
    """Queries and keys of a program's turn, and the compiler's settings for it."""

    queries: int
    keys: int
    warps: int = 4
    stages: int = 2

    def fit(self, length: int) -> Tiles:
        """Return the largest that divide a row of this length."""
        queries, keys = (math.gcd(x, length) for x in (self.queries, self.keys))
        return dataclasses.replace(self, queries=queries, keys=keys)


@dataclasses.dataclass(frozen=True)
class TiledForm:
    """Static settings of the kernels.

    `forward` and `to_queries` have a program for each block of queries, `to_keys` for
    each of keys.
    """

    width: int  # of a head
    threshold: int | None  # 16-bit bound of the weights that are kept; None: no dropout
    forward: Tiles = Tiles(64, 32)
    to_queries: Tiles = Tiles(64, 32)
    to_keys: Tiles = Tiles(32, 32)


def fits(length: int, heads: int, width: int, dtype: jnp.dtype) -> bool:
    """Whether the kernels take rows of this length with these heads.

    Any number of heads of 32, 64 or 128, in bfloat16, on GPUs that multiply it. float32
    has faster paths where it may be rounded, and no need of one where it may not.

    >>> fits(192, 12, 64, jnp.dtype("bfloat16"))
    True
    >>> fits(100, 12, 64, jnp.dtype("bfloat16"))
    False
    """
    # "gfx942" on AMD; without a GPU, programs are planned for one of at least 8.0.
    capability = getattr(jax.devices()[0], "compute_capability", "8.0").split(".")[0]
    return (
        dtype == DTYPE
        and length % 32 == 0 < length
        and heads > 0
        and width in (32, 64, 128)
        and capability.isdigit()
        and int(capability) >= 8
    )


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def attention(
    query: Array,
    key: Array,
    value: Array,
    segment_ids: Array,
    draws: Array,
    form: TiledForm,
    window: Array | None = None,
) -> Array:
    """Compute attention within segments: `softmax(q k^T / sqrt(H)) v` for each head.

    Arrays and result are `[B, T, N * H]`, of sizes that `fits` allows; `segment_ids`
    is int `[B, T]`. `draws`, uint32 `[B, 3]`, has the two words of a row's key, and the
    number of the first head, which is not 0 where heads are split over devices. Tokens
    see those at most `window`, an int, away; None: all of their segment.
    """
    return _attention_fwd(query, key, value, segment_ids, draws, form, window)[0]


def _attention_fwd(
    query: Array,
    key: Array,
    value: Array,
    segment_ids: Array,
    draws: Array,
    form: TiledForm,
    window: Array | None,
) -> tuple[Array, Residuals]:
    inputs = segment_ids.astype(jnp.int32), draws, query, key, value
    results = _call(_forward, form, form.forward, window, inputs, "qkk", "qn")
    # Small, and all that running the kernel forward again would give.
    out, norms = (checkpoint_name(x, PRODUCT) for x in results)
    return out, (window, (*inputs, out, norms))


def _attention_bwd(
    form: TiledForm, residuals: Residuals, cotangent: Array
) -> tuple[Array | None, ...]:
    window, (*saved, out, norms) = residuals
    inputs = *saved, cotangent
    query_bar, slopes = _call(
        _to_queries,
        form,
        form.to_queries,
        window,
        (*inputs, out, norms),
        "qkkqqn",
        "qn",
    )
    key_bar, value_bar = _call(
        _to_keys, form, form.to_keys, window, (*inputs, norms, slopes), "qkkqnn", "kk"
    )
    return query_bar, key_bar, value_bar, None, None, None


attention.defvjp(_attention_fwd, _attention_bwd)


def _call(
    kernel: Callable[..., None],
    form: TiledForm,
    tiles: Tiles,
    window: Array | None,
    inputs: tuple[Array, ...],
    kinds: str,
    results: str,
) -> list[Array]:
    """Run a kernel over blocks of a side, heads and rows.

    Kinds of arrays are q and k, `[B, T, N * H]` of queries or keys, and n, float32
    `[B, N, T]` of queries. A program has a block of its side, and all of the
    row of the other side.
    """
    segment_ids, _, query, *_ = inputs
    rows, length, width = query.shape
    heads, tiles = width // form.width, tiles.fit(length)
    by_keys = results == "kk"
    sizes = tiles.queries, tiles.keys
    block, other = sizes[::-1] if by_keys else sizes
    blocks = pl.BlockSpec((None, block, form.width), lambda i, n, row: (row, i, n))
    whole = pl.BlockSpec((None, length, form.width), lambda i, n, row: (row, 0, n))
    if by_keys:
        norms = pl.BlockSpec((None, None, length), lambda i, n, row: (row, n, 0))
        specs = {"q": whole, "k": blocks, "n": norms}
    else:
        norms = pl.BlockSpec((None, None, block), lambda i, n, row: (row, n, i))
        specs = {"q": blocks, "k": whole, "n": norms}
    of_heads = jax.ShapeDtypeStruct((rows, heads, length), jnp.float32)
    of_tokens = jax.ShapeDtypeStruct(query.shape, query.dtype)
    settings = {"form": form, "length": length, "windowed": window is not None}
    return pl.pallas_call(
        functools.partial(kernel, tiles=tiles, **settings),
        grid=(length // block, heads, rows),
        in_specs=[
            pl.BlockSpec((None, None, 3), lambda i, n, row: (row, i, 0)),
            pl.BlockSpec((None, length), lambda i, n, row: (row, 0)),
            pl.BlockSpec((None, 3), lambda i, n, row: (row, 0)),
            *(specs[kind] for kind in kinds),
        ],
        out_specs=[specs[kind] for kind in results],
        out_shape=[of_heads if kind == "n" else of_tokens for kind in results],
        compiler_params=triton.CompilerParams(
            num_warps=tiles.warps, num_stages=tiles.stages
        ),
        name=f"attention{kernel.__name__}",
    )(_bounds(segment_ids, block, other, window), *inputs)


def _bounds(segment_ids: Array, block: int, other: int, window: Array | None) -> Array:
    """Return for each block those of the other side to visit: int32 `[B, blocks, 3]`.

    They are the first, the last plus one, and the window again. Blocks meet where the
    ranges of their segments do, or where both have padding, and where no more than the
    window lies between them.
    """

    def ranges(size: int) -> tuple[Array, ...]:
        ids = segment_ids.reshape(len(segment_ids), -1, size)
        padding = ids == 0
        low = jnp.where(padding, np.iinfo(np.int32).max, ids).min(2)
        starts = jnp.arange(0, segment_ids.shape[1], size)[None]
        return low, ids.max(2), padding.any(2), starts

    low, high, padding, start = (x[:, :, None] for x in ranges(block))
    lows, highs, paddings, starts = (x[:, None] for x in ranges(other))
    meet = (low <= highs) & (lows <= high) | padding & paddings
    if window is not None:
        meet &= (start - window < starts + other) & (starts < start + block + window)
    number = jnp.arange(meet.shape[2], dtype=jnp.int32)
    first = jnp.where(meet, number, meet.shape[2]).min(2)
    last = jnp.where(meet, number, -1).max(2)
    reach = jnp.full_like(first, 0 if window is None else window)
    return jnp.stack([first, last + 1, reach], axis=2)


def _forward(
    bounds: Array, segments: Array, draws: Array, query: Array, key: Array,
    value: Array, out: Array, norms: Array, *, tiles: Tiles, **settings: Any,
) -> None:  # fmt: skip
    program = _Pass(bounds, segments, draws, **settings)
    queries, at = query[...], _Places(pl.program_id(0), tiles.queries, 0)
    draw = program.drawing(at, tiles.keys, 1)

    def turn(
        number: Array, carry: tuple[Array, Array, Array]
    ) -> tuple[Array, Array, Array]:
        total, top, norm = carry
        place = _Places(number, tiles.keys, 1)
        scores = program.scores(queries, key[place.rows], at, place)
        higher = jnp.maximum(top, scores.max(1))
        fade = jnp.exp2((top - higher) * program.factor)
        weights = jnp.exp2(scores * program.factor - (higher * program.factor)[:, None])
        norm = norm * fade + weights.sum(1)
        values = value[place.rows]
        dropped = program.drop(weights, draw(place), place).astype(values.dtype)
        total = total * fade[:, None] + _product(dropped, values, (1, 0))
        return total, higher, norm

    zeros = jnp.zeros(queries.shape, jnp.float32)
    carry = zeros, jnp.full(tiles.queries, LEAST), jnp.zeros(tiles.queries)
    total, top, norm = program.visit(turn, carry)
    out[...] = (total * (program.boost / norm)[:, None]).astype(out.dtype)
    norms[...] = top * program.factor + jnp.log2(norm)


# Constant factors, `boost` of the kept weights and `scale` of the scores, are left to
# the sums.
def _to_queries(
    bounds: Array, segments: Array, draws: Array, query: Array, key: Array,
    value: Array, out_bar: Array, out: Array, norms: Array, query_bar: Array,
    slopes: Array, *, tiles: Tiles, **settings: Any,
) -> None:  # fmt: skip
    program = _Pass(bounds, segments, draws, **settings)
    queries, at = query[...], _Places(pl.program_id(0), tiles.queries, 0)
    draw = program.drawing(at, tiles.keys, 1)
    bars, norm = out_bar[...], norms[...][:, None]
    mean = bars.astype(jnp.float32) * out[...].astype(jnp.float32)
    mean = mean.sum(1) / program.boost
    slopes[...] = mean

    def turn(number: Array, total: Array) -> Array:
        place = _Places(number, tiles.keys, 1)
        keys = key[place.rows]
        scores = program.scores(queries, keys, at, place)
        weights = jnp.exp2(scores * program.factor - norm)
        slope = _product(bars, value[place.rows], (1, 1))
        slope = program.drop(slope, draw(place), place)
        slope = (weights * (slope - mean[:, None])).astype(keys.dtype)
        return total + _product(slope, keys, (1, 0))

    zeros = jnp.zeros(queries.shape, jnp.float32)
    total = program.visit(turn, zeros)
    query_bar[...] = (total * (program.boost * program.scale)).astype(query_bar.dtype)


def _to_keys(
    bounds: Array, segments: Array, draws: Array, query: Array, key: Array,
    value: Array, out_bar: Array, norms: Array, slopes: Array, key_bar: Array,
    value_bar: Array, *, tiles: Tiles, **settings: Any,
) -> None:  # fmt: skip
    # Scores are kept transposed, so that no product transposes what was computed.
    program = _Pass(bounds, segments, draws, **settings)
    keys, values = key[...], value[...]
    at = _Places(pl.program_id(0), tiles.keys, 0)

    def turn(number: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        keys_sum, values_sum = carry
        place = _Places(number, tiles.queries, 1)
        queries, bars = query[place.rows], out_bar[place.rows]
        scores = program.scores(keys, queries, at, place)
        weights = jnp.exp2(scores * program.factor - norms[place.rows][None])
        words = program.draw(place, at)
        dropped = program.drop(weights, words, at).astype(bars.dtype)
        values_sum += _product(dropped, bars, (1, 0))
        slope = program.drop(_product(values, bars, (1, 1)), words, at)
        slope = weights * (slope - slopes[place.rows][None])
        keys_sum += _product(slope.astype(queries.dtype), queries, (1, 0))
        return keys_sum, values_sum

    zeros = jnp.zeros(keys.shape, jnp.float32)
    sums = program.visit(turn, (zeros, zeros))
    key_bar[...] = (sums[0] * (program.boost * program.scale)).astype(key_bar.dtype)
    value_bar[...] = (sums[1] * program.boost).astype(value_bar.dtype)


class _Places:
    """The positions of a block, along an axis of the scores."""

    def __init__(self, number: int | Array, size: int, axis: int):
        self.start = number * size
        self.rows = pl.ds(self.start, size)
        self.axis = axis
        self.numbers = self.expand(self.start + jnp.arange(size, dtype=jnp.int32))

    def expand(self, x: Array) -> Array:
        return x[None] if self.axis else x[:, None]


class _Pass:
    """A row and a head: what forward and backward pass share."""

    def __init__(
        self,
        bounds: Array,
        segments: Array,
        draws: Array,
        *,
        form: TiledForm,
        length: int,
        windowed: bool,
    ):
        self.segments, self.threshold = segments, form.threshold
        self.first_block, self.end = bounds[0], bounds[1]
        self.window = bounds[2] if windowed else None
        self.scale, self.boost = form.width**-0.5, 65536 / (form.threshold or 65536)
        self.factor = self.scale * math.log2(math.e)
        self.length, self.quarter = length, np.uint32(length // 4)
        head = draws[2] + pl.program_id(1).astype(jnp.uint32)
        self.key, self.first = (draws[0], draws[1]), head * np.uint32(length)

    def visit(self, turn: Callable[[Array, Carry], Carry], carry: Carry) -> Carry:
        """Fold a function over the blocks of the other side that may be seen."""
        return lax.fori_loop(self.first_block, self.end, turn, carry)

    def scores(self, x: Array, y: Array, at: _Places, place: _Places) -> Array:
        """Return products of a block at one place with that at another, masked."""
        first, second = (z.expand(self.segments[z.rows]) for z in (at, place))
        seen = first == second
        if self.window is not None:
            seen &= jnp.abs(at.numbers - place.numbers) <= self.window
        return jnp.where(seen, _product(x, y, (1, 1)), LEAST)

    def drawing(
        self, queries: _Places, size: int, axis: int
    ) -> Callable[[_Places], Words | None]:
        """Return a function that draws for the keys at a place.

        Blocks of whole quarters have all the same counters.
        """
        if size % self.quarter:
            return functools.partial(self.draw, queries)
        words = self.draw(queries, _Places(0, size, axis))
        return lambda keys: words

    def draw(self, queries: _Places, keys: _Places) -> Words | None:
        """Return the random words for pairs of queries and keys."""
        if self.threshold is None:
            return None
        along = lax.rem(keys.numbers.astype(jnp.uint32), self.quarter)
        return threefry2x32(
            self.key, (along, queries.numbers.astype(jnp.uint32) + self.first)
        )

    def drop(self, x: Array, words: Words | None, keys: _Places) -> Array:
        """Set to zero what `dropout.keep_mask` drops; the rest is not yet scaled."""
        if words is None or self.threshold is None:
            return x
        quarter = lax.div(keys.numbers.astype(jnp.uint32), self.quarter)
        bits = jnp.where(quarter < 2, *words)
        # Compared in the upper half of the word, whose lower half changes nothing.
        bits = bits << jnp.where(quarter % 2 == 0, np.uint32(16), np.uint32(0))
        return jnp.where(bits <= np.uint32((self.threshold << 16) - 1), x, 0.0)


def _product(a: Array, b: Array, contract: tuple[int, int]) -> Array:
    dims = (((contract[0],), (contract[1],)), ((), ()))
    return lax.dot_general(a, b, dims, preferred_element_type=jnp.float32)
