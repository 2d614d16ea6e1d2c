"""Which labels are too rare to learn, and by which rule.

- "few": it occurs in the training split, but less often than a limit, 20 unless told.
- "unseen": it occurs in dev or test, and not in the training split.
- "absent": it occurs nowhere; the network has it because the tagging scheme does.
- "not in every update": it is expected less than once in an update.
- "smooth": it is expected less often in an update than the `smooth` of the loss, which
  is in counts. Such a loss of such a batch says more of `smooth` than of the label.

A count expected in an update is that of an epoch times `batch_size` divided
by the sequences of the epoch, and at most that of the epoch. Where the experiment
resamples, the epoch is its first one as it is drawn.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from dicejax.analysis.profile.imbalance import OutputCounts
from dicejax.objectives import Objective

Reason = Literal["few", "unseen", "absent", "not in every update", "smooth"]
SplitCounts = Mapping[str, Sequence[OutputCounts]]


@dataclasses.dataclass(frozen=True)
class LabelSupport:
    """What there is to learn a label from.

    Attributes:
      output: whose label it is.
      label: its name.
      train: how often it occurs there.
      dev: the same.
      test: the same.
      per_update: how often it is expected in an update.
      reasons: why it is too rare to learn; none if it is not.
    """

    output: str
    label: str
    train: int
    dev: int
    test: int
    per_update: float
    reasons: tuple[Reason, ...]


def support(
    splits: SplitCounts,
    epoch: Sequence[OutputCounts],
    share: float,
    smooth: Mapping[str, float],
    limit: int,
) -> tuple[LabelSupport, ...]:
    """Judge each label that is to be learnt: of yes or no, the yes; a place.

    Args:
      splits: the counts of "train", "dev" and "test".
      epoch: the counts of one epoch.
      share: of the epoch's sequences that one update sees.
      smooth: of the loss, by output, in counts; without those it says nothing of.
      limit: fewer in the training split are too few.
    """
    counts = {split: dict(_by_label(outputs)) for split, outputs in splits.items()}
    drawn = dict(_by_label(epoch))
    found = []
    for key in dict.fromkeys(key for split in counts.values() for key in split):
        train, dev, test = (counts[s].get(key, 0) for s in ("train", "dev", "test"))
        per_update = share * drawn.get(key, 0)
        reasons: list[Reason] = []
        if train == 0:
            reasons.append("unseen" if dev or test else "absent")
        else:
            if train < limit:
                reasons.append("few")
            if per_update < 1:
                reasons.append("not in every update")
            if per_update < smooth.get(key[0], 0):
                reasons.append("smooth")
        found.append(LabelSupport(*key, train, dev, test, per_update, tuple(reasons)))
    return tuple(found)


def smooth_by_output(objective: Objective) -> dict[str, float]:
    """Find the largest `smooth` in counts of a batch, by the output it is used on.

    What takes each token as a set of its own has no counts to compare with.

    >>> from dicejax.objectives import Dice, WeightedSum
    >>> smooth_by_output(WeightedSum().bind_outputs(["tags"]))
    {'tags': 1.0}

    Args:
      objective: of which every part names its output.
    """
    found: dict[str, float] = {}
    for leaf in objective.terms():
        smooth = getattr(leaf, "smooth", None)
        if smooth is not None and leaf.is_of_a_set:
            found[leaf.output] = max(found.get(leaf.output, 0.0), smooth)
    return found


def _by_label(
    outputs: Sequence[OutputCounts],
) -> Iterator[tuple[tuple[str, str], int]]:
    for output in outputs:
        for label in output.labels:
            chosen = output.rule in ("negative class", "most and least")
            if chosen or not label.is_negative:
                yield (output.output, label.label), label.positives
