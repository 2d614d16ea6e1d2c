"""What needs the order of a whole set, also of one spread over devices."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array


def over_set(
    function: Callable[..., Array],
    arrays: tuple[Array, ...],
    axes: tuple[int, ...],
    axis_name: str | tuple[str, ...] | None,
) -> Array:
    """Applies `function` to sets flattened to the first axis, `[S, ...]`.

    The result has the arrays' shape again. Under `axis_name` each device sees the whole
    set and keeps its own part. No gradient passes: order is piecewise constant.
    """
    arrays = tuple(jax.lax.stop_gradient(one) for one in arrays)
    shape = arrays[0].shape
    front = tuple(range(len(axes)))
    moved = [jnp.moveaxis(one, axes, front) for one in arrays]
    size = math.prod(shape[axis] for axis in axes)
    rest = moved[0].shape[len(axes) :]
    flat = [one.reshape(size, *rest) for one in moved]
    if axis_name is not None:
        flat = [jax.lax.all_gather(one, axis_name, axis=0, tiled=True) for one in flat]
    result = function(*flat)
    if axis_name is not None:
        start = jax.lax.axis_index(axis_name) * size
        result = jax.lax.dynamic_slice_in_dim(result, start, size, axis=0)
    return jnp.moveaxis(result.reshape(moved[0].shape), front, axes)


def unsorted(values: Array, order: Array) -> Array:
    """Returns values `[S, ...]` to the places that `order` took them from."""
    nothing = jnp.zeros_like(values)
    return jnp.put_along_axis(nothing, order, values, axis=0, inplace=False)
