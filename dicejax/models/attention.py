"""Multi-head attention over packed rows."""

from __future__ import annotations

import logging
import math
import types

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.sharding import PartitionSpec as P

from dicejax.mesh import BATCH_AXES, automatic_axes, platform
from dicejax.models import attention_cpu, attention_gpu, attention_tpu
from dicejax.models.dropout import (
    DropoutKeys,
    draw_mask,
    dropout,
    keep_below,
    key_words,
)
from dicejax.models.layers import matmul

HEAD_AXIS = "tensor"
_log = logging.getLogger(__name__)
_KERNELS = {"tpu": attention_tpu, "gpu": attention_gpu, "cuda": attention_gpu}
_FORMS = {attention_tpu: attention_tpu.Form, attention_gpu: attention_gpu.TiledForm}


def segment_mask(segment_ids: Array) -> Array:
    """Mask attention across segments: `[B, T] -> bool [B, 1, T, T]`.

    Padding (segment 0) sees padding, so that no softmax runs over an empty set.

    >>> segment_mask(jnp.array([[1, 1, 2]]))[0, 0].astype(int).tolist()
    [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    """
    return (segment_ids[:, None, :, None] == segment_ids[:, None, None, :]).astype(bool)


def by_position(by_distance: Array) -> Array:
    """Map scores by distance `[..., T, 2 T]` to scores by position `[..., T, T]`.

    Column p of row t holds the score of the distance T - p, from t to t + p - T. Rows
    of 2 T - 1 entries after the first T shift each row by one against the last.

    >>> distances = jnp.broadcast_to(jnp.arange(3, -3, -1), (3, 6))
    >>> by_position(distances).tolist()
    [[0, -1, -2], [1, 0, -1], [2, 1, 0]]
    """
    *batch, tokens, distances = by_distance.shape
    flat = by_distance.reshape(*batch, tokens * distances)[..., tokens:]
    return flat.reshape(*batch, tokens, distances - 1)[..., :tokens]


def attend(
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None = None,
    *,
    segment_ids: Array | None = None,
    window: int | Array | None = None,
    bias: Array | None = None,
    dropout_rate: float = 0.0,
    rng: DropoutKeys | None = None,
) -> Array:
    """Compute scaled dot-product attention with a softmax in at least float32.

    Query is `[B, T, N, H]`, key and value are `[B, S, N, H]`, the result is like query
    in the type of `value`. Fewer heads of keys and values each serve as many of queries
    that are side by side. Instead of a `mask`, bool and true where a position may be
    seen, `segment_ids` `[B, T]` keep attention within segments, and `window`, if it is
    not None, to tokens at most so far away. `bias` is added to the
    scaled scores; it and the mask are broadcast to `[B, N, T, S]`. A share of the
    weights, `dropout_rate`, is set to zero if there are keys, `rng`.

    TPUs run `attention_tpu` and GPUs `attention_gpu` for packed rows that fit them: by
    `segment_ids`, without bias, on TPUs without a window. They drop the same weights.
    Where a TPU does without the kernel, each trace of a program logs a warning.
    """
    if (share := query.shape[2] // key.shape[2]) > 1:
        key, value = (jnp.repeat(x, share, axis=2) for x in (key, value))
    rng = rng if dropout_rate else None
    if mask is None:
        assert segment_ids is not None
        kernel = _kernel(windowed=window is not None) if bias is None else None
        if kernel is not None:
            described = query.dtype, query.shape, kernel.__name__.rpartition(".")[2]
            if fits_kernel(query.shape, query.dtype, windowed=window is not None):
                _log.info("attention of %s %s runs as one kernel, %s", *described)
                arrays = query, key, value
                return _by_kernel(arrays, segment_ids, window, dropout_rate, rng)
            level = logging.WARNING if kernel is attention_tpu else logging.INFO
            text = "attention of %s %s runs without the kernel %s, which takes %s"
            _log.log(level, text, *described, kernel.TAKES)
        mask = segment_mask(segment_ids)
        if window is not None:
            places = jnp.arange(segment_ids.shape[1])
            mask &= jnp.abs(places[:, None] - places) <= window
    if platform() == "cpu":
        turned = tuple(x.swapaxes(1, 2) for x in (query, key, value))
        shape = *turned[0].shape[:3], key.shape[1]
        if bias is not None:  # rows may share one
            bias = jnp.broadcast_to(bias, (*(bias.shape[:-3] or (1,)), *shape[1:]))
        keep = None if rng is None else draw_mask(shape, dropout_rate, rng, axis=-1)
        done: Array = attention_cpu.attention(turned, mask, bias, keep, dropout_rate)
        return done.swapaxes(1, 2)
    if rng is None and query.dtype in (jnp.float32, jnp.bfloat16):
        return jax.nn.dot_product_attention(query, key, value, bias, mask)
    # dot_product_attention drops no weights and rounds its softmax to float32.
    scale = query.shape[-1] ** -0.5
    # Heads to the front: one transposed copy is cheaper than strided batched products.
    query, key, value = (x.swapaxes(1, 2) for x in (query * scale, key, value))
    scores = matmul(query, key.swapaxes(2, 3))
    if bias is not None:
        scores += bias
    scores = jnp.where(mask, scores, jnp.finfo(scores.dtype).min)
    weights = jax.nn.softmax(scores, axis=-1).astype(value.dtype)
    weights = dropout(weights, dropout_rate, rng, axis=-1)
    return matmul(weights, value).astype(value.dtype).swapaxes(1, 2)


def attend_near(
    query: Array,
    key: Array,
    value: Array,
    *,
    segment_ids: Array,
    window: int,
    block: int,
    dropout_rate: float = 0.0,
    rng: DropoutKeys | None = None,
) -> Array:
    """Compute attention to tokens of the own segment at most `window` away.

    It is what `attend` gives with a mask of segments and of the window. The tokens of a
    block, at least `window`, attend to those of three, so that the cost grows with
    `3 * block` instead of T.
    """
    rows, length = segment_ids.shape
    blocks = -(-length // block)

    def cut(x: Array, around: int = 0, outside: int = 0) -> Array:
        """Cut `[B, T, ...]` into blocks, each with `around` more on both sides."""
        before, rest = around * block, x.shape[2:]
        behind = before + blocks * block - length
        pads = [(0, 0), (before, behind), *((0, 0) for _ in rest)]
        x = jnp.pad(x, pads, constant_values=outside).reshape(rows, -1, block, *rest)
        parts = [x[:, n : n + blocks] for n in range(1 + 2 * around)]
        return jnp.concatenate(parts, axis=2).reshape(rows * blocks, -1, *rest)

    near = jnp.abs(jnp.arange(-block, 2 * block) - jnp.arange(block)[:, None]) <= window
    # No token has the segment of what was added, which sees itself.
    segments, around = cut(segment_ids, 0, -1), cut(segment_ids, 1, -1)
    mask = near & (segments[..., None] == around[:, None])
    if rng is not None:
        rng = DropoutKeys(rng.split(blocks).rows.T.reshape(-1), rng.batch)
    arrays = cut(query), cut(key, 1), cut(value, 1)
    out = attend(*arrays, mask[:, None], dropout_rate=dropout_rate, rng=rng)
    return out.reshape(rows, blocks * block, *out.shape[2:])[:, :length]


def _kernel(*, windowed: bool) -> types.ModuleType | None:
    """Return the module of the platform's kernel."""
    kernel = _KERNELS.get(platform())
    return None if kernel is None or (windowed and not kernel.WINDOWS) else kernel


def fits_kernel(
    shape: tuple[int, ...], dtype: jnp.dtype, *, windowed: bool = False
) -> bool:
    """Return whether a kernel takes attention of `[B, T, N, H]` within segments.

    The compiler does not split kernels over devices: the mesh has to be `in_use`, and
    to divide the rows and the heads.
    """
    kernel = _kernel(windowed=windowed)
    mesh, axes = jax.sharding.get_abstract_mesh(), automatic_axes()
    if kernel is None or mesh.explicit_axes:
        return False
    if mesh.empty and jax.device_count() > 1:
        return False
    rows, length, heads, width = shape
    parts = math.prod(axes.get(name, 1) for name in BATCH_AXES)
    heads_here, odd = divmod(heads, axes.get(HEAD_AXIS, 1))
    if rows % parts or odd or axes.keys() - {*BATCH_AXES, HEAD_AXIS}:
        return False
    return kernel.fits(length, heads_here, width, dtype)


def _by_kernel(
    arrays: tuple[Array, ...],
    segment_ids: Array,
    window: int | Array | None,
    rate: float,
    rng: DropoutKeys | None,
) -> Array:
    """Run the kernel on each device's rows and heads."""
    kernel = _KERNELS[platform()]
    rng = rng if rate else None
    rows, length, heads, width = shape = arrays[0].shape
    form = _FORMS[kernel](width, None if rng is None else keep_below(rate))
    words = jnp.zeros((rows, 2), jnp.uint32) if rng is None else key_words(rng.rows)
    axes = automatic_axes()
    split = HEAD_AXIS in axes
    windows = [] if window is None else [jnp.asarray(window, jnp.int32)]

    def attend_locally(
        segment_ids: Array, words: Array, windows: list[Array], *arrays: Array
    ) -> Array:
        first = lax.axis_index(HEAD_AXIS) * arrays[0].shape[-1] // width if split else 0
        heads = jnp.full((len(words), 1), first, jnp.uint32)
        draws = jnp.concatenate([words, heads], axis=1)
        return kernel.attention(*arrays, segment_ids, draws, form, *windows)

    if axes:
        batch = P(tuple(name for name in BATCH_AXES if name in axes))
        of_heads = P(*batch, None, HEAD_AXIS if split else None)
        attend_locally = jax.shard_map(
            attend_locally,
            in_specs=(batch, batch, P(), *(of_heads,) * 3),
            out_specs=of_heads,
            axis_names=set(axes),
            check_vma=False,
        )
    # Heads side by side, as the products leave them: nothing is transposed.
    flat = (x.reshape(rows, length, heads * width) for x in arrays)
    return attend_locally(segment_ids, words, windows, *flat).reshape(shape)
