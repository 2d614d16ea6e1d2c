"""Operations, bytes, cycles and collectives of a compiled step, loops unrolled."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Iterator

import numpy as np

from dicejax.planning import hlo
from dicejax.planning.hlo import KINDS, Collective, Computation, Instruction

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
    """Work of one device per step, with each collective's number of executions.

    `flops` are multiplications and additions of matrix products, `size` the bytes read
    from and written to main memory, and `cycles` the compiler's estimate, where it
    makes one; it leaves out collectives and Pallas kernels.
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
        """Return the cost of `count` executions."""
        return Cost(
            self.flops * count,
            self.size * count,
            self.cycles * count,
            tuple((item, count * times) for item, times in self.collectives),
        )

    @property
    def wire(self) -> float:
        """Bytes that the device sends at least."""
        return sum(item.wire * count for item, count in self.collectives)

    def by_kind(self) -> dict[str, dict[str, float]]:
        """Return the collectives' count, bytes and bytes on the wire, by kind."""
        sums = {}
        for kind in KINDS:
            pairs = [pair for pair in self.collectives if pair[0].kind == kind]
            if pairs:
                sums[kind] = {
                    "count": sum(count for _, count in pairs),
                    "bytes": sum(item.size * count for item, count in pairs),
                    "wire": sum(item.wire * count for item, count in pairs),
                }
        return sums


def cost(text: str) -> Cost:
    """Add up the cost of a program, of which `text` is the optimised HLO.

    A loop's body counts once per iteration; of the branches of a condition, the one
    that moves most counts. Bytes are those of the arrays without padding. A fusion
    reads its operands once, only the slice of those that it slices, and writes its
    results once, only the slice where it updates one in place; arrays on the chip
    cost nothing.

    Raises:
      ValueError: the text is not HLO.
    """
    module = hlo.parse(text)
    return _total(module.computations[module.entry])


def _total(computation: Computation) -> Cost:
    return sum(map(_cost, computation.values()), Cost())


def _cost(instruction: Instruction) -> Cost:
    op, callee = instruction.op, instruction.callee
    if op in _FREE or op.endswith(("-done", "-update")):
        return Cost()
    cycles = instruction.integer("estimated_cycles")
    match op:
        case "while":
            return _total(callee("body")).times(_trip_count(instruction))
        case "conditional":
            listed = instruction.search(r"branch_computations=\{([^}]*)\}")
            computations = instruction.computation.module.computations
            branches = [computations[x] for x in re.findall(r"%?([\w.\-]+)", listed)]
            branches = branches or [
                callee(f"{x}_computation") for x in ("true", "false")
            ]
            return max(map(_total, branches), key=lambda cost: cost.size)
        case "call" | "async-start":
            return _total(callee("to_apply") or callee())
        case "fusion":
            return Cost(
                sum(map(_product_flops, _with_fused(callee()))),
                _fusion_size(instruction),
                cycles,
                tuple((item, 1) for item in hlo.fused_collectives(callee())),
            )
        case "custom-call":
            if instruction.target in _FREE_CALLS:
                return Cost(cycles=cycles)
            moved = instruction.size_in_memory + _operand_size(instruction)
            # Kernels may declare what they do.
            size = instruction.integer("bytes_accessed") or moved
            return Cost(instruction.integer("flops"), size, cycles)
    item = hlo.collective(instruction)
    items = ((item, 1),) if item else ()
    return Cost(_product_flops(instruction), _size(instruction), cycles, items)


def _trip_count(loop: Instruction) -> int:
    """Return a loop's number of iterations by its counter's limit; 1 if unknown."""
    count = loop.search(r'"known_trip_count":\{"n":"(\d+)"')
    limits = [
        int(x.literal)
        for x in _with_fused(loop.callee("condition"))
        if x.op == "constant"
        and x.shapes[0].dims == ()
        and re.fullmatch(r"\d+", x.literal)
    ]
    return int(count) if count else max(limits, default=1)


def _with_fused(computation: Computation) -> Iterator[Instruction]:
    """Iterate over the instructions of a computation and of its fusions."""
    for instruction in computation.values():
        yield instruction
        yield from _with_fused(instruction.callee())


def _fusion_size(fusion: Instruction) -> float:
    """Return the bytes that a fusion reads and writes."""
    inner = fusion.callee()
    total = sum(
        min(_read_size(inner.parameters[index]), operand.size_in_memory)
        for index, operand in enumerate(fusion.inputs)
    )
    root = inner.root
    results = root.inputs if root.op == "tuple" else [root]
    if len(results) != len(fusion.shapes):  # a root that is a tuple of an operation
        return total + fusion.size_in_memory
    return total + sum(
        _written_size(result)
        for result, shape in zip(results, fusion.shapes, strict=True)
        if shape.space == 0
    )


def _written_size(result: Instruction) -> int:
    """Return the bytes that a fusion writes for one of its results."""
    size, fused = result.size, result.computation
    while result.op in (*_VIEWS, "copy", "convert") and result.operands:
        source = fused.get(result.operands[0])
        if source is None:
            break
        if source.op == "parameter" and result.op in _VIEWS:
            return 0  # passed through
        result = source
    if result.op == "parameter":
        return 0
    if result.op in _UPDATES:
        return fused[result.operands[_UPDATES[result.op]]].size
    if result.op == "fusion":
        root = result.callee().root
        if root.op in _UPDATES:
            return _written_size(root)
    return size


def _read_size(value: Instruction, most: int | None = None) -> int:
    """Return the bytes that a fusion reads of a value, at most its size."""
    total, full = 0, value.size if most is None else most
    for user, index in value.computation.users[value.name]:
        is_first = index == 0
        if user.op in _VIEWS or (is_first and _ALIASED in user.attributes):
            total += _read_size(user, full)
        elif user.op in _SLICES and is_first:
            total += user.size
        elif (
            (user.op in _UPDATES and is_first)
            or user.op == "tuple"
            or user.op.removesuffix("-start") in KINDS
            or user.target in _FREE_CALLS
        ):
            continue  # in place, passed through, or counted with the collective
        elif user.op == "fusion":
            total += _read_size(user.callee().parameters[index])
        else:
            return full
    return min(total, full)


def _size(instruction: Instruction) -> int:
    """Return the bytes that an instruction outside fusions reads and writes."""
    op = instruction.op
    if op in _UPDATES:
        new = instruction.computation.get(instruction.operands[_UPDATES[op]])
        return 2 * new.size_in_memory if new else 0
    if op in _SLICES:
        return 2 * instruction.size_in_memory
    if op in ("copy-start", "slice-start"):
        return _copy_size(instruction)
    read = _operand_size(instruction)
    if op.endswith("-start"):  # its type names the operands too
        return 2 * read
    return instruction.size_in_memory + read


def _operand_size(instruction: Instruction) -> int:
    return sum(x.size_in_memory for x in instruction.inputs)


def _copy_size(instruction: Instruction) -> int:
    """Return the bytes in main memory of a copy, to the chip or back."""
    source = next(iter(instruction.inputs), None)
    if source is None or not source.shapes:
        return 0
    # The type names operands and results, then the copy's state of a few bytes.
    arrays = [shape for shape in instruction.shapes if shape.dims]
    size = min((shape.size for shape in arrays), default=0)
    start = source.shapes[0].space
    spaces = [shape.space for shape in arrays if shape.size == size]
    end = next((space for space in spaces if space != start), start)
    return size * ((start == 0) + (end == 0))


def _product_flops(instruction: Instruction) -> float:
    """Return the operations of a matrix product or convolution; 0 for others."""
    if instruction.op not in ("dot", "convolution"):
        return 0.0
    left, right = (x.shapes[0].dims for x in instruction.inputs[:2])
    if instruction.op == "convolution":
        return _convolution_flops(instruction, left, right)
    axes = instruction.search(r"lhs_contracting_dims=\{([\d,]*)\}").split(",")
    inner = math.prod(left[int(axis)] for axis in axes if axis)
    return 2.0 * math.prod(instruction.shapes[0].dims) * inner


def _convolution_flops(
    instruction: Instruction, left_dims: tuple[int, ...], right_dims: tuple[int, ...]
) -> float:
    """Return the operations of a convolution, those with padding left out.

    TPUs write products as convolutions. Batched products are convolutions over the axes
    of the batch, padded and dilated so that each position pairs with one other.
    """
    [labels] = re.findall(r"dim_labels=(\w+?)_(\w+?)->(\w+)", instruction.attributes)
    dims = (left_dims, right_dims, instruction.shapes[0].dims)
    left, right, out = (
        dict(zip(names, sizes, strict=True))
        for names, sizes in zip(labels, dims, strict=True)
    )
    window = instruction.search(r"window=\{([^}]*)\}").split()
    settings = dict(x.split("=") for x in window)
    axes = sorted(axis for axis in out if axis.isdigit())
    defaults = {"stride": 1, "pad": 0, "lhs_dilate": 1, "rhs_dilate": 1}
    texts = (
        settings.get(k, "x".join([f"{x}"] * len(axes))) for k, x in defaults.items()
    )
    # Of a padding, the one before the input.
    columns = ([int(x.split("_")[0]) for x in text.split("x") if x] for text in texts)
    pairs = math.prod(
        count_pairs(left[axis], right[axis], out[axis], *of_axis)
        for axis, *of_axis in zip(axes, *columns, strict=True)
    )
    return 2.0 * out["b"] * out["f"] * right["i"] * pairs


@functools.lru_cache(maxsize=4096)
def count_pairs(
    length: int,
    kernel: int,
    out: int,
    stride: int = 1,
    padding: int = 0,
    left_dilation: int = 1,
    right_dilation: int = 1,
) -> int:
    """Count the products along one axis of a convolution that are not with padding.

    The first three are lengths, a dilation is the distance between neighbouring
    elements of the input or the kernel, and the padding is that before the input.
    """
    positions = np.arange(out)[:, None] * stride + np.arange(kernel) * right_dilation
    positions = positions - padding
    inside = (positions >= 0) & (positions <= (length - 1) * left_dilation)
    return int((inside & (positions % left_dilation == 0)).sum())
