"""Where arrays lie: one mesh over the devices, batches split, parameters whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

AXES = ("data", "fsdp", "tensor")


def local_mesh() -> Mesh:
    """Return a mesh of all local devices along the data axis."""
    devices = jax.local_devices()
    shape = (len(devices), 1, 1)
    return jax.make_mesh(
        shape, AXES, axis_types=(AxisType.Auto,) * len(AXES), devices=devices
    )


def global_batch(arrays: Mapping[str, np.ndarray], mesh: Mesh) -> dict[str, jax.Array]:
    """Put a batch on the mesh, its rows split over the data axis."""
    return jax.device_put(dict(arrays), NamedSharding(mesh, P("data")))


def replicate(tree: Any, mesh: Mesh) -> Any:
    """Put a tree on every device of the mesh."""
    return jax.device_put(tree, NamedSharding(mesh, P()))
