"""Parser of optimised HLO text, as `jax.stages.Compiled.as_text` returns it."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Iterator

# Bits of a number, by the name of its type; others have as many as the name says.
_BITS = {"pred": 8, "token": 0, "opaque": 0, "bf16": 16, "c64": 64, "c128": 128}
_COMMENT = re.compile(r"/\*.*?\*/")
_COMPUTATION = re.compile(r"(ENTRY )?%?([\w.\-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"\s+(ROOT )?%?([\w.\-]+) = ")
_LEAF = re.compile(r"\b([a-z]\w*)\[([\d,<=]*)\](?:\{([^}]*)\})?")
_SPACE = re.compile(r"S\((\d+)\)")
_NAME = re.compile(r"%([\w.\-]+)")


@dataclasses.dataclass(frozen=True)
class Shape:
    """Type, dimensions and place of an array.

    Attributes:
      dtype: as HLO names it, such as `bf16`.
      dims: length of each dimension.
      space: memory space; 0 is the device's main memory, others are on the chip.
    """

    dtype: str
    dims: tuple[int, ...]
    space: int = 0

    @property
    def size(self) -> int:
        """Number of bytes, without padding.

        >>> Shape("bf16", (8, 128)).size
        2048
        """
        digits = re.match(r"\D+(\d+)", self.dtype)
        bits = _BITS.get(self.dtype, int(digits[1]) if digits else 32)
        return math.prod(self.dims) * bits // 8


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One line of a computation.

    Attributes:
      name: unique in its computation.
      shapes: the arrays of its result, those of tuples in order.
      op: such as `fusion`.
      operands: names of its operands; for constants and parameters none.
      literal: the text between its parentheses.
      attributes: the text after its parentheses.
      is_root: whether its value is that of the computation.
    """

    name: str
    shapes: tuple[Shape, ...]
    op: str
    operands: tuple[str, ...]
    literal: str
    attributes: str
    is_root: bool

    @property
    def size(self) -> int:
        """Bytes of its result."""
        return sum(shape.size for shape in self.shapes)

    @property
    def size_in_memory(self) -> int:
        """Bytes of its result that lie in the device's main memory."""
        return sum(shape.size for shape in self.shapes if shape.space == 0)

    def called(self, key: str = "calls") -> str:
        """Return the name of the computation that an attribute names; or nothing."""
        found = re.search(rf"\b{key}=%?([\w.\-]+)", self.attributes)
        return found[1] if found else ""

    def number(self, key: str) -> int | None:
        """Return an integer of its attributes or its backend's configuration."""
        found = re.search(rf'\b{key}"?[=:]"?(\d+)', self.attributes)
        return int(found[1]) if found else None

    @property
    def target(self) -> str:
        """The function of a custom call."""
        found = re.search(r'custom_call_target="([^"]*)"', self.attributes)
        return found[1] if found else ""


class Computation(dict[str, Instruction]):
    """The instructions of a computation by name, in order."""

    @functools.cached_property
    def root(self) -> Instruction:
        """The instruction whose value is that of the computation."""
        marked = [one for one in self.values() if one.is_root]
        return marked[0] if marked else list(self.values())[-1]

    @functools.cached_property
    def users(self) -> dict[str, list[tuple[Instruction, int]]]:
        """The uses of each value: the instruction and the place among its operands."""
        found: dict[str, list[tuple[Instruction, int]]] = {name: [] for name in self}
        for one in self.values():
            for place, name in enumerate(one.operands):
                found.setdefault(name, []).append((one, place))
        return found

    def parameters(self) -> dict[int, Instruction]:
        """Return the parameters by their number."""
        return {int(x.literal): x for x in self.values() if x.op == "parameter"}

    def operands(self, one: Instruction) -> Iterator[Instruction]:
        """Iterate over the instructions whose values an instruction reads."""
        return (self[name] for name in one.operands if name in self)


@dataclasses.dataclass(frozen=True)
class Module:
    """A program.

    Attributes:
      computations: by name.
      entry: name of the first.
      devices: number of devices that run it.
    """

    computations: dict[str, Computation]
    entry: str
    devices: int


def parse(text: str) -> Module:
    r"""Parse optimised HLO text.

    >>> module = parse('''HloModule f, num_partitions=4
    ...
    ... ENTRY %main (x: f32[2,3]) -> f32[2,3] {
    ...   %x = f32[2,3]{1,0} parameter(0)
    ...   ROOT %y = f32[2,3]{1,0} negate(%x)
    ... }''')
    >>> root = module.computations[module.entry].root
    >>> root.op, root.operands, root.size, module.devices
    ('negate', ('x',), 24, 4)

    Args:
      text: of a module whose shapes are static.

    Raises:
      ValueError: it has no entry.
    """
    computations: dict[str, Computation] = {}
    entry, current = None, None
    for line in text.splitlines():
        begun = _COMPUTATION.match(line) if line.endswith("{") else None
        if begun:
            current = computations[begun[2]] = Computation()
            entry = begun[2] if begun[1] else entry
        elif current is not None and line.startswith(" "):
            one = _instruction(_COMMENT.sub("", line))
            if one is not None:
                current[one.name] = one
    if entry is None:
        raise ValueError("the HLO text has no ENTRY")
    head = text.partition("\n")[0]
    counts = (
        re.search(rf"{key}=(\d+)", head) for key in ("num_partitions", "replica_count")
    )
    return Module(computations, entry, math.prod(int(x[1]) for x in counts if x))


def _instruction(line: str) -> Instruction | None:
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
    """Parse the type of a value.

    >>> shapes("(f32[2,3]{1,0:T(8,128)S(1)}, pred[])")
    (Shape(dtype='f32', dims=(2, 3), space=1), Shape(dtype='pred', dims=(), space=0))
    """
    found = []
    for dtype, dims, layout in _LEAF.findall(kind):
        space = _SPACE.search(layout)
        sizes = tuple(int(x.lstrip("<=")) for x in dims.split(",") if x)
        found.append(Shape(dtype, sizes, int(space[1]) if space else 0))
    return tuple(found)


def _closing(text: str, start: int) -> int:
    """Return where the parenthesis that opens at `start` closes."""
    depth = 0
    for place in range(start, len(text)):
        if text[place] == "(":
            depth += 1
        elif text[place] == ")":
            depth -= 1
            if depth == 0:
                return place
    return len(text)
