"""Axes and what is drawn between them, as shares of a panel; no look, no file."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Literal

Point = tuple[float, float]
"""Right and down, as shares of a panel."""

_NEAR = 0.008
"""Points of a line nearer than this share of the panel are one."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Axis:
    """Numbers along an edge of a panel.

    >>> axis = Axis(label="F1", low=0.0, high=50.0, ticks=(0.0, 25.0, 50.0))
    >>> axis.place(10.0), [text for _, text in axis.marks]
    (0.2, ['0', '25', '50'])
    >>> round(Axis(label="n", low=1.0, high=1000.0, ticks=(), log=True).place(10.0), 3)
    0.333

    Attributes:
      label: what is along it.
      low: where it begins.
      high: where it ends.
      ticks: numbers that are written beside it.
      log: whether equal ratios are equally far apart.
    """

    label: str
    low: float
    high: float
    ticks: tuple[float, ...]
    log: bool = False

    def place(self, value: float) -> float:
        """Return where a number is, as a share of the axis; at most at its ends."""
        low, high, value = (
            math.log10(v) if self.log else v for v in (self.low, self.high, value)
        )
        return min(max((value - low) / (high - low), 0.0), 1.0)

    @property
    def marks(self) -> list[tuple[float, str]]:
        """Where something is written, and what."""
        return [(self.place(tick), short(tick)) for tick in self.ticks]


def axis_for(
    values: Iterable[float],
    label: str,
    *,
    least: float = -math.inf,
    most: float = math.inf,
    wanted: int = 4,
) -> Axis:
    """Return an axis with round ends that holds all values.

    >>> axis = axis_for([83.2, 91.9], "F1")
    >>> axis.low, axis.high, axis.ticks
    (80.0, 95.0, (80.0, 85.0, 90.0, 95.0))

    Args:
      values: none is as 0 and 1.
      label: what is along it.
      least: it begins no lower.
      most: it ends no higher.
      wanted: about how many numbers.
    """
    values = list(values) or [0.0, 1.0]
    low, high = min(values), max(values)
    if high - low < 1e-9:
        # No spread: something to see on both sides.
        room = 0.05 * abs(low) or 0.5
        low, high = low - room, high + room
    rough = (high - low) / wanted
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(n * unit for n in (1, 2, 5, 10) if n * unit >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = [round(n * step, 10) for n in range(first, last + 1)]
    kept = [tick for tick in ticks if least - 1e-9 <= tick <= most + 1e-9]
    low = max(ticks[0], least)
    high = min(ticks[-1], most)
    return Axis(label=label, low=low, high=high, ticks=tuple(kept))


def decades(values: Iterable[float], label: str) -> Axis:
    """Return a log axis from a power of ten to one, that holds all values.

    >>> decades([3, 450], "n").ticks
    (1.0, 10.0, 100.0, 1000.0)
    """
    values = list(values)
    first = math.floor(math.log10(min(values)))
    last = max(math.ceil(math.log10(max(values))), first + 1)
    ticks = tuple(10.0**power for power in range(first, last + 1))
    return Axis(label=label, low=ticks[0], high=ticks[-1], ticks=ticks, log=True)


def short(value: float) -> str:
    """Write a number of an axis.

    >>> short(20.0), short(0.25), short(12000.0), short(1e6)
    ('20', '0.25', '12k', '1M')
    """
    for unit, sign in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:g}{sign}"
    return f"{value:g}"


@dataclasses.dataclass(frozen=True)
class Line:
    """Points joined one after the other.

    Attributes:
      kind: a class of the style sheet, which says what is a line and what a band.
      points: of the line.
    """

    kind: Literal["seed", "mean", "baseline", "even", "band"]
    points: tuple[Point, ...]


@dataclasses.dataclass(frozen=True)
class Mark:
    """Something at a point.

    Attributes:
      kind: a class of the style sheet.
      point: where.
      told: what it is, shown where a pointer rests on it.
      size: radius or half a side, in pixels.
    """

    kind: Literal["loss", "baseline"]
    point: Point
    told: str
    size: float = 3.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Panel:
    """One picture.

    Attributes:
      name: its heading: the loss.
      told: its numbers, in a few words.
      x: the axis below.
      y: the axis at the left.
      lines: drawn first.
      marks: drawn over them.
      rules: upright lines, by their places.
    """

    name: str
    told: str
    x: Axis
    y: Axis
    lines: tuple[Line, ...] = ()
    marks: tuple[Mark, ...] = ()
    rules: tuple[float, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Strip:
    """A row for each loss, a mark for each of its runs.

    Attributes:
      told: what is to be seen, in words.
      x: the axis below all rows.
      rows: of losses.
      links: between rows, from a loss's run to that of the next with the same seed.
      baseline: where the mean of the baseline is.
    """

    told: str
    x: Axis
    rows: tuple[StripRow, ...]
    links: tuple[tuple[int, float, int, float], ...]
    baseline: float | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class StripRow:
    """One loss.

    Attributes:
      name: of the loss, in lines that fit a phone.
      told: mean and spread.
      marks: places of the runs, with what they are.
      mean: its place; None where there is none.
    """

    name: tuple[str, ...]
    told: str
    marks: tuple[tuple[float, str], ...]
    mean: float | None


def joined(
    x: Axis, y: Axis, points: Iterable[Point], *, thin: bool = False
) -> tuple[Point, ...]:
    """Place points given as numbers.

    Args:
      x: the axis below.
      y: the axis at the left.
      points: pairs of numbers of these axes.
      thin: leave out what the eye cannot tell from its neighbour.
    """
    placed = [(x.place(a), 1 - y.place(b)) for a, b in points]
    return tuple(_thinned(placed) if thin else placed)


def band(
    x: Axis, y: Axis, low: Sequence[Point], high: Sequence[Point]
) -> tuple[Point, ...]:
    """Return the outline of what lies between two lines."""
    return joined(x, y, [*high, *reversed(low)])


def _thinned(points: Sequence[Point]) -> list[Point]:
    """Keep both ends, and of the rest what is far enough from what was kept."""
    kept = list(points[:1])
    for point in points[1:]:
        if math.dist(point, kept[-1]) >= _NEAR:
            kept.append(point)
    if points and kept[-1] != points[-1]:
        kept.append(points[-1])
    return kept
