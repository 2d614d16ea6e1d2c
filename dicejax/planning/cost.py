"""Operations, bytes, cycles and collectives of a compiled step, loops unrolled."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Iterable

import numpy as np

from dicejax.planning import hlo
from dicejax.planning.collectives import (
    KINDS,
    Collective,
    collective,
    fused_collectives,
    started_channels,
)
from dicejax.planning.hlo import Computation, Instruction, Module

# Instructions that move nothing: names, views, and the ends of asynchronous ones.
_FREE = {
    "parameter",
    "constant",
    "tuple",
    "get-tuple-element",
    "bitcast",
    "after-all",
    "partition-id",
    "replica-id",
    "opt-barrier",
    "iota",
}
_VIEWS = {"bitcast", "reshape"}
_ALIASED = "output_to_operand_aliasing"  # on a fusion in a fusion: another layout
_FREE_CALLS = {
    "AssumeGatherIndicesInBound",
    "AsyncCollectiveDone",
    "AsyncCollectiveStart",
    "AllocateBuffer",
    "ConcatBitcast",
    "ReshapeFree",
    "Sharding",
}
_SLICES = {"slice", "dynamic-slice", "gather"}
_UPDATES = {"dynamic-update-slice": 1, "scatter": 2}  # operand with the new values


@dataclasses.dataclass(frozen=True)
class Cost:
    """What one device does in a step.

    Attributes:
      flops: operations of matrix products, multiplications and additions.
      size: bytes read from and written to the device's main memory.
      cycles: those that the compiler estimates, where it does; collectives and kernels
        of Pallas are not in them.
      collectives: each with how often it happens.
    """

    flops: float = 0.0
    size: float = 0.0
    cycles: int = 0
    collectives: tuple[tuple[Collective, int], ...] = ()

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.flops + other.flops,
            self.size + other.size,
            self.cycles + other.cycles,
            self.collectives + other.collectives,
        )

    def times(self, count: int) -> Cost:
        """Return the cost of doing it so often."""
        return Cost(
            self.flops * count,
            self.size * count,
            self.cycles * count,
            tuple((one, count * times) for one, times in self.collectives),
        )

    @property
    def wire(self) -> float:
        """Bytes that the device sends at least."""
        return sum(one.wire * count for one, count in self.collectives)

    def by_kind(self) -> dict[str, dict[str, float]]:
        """Return the collectives' count, bytes and bytes on the wire, by kind."""
        found = {}
        for kind in KINDS:
            of = [pair for pair in self.collectives if pair[0].kind == kind]
            if of:
                found[kind] = {
                    "count": sum(count for _, count in of),
                    "bytes": sum(one.size * count for one, count in of),
                    "wire": sum(one.wire * count for one, count in of),
                }
        return found


def cost(text: str) -> Cost:
    """Add up the cost of a program.

    A loop's body counts as often as it runs; of the branches of a condition, the one
    that moves most counts. Bytes are those of the arrays without padding. A fusion
    reads its operands once, only the slice of those that it slices, and writes its
    results once, only the slice where it updates one in place; what lies on the chip
    costs nothing.

    Args:
      text: optimised HLO, as `jax.stages.Compiled.as_text` returns it.

    Raises:
      ValueError: it is no such text.
    """
    module = hlo.parse(text)
    return _Costs(module).of(module.entry)


class _Costs:
    """Costs of the computations of a module, each found once."""

    def __init__(self, module: Module):
        self._module = module
        self._started = started_channels(module)
        self.of = functools.cache(self._of)
        self._flops = functools.cache(self._flops_of)
        self._read = functools.cache(self._read_of)

    def _of(self, name: str) -> Cost:
        computation = self._module.computations[name]
        total = Cost()
        for one in computation.values():
            total += self._one(one, computation)
        return total

    def _one(self, one: Instruction, computation: Computation) -> Cost:
        if one.op in _FREE or one.op.endswith(("-done", "-update")):
            return Cost()
        cycles = one.number("estimated_cycles") or 0
        match one.op:
            case "while":
                body, condition = one.called("body"), one.called("condition")
                return self.of(body).times(trip_count(one, condition, self._module))
            case "conditional":
                branches = [self.of(name) for name in _branches(one)]
                return max(branches, key=lambda cost: cost.size, default=Cost())
            case "call" | "async-start":
                return self.of(one.called("to_apply") or one.called())
            case "fusion":
                name = one.called()
                inner = fused_collectives(name, self._module, self._started)
                size = self._fusion_size(one, computation, name)
                times = tuple((each, 1) for each in inner)
                return Cost(self._flops(name), size, cycles, times)
            case "custom-call":
                return dataclasses.replace(_kernel(one, computation), cycles=cycles)
        found = collective(one, computation, self._module)
        return Cost(
            product_flops(one, computation),
            _size(one, computation),
            cycles,
            ((found, 1),) if found else (),
        )

    def _flops_of(self, name: str) -> float:
        """Return the operations of a fused computation."""
        computation = self._module.computations[name]
        total = 0.0
        for one in computation.values():
            inner = one.called() if one.op == "fusion" else None
            total += self._flops(inner) if inner else product_flops(one, computation)
        return total

    def _fusion_size(self, one: Instruction, outer: Computation, name: str) -> float:
        """Return the bytes that a fusion reads and writes."""
        read = self._read(name)
        total = sum(
            min(read.get(place, 0), operand.size_in_memory)
            for place, operand in enumerate(outer.operands(one))
        )
        inner = self._module.computations[name]
        root = inner.root
        results = list(inner.operands(root)) if root.op == "tuple" else [root]
        if len(results) != len(one.shapes):  # a root that is a tuple of an operation
            return total + one.size_in_memory
        for result, shape in zip(results, one.shapes, strict=True):
            if shape.space == 0:
                total += self._written(result, inner)
        return total

    def _written(self, one: Instruction, computation: Computation) -> int:
        """Return the bytes that a result of a fusion writes."""
        size = one.size
        while one.op in (*_VIEWS, "copy", "convert") and one.operands:
            source = computation.get(one.operands[0])
            if source is None:
                break
            if source.op == "parameter" and one.op in _VIEWS:
                return 0  # passed through
            one = source
        if one.op == "parameter":
            return 0
        if one.op in _UPDATES:
            return computation[one.operands[_UPDATES[one.op]]].size
        if one.op == "fusion":
            inner = self._module.computations[one.called()]
            if inner.root.op in _UPDATES:
                return self._written(inner.root, inner)
        return size

    def _read_of(self, name: str) -> dict[int, int]:
        """Return the bytes read of each operand of a fusion, by its place."""
        computation = self._module.computations[name]
        found = {}
        for place, parameter in computation.parameters().items():
            found[place] = self._reads(parameter, parameter.size, computation)
        return found

    def _reads(self, value: Instruction, full: int, computation: Computation) -> int:
        """Return how many bytes of a value the instructions of a computation read."""
        total = 0
        for user, place in computation.users[value.name]:
            if user.op in _VIEWS or (place == 0 and _ALIASED in user.attributes):
                total += self._reads(user, full, computation)
            elif user.op in _SLICES and place == 0:
                total += user.size
            elif (
                (user.op in _UPDATES and place == 0)
                or user.op == "tuple"
                or user.op.removesuffix("-start") in KINDS
                or user.target in _FREE_CALLS
            ):
                continue  # in place, passed through, or counted with the collective
            elif user.op == "fusion":
                total += self._read(user.called()).get(place, full)
            else:
                return full
        return min(total, full)


def trip_count(loop: Instruction, condition: str, module: Module) -> int:
    """Return how often a loop's body runs, from its counter's limit.

    Args:
      loop: the `while` instruction.
      condition: name of the computation that ends it.
      module: that they are in.

    Returns:
      The count; 1 where it cannot be told.
    """
    known = re.search(r'"known_trip_count":\{"n":"(\d+)"', loop.attributes)
    if known:
        return int(known[1])
    limits = [
        int(one.literal)
        for one in _within(condition, module)
        if one.op == "constant"
        and one.shapes[0].dims == ()
        and re.fullmatch(r"\d+", one.literal)
    ]
    return max(limits, default=1)


def _within(name: str, module: Module) -> Iterable[Instruction]:
    """Iterate over the instructions of a computation and of its fusions."""
    for one in module.computations[name].values():
        yield one
        inner = one.called()
        if inner in module.computations:
            yield from _within(inner, module)


def _branches(one: Instruction) -> list[str]:
    """Return the computations of which a condition runs one."""
    listed = re.search(r"branch_computations=\{([^}]*)\}", one.attributes)
    if listed:
        return re.findall(r"%?([\w.\-]+)", listed[1])
    found = (one.called(f"{which}_computation") for which in ("true", "false"))
    return [name for name in found if name]


def _kernel(one: Instruction, computation: Computation) -> Cost:
    """Return the cost of a custom call: what its kernel declares, where it does."""
    if one.target in _FREE_CALLS:
        return Cost()
    moved = one.size_in_memory + _read_whole(one, computation)
    return Cost(one.number("flops") or 0.0, one.number("bytes_accessed") or moved)


def _size(one: Instruction, computation: Computation) -> int:
    """Return the bytes that an instruction outside fusions reads and writes."""
    if one.op in _UPDATES:
        new = computation.get(one.operands[_UPDATES[one.op]])
        return 2 * new.size_in_memory if new else 0
    if one.op in _SLICES:
        return 2 * one.size_in_memory
    if one.op in ("copy-start", "slice-start"):
        return _copied(one, computation)
    if one.op.endswith("-start"):  # its type names the operands too
        return 2 * _read_whole(one, computation)
    return one.size_in_memory + _read_whole(one, computation)


def _read_whole(one: Instruction, computation: Computation) -> int:
    return sum(operand.size_in_memory for operand in computation.operands(one))


def _copied(one: Instruction, computation: Computation) -> int:
    """Return the bytes in main memory of a copy, to the chip or back."""
    source = next(iter(computation.operands(one)), None)
    if source is None or not source.shapes:
        return 0
    # The type names operands and results, then the copy's own state of a few bytes.
    arrays = [shape for shape in one.shapes if shape.dims]
    size = min((shape.size for shape in arrays), default=0)
    ends = [source.shapes[0], *(shape for shape in arrays if shape.size == size)]
    target = next(
        (shape for shape in ends[1:] if shape.space != ends[0].space), ends[0]
    )
    return size * ((ends[0].space == 0) + (target.space == 0))


def product_flops(one: Instruction, computation: Computation) -> float:
    """Return the operations of a matrix product or convolution; 0 for others.

    Args:
      one: the instruction.
      computation: that it is in.
    """
    if one.op == "dot":
        contracted = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", one.attributes)
        left = computation[one.operands[0]].shapes[0].dims
        axes = [int(x) for x in contracted[1].split(",") if x] if contracted else []
        inner = math.prod(left[axis] for axis in axes)
        return 2.0 * math.prod(one.shapes[0].dims) * inner
    if one.op == "convolution":
        return _convolution_flops(one, computation)
    return 0.0


def _convolution_flops(one: Instruction, computation: Computation) -> float:
    """Count the pairs of input and kernel that meet, as products on TPUs are written.

    Batched products are convolutions over the axes of the batch there, padded and
    dilated so that each place meets one other: padding does not count.
    """
    [labels] = re.findall(r"dim_labels=(\w+?)_(\w+?)->(\w+)", one.attributes)
    left = dict(
        zip(labels[0], computation[one.operands[0]].shapes[0].dims, strict=True)
    )
    right = dict(
        zip(labels[1], computation[one.operands[1]].shapes[0].dims, strict=True)
    )
    out = dict(zip(labels[2], one.shapes[0].dims, strict=True))
    window = re.search(r"window=\{([^}]*)\}", one.attributes)
    settings = dict(x.split("=") for x in window[1].split()) if window else {}
    axes = sorted(axis for axis in out if axis.isdigit())
    met = 1
    for place, axis in enumerate(axes):

        def part(key: str, default: str, place: int = place) -> str:
            return settings[key].split("x")[place] if key in settings else default

        met *= pairs_met(
            left[axis],
            right[axis],
            out[axis],
            stride=int(part("stride", "1")),
            padding=int(part("pad", "0_0").split("_")[0]),
            left_dilation=int(part("lhs_dilate", "1")),
            right_dilation=int(part("rhs_dilate", "1")),
        )
    return 2.0 * out["b"] * out["f"] * right["i"] * met


@functools.lru_cache(maxsize=4096)
def pairs_met(
    length: int,
    kernel: int,
    out: int,
    *,
    stride: int = 1,
    padding: int = 0,
    left_dilation: int = 1,
    right_dilation: int = 1,
) -> int:
    """Count the products along one axis of a convolution that are not with padding.

    >>> pairs_met(4, 3, 2), pairs_met(4, 3, 4, padding=1)
    (6, 10)

    Args:
      length: of the input.
      kernel: length of the kernel.
      out: length of the output.
      stride: places of the input between those of the output.
      padding: places before the input.
      left_dilation: distance of the input's entries from one another.
      right_dilation: distance of the kernel's.
    """
    places = np.arange(out)[:, None] * stride + np.arange(kernel) * right_dilation
    places = places - padding
    inside = (places >= 0) & (places <= (length - 1) * left_dilation)
    return int((inside & (places % left_dilation == 0)).sum())
