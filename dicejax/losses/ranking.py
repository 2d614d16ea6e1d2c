"""Ranking of whole sets, also of sets sharded over devices."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array
from jax.sharding import NamedSharding, PartitionSpec


def over_set(
    function: Callable[..., Array],
    arrays: tuple[Array, ...],
    axes: tuple[int, ...],
    axis_name: str | tuple[str, ...] | None,
) -> Array:
    """Apply `function` to sets flattened to the last axis, `[..., S]`.

    The result has the arrays' shape. Under `axis_name` each device sees the whole set
    and keeps its part. No gradient passes: order is piecewise constant.
    """
    back = tuple(range(-len(axes), 0))
    shape = jnp.moveaxis(arrays[0], axes, back).shape
    flat = [flatten(jax.lax.stop_gradient(array), axes) for array in arrays]
    result = function(*(all_gather(array, axis_name) for array in flat))
    if axis_name is not None:
        size = flat[0].shape[-1]
        start = jax.lax.axis_index(axis_name) * size
        result = jax.lax.dynamic_slice_in_dim(result, start, size, axis=-1)
    return jnp.moveaxis(result.reshape(shape), back, axes)


def flatten(array: Array, axes: tuple[int, ...]) -> Array:
    """Return the axes of a set as one axis, the last, on every device of a mesh."""
    array = whole(array, *range(array.ndim))  # nothing can be sorted along shards
    moved = jnp.moveaxis(array, axes, tuple(range(-len(axes), 0)))
    rest = moved.shape[: moved.ndim - len(axes)]
    return moved.reshape(*rest, math.prod(moved.shape[len(rest) :]))


def whole(array: Array, *axes: int) -> Array:
    """Return an array with axes that no Explicit mesh axis shards."""
    sharding = jax.typeof(array).sharding
    if not any(sharding.spec):
        return array
    axes = tuple(axis % array.ndim for axis in axes)
    left = (None if i in axes else name for i, name in enumerate(sharding.spec))
    return jax.sharding.reshard(
        array, NamedSharding(sharding.mesh, PartitionSpec(*left))
    )


def all_gather(flat: Array, axis_name: str | tuple[str, ...] | None) -> Array:
    """Return the last axis of all devices of a `shard_map`."""
    if axis_name is None:
        return flat
    return jax.lax.all_gather(flat, axis_name, axis=-1, tiled=True)


def unsort(values: Array, order: Array) -> Array:
    """Undo the sort of values `[..., S]` by `order`."""
    size = order.shape[-1]
    # One index for each value, where one for each axis would take more than the values.
    rows = jnp.arange(math.prod(order.shape[:-1])).reshape(*order.shape[:-1], 1)
    places = (rows * size + order).ravel()
    flat = jnp.zeros_like(values).ravel()
    flat = flat.at[places].set(
        values.ravel(), mode="promise_in_bounds", unique_indices=True
    )
    return flat.reshape(values.shape)
