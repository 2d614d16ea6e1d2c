"""Counts of what is cut off."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Cuts:
    """Counts of inputs that are cut off; of parts of a data set they are added.

    >>> Cuts(1, 4, 32) + Cuts(0, 6, 30)
    Cuts(count=1, total=10, longest=32)

    Attributes:
      count: inputs that are cut off.
      total: all inputs.
      longest: tokens of the longest, where they are cut off.
    """

    count: int = 0
    total: int = 0
    longest: int = 0

    def __add__(self, other: Cuts) -> Cuts:
        longest = max(self.longest, other.longest)
        return Cuts(self.count + other.count, self.total + other.total, longest)

    @property
    def share(self) -> float:
        """Share of all inputs that is cut off; 0 of none."""
        return self.count / max(self.total, 1)
