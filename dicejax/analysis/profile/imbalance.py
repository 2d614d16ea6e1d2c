"""Label counts of each output: imbalance, and labels too rare to learn.

What is counted is what the loss sees: first pieces of words and not the others, and
nothing that was cut off or whose label training does not know.

An output as a whole is summed up by one of four rules:

- "negative class": one class of several, and the first is the negative one. That is so
  where the task says so and it occurs in the training split, and where there are two
  classes. The first class : all others.
- "most and least": one class of several, none of them negative. The most frequent : the
  least frequent, of those that occur in the split.
- "multi-label": each class by itself. Negatives : positives, of all classes together.
- "positions": the label is a place in the sequence. Pieces that are not that place :
  sequences with an answer. All pieces count, the question's and the special ones too,
  because the softmax is over them all. A sequence without an answer, whose label is
  [CLS], brings negatives alone; one whose label is kept back brings nothing.

A label may be too rare to learn by five rules:

- "few": it occurs in the training split, but less often than a limit, 20 by default.
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

import numpy as np

from dicejax.losses import class_weights
from dicejax.objectives import Objective
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
      label: its name. Of multi-label classes, "not NAME" counts the negatives; of
        positions, "other pieces" those that are not the place.
      positives: how often it is the label.
      negatives: how often another one is.
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
      output: its name.
      rule: by which the output as a whole is summed up; see above.
      negative: what is counted as negative: a label, or what it is in words.
      positive: what is counted as positive.
      negatives: how many.
      positives: how many.
      ratio: negatives for each positive; None without positives.
      labels: each label of the output, in the order of its classes.
      sequences: those with a known label, for positions; None for the others.
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


def rules(task: Task, items: Sequence[Item], labels: Sequence[str]) -> dict[str, Rule]:
    """Choose the rule for each output.

    Args:
      task: of the items.
      items: of the training split.
      labels: as the task's `label_names` returns them.

    Returns:
      The rule of each output.
    """
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
    """Count the labels of items, by output.

    Args:
      task: of the items.
      items: of one split.
      labels: what the items were encoded with.
      chosen: what `rules` gave for the training split.
      weights: suggest class weights too.
    """
    counts = task.class_counts(items, labels)
    found = []
    for name, target in task.targets(labels).items():
        match chosen[name]:
            case "positions":
                found.append(_of_positions(name, items))
            case "multi-label":
                found.append(_of_multi_label(name, target, counts[name], weights))
            case rule:
                found.append(_of_classes(name, rule, target, counts[name], weights))
    return tuple(found)


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
            here, other = int(pair[column]), int(pair[1 - column])
            weighed = {s: w[number][column] for s, w in suggested.items()}
            labels.append(
                LabelCount(
                    text,
                    positives=here,
                    negatives=other,
                    ratio=ratio(other, here),
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
    known = [item.arrays for item in items if item.arrays[name] >= 0]
    pieces = sum(len(arrays["input_ids"]) for arrays in known)
    answered = sum(
        int(arrays[name] != arrays.get("summary_positions", -1)) for arrays in known
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
        sequences=len(known),
    )


def _suggested(counts: np.ndarray) -> dict[str, list]:
    return {name: scheme(counts).tolist() for name, scheme in SCHEMES.items()}


Reason = Literal["few", "unseen", "absent", "not in every update", "smooth"]
SplitCounts = Mapping[str, Sequence[OutputCounts]]


@dataclasses.dataclass(frozen=True)
class LabelSupport:
    """Training examples of one label.

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
    """Judge each label to be learned; of multi-label classes, their positives.

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

    Losses whose sets are single tokens have no counts to compare with.

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
