"""Parser of optimised HLO text, as `jax.stages.Compiled.as_text` returns it."""

from __future__ import annotations

import dataclasses
import functools
import math
import re

# Bits of an element by type; the other types end in their number of bits.
_BITS = {"pred": 8, "token": 0, "opaque": 0, "bf16": 16, "c64": 64, "c128": 128}
_COMMENT = re.compile(r"/\*.*?\*/")
_COMPUTATION = re.compile(r"(ENTRY )?%?([\w.\-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"\s+(ROOT )?%?([\w.\-]+) = ")
_LEAF = re.compile(r"\b([a-z]\w*)\[([\d,<=]*)\](?:\{([^}]*)\})?")
_SPACE = re.compile(r"S\((\d+)\)")
_NAME = re.compile(r"%([\w.\-]+)")
ASYNC_START = "AsyncCollectiveStart"
"""Target of the custom call that starts an asynchronous collective on a TPU."""
KINDS = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "collective-permute",
    "collective-broadcast",
)


@dataclasses.dataclass(frozen=True)
class Shape:
    """An array's type, such as `bf16`, and its memory space: 0 is not on the chip."""

    dtype: str
    dims: tuple[int, ...]
    space: int = 0

    @property
    def size(self) -> int:
        """Number of bytes, without padding."""
        digits = re.match(r"\D+(\d+)", self.dtype)
        bits = _BITS.get(self.dtype, int(digits[1]) if digits else 32)
        return math.prod(self.dims) * bits // 8


@dataclasses.dataclass(frozen=True, eq=False)
class Instruction:
    """One line of a computation.

    A tuple has several shapes; constants and parameters have no operands. The literal
    is the text between the parentheses, and the attributes are the text after them.
    """

    computation: Computation
    name: str
    shapes: tuple[Shape, ...]
    op: str
    operands: tuple[str, ...]
    literal: str
    attributes: str
    is_root: bool

    @property
    def size(self) -> int:
        """Bytes of the result."""
        return sum(shape.size for shape in self.shapes)

    @property
    def size_in_memory(self) -> int:
        """Bytes of the result that lie in the device's main memory."""
        return sum(shape.size for shape in self.shapes if shape.space == 0)

    def search(self, pattern: str) -> str:
        """Return the attributes' match of a pattern's group; empty without one."""
        match = re.search(pattern, self.attributes)
        return match[1] if match else ""

    @property
    def inputs(self) -> list[Instruction]:
        """The instructions whose values this one reads."""
        return [self.computation[x] for x in self.operands if x in self.computation]

    def callee(self, key: str = "calls") -> Computation:
        """Return the computation that an attribute names; an empty one without."""
        name, module = self.search(rf"\b{key}=%?([\w.\-]+)"), self.computation.module
        return module.computations.get(name, Computation(name, module))

    def integer(self, key: str) -> int:
        """Return an integer of the attributes or of the backend's settings, or 0."""
        return int(self.search(rf'\b{key}"?[=:]"?(\d+)') or 0)

    @property
    def channel(self) -> str:
        """Channel of a collective; empty without one."""
        return self.search(r"\bchannel_id=(\d+)")

    @property
    def target(self) -> str:
        """Target of a custom call; empty for other operations."""
        return self.search(r'custom_call_target="([^"]*)"')


class Computation(dict[str, Instruction]):
    """Instructions of a computation by name, in order."""

    def __init__(self, name: str, module: Module):
        super().__init__()
        self.name, self.module = name, module

    @property
    def root(self) -> Instruction:
        """The instruction whose value the computation returns."""
        marked = [x for x in self.values() if x.is_root]
        return marked[0] if marked else list(self.values())[-1]

    @functools.cached_property
    def users(self) -> dict[str, list[tuple[Instruction, int]]]:
        """The instructions that read each value, with the operand's index."""
        users: dict[str, list[tuple[Instruction, int]]] = {name: [] for name in self}
        for instruction in self.values():
            for index, name in enumerate(instruction.operands):
                users.setdefault(name, []).append((instruction, index))
        return users

    @functools.cached_property
    def parameters(self) -> dict[int, Instruction]:
        """The parameters by index."""
        return {int(x.literal): x for x in self.values() if x.op == "parameter"}


@dataclasses.dataclass
class Module:
    """A program, with the name of the computation that runs first."""

    devices: int
    computations: dict[str, Computation] = dataclasses.field(default_factory=dict)
    entry: str = ""

    @functools.cached_property
    def started_channels(self) -> set[str]:
        """Channels of the collectives that asynchronous fusions of TPUs start."""
        return {
            operand.channel
            for computation in self.computations.values()
            for x in computation.values()
            if x.target == ASYNC_START
            for operand in x.inputs
            if operand.channel
        }


def parse(text: str) -> Module:
    """Parse optimised HLO text with static shapes.

    Raises:
      ValueError: the text has no entry.
    """
    head = text.partition("\n")[0]
    counts = re.findall(r"\b(?:num_partitions|replica_count)=(\d+)", head)
    module, current = Module(math.prod(map(int, counts))), None
    for line in text.splitlines():
        start = _COMPUTATION.match(line) if line.endswith("{") else None
        if start:
            current = module.computations[start[2]] = Computation(start[2], module)
            module.entry = start[2] if start[1] else module.entry
        elif current is not None and line.startswith(" "):
            instruction = _instruction(_COMMENT.sub("", line), current)
            if instruction is not None:
                current[instruction.name] = instruction
    if not module.entry:
        raise ValueError("the HLO text has no ENTRY")
    return module


def _instruction(line: str, computation: Computation) -> Instruction | None:
    start = _INSTRUCTION.match(line)
    if start is None:
        return None
    rest = line[start.end() :]
    # A tuple's type is in parentheses; layouts hold parentheses, but no space.
    end = _closing(rest, 0) + 1 if rest.startswith("(") else rest.index(" ")
    kind, rest = rest[:end], rest[end:].lstrip()
    op, bracket, _ = rest.partition("(")
    if not bracket:
        return None
    end = _closing(rest, len(op))
    literal = rest[len(op) + 1 : end]
    has_operands = op not in ("constant", "parameter")
    return Instruction(
        computation,
        name=start[2],
        shapes=shapes(kind),
        op=op,
        operands=tuple(_NAME.findall(literal)) if has_operands else (),
        literal=literal,
        attributes=rest[end + 1 :],
        is_root=bool(start[1]),
    )


@functools.lru_cache(maxsize=4096)
def shapes(kind: str) -> tuple[Shape, ...]:
    """Parse the type of a value, such as `(f32[2,3]{1,0:T(8,128)S(1)}, pred[])`."""
    arrays = []
    for dtype, dims, layout in _LEAF.findall(kind):
        space = _SPACE.search(layout)
        sizes = tuple(int(x.lstrip("<=")) for x in dims.split(",") if x)
        arrays.append(Shape(dtype, sizes, int(space[1]) if space else 0))
    return tuple(arrays)


def _closing(text: str, start: int) -> int:
    """Return the index of the parenthesis that closes the one at `start`."""
    depth = 0
    for index in range(start, len(text)):
        depth += (text[index] == "(") - (text[index] == ")")
        if depth == 0:
            return index
    return len(text)


@dataclasses.dataclass(frozen=True)
class Collective:
    """A collective of one of `KINDS` in a group of devices.

    Its size is in bytes of the whole arrays: reduced, gathered or to be scattered.
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
        """
        if self.kind in ("collective-permute", "collective-broadcast"):
            return float(self.size)
        passes = 2 if self.kind == "all-reduce" else 1
        return passes * self.size * (self.group - 1) / self.group


def collective(instruction: Instruction) -> Collective | None:
    """Return the collective that an instruction starts, if any."""
    kind = instruction.op.removesuffix("-start")
    if kind not in KINDS:
        return None
    size = sum(operand.size for operand in instruction.inputs)
    group = group_size(instruction.attributes, instruction.computation.module.devices)
    if kind == "all-gather":
        size *= group
    return Collective(kind, size, group)


def fused_collectives(computation: Computation) -> list[Collective]:
    """Return the collectives that start in a fused computation.

    TPUs fuse collectives with the work meanwhile: later fusions repeat the instruction
    of one that has started. A reduce-scatter is an all-reduce whose result is sliced.
    """
    module = computation.module
    starts = any(x.target == ASYNC_START for x in computation.values())
    collectives = []
    for instruction in computation.values():
        item = collective(instruction)
        has_started = instruction.channel in module.started_channels
        if item is None or (has_started and not starts):
            continue
        if "all-reduce-scatter" in computation.name:
            item = dataclasses.replace(item, kind="reduce-scatter")
        collectives.append(item)
    return collectives


def group_size(attributes: str, devices: int) -> int:
    """Return the number of devices in each group of a collective."""
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
