"""A training step compiled for accelerators that are not there."""

from __future__ import annotations

import dataclasses
import re
import time
from typing import Any

import jax

from dicejax.errors import InputError, first_line
from dicejax.models.settings import Remat
from dicejax.planning.cost import Cost, cost
from dicejax.planning.memory import MemoryPlan, Step, analysis, peak_bytes
from dicejax.planning.topologies import Topology
from dicejax.training.setup import Setup

# Of libtpu: "... temporaries (97.21G) exceeds available HBM (15.75G)", or
# "Used 97.21G of 15.75G hbm". Amounts below one are in M or K.
_NEEDS = (
    re.compile(r"\(([\d.]+)([KMGT])\) exceeds available HBM"),
    re.compile(r"[Uu]sed ([\d.]+)([KMGT]) of [\d.]+[KMGT] hbm"),
)
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepPlan(MemoryPlan):
    """Memory, operations and time of a step on each device, in bytes and seconds.

    The attributes of its memory are those of `MemoryPlan`.

    Attributes:
      topology: the devices, such as `v5e:4x4`.
      devices: their number.
      device_kind: as `jax.Device.device_kind` has it.
      micro_batches: of each update.
      remat: what the backward pass recomputes.
      memory: most that the step may use.
      fits: whether it does with this.
      flops: operations of matrix products; those done again with `remat` count.
      bytes_moved: between chip and memory; None, like the rest but the time of
        compiling, where a TPU has too little memory.
      cycles: the compiler's estimate without collectives, of TPUs.
      collectives: `count`, `bytes` of the arrays and bytes on the `wire`, by kind.
      seconds: least time of a step by `arithmetic`, `memory`, `wire` and `cycles`.
      utilisation: share of the peak operations per second that `seconds` allow: the
        longest of all as `bound`, and that of `cycles`.
      compile_seconds: the compiler's time here.
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


def plan_step(setup: Setup, topology: Topology) -> StepPlan:
    """Compile a run's step for the experiment's mesh of a topology's devices.

    Args:
      setup: as `training.setup.prepare` has it.
      topology: the devices.

    Raises:
      InputError: the mesh does not fit the devices, the batch not the mesh, or the
        compiler refuses the step.
    """
    mesh = setup.experiment.mesh.make(topology.devices())
    return planned(Step.of(setup, mesh), topology)


def planned(step: Step, topology: Topology) -> StepPlan:
    """Compile a step whose mesh is of a topology's devices.

    Raises:
      InputError: the compiler refuses the step.
    """
    mesh = step.settings["mesh"]
    rows, width = step.batch["input_ids"].shape
    started = time.perf_counter()
    found = _compiled(step)
    seconds = time.perf_counter() - started
    held: dict[str, Any] = step.held()
    usable = topology.device.usable
    measured: dict[str, Any]
    if isinstance(found, int):
        peak, measured = found, {"temporary": found - sum(held.values())}
    else:
        peak = peak_bytes(found)
        temporary = analysis(found).temp_size_in_bytes
        bounds = _bounds(cost(found.as_text() or ""), topology)
        measured = {"temporary": temporary, **bounds}
    return StepPlan(
        topology=str(topology),
        devices=mesh.size,
        device_kind=topology.device.kind,
        mesh=dict(mesh.shape),
        micro_batches=step.settings.get("micro_batches", 1),
        remat=step.settings["network"].remat,
        rows=rows,
        max_length=width,
        peak=peak,
        memory=usable,
        fits=not isinstance(found, int) and peak <= usable,
        compile_seconds=seconds,
        **held,
        **measured,
    )


def _compiled(step: Step) -> jax.stages.Compiled | int:
    """Return the compiled step, or the bytes it needs where a TPU has fewer."""
    try:
        return step.lower().compile()
    except jax.errors.JaxRuntimeError as error:
        needs = bytes_needed(str(error))
        if needs is None:
            raise InputError(
                f"the compiler refuses the step: {first_line(error)}"
            ) from error
        return needs


def bytes_needed(message: str) -> int | None:
    """Return the bytes that a program needs, of libtpu's error that it has fewer.

    >>> bytes_needed("Used 2.00G of 15.75G hbm") == 2 * 2**30
    True
    >>> bytes_needed("some other error") is None
    True
    """
    for pattern in _NEEDS:
        found = pattern.search(message)
        if found:
            return int(float(found[1]) * _UNITS[found[2]])
    return None


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


def lines(found: StepPlan) -> list[tuple[str, str]]:
    """Format a plan as pairs of names and values."""
    axes = " x ".join(f"{name} {size}" for name, size in found.mesh.items())
    settings = f"{axes}, {_count(found.micro_batches, 'micro-batch')}"
    shown = [
        ("devices", f"{found.devices} x {found.device_kind}"),
        (
            "mesh",
            settings + (f", remat {found.remat}" if found.remat != "none" else ""),
        ),
        ("batch of", f"{found.rows} rows of {found.max_length} tokens"),
        *(
            (name, amount(value))
            for name, value in (
                ("parameters", found.parameters),
                ("optimizer", found.optimizer),
                ("activations, gradients", found.temporary),
            )
        ),
        (
            "at the peak",
            f"{amount(found.peak)} of {amount(found.memory)} that a step may use",
        ),
    ]
    for kind, sums in (found.collectives or {}).items():
        often = f"{sums['count']} in a step"
        shown.append((kind, f"{sums['bytes'] / 1e6:,.1f} MB, {often}"))
    shown += _time_lines(found)
    shown.append(("compiled in", f"{found.compile_seconds:.0f} s"))
    return shown


def _time_lines(found: StepPlan) -> list[tuple[str, str]]:
    if not found.seconds or not found.utilisation:
        return []
    wire = sum(sums["wire"] for sums in (found.collectives or {}).values())
    amounts = {
        "arithmetic": f"{(found.flops or 0) / 1e12:,.4f} TFLOP",
        "memory": f"{(found.bytes_moved or 0) / 1e9:,.3f} GB",
        "wire": f"{wire / 1e6:,.1f} MB sent",
        "cycles": f"{(found.cycles or 0) / 1e6:,.1f} M, by the compiler",
    }
    shown = [
        (f"time by {name}", f"{1e3 * seconds:,.3f} ms ({amounts[name]})")
        for name, seconds in found.seconds.items()
    ]
    share = f"at most {found.utilisation['bound']:.1%}"
    if "cycles" in found.utilisation:
        share += f", by cycles {found.utilisation['cycles']:.1%}"
    return [*shown, ("utilisation", share)]


def amount(size: float) -> str:
    """Format bytes of memory.

    >>> amount(3 * 2**29), amount(2**20 / 2)
    ('1.50 GiB', '0.50 MiB')
    """
    name, unit = ("GiB", 2**30) if size >= 2**27 else ("MiB", 2**20)
    return f"{size / unit:,.2f} {name}"


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'es' if count != 1 else ''}"
