"""Classes of texts and of pairs of texts, of two the rarer one positive."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, get_args

import jax
import numpy as np

from dicejax.data.examples import ROUNDING, LabelledText
from dicejax.errors import InputError, quote
from dicejax.metrics import classification, ranking
from dicejax.metrics.scores import Scores, as_f1, class_of
from dicejax.tasks.remarks import Fit, Remark
from dicejax.tasks.scoring import f_counts, f_statistics
from dicejax.tasks.task import (
    IGNORED,
    PROBABILITIES,
    Arrays,
    Items,
    Labels,
    Predicted,
    Prediction,
    Predictions,
    Target,
    mean_statistics,
)
from dicejax.tasks.texts import DEFAULT, HEAD, TextTask

Texts = Sequence[LabelledText]

AFFIRMED = ("1", "true", "yes", "positive")
"""Names, in small letters, that say which class is positive."""
Metric = Literal["f1", "accuracy", "matthews"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Classification(TextTask):
    """One class for each text or pair of texts.

    Of two classes the rarer one of train is positive, unless one is named; "f1" is its
    F1, and a threshold on its probability decides. Of two that are equally frequent it
    is the one that its name calls so ("1", "true", "yes", "positive"), or the last by
    name. Of more classes "f1" is the mean over classes (macro).

    Args:
      primary_metric: metric that selects the best checkpoint and is compared;
        "f1:NAME" is the F1 of one class, which is the positive one of two. "f2" or
        "f0.5" is F-beta, of which recall counts beta times as much as precision.
      positive: the positive class where there are two; None: the rarer one of train.
      tune_threshold: choose the threshold with the best F1 on dev, or F-beta if that is
        the primary metric, instead of 0.5; for two classes. Scores with and without it
        are reported.
    """

    takes: ClassVar[tuple[type, ...]] = (LabelledText,)
    noun: ClassVar[str] = "class"
    metrics: ClassVar[tuple[str, ...]] = get_args(Metric)

    primary_metric: Metric | str = "f1"
    positive: str | None = None
    tune_threshold: bool = False

    def label_names(self, examples: Texts) -> tuple[str, ...]:
        """Return the classes that occur, sorted; of two the positive one last.

        Raises:
          InputError: an example has no class, there is but one, one that the task
            names is none of them, or there are more than two and it has a positive
            class or a threshold.
        """
        self.require_gold("train", examples)
        names = sorted(
            {name for example in examples for name, _ in self.labelled(example)}
            | {name for e in examples for name, _ in e.probabilities or ()}
        )
        listed = ", ".join(map(quote, names))
        if len(names) < 2:
            raise InputError(f"train has only {listed or 'no class'}; want 2 classes")
        named = self._named
        for setting, name in named.items():
            if name not in names:
                raise InputError(
                    f"{setting} is {quote(name)}, but the classes are {listed}"
                )
        decides = self.tunes or self.threshold is not None
        if len(names) > 2:
            if self.positive is not None or decides:
                raise InputError(
                    f"positive, threshold and tune_threshold are for 2 classes; there "
                    f"are {listed}. Leave them out, and name the class that counts "
                    "with --task.primary_metric f1:NAME; MultiLabelClassification has "
                    "a threshold for each label"
                )
            return tuple(names)
        if len(set(named.values())) > 1:
            texts = (f"{setting} names {quote(x)}" for setting, x in named.items())
            raise InputError(
                f"two positive classes: {' and '.join(texts)}; name one of them"
            )
        positive = next(iter(named.values()), None) or positive_class(
            {name: sum(example.label == name for example in examples) for name in names}
        )
        return tuple(sorted(names, key=lambda name: name == positive))

    def with_labels(self, labels: Labels) -> Classification:
        """Return the task with the positive class named."""
        if len(labels) != 2 or self._named:
            return self
        return dataclasses.replace(self, positive=labels[-1])

    @property
    def _named(self) -> dict[str, str]:
        """The positive class by the setting that names it."""
        constraint = self.threshold_rule.constraint
        named = {
            "positive": self.positive,
            "primary_metric": class_of(self.primary_metric),
            "threshold": (constraint and constraint.label) or None,
        }
        return {setting: name for setting, name in named.items() if name is not None}

    def remarks(
        self, split: str, examples: Texts, fit: Fit, labels: Labels
    ) -> list[Remark]:
        """Warn of what others do, and of a positive class that may not be meant."""
        remarks = super().remarks(split, examples, fit, labels)
        if split != "train" or len(labels) != 2:
            return remarks
        counts = {x: sum(e.label == x for e in examples) for x in labels}
        negative, positive = labels
        as_before = counts[positive] < counts[negative] and positive > negative
        expected = as_before and not _is_named_so(negative, positive)
        if not self._named and not expected:
            before = ""
            if positive < negative:
                before = "; earlier versions took the last by name"
            remarks.append(
                f"{choice_of(counts)}{before}; --task.positive "
                f"{shlex.quote(negative)} takes the other"
            )
        if counts[positive] > counts[negative]:
            remarks.append(
                f"the positive class {quote(positive)} is "
                f"{counts[positive] / sum(counts.values()):.0%} of train: its F1 is "
                "high without any skill; --task.positive "
                f"{shlex.quote(negative)} takes the rarer one"
            )
        return remarks

    def gold(self, example: LabelledText) -> tuple[str] | None:
        """Return the class."""
        return None if example.label is None else (example.label,)

    def encode_target(
        self, gold: Sequence[str] | None, index: Mapping[str, int]
    ) -> int:
        """Return the number of the class; `IGNORED` if it is unknown."""
        return IGNORED if gold is None else index.get(gold[0], IGNORED)

    def targets(self, labels: Labels) -> dict[str, Target]:
        """Return one class per sequence."""
        return {HEAD: Target("classes", tuple(labels), has_negative=len(labels) == 2)}

    def reduce_logits(self, outputs: Arrays, batch: Arrays) -> Predicted:
        """Take the probability of each class, `[B, S, C]`."""
        return Predicted(sequences={HEAD: jax.nn.softmax(outputs[HEAD], axis=-1)})

    def decide(
        self, candidates: dict[str, float], threshold: float | None = None
    ) -> Prediction:
        """Take the likeliest class; of two, the last from the threshold on."""
        label = max(candidates, key=candidates.__getitem__)
        if len(candidates) == 2:
            negative, positive = candidates
            limit = DEFAULT if threshold is None else threshold
            label = positive if candidates[positive] >= limit else negative
        return Prediction((label,), candidates)

    def score(
        self, examples: Texts, predictions: Predictions, labels: Labels
    ) -> Scores:
        """Compute F1, accuracy, Matthews' correlation and average precision.

        Raises:
          InputError: an example has no class.
        """
        self.require_gold("test", examples)
        names, gold, predicted, chances = self.arrays(examples, predictions, labels)
        matrix = classification.confusion(
            gold.argmax(axis=1), predicted.argmax(axis=1), len(names)
        )
        # All of train, also where a split lacks some: so do the statistics of examples.
        scores = classification.scores(matrix, range(len(names)))
        trained = gold[:, : len(labels)]
        precision = ranking.average_precision_per_class(
            trained[trained.any(axis=1)], chances[trained.any(axis=1), : len(labels)]
        )
        two = len(labels) == 2
        main = scores.per_class[1] if two else scores.macro
        of_split = Scores(
            {
                "f1": main.f1,
                "accuracy": scores.accuracy,
                "precision": main.precision,
                "recall": main.recall,
                "matthews": scores.matthews,
                "average_precision": precision.per_class[1] if two else precision.macro,
            },
            dict(zip(names, map(dataclasses.asdict, scores.per_class), strict=True)),
            positive=labels[1] if two else None,
            of_texts=True,
        )
        return of_split.leading_with(self.primary_metric)

    def example_statistics(
        self, examples: Texts, predictions: Predictions, labels: Labels
    ) -> np.ndarray:
        """Return the parts of F1 or F-beta, see `f_statistics`, or hits.

        Of two classes they are of the positive one, of more of each.

        Raises:
          InputError: Matthews' correlation is no sum over examples.
        """
        if class_of(self.primary_metric) is not None:
            return f_statistics(self, examples, predictions)
        match as_f1(self.primary_metric):
            case "matthews":
                raise InputError(
                    "task: matthews is not a sum over examples, which the statistics "
                    "need; take --task.primary_metric f1 or accuracy"
                )
            case "accuracy":
                pairs = zip(examples, predictions, strict=True)
                return mean_statistics([x.label in y.values for x, y in pairs])
            case "f1":
                _, gold, predicted, _ = self.arrays(examples, predictions, labels)
                counts = f_counts(gold, predicted, self.primary_metric)
                return counts[:, 1:2] if len(labels) == 2 else counts
        return super().example_statistics(examples, predictions, labels)


def soften(
    items: Items, examples: Sequence[Any], targets: Mapping[str, Target]
) -> Items:
    """Return training items with probabilities of classes, if any text has them.

    They stand beside the label, float32 `[C]`, under its name with `PROBABILITIES`. A
    class that is sure has probability 1. They may miss a sum of 1 by `ROUNDING`, and
    are divided by their sum.

    Raises:
      InputError: the probabilities of an example are not those of classes.
    """
    target = targets.get(HEAD)
    has_some = any(getattr(x, "probabilities", None) is not None for x in examples)
    if not has_some or target is None or target.kind != "classes":
        return items
    soft = [_distribution(example, target.classes) for example in examples]
    name = HEAD + PROBABILITIES
    return [
        dataclasses.replace(item, arrays={**item.arrays, name: soft[item.example]})
        for item in items
    ]


def positive_class(counts: Mapping[str, int]) -> str:
    """Return the rarer of two classes; of equal ones that which its name calls so.

    Where no name does, or both do, it is the last by name.

    >>> positive_class({"complaint": 120, "ok": 2400})
    'complaint'
    >>> positive_class({"0": 5, "1": 90}), positive_class({"yes": 7, "zero": 7})
    ('0', 'yes')
    """
    last_first = sorted(counts, reverse=True)
    return min(last_first, key=lambda name: (counts[name], not _is_affirmed(name)))


def choice_of(counts: Mapping[str, int]) -> str:
    """Say which of two classes is positive, and why.

    >>> print(choice_of({"complaint": 120, "ok": 2400}))
    'complaint' is the positive class, the rarer one of train (120 of 2,520)
    >>> print(choice_of({"0": 5, "1": 90}))
    '0' is the positive class, the rarer one of train (5 of 95), against the name '1'
    """
    positive = positive_class(counts)
    (other,) = (name for name in counts if name != positive)
    if counts[positive] == counts[other]:
        return (
            f"{quote(positive)} is the positive class by its name, as the two of train "
            "are equally frequent"
        )
    size = f"{counts[positive]:,} of {sum(counts.values()):,}"
    text = f"{quote(positive)} is the positive class, the rarer one of train ({size})"
    is_against = _is_named_so(other, positive)
    return f"{text}, against the name {quote(other)}" if is_against else text


def _is_affirmed(name: str) -> bool:
    return name.strip().lower() in AFFIRMED


def _is_named_so(negative: str, positive: str) -> bool:
    """Return whether the name of the negative class says that it is the positive."""
    return _is_affirmed(negative) and not _is_affirmed(positive)


def _distribution(example: LabelledText, labels: Labels) -> np.ndarray:
    """Return the probability of each class, float32 `[C]`."""
    shares = example.probabilities
    pairs = ((example.label, 1.0),) if shares is None else shares
    by_class: dict[str | None, float] = dict(pairs)
    total = sum(share for _, share in pairs)
    reason = None
    if len(by_class) < len(pairs):
        reason = "name a class twice"
    elif not all(0 <= share <= 1 for share in by_class.values()):
        reason = "are not all from 0 to 1"
    elif abs(total - 1) > ROUNDING:
        reason = f"sum to {total:.4g}, not to 1"
    elif by_class.get(example.label, 0.0) < max(by_class.values()):
        reason = f"have another class at the top than its label {quote(example.label)}"
    if reason is not None:
        raise InputError(
            f"line {example.line} of train: the probabilities of example {example.id} "
            f"{reason}; correct them, or give one class"
        )
    return np.array([by_class.get(name, 0.0) / total for name in labels], np.float32)
