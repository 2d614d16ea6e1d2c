"""Placement of arrays: parameters by a table of rules, batches by rows.

The loss is written on the global batch; the compiler turns its sums into all-reduces.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jax.tree_util import keystr

from dicejax.mesh import BATCH_AXES
from dicejax.models.embedding import TABLE_AXES

# The last parts of a parameter's path, and the mesh axis of each of its dimensions. The
# first rule with as many dimensions counts; others are replicated.
# Layers are stacked: their first dimension is the layer, and stays whole.
RULES: tuple[tuple[str, tuple[str | None, ...]], ...] = (
    (r"(word|position|token_type)/table", TABLE_AXES),
    # All but XLNet's attention: out of the width, then back into it.
    (
        r"layers/((position_)?(query|key)|value|intermediate|gate)/kernel",
        (None, "fsdp", "tensor"),
    ),
    (
        r"layers/((position_)?(query|key)|value|intermediate|gate)/bias",
        (None, "tensor"),
    ),
    (r"layers/(attention_output|output)/kernel", (None, "tensor", "fsdp")),
    # XLNet: width, heads, head width.
    (
        r"layers/(query|key|value|position_key|attention_output)",
        (None, "fsdp", "tensor", None),
    ),
    (r"layers/segment_key", (None, None, "tensor", None)),
    (r"layers/(content|position|segment)_bias", (None, "tensor", None)),
    (r"heads/.*kernel", ("fsdp", None)),
)


def by_path(tree: Any) -> dict[str, Any]:
    """Return the leaves of a tree by their paths.

    >>> by_path({"heads": {"tags": (1, 2)}})
    {'heads/tags/0': 1, 'heads/tags/1': 2}
    """
    return {
        keystr(path, simple=True, separator="/"): leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }


def shardings(tree: Any, mesh: Mesh) -> Any:
    """Return the sharding of each array, or shape, of a tree by its path and the rules.

    Optimizer state is placed like its parameter, whose path it ends with. A dimension
    that its axis does not divide stays whole.
    """
    places = []
    for name, leaf in by_path(tree).items():
        shape, spec = leaf.shape, P()
        for pattern, axes in RULES:
            if len(axes) == len(shape) and re.search(rf"(^|/){pattern}$", name):
                fitting = [
                    axis if axis and size % mesh.shape[axis] == 0 else None
                    for axis, size in zip(axes, shape, strict=True)
                ]
                spec = P(*fitting)
                break
        places.append(NamedSharding(mesh, spec))
    return jax.tree.unflatten(jax.tree.structure(tree), places)


def with_shardings(shapes: Any, mesh: Mesh) -> Any:
    """Attach the sharding to each shape of a tree."""
    return jax.tree.map(
        lambda x, place: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place),
        shapes,
        shardings(shapes, mesh),
    )


def by_rows(mesh: Mesh) -> NamedSharding:
    """Return the sharding of a batch, split by rows."""
    return NamedSharding(mesh, P(BATCH_AXES))


def rows_here(rows: int, mesh: Mesh) -> slice:
    """Return the rows of a batch that this process provides."""
    places = by_rows(mesh).addressable_devices_indices_map((rows,)).values()
    bounds = [place[0].indices(rows)[:2] for place in places if place is not None]
    return slice(min(start for start, _ in bounds), max(stop for _, stop in bounds))


def global_batch(
    arrays: Mapping[str, np.ndarray], mesh: Mesh, rows: int | None = None
) -> dict[str, jax.Array]:
    """Put a batch on the mesh, its rows split.

    The arrays hold the rows of `rows_here`, or without `rows` the whole batch.
    """
    sharding = by_rows(mesh)
    if rows is None or jax.process_count() == 1:
        return jax.device_put(dict(arrays), sharding)
    first = rows_here(rows, mesh).start

    def part(array: np.ndarray, index: tuple[slice, ...] | None) -> np.ndarray:
        start, stop, _ = (index or (slice(None),))[0].indices(rows)
        return array[start - first : stop - first]

    return {
        name: jax.make_array_from_callback(
            (rows, *array.shape[1:]), sharding, functools.partial(part, array)
        )
        for name, array in arrays.items()
    }


def put(tree: Any, mesh: Mesh) -> Any:
    """Put a tree of host arrays, whole in every process, on the mesh."""
    return jax.tree.map(
        lambda x, place: jax.make_array_from_callback(x.shape, place, x.__getitem__),
        jax.tree.map(np.asarray, tree),
        shardings(tree, mesh),
    )


def replicate(tree: Any, mesh: Mesh) -> Any:
    """Put a tree on every device of the mesh."""
    return jax.device_put(tree, NamedSharding(mesh, P()))


def to_host(tree: Any, mesh: Mesh) -> Any:
    """Gather arrays as whole NumPy arrays in every process."""
    if jax.process_count() > 1:
        tree = _everywhere(tree, mesh)
    return jax.device_get(tree)


@functools.partial(jax.jit, static_argnums=1)
def _everywhere(tree: Any, mesh: Mesh) -> Any:
    return jax.lax.with_sharding_constraint(tree, NamedSharding(mesh, P()))
