"""Embedding tables, looked up on one device and on a mesh.

On a mesh the tables are split: their width over `fsdp`, their entries over `tensor`. A
lookup gathers the widths, in the type of the matrix products; its gradient is added up
in float32 on each device and sent in that type to the device that holds its part.
Left to the compiler, both are float32, and every device gets the whole gradient.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array, lax
from jax.sharding import PartitionSpec as P

from dicejax.mesh import BATCH_AXES, automatic_axes
from dicejax.models.layers import wide

TABLE_AXES = ("tensor", "fsdp")
"""The mesh axes that split a table's entries and its width, where they divide them."""


class Embedding(nnx.Module):
    """A table of vectors looked up by id; an id out of range is clipped.

    `dtype` is the type of the vectors that are looked up, `scale` the standard
    deviation of the initial table, which is float32.
    """

    def __init__(
        self,
        entries: int,
        features: int,
        *,
        dtype: jnp.dtype,
        scale: float,
        rngs: nnx.Rngs,
    ):
        draw = nnx.initializers.normal(scale, jnp.float32)
        self.table = nnx.Param(draw(rngs.params(), (entries, features)))
        self.dtype = dtype

    def __call__(self, ids: Array) -> Array:
        """Look up int `[B, T]`: `[B, T, D]`."""
        table = self.table[...]
        # An axis of one device splits nothing; its collectives would still convert
        # the whole table.
        sizes = {name: size for name, size in automatic_axes().items() if size > 1}
        if len(ids) % math.prod(sizes.get(name, 1) for name in BATCH_AXES):
            sizes = {}
        entries, width = (
            name if name in sizes and size % sizes[name] == 0 else None
            for name, size in zip(TABLE_AXES, table.shape, strict=True)
        )
        split = Split(
            axes=frozenset(sizes),
            rows=tuple(name for name in BATCH_AXES if name in sizes),
            entries=entries,
            width=width,
            shape=table.shape,
            entries_here=table.shape[0] // sizes.get(entries or "", 1),
            dtype=jnp.dtype(self.dtype),
            table_dtype=table.dtype,
        )
        return _lookup(table, ids, split)


@dataclasses.dataclass(frozen=True)
class Split:
    """How the mesh in use splits a lookup."""

    axes: frozenset[str]  # of several devices; none if they do not divide the rows
    rows: tuple[str, ...]  # axes that split the rows of ids
    entries: str | None  # axis that splits the table's entries; None: they are whole
    width: str | None  # axis that splits the table's width; None: it is whole
    shape: tuple[int, ...]  # entries and width of the table
    entries_here: int  # on each device
    dtype: jnp.dtype  # of the vectors
    table_dtype: jnp.dtype  # of the table and of its gradient

    def run(
        self, function: Callable[..., Array], arrays: Sequence[str], result: str
    ) -> Callable[..., Array]:
        """Run a function on each device, on its part of each "table" or "rows"."""
        if not self.axes:
            return function
        specs = {"table": P(self.entries, self.width), "rows": P(self.rows)}
        return jax.shard_map(
            function,
            in_specs=tuple(specs[name] for name in arrays),
            out_specs=specs[result],
            axis_names=set(self.axes),
            check_vma=False,
        )

    def places(self, ids: Array) -> tuple[Array, Array]:
        """Return each id's place in this device's entries, and whether it has one."""
        ids = jnp.clip(ids, 0, self.shape[0] - 1)
        if self.entries is not None:
            ids -= self.entries_here * lax.axis_index(self.entries)
        place = jnp.clip(ids, 0, self.entries_here - 1)
        return place, place == ids


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _lookup(table: Array, ids: Array, split: Split) -> Array:
    """Look up `[B, T]` in `[V, D]`: `[B, T, D]`."""

    def look_up(table: Array, ids: Array) -> Array:
        if split.width is not None:
            table = table.astype(split.dtype)
            table = lax.all_gather(table, split.width, axis=1, tiled=True)
        place, is_local = split.places(ids)
        vectors = table[place].astype(split.dtype)
        if split.entries is None:
            return vectors
        # One device has each vector, the others have zeros: exact in any type.
        return lax.psum(jnp.where(is_local[..., None], vectors, 0), split.entries)

    return split.run(look_up, ("table", "rows"), "rows")(table, ids)


def _lookup_fwd(table: Array, ids: Array, split: Split) -> tuple[Array, Array]:
    return _lookup(table, ids, split), ids


def _lookup_bwd(split: Split, ids: Array, cotangent: Array) -> tuple[Array, None]:

    def add_up(ids: Array, cotangent: Array) -> Array:
        place, is_local = split.places(ids)
        zeros = jnp.zeros((split.entries_here, split.shape[1]), wide(split.dtype))
        sums = zeros.at[place].add(jnp.where(is_local[..., None], cotangent, 0))
        if split.axes:  # sent in that type
            sums = sums.astype(split.dtype)
        if split.width is not None:
            sums = lax.psum_scatter(sums, split.width, scatter_dimension=1, tiled=True)
        others = tuple(name for name in split.rows if name != split.width)
        return lax.psum(sums, others).astype(split.table_dtype)

    return split.run(add_up, ("rows", "rows"), "table")(ids, cotangent), None


_lookup.defvjp(_lookup_fwd, _lookup_bwd)
