"""Mesh of devices: axes of data and of parameters."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import AxisType, Mesh
from jax.sharding import PartitionSpec as P

from dicejax.errors import InputError

AXES = ("data", "fsdp", "tensor")
BATCH_AXES = ("data", "fsdp")
"""The axes over which the rows of a batch are split."""


Device = Any  # `jax.Device`, which pyright takes for a variable


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeshShape:
    """Sizes of the mesh's axes; their product is the number of devices.

    Args:
      data: parts of the batch on devices that hold all parameters; None: as many as
        there are devices for.
      fsdp: parts of the batch on devices that shard parameters and optimizer state, and
        gather them layer by layer.
      tensor: parts of each layer's matrices; divides the number of attention heads.
    """

    data: int | None = None
    fsdp: int = 1
    tensor: int = 1

    def __post_init__(self) -> None:
        for name in AXES:
            size = getattr(self, name)
            if size is not None and size < 1:
                raise ValueError(f"{name} is {size}; want at least 1")

    def make(self, devices: Sequence[Device] | None = None) -> Mesh:
        """Return the mesh of these devices, by default of all.

        Raises:
          InputError: the axes do not multiply to their number.
        """
        devices = jax.devices() if devices is None else devices
        count, shared = len(devices), self.fsdp * self.tensor
        data = max(1, count // shared) if self.data is None else self.data
        sizes = (data, self.fsdp, self.tensor)
        if math.prod(sizes) != count:
            named = " x ".join(
                f"{name} {size}" for name, size in zip(AXES, sizes, strict=True)
            )
            advice = f"leave --mesh.data out, or set it to {count // shared}"
            if count % shared:
                divisors = [str(n) for n in range(1, count + 1) if count % n == 0]
                advice = (
                    f"--mesh.fsdp times --mesh.tensor is {shared} and must be one of "
                    f"{', '.join(divisors)}"
                )
            raise InputError(
                f"mesh: {named} takes {math.prod(sizes)} devices and there are "
                f"{count}; {advice}"
            )
        return jax.make_mesh(
            sizes,
            AXES,
            axis_types=(AxisType.Auto,) * len(AXES),
            devices=devices,
        )


def batch_parts(mesh: Mesh) -> int:
    """Return the number of parts into which the rows of a batch are split."""
    return math.prod(mesh.shape[name] for name in BATCH_AXES)


def in_use(mesh: Mesh | None) -> contextlib.AbstractContextManager[Any]:
    """Trace under `jit` with a mesh that layers can name the axes of; None: without."""
    if mesh is None:
        return contextlib.nullcontext()
    return jax.sharding.use_abstract_mesh(mesh.abstract_mesh)


def pin_rows(x: jax.Array) -> jax.Array:
    """Keep `[B, ...]` split by rows over the mesh that is `in_use`.

    Without this the compiler follows the parameters: where the width of a matrix is
    split over `fsdp`, it splits the width of the hidden states instead of their rows,
    and each device holds all rows.
    """
    axes = tuple(name for name in automatic_axes() if name in BATCH_AXES)
    return jax.lax.with_sharding_constraint(x, P(axes)) if axes else x


def pin_whole(x: jax.Array) -> jax.Array:
    """Keep an array whole on each device of the mesh that is `in_use`."""
    return jax.lax.with_sharding_constraint(x, P()) if automatic_axes() else x


def automatic_axes() -> dict[str, int]:
    """Return the axes, with their sizes, over which the compiler splits arrays.

    They are those of the mesh that is `in_use`, without those of a `shard_map` around.
    """
    mesh = jax.sharding.get_abstract_mesh()
    types = zip(mesh.axis_names, mesh.axis_types, strict=True)
    return {name: mesh.shape[name] for name, kind in types if kind == AxisType.Auto}


def platform() -> str:
    """Return the platform that is compiled for: of the mesh `in_use`, or the default.

    >>> platform()
    'cpu'
    """
    device = jax.sharding.get_abstract_mesh().abstract_device
    return jax.default_backend() if device is None else device.platform
