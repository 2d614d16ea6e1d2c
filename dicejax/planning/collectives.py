"""Collectives of a compiled program: their kind, their bytes and those on the wire."""

from __future__ import annotations

import dataclasses
import math
import re

from dicejax.planning.hlo import Computation, Instruction, Module

KINDS = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "collective-permute",
    "collective-broadcast",
)
# Where a TPU's asynchronous collective begins; later fusions, which repeat the
# instruction, carry it on.
_START = "AsyncCollectiveStart"


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
    one: Instruction, computation: Computation, module: Module
) -> Collective | None:
    """Return the collective that an instruction is or begins, if it is one.

    Args:
      one: the instruction.
      computation: that it is in.
      module: that this is in.
    """
    kind = one.op.removesuffix("-start")
    if kind not in KINDS:
        return None
    size = sum(operand.size for operand in computation.operands(one))
    group = group_size(one.attributes, module.devices)
    if kind == "all-gather":
        size *= group
    return Collective(kind, size, group)


def fused_collectives(name: str, module: Module, started: set[int]) -> list[Collective]:
    """Return the collectives that begin in a fused computation.

    TPUs fuse them with the work meanwhile, and a reduce-scatter is there an all-reduce
    whose result is sliced.

    Args:
      name: of the computation.
      module: that it is in.
      started: channels of asynchronous collectives, as `started_channels` has them.
    """
    computation = module.computations[name]
    begins = any(one.target == _START for one in computation.values())
    found = []
    for one in computation.values():
        here = collective(one, computation, module)
        if here is None or (one.number("channel_id") in started and not begins):
            continue
        if "all-reduce-scatter" in name:
            here = dataclasses.replace(here, kind="reduce-scatter")
        found.append(here)
    return found


def started_channels(module: Module) -> set[int]:
    """Return the channels of the collectives that a fusion starts."""
    channels = set()
    for computation in module.computations.values():
        for one in computation.values():
            if one.target == _START:
                for operand in computation.operands(one):
                    channels.add(operand.number("channel_id"))
    return {channel for channel in channels if channel is not None}


def group_size(attributes: str, devices: int) -> int:
    """Return how many devices take part in each group of a collective.

    >>> group_size("replica_groups={{0,1},{2,3}}", 4)
    2
    >>> group_size("replica_groups=[2,8]<=[16]", 16)
    8
    >>> group_size("replica_groups=mesh['x'=4,'y'=2] {'y'}, dimensions={0}", 8)
    2
    >>> group_size("replica_groups={}, to_apply=%add", 4)
    4

    Args:
      attributes: of the instruction.
      devices: those of the program.
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
