"""Remarks on a split: labels that train lacks, inputs and gold beyond the windows."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping

from dicejax.errors import Truncation, quote
from dicejax.tasks.windows import Cuts

Remark = str | Truncation
"""A warning about a split."""

_MOST_UNSEEN = 20  # labels that are named


@dataclasses.dataclass(frozen=True)
class Fit:
    """Counts of what does not fit in windows; of parts of a data set they are added.

    >>> Fit(several=2, lost=Counter(beyond=1)) + Fit(several=1, lost=Counter(beyond=2))
    Fit(cuts=Cuts(count=0, total=0, longest=0), several=3, lost=Counter({'beyond': 3}))

    Attributes:
      cuts: inputs that are cut off.
      several: texts that are read in several windows.
      lost: gold that no window holds, by the reason.
    """

    cuts: Cuts = Cuts()
    several: int = 0
    lost: Counter[str | None] = dataclasses.field(default_factory=Counter)

    def __add__(self, other: Fit) -> Fit:
        several, lost = self.several + other.several, self.lost + other.lost
        return Fit(self.cuts + other.cuts, several, lost)


def cut_inputs(text: str, split: str, cuts: Cuts) -> list[Remark]:
    """Return a warning of inputs that are cut off, if any is and a task has a text."""
    written = text.format(split=split, cuts=cuts)
    return [Truncation("input", written)] if written and cuts.count else []


def unseen_labels(
    split: str, counts: Mapping[str, int], labels: Iterable[str], text: str
) -> list[Remark]:
    """Return a warning for each counted label that is not among those of train.

    Of many the last counts those beyond the first 20.

    >>> unseen_labels("dev", {"X": 2, "N": 5}, ["N"], "word{s} labelled {label}")
    ["dev has 2 words labelled 'X'"]
    """
    unseen = sorted(counts.keys() - set(labels))
    warnings: list[Remark] = [
        f"{split} has {counts[label]} "
        + text.format(s="s" * (counts[label] > 1), label=quote(label))
        for label in unseen[:_MOST_UNSEEN]
    ]
    if (more := len(unseen) - _MOST_UNSEEN) > 0:
        warnings.append(f"{split} has {more} more labels that train lacks")
    return warnings
