"""How many runs one program steps together: as many as gain by it, and fit."""

from __future__ import annotations

import jax

from dicejax.config import Experiment
from dicejax.training.plan import planned
from dicejax.training.setup import Setup, describe
from dicejax.training.throughput import attended_length, flops_per_token

CPU_GAINS_UP_TO = 2e7
"""Operations of a step. Above, a step of one run keeps the cores busy, and products of
stacked matrices are the slower ones; below, starting the many small parts of a step
takes most of the time. Measured by `benchmarks/stacked.py` on two processors: 2.2
and 1.7 times as fast with 1.6e7, 0.5 and 1.0 times with 6.4e7."""

CPU_MOST = 16
"""Runs at most on a CPU, whose cores have long been busy by then."""

MEMORY_SHARE = 0.8
"""Of a device's memory; the rest is for scoring and for runs taken out of a stack."""


def stack_size(experiment: Experiment) -> int:
    """Choose how many runs that differ in the seed alone are stepped by one program.

    On a CPU, 16 where a step has at most 2e7 operations and 1 otherwise. On an
    accelerator as many as its memory holds, by what the compiler says of the step of
    one. 1 with several devices or processes, which have enough to do.

    Args:
      experiment: of one of the runs.

    Raises:
      InputError: its data cannot be used.
    """
    mesh = experiment.mesh.make()
    if mesh.size > 1 or jax.process_count() > 1:
        return 1
    setup = describe(experiment, warn=lambda text: None)
    (device,) = mesh.devices.flat
    if device.platform == "cpu":
        operations = step_flops(setup)
        gains = operations is not None and operations <= CPU_GAINS_UP_TO
        return CPU_MOST if gains else 1
    memory = (device.memory_stats() or {}).get("bytes_limit", 0)
    return fitting(planned(setup, mesh).total, memory)


def fitting(one: int, memory: int) -> int:
    """Return how many runs fit, at least 1.

    >>> fitting(one=2 * 2**30, memory=80 * 2**30)
    32

    Args:
      one: bytes that the step of one run takes at the peak.
      memory: bytes of the device.
    """
    return max(1, int(MEMORY_SHARE * memory) // one)


def step_flops(setup: Setup) -> float | None:
    """Return the operations of a step on rows full of tokens, None where not known."""
    training = setup.experiment.training
    lengths = [len(item) for item in setup.data.items["train"]]
    each = flops_per_token(setup.network.encoder, attended_length(lengths))
    if each is None:
        return None
    rows = setup.batches(setup.experiment.mesh.make()).rows
    return each * rows * training.max_length
