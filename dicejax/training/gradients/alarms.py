"""Says where a loss leaves hard elements without a gradient, or far from the border."""

from __future__ import annotations

import dataclasses
from typing import Any

from dicejax.training.gradients.measures import DEAD_SHARE, SATURATED, Groups

FEWEST = 5
"""An alarm takes so many hard elements of a group in a batch."""
SHARE = 0.5
"""And at least this share of them dead, or saturated."""

MEANING = {
    "dead": f"get less than {DEAD_SHARE:.0%} of cross-entropy's gradient",
    "saturated": f"have less than {1 - SATURATED:.1%} for their own class",
}


@dataclasses.dataclass(frozen=True)
class Alarm:
    """What is wrong with a group of an output at a step.

    Attributes:
      kind: "dead": hard elements have next to no gradient to learn from. "saturated":
        they are so wrong that losses which are flat there never find them. "not
        finite": gradients are infinite or not numbers.
      group: name of the group; empty where all are meant.
      number: of elements that it holds for.
      of: of so many.
    """

    kind: str
    group: str
    number: int
    of: int

    def __str__(self):
        if self.kind == "not finite":
            return f"{self.number} of {self.of} elements have no finite gradient"
        what = f"{self.number} of {self.of} hard elements of {self.group}"
        return f"{self.kind}: {what} {MEANING[self.kind]}"


def alarms_of(record: dict[str, Any], groups: Groups) -> list[Alarm]:
    """Return the alarms of what was recorded of an output at a step.

    >>> groups = Groups(("O", "PER"), has_negative=True, multi_label=False)
    >>> record = {"count": [90, 10], "hard": [4, 8], "dead": [4, 6],
    ...     "saturated": [0, 2], "not_finite": 0}
    >>> for alarm in alarms_of(record, groups):
    ...     print(alarm)
    dead: 6 of 8 hard elements of PER get less than 1% of cross-entropy's gradient
    """
    found = []
    if record["not_finite"]:
        of = int(sum(record["count"]))
        found.append(Alarm("not finite", "", int(record["not_finite"]), of))
    for kind in MEANING:
        numbers = zip(groups.names, record[kind], record["hard"], strict=True)
        found += [
            Alarm(kind, name, int(number), int(hard))
            for name, number, hard in numbers
            if hard >= FEWEST and number >= SHARE * hard
        ]
    return found
