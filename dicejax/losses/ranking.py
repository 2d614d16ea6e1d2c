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

    The result has the arrays' shape again. Under `axis_name` each device sees the whole
    set and keeps its own part. No gradient passes: order is piecewise constant.
    """
    back = tuple(range(-len(axes), 0))
    fixed = [_replicated(jax.lax.stop_gradient(one)) for one in arrays]
    moved = [jnp.moveaxis(one, axes, back) for one in fixed]
    shape = moved[0].shape
    rest = shape[: len(shape) - len(axes)]
    size = math.prod(shape[len(rest) :])
    flat = [one.reshape(*rest, size) for one in moved]
    if axis_name is not None:
        flat = [jax.lax.all_gather(one, axis_name, axis=-1, tiled=True) for one in flat]
    result = function(*flat)
    if axis_name is not None:
        start = jax.lax.axis_index(axis_name) * size
        result = jax.lax.dynamic_slice_in_dim(result, start, size, axis=-1)
    return jnp.moveaxis(result.reshape(shape), back, axes)


def _replicated(array: Array) -> Array:
    """Replicate an array over Explicit mesh axes, along which nothing can be sorted."""
    sharding = jax.typeof(array).sharding
    if not any(sharding.spec):
        return array
    return jax.sharding.reshard(array, NamedSharding(sharding.mesh, PartitionSpec()))


def unsorted(values: Array, order: Array) -> Array:
    """Undo the sort of values `[..., S]` by `order`."""
    nothing = jnp.zeros_like(values)
    return jnp.put_along_axis(nothing, order, values, axis=-1, inplace=False)
