"""Collectives of a compiled program: their kind, their bytes and those on the wire."""

from __future__ import annotations

import dataclasses
import math
import re

from dicejax.planning.hlo import ASYNC_START, Computation, Instruction, Module

KINDS = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "collective-permute",
    "collective-broadcast",
)


@dataclasses.dataclass(frozen=True)
class Collective:
    """A collective of one device's program.

    Attributes:
      kind: one of `KINDS`.
      size: bytes of the whole arrays: reduced, gathered or to be scattered.
      group: number of devices that take part.
    """

    kind: str
    size: int
    group: int

    @property
    def wire(self) -> float:
        """Bytes that a device sends at least.

        Of n devices, each sends (n - 1) / n of the array to gather or to scatter it,
        and twice as much to reduce it: Patarasuk and Yuan, 2009 (Bandwidth optimal
        all-reduce algorithms for clusters of workstations).

        >>> Collective("all-reduce", 1000, 4).wire, Collective("all-gather", 8, 4).wire
        (1500.0, 6.0)
        """
        if self.kind in ("collective-permute", "collective-broadcast"):
            return float(self.size)
        passes = 2 if self.kind == "all-reduce" else 1
        return passes * self.size * (self.group - 1) / self.group


def collective(
    instruction: Instruction, computation: Computation, module: Module
) -> Collective | None:
    """Return the collective that an instruction of a computation starts, if any."""
    kind = instruction.op.removesuffix("-start")
    if kind not in KINDS:
        return None
    size = sum(operand.size for operand in computation.operands(instruction))
    group = group_size(instruction.attributes, module.devices)
    if kind == "all-gather":
        size *= group
    return Collective(kind, size, group)


def fused_collectives(name: str, module: Module) -> list[Collective]:
    """Return the collectives that start in the fused computation of this name.

    TPUs fuse collectives with the work meanwhile: later fusions repeat the instruction
    of one that has started. A reduce-scatter is an all-reduce whose result is sliced.
    """
    computation = module.computations[name]
    starts = any(x.target == ASYNC_START for x in computation.values())
    collectives = []
    for instruction in computation.values():
        item = collective(instruction, computation, module)
        has_started = instruction.integer("channel_id") in module.started_channels
        if item is None or (has_started and not starts):
            continue
        if "all-reduce-scatter" in name:
            item = dataclasses.replace(item, kind="reduce-scatter")
        collectives.append(item)
    return collectives


def group_size(attributes: str, devices: int) -> int:
    """Return the number of devices in each group of a collective, of all `devices`.

    >>> group_size("replica_groups={{0,1},{2,3}}", 4)
    2
    >>> group_size("replica_groups=[2,8]<=[16]", 16)
    8
    >>> group_size("replica_groups=mesh['x'=4,'y'=2] {'y'}, dimensions={0}", 8)
    2
    >>> group_size("replica_groups={}, to_apply=%add", 4)
    4
    """
    lists = re.search(r"replica_groups=\{\{([\d,]*)\}", attributes)
    if lists:
        return lists[1].count(",") + 1
    iota = re.search(r"replica_groups=\[(\d+),(\d+)\]<=", attributes)
    if iota:
        return int(iota[2])
    mesh = re.search(r"replica_groups=mesh\[([^\]]*)\](.*?)\{([^}]*)\}", attributes)
    if mesh:
        sizes = dict(re.findall(r"'([^']*)'=(\d+)", mesh[1]))
        # An axis may be split: 'x':(2)4 is the part of length 4 after one of 2.
        axes = re.findall(r"'([^']*)'(?::\(\d+\)(\d+))?", mesh[3])
        return math.prod(int(part or sizes[axis]) for axis, part in axes)
    return devices
