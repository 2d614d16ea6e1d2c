"""Memory, operations and time of a training step, by compiling it."""

from __future__ import annotations

import dataclasses
import math
import re
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from dicejax.errors import InputError, first_line
from dicejax.mesh import AXES, MeshShape, batch_parts
from dicejax.models.huggingface.modules import CONFIG
from dicejax.models.network import Network, available_memory
from dicejax.models.settings import Remat
from dicejax.objectives import Objective
from dicejax.optimizers import AdamW
from dicejax.planning.cost import Cost, cost
from dicejax.planning.topologies import Topology
from dicejax.training.setup import Setup
from dicejax.training.sharding import by_rows, with_shardings
from dicejax.training.state import TrainState, abstract_state
from dicejax.training.step import train_step

# Messages of libtpu: "... temporaries (97.21G) exceeds available HBM (15.75G)", or
# "Used 97.21G of 15.75G hbm". Amounts below one are in M or K.
_NEEDS = re.compile(
    r"(?:\(|[Uu]sed )([\d.]+)([KMGT])(?:\) exceeds available HBM| of [\d.]+[KMGT] hbm)"
)
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclasses.dataclass(frozen=True)
class MemoryPlan:
    """Bytes per device for a global batch of `rows` of at most `max_length` tokens.

    The optimizer's state includes an average of weights; `temporary` are activations,
    gradients and other intermediate values. At the `peak` the state after a step
    replaces the one before it.
    """

    mesh: dict[str, int]
    rows: int
    max_length: int
    parameters: int
    optimizer: int
    batch: int
    temporary: int
    peak: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepPlan(MemoryPlan):
    """Memory, operations and time of a step on each device, in bytes and seconds.

    Attributes:
      memory: maximum that the step may use.
      flops: operations of matrix products, including those that `remat` repeats. This
        and the following attributes are None where a TPU has too little memory.
      bytes_moved: bytes between chip and memory.
      cycles: the TPU compiler's estimate, without collectives.
      collectives: `count`, `bytes` of the arrays and bytes on the `wire`, by kind.
      seconds: least time of a step by `arithmetic`, `memory`, `wire` and `cycles`.
      utilisation: share of the peak operations per second at the longest of `seconds`,
        as `bound`, and at that of `cycles`.
    """

    topology: str
    devices: int
    device_kind: str
    micro_batches: int
    remat: Remat
    memory: int
    fits: bool
    flops: float | None = None
    bytes_moved: float | None = None
    cycles: int | None = None
    collectives: dict[str, dict[str, float]] | None = None
    seconds: dict[str, float] | None = None
    utilisation: dict[str, float] | None = None
    compile_seconds: float

    @property
    def bound(self) -> float | None:
        """Seconds that a step takes at least."""
        return max(self.seconds.values()) if self.seconds else None


@dataclasses.dataclass(frozen=True)
class Step:
    """Shapes with shardings, and static arguments of `train_step`, with the mesh."""

    state: TrainState
    batch: dict[str, jax.ShapeDtypeStruct]
    objective: Objective
    settings: dict[str, Any]

    @classmethod
    def of_setup(cls, setup: Setup, mesh: Mesh) -> Step:
        """Return a run's first step.

        Raises:
          InputError: the batch does not divide over the mesh.
        """
        rows, batches = by_rows(mesh), setup.batches(mesh)
        batch = {
            name: jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=rows)
            for name, array in batches[0].arrays.items()
        }
        state = with_shardings(setup.abstract_state(), mesh)
        settings = setup.step_settings(mesh, batches.plan.places())
        return cls(state, batch, setup.objective, settings)

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
        """Return a step of a network whose head is `tags`, with AdamW and no data."""
        optimizer, objective = AdamW(), objective.reading("tags")
        ids = jax.ShapeDtypeStruct((rows, length), jnp.int32, sharding=by_rows(mesh))
        names = ("input_ids", "segment_ids", "position_ids", "token_type_ids", "tags")
        settings = dict(
            network=network, optimizer=optimizer, micro_batches=micro_batches, mesh=mesh
        )
        state = with_shardings(abstract_state(network, optimizer, objective), mesh)
        return cls(state, dict.fromkeys(names, ids), objective, settings)

    @property
    def rows_per_device(self) -> int:
        """Row count of the global batch on a device."""
        return self.batch["input_ids"].shape[0] // batch_parts(self.settings["mesh"])

    def lower(self) -> jax.stages.Lowered:
        """Trace the step."""
        return train_step.lower(self.state, self.batch, self.objective, **self.settings)

    def input_fields(self) -> dict[str, Any]:
        """Return the fields of a plan that follow from the inputs."""
        rows, width = self.batch["input_ids"].shape
        params = _bytes_per_device(self.state.params)
        return {
            "mesh": dict(self.settings["mesh"].shape),
            "rows": rows,
            "max_length": width,
            "parameters": params,
            "optimizer": _bytes_per_device(self.state) - params,
            "batch": _bytes_per_device(self.batch),
        }


def plan_memory(setup: Setup, warn: Callable[[str], None]) -> MemoryPlan:
    """Estimate the memory of a run's step by compiling it for the experiment's mesh.

    Where there are not enough devices, the step is compiled for as many simulated ones
    on the CPU: another compiler, whose activations may take more or less than the
    device's.

    Raises:
      InputError: the mesh does not fit, or parameters exceed the memory of as many
        machines as devices.
    """
    shape, available = setup.experiment.mesh, jax.devices()
    count = len(available) if shape.data is None else _num_devices(shape)
    if count > len(available):
        warn(f"{count} devices are simulated on the CPU: there are {len(available)}")
        available = jax.devices("cpu")
    check_memory(setup, count * available_memory())
    step = Step.of_setup(setup, shape.make(available[:count]))
    return MemoryPlan(**step.input_fields(), **memory_of(step.lower().compile()))


def check_memory(setup: Setup, most: int) -> None:
    """Check by arithmetic, before anything is compiled, that parameters fit.

    Raises:
      InputError: parameters take more bytes than `most`.
    """
    folder = setup.data.folder
    origin = "encoder" if folder is None else str(folder / CONFIG)
    setup.network.check_memory(origin, most)


def simulate(mesh: MeshShape) -> None:
    """Create as many CPU devices as a mesh names, before JAX is used.

    Raises:
      InputError: JAX has been used already.
    """
    count = _num_devices(mesh)
    if count == 1:
        return
    try:
        jax.config.update("jax_num_cpu_devices", count)
    except RuntimeError as error:
        raise InputError(f"plan: {error}") from error


def _num_devices(shape: MeshShape) -> int:
    """Return the number of devices that a mesh names; `data` may be left out."""
    return math.prod((shape.data or 1, shape.fsdp, shape.tensor))


def _bytes_per_device(tree: Any) -> int:
    """Add up the bytes of arrays on one device, without random keys' few bytes."""
    return sum(
        math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
        for leaf in jax.tree.leaves(tree)
        if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    )


def memory_of(compiled: jax.stages.Compiled) -> dict[str, Any]:
    """Return the `temporary` bytes of a compiled step on each device, and the `peak`.

    Raises:
      InputError: the compiler reports no memory.
    """
    sizes = compiled.memory_analysis()
    if sizes is None:
        raise InputError(
            "the compiler reports no memory of the step; name another device"
        )
    results = sizes.output_size_in_bytes - sizes.alias_size_in_bytes
    temporary = sizes.temp_size_in_bytes
    peak = sizes.argument_size_in_bytes + temporary + results
    return {"temporary": temporary, "peak": peak}


def plan_step(step: Step, topology: Topology) -> StepPlan:
    """Compile a step whose mesh is of a topology's devices.

    Raises:
      InputError: the compiler refuses the step.
    """
    inputs, usable = step.input_fields(), topology.device.usable
    start, needs, bounds = time.perf_counter(), 0, dict[str, Any]()
    compiled = None
    try:
        compiled = step.lower().compile()
    except jax.errors.JaxRuntimeError as error:
        size = bytes_needed(str(error))
        if size is None:
            raise InputError(
                f"the compiler refuses the step: {first_line(error)}"
            ) from error
        needs = size
    seconds = time.perf_counter() - start
    if compiled is not None:
        memory = memory_of(compiled)
        bounds = _bounds(cost(compiled.as_text() or ""), topology)
    else:
        held = inputs["parameters"] + inputs["optimizer"] + inputs["batch"]
        memory = {"temporary": needs - held, "peak": needs}
    return StepPlan(
        **inputs,
        **memory,
        topology=str(topology),
        devices=step.settings["mesh"].size,
        device_kind=topology.device.kind,
        micro_batches=step.settings.get("micro_batches", 1),
        remat=step.settings["network"].remat,
        memory=usable,
        fits=compiled is not None and memory["peak"] <= usable,
        compile_seconds=seconds,
        **bounds,
    )


def bytes_needed(message: str) -> int | None:
    """Return the bytes that a program needs by libtpu's message; None without them."""
    match = _NEEDS.search(message)
    return int(float(match[1]) * _UNITS[match[2]]) if match else None


def _bounds(total: Cost, topology: Topology) -> dict[str, Any]:
    """Return the fields of a plan that follow from the cost of its program."""
    device = topology.device
    seconds = {
        "arithmetic": total.flops / device.flops,
        "memory": total.size / device.bandwidth,
        "wire": total.wire / device.wire,
    }
    if total.cycles:
        seconds["cycles"] = total.cycles / device.clock
    longest = max(seconds.values())
    utilisation = {"bound": seconds["arithmetic"] / longest if longest else 0.0}
    if total.cycles:
        utilisation["cycles"] = seconds["arithmetic"] / seconds["cycles"]
    return {
        "flops": total.flops,
        "bytes_moved": total.size,
        "cycles": total.cycles or None,
        "collectives": total.by_kind(),
        "seconds": seconds,
        "utilisation": utilisation,
    }


def lines(plan: MemoryPlan) -> list[tuple[str, str]]:
    """Format a plan as pairs of names and values."""
    mesh = " x ".join(f"{axis} {plan.mesh[axis]}" for axis in AXES)
    rows = ("batch of", f"{plan.rows} rows of {plan.max_length} tokens")
    sizes = {
        "parameters": plan.parameters,
        "optimizer": plan.optimizer,
        "batch": plan.batch,
        "activations, gradients": plan.temporary,
        "at the peak": plan.peak,
    }
    if not isinstance(plan, StepPlan):
        mebibytes = ((name, f"{x / 2**20:,.1f} MiB") for name, x in sizes.items())
        return [("mesh", mesh), rows, *mebibytes]
    mesh += f", {plan.micro_batches} micro-batch{'es' * (plan.micro_batches != 1)}"
    mesh += f", remat {plan.remat}" if plan.remat != "none" else ""
    del sizes["batch"]
    amounts = {name: amount(size) for name, size in sizes.items()}
    amounts["at the peak"] += f" of {amount(plan.memory)} that a step may use"
    for kind, sums in (plan.collectives or {}).items():
        amounts[kind] = f"{sums['bytes'] / 1e6:,.1f} MB, {sums['count']} in a step"
    times = {}
    if plan.seconds and plan.utilisation:
        wire = sum(sums["wire"] for sums in (plan.collectives or {}).values())
        work = {
            "arithmetic": f"{(plan.flops or 0) / 1e12:,.4f} TFLOP",
            "memory": f"{(plan.bytes_moved or 0) / 1e9:,.3f} GB",
            "wire": f"{wire / 1e6:,.1f} MB sent",
            "cycles": f"{(plan.cycles or 0) / 1e6:,.1f} M, by the compiler",
        }
        for name, seconds in plan.seconds.items():
            times[f"time by {name}"] = f"{1e3 * seconds:,.3f} ms ({work[name]})"
        times["utilisation"] = f"at most {plan.utilisation['bound']:.1%}"
        if "cycles" in plan.utilisation:
            times["utilisation"] += f", by cycles {plan.utilisation['cycles']:.1%}"
    return [
        ("devices", f"{plan.devices} x {plan.device_kind}"),
        ("mesh", mesh),
        rows,
        *amounts.items(),
        *times.items(),
        ("compiled in", f"{plan.compile_seconds:.0f} s"),
    ]


def amount(size: float) -> str:
    """Format bytes of memory.

    >>> amount(3 * 2**29), amount(2**20 / 2)
    ('1.50 GiB', '0.50 MiB')
    """
    name, unit = ("GiB", 2**30) if size >= 2**27 else ("MiB", 2**20)
    return f"{size / unit:,.2f} {name}"
