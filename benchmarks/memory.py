"""Memory that `dicejax plan` estimates vs. the resident memory that steps add on a CPU.

The step is compiled first; then the resident memory is read, the state created, a few
steps are taken, and the kernel's peak resident memory is read (Linux only).

usage:    python benchmarks/memory.py [--smallest] EXPERIMENT.py [--any.setting VALUE]
measured: see benchmarks/README.md
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import jax
import tyro

from dicejax import config
from dicejax.planning.step import plan_memory, simulate
from dicejax.training.setup import prepare
from dicejax.training.sharding import global_batch
from dicejax.training.step import train_step

STEPS = 4


def resident(name: str) -> int:
    """Return VmRSS, the resident memory, or VmHWM, the highest so far, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    raise SystemExit("memory.py: /proc/self/status has no such line; it needs Linux")


def forget_highest() -> None:
    """Return freed memory to the kernel, and reset its record of the peak."""
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def really_added(experiment: config.Experiment, steps: int) -> int:
    """Return the bytes by which the first steps raise the resident memory."""
    mesh = experiment.mesh.make()
    setup = prepare(experiment, warn=print)
    batches, objective = setup.batches(mesh), setup.objective
    settings = setup.step_settings(mesh)
    state = setup.initial_state(mesh, len(batches))
    first = global_batch(batches[0].arrays, mesh)
    compiled = train_step.lower(state, first, objective, **settings).compile()
    del state, first
    forget_highest()
    before = resident("VmRSS")
    state = setup.initial_state(mesh, len(batches))
    for step in range(steps):
        batch = global_batch(batches[step].arrays, mesh)
        state, _ = jax.block_until_ready(
            compiled(state, batch, objective, optimizer=settings["optimizer"])
        )
    return resident("VmHWM") - before


def print_note(text: str) -> None:
    """Print a remark to standard error."""
    print(text, file=sys.stderr)


def main(argv: Sequence[str]) -> None:
    """Print both as one JSON object."""
    smallest = "--smallest" in argv
    file, *overrides = (word for word in argv if word != "--smallest")
    experiment = tyro.cli(
        tyro.conf.AvoidSubcommands[config.Experiment],
        default=config.load(file),
        args=overrides,
    )
    simulate(experiment.mesh)
    setup = prepare(experiment, print_note, weights=False)
    planned = plan_memory(setup, warn=print_note)
    bytes_planned = planned.peak * jax.device_count()
    added = really_added(experiment, 1 if smallest else STEPS)
    print(
        json.dumps(
            {
                "planned_mib": round(bytes_planned / 2**20, 1),
                "added_mib": round(added / 2**20, 1),
                "planned / added": round(bytes_planned / added, 3),
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1:])
