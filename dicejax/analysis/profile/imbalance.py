"""How often each label of each output occurs, and how much the negatives outnumber.

What is counted is what the loss sees: first pieces of words and not the others, and
nothing that was cut off or whose label training does not know.

An output as a whole is summed up by one of four rules:

- "negative class": one class of several, and the first is the negative one. That is so
  where the task says so and it occurs in the training split, and where there are two
  classes. The first class : all others.
- "most and least": one class of several, none of them negative. The most frequent : the
  least frequent, of those that occur in the split.
- "yes or no": each class by itself. The noes : the yeses, of all classes together.
- "positions": the label is a place in the sequence. Pieces that are not that place :
  sequences with an answer. All pieces count, the question's and the special ones too,
  because the softmax is over them all. A sequence without an answer, whose label is
  [CLS], brings negatives alone; one whose label is kept back brings nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from dicejax.losses import class_weights
from dicejax.tasks import Item, Target, Task

Rule = Literal["negative class", "most and least", "yes or no", "positions"]
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
    """How often one label occurs.

    Attributes:
      label: its name. Of a class that is yes or no, "not NAME" counts the noes; of
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
    """How often the labels of one output occur.

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
            case "yes or no":
                found.append(_of_yes_or_no(name, target, counts[name], weights))
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
        return "yes or no"
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


def _of_yes_or_no(
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
    one = len(target.classes) == 1
    negative, positive = (labels[0].label, labels[1].label) if one else ("no", "yes")
    share = ratio(negatives, positives)
    return OutputCounts(
        name,
        "yes or no",
        negative,
        positive,
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
