"""Memory of a training step on each device, by the compiler's plan."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from dicejax.errors import InputError
from dicejax.mesh import AXES, MeshShape
from dicejax.models.network import Network
from dicejax.objectives import Objective
from dicejax.optimizers import AdamW
from dicejax.training.setup import Setup
from dicejax.training.sharding import by_rows, with_shardings
from dicejax.training.state import TrainState, abstract_state
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
      peak: most at once; the state after a step takes the place of that before it.
    """

    mesh: dict[str, int]
    rows: int
    max_length: int
    parameters: int
    optimizer: int
    batch: int
    temporary: int
    peak: int


def plan(setup: Setup, warn: Callable[[str], None]) -> MemoryPlan:
    """Estimate the memory of a run's step by compiling it for the experiment's mesh.

    Where there are not enough devices, the step is compiled for as many simulated ones
    on the CPU: another compiler, whose activations may take more or less than the
    device's own.

    Args:
      setup: the run; weights are not needed.
      warn: called with remarks.

    Raises:
      InputError: the mesh does not fit.
    """
    mesh = _mesh(setup.experiment.mesh, warn)
    step = Step.of(setup, mesh)
    compiled = step.lower().compile()
    rows, width = step.batch["input_ids"].shape
    return MemoryPlan(
        mesh=dict(mesh.shape),
        rows=rows,
        max_length=width,
        **step.held(),
        temporary=analysis(compiled).temp_size_in_bytes,
        peak=peak_bytes(compiled),
    )


@dataclasses.dataclass(frozen=True)
class Step:
    """A step before it is compiled: shapes of its inputs, and its settings.

    Attributes:
      state: shapes of the training state, with shardings.
      batch: the same of a batch's arrays, by name.
      objective: as `train_step` takes it.
      settings: its static arguments, `mesh` among them.
    """

    state: TrainState
    batch: dict[str, jax.ShapeDtypeStruct]
    objective: Objective
    settings: dict[str, Any]

    @classmethod
    def of(cls, setup: Setup, mesh: Mesh) -> Step:
        """Return a run's first step.

        Raises:
          InputError: the batch does not divide over the mesh.
        """
        rows = by_rows(mesh)
        batch = {
            name: jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=rows)
            for name, array in setup.batches(mesh)[0].arrays.items()
        }
        state = with_shardings(setup.abstract_state(), mesh)
        return cls(state, batch, setup.objective, setup.step_settings(mesh))

    @classmethod
    def of_network(
        cls,
        network: Network,
        objective: Objective,
        mesh: Mesh,
        *,
        rows: int,
        length: int,
        micro_batches: int = 1,
    ) -> Step:
        """Return a step with AdamW, without data.

        Args:
          network: with one head, `tags`.
          objective: its loss.
          mesh: the devices.
          rows: of a batch.
          length: tokens per row.
          micro_batches: of the step.
        """
        optimizer, objective = AdamW(), objective.bind_outputs(("tags",))
        ids = jax.ShapeDtypeStruct((rows, length), jnp.int32, sharding=by_rows(mesh))
        names = ("input_ids", "segment_ids", "position_ids", "token_type_ids", "tags")
        settings = {
            "network": network,
            "optimizer": optimizer,
            "micro_batches": micro_batches,
            "mesh": mesh,
        }
        state = with_shardings(abstract_state(network, optimizer, objective), mesh)
        return cls(state, dict.fromkeys(names, ids), objective, settings)

    def lower(self) -> jax.stages.Lowered:
        """Trace it."""
        return train_step.lower(self.state, self.batch, self.objective, **self.settings)

    def held(self) -> dict[str, int]:
        """Return the bytes of the inputs on each device."""
        params = _bytes_per_device(self.state.params)
        return {
            "parameters": params,
            "optimizer": _bytes_per_device(self.state) - params,
            "batch": _bytes_per_device(self.batch),
        }


def analysis(compiled: jax.stages.Compiled) -> Any:
    """Return the compiler's own figures of memory.

    Raises:
      InputError: it has none.
    """
    found = compiled.memory_analysis()
    if found is None:
        raise InputError(
            "the compiler reports no memory of the step; name another device"
        )
    return found


def peak_bytes(compiled: jax.stages.Compiled) -> int:
    """Return the bytes on each device at the peak of a compiled step."""
    memory = analysis(compiled)
    kept = memory.output_size_in_bytes - memory.alias_size_in_bytes
    return memory.argument_size_in_bytes + memory.temp_size_in_bytes + kept


def simulate(mesh: MeshShape) -> None:
    """Create as many CPU devices as a mesh names, before JAX is used.

    Raises:
      InputError: JAX has been used already.
    """
    wanted = _named(mesh)
    if wanted == 1:
        return
    try:
        jax.config.update("jax_num_cpu_devices", wanted)
    except RuntimeError as error:
        raise InputError(f"plan: {error}") from error


def _mesh(shape: MeshShape, warn: Callable[[str], None]) -> Mesh:
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


def _bytes_per_device(tree: Any) -> int:
    """Add up the bytes of arrays on one device."""
    total = 0
    for leaf in jax.tree.leaves(tree):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
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
        "at the peak": found.peak,
    }
    return [
        ("mesh", axes),
        ("batch of", f"{found.rows} rows of {found.max_length} tokens"),
        *((name, f"{value / 2**20:,.1f} MiB") for name, value in parts.items()),
    ]
