"""Memory of a training step on each device, by the compiler's plan."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import Mesh

from dicejax.config import Experiment
from dicejax.errors import InputError
from dicejax.mesh import AXES, MeshShape
from dicejax.training.setup import Setup, describe
from dicejax.training.sharding import by_rows, placed
from dicejax.training.step import train_step


@dataclasses.dataclass(frozen=True)
class MemoryPlan:
    """Bytes per device.

    Attributes:
      mesh: length of each axis.
      rows: of a batch.
      max_length: places per row.
      parameters: the part of the parameters that a device holds.
      optimizer: the part of the optimizer state, an average of weights included.
      batch: the part of a batch.
      temporary: activations, gradients and other intermediate values.
      total: at the peak; the state after a step takes the place of that before it.
    """

    mesh: dict[str, int]
    rows: int
    max_length: int
    parameters: int
    optimizer: int
    batch: int
    temporary: int
    total: int


def plan(experiment: Experiment, warn: Callable[[str], None]) -> MemoryPlan:
    """Estimate the memory of an experiment's step by compiling it for its mesh.

    Reads the data, for the shape of a batch, and no weights. Where there are not enough
    devices, the step is compiled for as many simulated ones on the CPU: another
    compiler, whose activations may take more or less than the device's own.

    Args:
      experiment: experiment to plan.
      warn: called with remarks.

    Raises:
      InputError: data or tokenizer cannot be used, or the mesh does not fit.
    """
    mesh = _mesh(experiment, warn)
    return planned(describe(experiment, warn), mesh)


def planned(setup: Setup, mesh: Mesh) -> MemoryPlan:
    """Estimate the memory of a run's step by compiling it for a mesh."""
    batches, objective = setup.batches(mesh), setup.objective
    state = placed(setup.abstract_state(), mesh)
    rows = by_rows(mesh)
    batch = {
        name: jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=rows)
        for name, array in batches[0].arrays.items()
    }
    memory = _compiled(setup, mesh, state, batch, objective).memory_analysis()
    width = batch["input_ids"].shape[1]
    params = _bytes_per_device(state.params)
    kept = memory.output_size_in_bytes - memory.alias_size_in_bytes
    return MemoryPlan(
        mesh=dict(mesh.shape),
        rows=batches.rows,
        max_length=width,
        parameters=params,
        optimizer=_bytes_per_device(state) - params,
        batch=_bytes_per_device(batch),
        temporary=memory.temp_size_in_bytes,
        total=memory.argument_size_in_bytes + memory.temp_size_in_bytes + kept,
    )


def simulate(experiment: Experiment) -> None:
    """Create as many CPU devices as the mesh names, before JAX is used.

    Raises:
      InputError: JAX has been used already.
    """
    wanted = _named(experiment.mesh)
    if wanted == 1:
        return
    try:
        jax.config.update("jax_num_cpu_devices", wanted)
    except RuntimeError as error:
        raise InputError(f"plan: {error}") from error


def _mesh(experiment: Experiment, warn: Callable[[str], None]) -> Mesh:
    shape = experiment.mesh
    wanted = _named(shape)
    if shape.data is None or wanted == jax.device_count():
        return shape.make()
    if wanted < jax.device_count():
        return shape.make(jax.devices()[:wanted])
    there = jax.device_count()
    warn(f"{wanted} devices are simulated on the CPU: there are {there}")
    return shape.make(jax.devices("cpu")[:wanted])


def _named(shape: MeshShape) -> int:
    """Return the number of devices that a mesh names; `data` may be left out."""
    return math.prod((shape.data or 1, shape.fsdp, shape.tensor))


def _compiled(
    setup: Setup, mesh: Mesh, state: Any, batch: Any, objective: Any
) -> jax.stages.Compiled:
    settings = setup.step_settings(mesh)
    return train_step.lower(state, batch, objective, **settings).compile()


def _bytes_per_device(tree: Any) -> int:
    """Add up the bytes of arrays on one device."""
    total = 0
    for leaf in jax.tree.leaves(tree):
        if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            continue  # a few bytes
        shape = leaf.sharding.shard_shape(leaf.shape)
        total += math.prod(shape) * leaf.dtype.itemsize
    return total


def shown(found: MemoryPlan) -> list[tuple[str, str]]:
    """Format a plan as pairs of names and amounts."""
    axes = " x ".join(f"{name} {found.mesh[name]}" for name in AXES)
    parts = {
        "parameters": found.parameters,
        "optimizer": found.optimizer,
        "batch": found.batch,
        "activations, gradients": found.temporary,
        "at the peak": found.total,
    }
    return [
        ("mesh", axes),
        ("batch of", f"{found.rows} rows of {found.max_length} tokens"),
        *((name, f"{value / 2**20:,.1f} MiB") for name, value in parts.items()),
    ]
