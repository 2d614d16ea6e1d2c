"""Label counts of each output, imbalance from the rare side, and rare labels.

Counts cover the labels that the loss sees: first pieces of words, without truncated
ones and labels unknown in training. An output is summarised by one of four rules:

- "negative class": the first class : all others, where the task says that it is
  negative and it occurs in the training split.
- "rare negative": all others : the first class, where that is rarer in training.
- "most and least": the most frequent class : the least frequent one of those that occur
  in the split, where no class is negative, or of two the negative one is rarer.
- "multi-label": negatives : positives, over all classes.
- "positions": pieces other than the labelled place : sequences with an answer. All
  pieces count, because the softmax is over them all. A sequence without an answer,
  whose label is [CLS], adds negatives only; one without a known label adds nothing.

A label is rare by one of four rules:

- "few": it occurs in the training split, but less often than a limit, 20 by default.
- "unseen": it occurs in dev or test, and not in the training split.
- "absent": it occurs nowhere; the network has it because the tagging scheme does.
- "smooth": it is expected less often in an update than the `smooth` of the loss, in
  counts, on which the loss then depends more than on the label.

Whether few are learnt depends on what tells them apart. What can be said before is how
many there are, and how well a test split with so many measures: `ClassExamples`.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from dicejax.losses import class_weights
from dicejax.metrics.bounds import clopper_pearson
from dicejax.objectives import Objective, SetObjective
from dicejax.study.sentences import sentences
from dicejax.tasks import Item, Task
from dicejax.training.encoded import SPLITS

Rule = Literal[
    "negative class", "rare negative", "most and least", "multi-label", "positions"
]
ONE_NEGATIVE: tuple[Rule, Rule] = ("negative class", "rare negative")
SCHEMES = {
    "log_ratio": class_weights.log_ratio,
    "inverse": class_weights.inverse,
    "inverse_square_root": class_weights.inverse_square_root,
    "effective_number": class_weights.effective_number,
}
"""Suggested class weights, each with its default hyper-parameters."""
OTHERS = "all others"
RECALL = 0.8  # whose interval is said before anything is known


@dataclasses.dataclass(frozen=True)
class LabelCount:
    """Count of one label, with class weights by scheme; positions have none.

    Of multi-label classes, "not NAME" counts the negatives; of positions, "other
    pieces" all other places. The ratio is negatives for each positive.
    """

    label: str
    positives: int
    negatives: int
    ratio: float | None
    is_negative: bool = False
    weights: dict[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class OutputCounts:
    """Label counts of one output, by label in the order of the classes.

    Positions have the number of sequences with a known label, texts of several labels
    what `label_sets` counts.
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
    sets: dict[str, Any] | None = None


def rules(task: Task, items: Sequence[Item], labels: Sequence[str]) -> dict[str, Rule]:
    """Choose the rule for each output."""
    counts = task.class_counts(items, labels)
    chosen: dict[str, Rule] = {}
    for name, target in task.targets(labels).items():
        if target.kind == "positions":
            chosen[name] = "positions"
        elif target.kind == "multi_label":
            chosen[name] = "multi-label"
        elif len(counts[name]) == 2:
            is_negative = target.has_negative and counts[name][0] >= counts[name][1]
            chosen[name] = "negative class" if is_negative else "most and least"
        elif target.has_negative and counts[name][0] > 0:
            outside, *inside = counts[name]
            chosen[name] = ONE_NEGATIVE[bool(outside < sum(inside))]
        else:
            chosen[name] = "most and least"
    return chosen


def count_outputs(
    task: Task,
    items: Sequence[Item],
    labels: Sequence[str],
    chosen: Mapping[str, Rule],
    *,
    weights: bool = False,
) -> tuple[OutputCounts, ...]:
    """Count the labels of items, by output."""
    counts, outputs = task.class_counts(items, labels), []
    for name, target in task.targets(labels).items():
        rule, sequences, sets = chosen[name], None, None
        positives = np.ravel(counts.get(name, 0))
        names, is_negative = list(target.classes), np.arange(len(target.classes)) == 0
        schemes = SCHEMES if weights else {}
        if rule == "positions":
            answers = [item.arrays for item in items if item.arrays[name] >= 0]
            sequences, schemes = len(answers), {}
            answered = sum(x[name] != x.get("summary_positions", -1) for x in answers)
            others = sum(len(x["input_ids"]) for x in answers) - answered
            positives, negatives = np.array([[others, answered], [answered, others]])
            names, is_negative = ["other pieces", name], np.array([True, False])
        elif rule == "multi-label":
            sets = label_sets(name, items, target.classes)
            negatives = np.ravel(counts[name][:, ::-1])
            names = [x for label in names for x in (f"not {label}", label)]
            is_negative = np.array([True, False] * len(target.classes))
        else:
            negatives = positives.sum() - positives
            is_negative &= rule in ONE_NEGATIVE
        suggested = {x: np.ravel(f(counts[name])) for x, f in schemes.items()}
        label_counts = []
        columns = zip(names, positives, negatives, is_negative, strict=True)
        for index, (label, count, rest, negative) in enumerate(columns):
            of_label = {scheme: float(w[index]) for scheme, w in suggested.items()}
            sizes = int(count), int(rest)
            row = label, *sizes, ratio(*sizes[::-1]), bool(negative), of_label
            label_counts.append(LabelCount(*row))
        ends, sizes = _summary(rule, label_counts)
        summary = name, rule, *ends, *sizes, ratio(*sizes)
        outputs.append(OutputCounts(*summary, tuple(label_counts), sequences, sets))
    return tuple(outputs)


def ratio(negatives: int, positives: int) -> float | None:
    """Return negatives for each positive; None without positives."""
    return negatives / positives if positives else None


def _summary(
    rule: Rule, labels: Sequence[LabelCount]
) -> tuple[tuple[str, str], tuple[int, int]]:
    """Return names and counts of an output's negatives and positives."""
    pair = len(labels) == 2
    if rule == "multi-label" and not pair:
        no, yes = (sum(x.positives for x in labels[n::2]) for n in (0, 1))
        return ("negative", "positive"), (no, yes)
    first, last = labels[0], labels[-1]
    if rule in ONE_NEGATIVE and not pair:
        if rule == ONE_NEGATIVE[0]:
            return (first.label, OTHERS), (first.positives, first.negatives)
        return (OTHERS, first.label), (first.negatives, first.positives)
    if rule == "most and least":
        occurring = [label for label in labels if label.positives] or labels[:1]
        first = max(occurring, key=lambda label: label.positives)
        last = min(occurring, key=lambda label: label.positives)
    return (first.label, last.label), (first.positives, last.positives)


def label_sets(
    output: str, items: Sequence[Item], classes: Sequence[str]
) -> dict[str, Any] | None:
    """Count the sets of labels that texts have; None where items have no such sets.

    `cardinality` is the mean number of labels per text, `most` the largest, and
    `without` counts the texts with no label. The most frequent pairs, at most 10, have
    two `labels`, the number of texts that have them `together`, and how many are
    `expected` to by chance.
    """
    # The windows of a long text have its labels.
    arrays = {item.example: np.asarray(item.arrays[output]) for item in items}
    size = len(classes)
    if size < 2 or any(array.shape != (size,) for array in arrays.values()):
        return None
    rows = np.array([*arrays.values()], int).reshape(-1, size)
    rows = rows[(rows >= 0).all(axis=1)]
    number, counts, together = rows.sum(axis=1), rows.sum(axis=0), rows.T @ rows
    first, second = np.triu_indices(size, k=1)
    frequent = np.argsort(-together[first, second], kind="stable")[:10]
    pairs = []
    for a, b in zip(first[frequent], second[frequent], strict=True):
        if both := int(together[a, b]):
            expected = float(counts[a] * counts[b] / len(rows))
            names = [classes[a], classes[b]]
            pairs.append({"labels": names, "together": both, "expected": expected})
    return {
        "texts": len(rows),
        "cardinality": float(number.mean()) if len(rows) else 0.0,
        "most": int(number.max(initial=0)),
        "without": int((number == 0).sum()),
        "distinct": len(np.unique(rows, axis=0)),
        "pairs": pairs,
    }


Reason = Literal["few", "unseen", "absent", "smooth"]


@dataclasses.dataclass(frozen=True)
class ClassExamples:
    """Examples that have a class, a label or a type, by split.

    >>> print(ClassExamples("DIS", 17, 4, 5, 5).measured)
    a recall of 80% as 28% to 99%

    Attributes:
      gold: how often test has it: its examples, or the spans or words of the type.
    """

    name: str
    train: int
    dev: int
    test: int
    gold: int

    @property
    def measured(self) -> str:
        """A recall near `RECALL` on test and its exact interval of 95 %, if any."""
        if not self.gold:
            return ""
        hits = round(RECALL * self.gold)
        low, high = clopper_pearson(hits, self.gold)
        return sentences("profile").measured(hits / self.gold, low, high)


def class_examples(
    task: Task, splits: Mapping[str, Sequence[object]]
) -> tuple[ClassExamples, ...]:
    """Count the examples of each class by split, the rarest of train first."""
    golds = {
        split: [[name for name, _ in task.labelled(x) if name] for x in examples]
        for split, examples in splits.items()
    }
    having = {k: Counter(x for gold in v for x in set(gold)) for k, v in golds.items()}
    on_test = Counter(x for gold in golds["test"] for x in gold)
    names = {name for counts in having.values() for name in counts}
    classes = [
        ClassExamples(name, **{k: having[k][name] for k in SPLITS}, gold=on_test[name])
        for name in names
    ]
    return tuple(sorted(classes, key=lambda each: (each.train, each.name)))


def rarest(task: Task, classes: Sequence[ClassExamples], examples: int) -> str:
    """Say how many examples of train have its rarest class, and what test measures.

    Tasks without classes have no such sentence.
    """
    first = next((each for each in classes if each.train), None)
    if first is None:
        return ""
    return sentences("profile").rarest(first, task, examples)


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
    splits: Mapping[str, Sequence[OutputCounts]],
    epoch: Sequence[OutputCounts],
    share: float,
    smooth: Mapping[str, float],
    limit: int,
) -> tuple[LabelSupport, ...]:
    """Find the rare labels; of multi-label classes, the positives.

    An update sees a share of the epoch; the limit is that of "few".
    """
    counts = {split: _by_label(outputs) for split, outputs in splits.items()}
    drawn = _by_label(epoch)
    supports = []
    for key in dict.fromkeys(key for split in counts.values() for key in split):
        train, dev, test = (counts[s].get(key, 0) for s in ("train", "dev", "test"))
        per_update = share * drawn.get(key, 0)
        rules: dict[Reason, bool] = {
            "unseen": not train and bool(dev or test),
            "absent": not train and not dev and not test,
            "few": 0 < train < limit,
            "smooth": train > 0 and per_update < smooth.get(key[0], 0),
        }
        reasons: tuple[Reason, ...] = tuple(x for x, holds in rules.items() if holds)
        supports.append(LabelSupport(*key, train, dev, test, per_update, reasons))
    return tuple(supports)


def smooth_by_output(objective: Objective) -> dict[str, float]:
    """Return the largest `smooth` in counts by output, of losses of larger sets.

    The objective is bound to a task.
    """
    smooths: dict[str, float] = {}
    for leaf in objective.terms():
        smooth = getattr(leaf, "smooth", None)
        is_of_set = isinstance(leaf, SetObjective) and leaf.over != "element"
        if is_of_set and smooth is not None:
            output = str(leaf.output)
            smooths[output] = max(smooths.get(output, 0.0), smooth)
    return smooths


def _by_label(outputs: Sequence[OutputCounts]) -> dict[tuple[str, str], int]:
    return {
        (x.output, label.label): label.positives
        for x in outputs
        for label in x.labels
        if not label.is_negative or x.rule in (*ONE_NEGATIVE, "most and least")
    }
