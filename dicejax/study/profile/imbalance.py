"""Label counts of each output: imbalance, and labels too rare to learn.

Counts cover the labels that the loss sees: first pieces of words, without truncated
ones and labels unknown in training.

An output is summarised by one of four rules:

- "negative class": one class of several, and the first is the negative one: where the
  task says so and it occurs in the training split, and where there are two classes. The
  first class : all others.
- "most and least": one class of several, none of them negative. The most frequent : the
  least frequent, of those that occur in the split.
- "multi-label": negatives : positives, over all classes.
- "positions": the label is a place in the sequence. Pieces that are not that place :
  sequences with an answer. All pieces count, the question's and the special ones too,
  because the softmax is over them all. A sequence without an answer, whose label is
  [CLS], adds negatives only; one without a known label adds nothing.

A label may be too rare to learn by five rules:

- "few": it occurs in the training split, but less often than a limit, 20 by default.
- "unseen": it occurs in dev or test, and not in the training split.
- "absent": it occurs nowhere; the network has it because the tagging scheme does.
- "not in every update": it is expected less than once in an update.
- "smooth": it is expected less often in an update than the `smooth` of the loss, which
  is in counts. The loss then depends more on `smooth` than on the label.

The expected count per update is that of an epoch times `batch_size` divided by the
sequences of the epoch, and at most that of the epoch. With resampling, the epoch is the
first one as drawn.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from dicejax.losses import class_weights
from dicejax.objectives import Objective
from dicejax.study.profile.together import LabelSets, label_sets
from dicejax.tasks import Item, Target, Task

Rule = Literal["negative class", "most and least", "multi-label", "positions"]
OTHER_PIECES = "other pieces"
SCHEMES = {
    "log_ratio": class_weights.log_ratio,
    "inverse": class_weights.inverse,
    "inverse_square_root": class_weights.inverse_square_root,
    "effective_number": class_weights.effective_number,
}
"""The weights that are suggested, each with its default hyper-parameters."""


@dataclasses.dataclass(frozen=True)
class LabelCount:
    """Count of one label.

    Attributes:
      label: name. Of multi-label classes, "not NAME" counts the negatives; of
        positions, "other pieces" all other places.
      positives: number of elements with the label.
      negatives: number of elements with another label.
      ratio: negatives for each positive; None without positives.
      is_negative: whether it is the negative class of its output.
      weights: suggested class weights by scheme; none for positions.
    """

    label: str
    positives: int
    negatives: int
    ratio: float | None
    is_negative: bool = False
    weights: dict[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class OutputCounts:
    """Label counts of one output.

    Attributes:
      output: name of the output.
      rule: rule of the summary; see above.
      negative: the negatives: a label, or a description.
      positive: the positives: a label, or a description.
      negatives: number of negatives.
      positives: number of positives.
      ratio: negatives for each positive; None without positives.
      labels: counts of each label, in the order of the classes.
      sequences: number of those with a known label, for positions; None for the others.
      sets: labels that occur together, where a text may have several; else None.
    """

    output: str
    rule: Rule
    negative: str
    positive: str
    negatives: int
    positives: int
    ratio: float | None
    labels: tuple[LabelCount, ...]
    sequences: int | None = None
    sets: LabelSets | None = None


def rules(task: Task, items: Sequence[Item], labels: Sequence[str]) -> dict[str, Rule]:
    """Choose the rule for each output."""
    counts = task.class_counts(items, labels)
    return {
        name: _rule(target, counts.get(name))
        for name, target in task.targets(labels).items()
    }


def count_outputs(
    task: Task,
    items: Sequence[Item],
    labels: Sequence[str],
    chosen: Mapping[str, Rule],
    *,
    weights: bool = False,
) -> tuple[OutputCounts, ...]:
    """Count the labels of items, by output."""
    counts = task.class_counts(items, labels)
    outputs = []
    for name, target in task.targets(labels).items():
        match chosen[name]:
            case "positions":
                outputs.append(_of_positions(name, items))
            case "multi-label":
                output = _of_multi_label(name, target, counts[name], weights)
                sets = label_sets(name, items, target.classes)
                outputs.append(dataclasses.replace(output, sets=sets))
            case rule:
                outputs.append(_of_classes(name, rule, target, counts[name], weights))
    return tuple(outputs)


def ratio(negatives: int, positives: int) -> float | None:
    """Return negatives for each positive; None without positives.

    >>> ratio(6, 4)
    1.5
    """
    return negatives / positives if positives else None


def _rule(target: Target, counts: np.ndarray | None) -> Rule:
    if target.kind == "positions":
        return "positions"
    if target.kind == "multi_label":
        return "multi-label"
    named = target.has_negative and counts[0] > 0
    return "negative class" if named or len(counts) == 2 else "most and least"


def _of_classes(
    name: str, rule: Rule, target: Target, counts: np.ndarray, weights: bool
) -> OutputCounts:
    total, classes = int(counts.sum()), target.classes
    suggested = _suggested(counts) if weights else {}
    labels = tuple(
        LabelCount(
            label,
            positives=int(count),
            negatives=total - int(count),
            ratio=ratio(total - int(count), int(count)),
            is_negative=rule == "negative class" and number == 0,
            weights={scheme: w[number] for scheme, w in suggested.items()},
        )
        for number, (label, count) in enumerate(zip(classes, counts, strict=True))
    )
    if rule == "negative class":
        negative, negatives = classes[0], int(counts[0])
        positives = total - negatives
        positive = classes[1] if len(classes) == 2 else "all others"
    else:
        occurring = [label for label in labels if label.positives] or labels[:1]
        most = max(occurring, key=lambda label: label.positives)
        least = min(occurring, key=lambda label: label.positives)
        negative, negatives = most.label, most.positives
        positive, positives = least.label, least.positives
    share = ratio(negatives, positives)
    return OutputCounts(
        name, rule, negative, positive, negatives, positives, share, labels
    )


def _of_multi_label(
    name: str, target: Target, counts: np.ndarray, weights: bool
) -> OutputCounts:
    suggested = _suggested(counts) if weights else {}
    labels = []
    for number, (label, pair) in enumerate(zip(target.classes, counts, strict=True)):
        for column, text in enumerate((f"not {label}", label)):
            count, other = int(pair[column]), int(pair[1 - column])
            weighed = {s: w[number][column] for s, w in suggested.items()}
            labels.append(
                LabelCount(
                    text,
                    positives=count,
                    negatives=other,
                    ratio=ratio(other, count),
                    is_negative=column == 0,
                    weights=weighed,
                )
            )
    negatives, positives = counts.sum(axis=0).tolist()
    names = ("negative", "positive")
    if len(target.classes) == 1:
        names = (labels[0].label, labels[1].label)
    share = ratio(negatives, positives)
    return OutputCounts(
        name,
        "multi-label",
        *names,
        negatives,
        positives,
        share,
        tuple(labels),
    )


def _of_positions(name: str, items: Sequence[Item]) -> OutputCounts:
    with_position = [item.arrays for item in items if item.arrays[name] >= 0]
    pieces = sum(len(arrays["input_ids"]) for arrays in with_position)
    answered = sum(
        int(arrays[name] != arrays.get("summary_positions", -1))
        for arrays in with_position
    )
    rest = pieces - answered
    share = ratio(rest, answered)
    labels = (
        LabelCount(OTHER_PIECES, rest, answered, ratio(answered, rest), True),
        LabelCount(name, answered, rest, share),
    )
    return OutputCounts(
        name,
        "positions",
        OTHER_PIECES,
        name,
        rest,
        answered,
        share,
        labels,
        sequences=len(with_position),
    )


def _suggested(counts: np.ndarray) -> dict[str, list]:
    return {name: scheme(counts).tolist() for name, scheme in SCHEMES.items()}


Reason = Literal["few", "unseen", "absent", "not in every update", "smooth"]
SplitCounts = Mapping[str, Sequence[OutputCounts]]


@dataclasses.dataclass(frozen=True)
class LabelSupport:
    """Training examples of one label."""

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
    """Judge each label to be learned; for multi-label classes, their positives.

    Args:
      splits: counts of "train", "dev" and "test".
      epoch: counts of one epoch.
      share: share of the epoch's sequences in one update.
      smooth: `smooth` of the loss in counts, by output, where it has one.
      limit: minimum count in the training split.
    """
    counts = {split: dict(_by_label(outputs)) for split, outputs in splits.items()}
    drawn = dict(_by_label(epoch))
    supports = []
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
        supports.append(
            LabelSupport(*key, train, dev, test, per_update, tuple(reasons))
        )
    return tuple(supports)


def smooth_by_output(objective: Objective) -> dict[str, float]:
    """Find the largest `smooth` in counts of a batch, by the output it is used on.

    Losses whose sets are single tokens have no counts to compare with.

    >>> from dicejax.objectives import Dice, WeightedSum
    >>> smooth_by_output(WeightedSum().bind_outputs(["tags"]))
    {'tags': 1.0}
    """
    smooths: dict[str, float] = {}
    for leaf in objective.terms():
        smooth = getattr(leaf, "smooth", None)
        of_elements = getattr(leaf, "over", None) == "element"
        if smooth is not None and leaf.is_of_a_set and not of_elements:
            smooths[leaf.output] = max(smooths.get(leaf.output, 0.0), smooth)
    return smooths


def _by_label(
    outputs: Sequence[OutputCounts],
) -> Iterator[tuple[tuple[str, str], int]]:
    for output in outputs:
        for label in output.labels:
            chosen = output.rule in ("negative class", "most and least")
            if chosen or not label.is_negative:
                yield (output.output, label.label), label.positives
