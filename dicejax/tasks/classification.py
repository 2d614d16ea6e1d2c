"""Classes of texts and of pairs of texts."""

from __future__ import annotations

import abc
import dataclasses
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, get_args

import jax
import numpy as np
from tokenizers import Tokenizer

from dicejax.data import tokenize
from dicejax.data.examples import ROUNDING, LabelledText, groups_of
from dicejax.data.pack import BatchLayout
from dicejax.errors import InputError, quote
from dicejax.metrics import classification, multi_label, ranking, thresholds
from dicejax.metrics.scores import Scores
from dicejax.metrics.spans import TypeCounts
from dicejax.metrics.thresholds import TunedThreshold, TunedThresholds
from dicejax.models.heads import SequenceHead
from dicejax.tasks.compact import CompactChances
from dicejax.tasks.decider import Judged
from dicejax.tasks.remarks import Fit, Remark, unseen_labels
from dicejax.tasks.task import (
    IGNORED,
    PROBABILITIES,
    Examples,
    Item,
    Items,
    Labels,
    Outputs,
    Predicted,
    Prediction,
    Predictions,
    Target,
    Task,
    mean_statistics,
    token_arrays,
    token_fills,
)
from dicejax.tasks.windows import cut

Texts = Sequence[LabelledText]

HEAD = "label"
AFFIRMED = ("1", "true", "yes", "positive")
"""Names, in small letters, that say which class is positive."""
Metric = Literal["f1", "accuracy", "matthews"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextTask(Task):
    """Base class of tasks with one output per text.

    Examples have a `first` text and a `second` one or None; a subclass says what of
    them is gold. A text longer than `max_length` is cut into windows that overlap: each
    is trained with the text's gold, and the mean of their probabilities decides. Of a
    pair the longer text is truncated.

    Args:
      threshold: constraint on new data that the threshold keeps, or that of each label,
        such as "recall:0.95", "precision:0.9" or "fpr:0.01", instead of the best F1;
        "recall:0.95:toxic" is for that label alone. See `Constraint`. Texts of a
        document are a unit.
      threshold_delta: probability that dev is a sample with which it, or any, does not.
    """

    reads_words: ClassVar[bool] = False
    unit: ClassVar[str] = "text"
    default_threshold: ClassVar[float | None] = 0.5
    measures: ClassVar[tuple[str, ...]] = ("recall", "precision", "fpr")
    noun: ClassVar[str] = "label"
    cut_text: ClassVar[str] = (
        "{cuts.count} of {cuts.total} {split} pairs ({cuts.share:.0%}) are cut off at "
        "{cuts.longest} tokens; raise --training.max_length"
    )

    threshold: str | None = None
    threshold_delta: float = 0.1

    @abc.abstractmethod
    def gold(self, example: Any) -> Sequence[str] | None:
        """Return the gold labels of an example; None if they are unknown."""

    @abc.abstractmethod
    def encode_target(
        self, gold: Sequence[str] | None, index: Mapping[str, int]
    ) -> int | np.ndarray:
        """Return the target of an example, given the number of each known label."""

    def classes_in(self, example: Any) -> Sequence[str]:
        """Return the gold labels."""
        return self.gold(example) or ()

    def texts(self, examples: Examples) -> Iterable[str]:
        """Yield the words of all texts."""
        for example in examples:
            yield from example.first.split()
            yield from (example.second or "").split()

    def layout(self, tokenizer: Tokenizer) -> BatchLayout:
        """Return the layout of an item's arrays."""
        return BatchLayout(
            tokens=token_fills(tokenizer),
            sequences={HEAD: IGNORED},
            places={"summary_positions": -1},
        )

    def encode(
        self, examples: Examples, tokenizer: Tokenizer, labels: Labels, max_length: int
    ) -> list[Item]:
        """Encode texts, in windows, and pairs.

        Unknown labels are left out of the loss.
        """
        index = {label: number for number, label in enumerate(labels)}
        firsts = [example.first for example in examples]
        seconds = [example.second for example in examples]
        are_pairs = any(second is not None for second in seconds)
        if are_pairs and None in seconds:
            single = examples[seconds.index(None)]
            raise InputError(
                f"example {single.id} is one text, others are pairs; give all texts a "
                "second, or none"
            )
        encoded = tokenize.encode_texts(
            tokenizer, firsts, seconds if are_pairs else None
        )
        items = []
        for number, (example, whole) in enumerate(zip(examples, encoded, strict=True)):
            target = self.encode_target(self.gold(example), index)
            if are_pairs:
                try:
                    parts = [whole.truncate(max_length, longer_first=True)]
                except ValueError as error:
                    raise InputError(f"max_length: {error}; make it larger") from error
            else:
                parts = [part for part, _ in cut(whole, max_length, self.stride)]
            for pieces in parts:
                arrays = token_arrays(pieces) | {
                    HEAD: target,
                    "summary_positions": pieces.summary,
                }
                is_cut = are_pairs and len(pieces) < len(whole)
                items.append(Item(arrays, number, is_cut=is_cut))
        return items

    def heads(self, labels: Labels) -> tuple[tuple[str, SequenceHead], ...]:
        """Return a head with logits of all labels for each sequence."""
        head = SequenceHead(classes=len(labels), multi_label=self.has_several)
        return ((HEAD, head),)

    def decode(
        self, example: Any, items: Items, outputs: Outputs, labels: Labels
    ) -> dict[str, float]:
        """Return the probability of each label, the mean over the windows."""
        mean = np.mean([output[HEAD] for output in outputs], axis=0)
        return dict(zip(labels, mean.tolist(), strict=True))

    def remarks(
        self, split: str, examples: Examples, fit: Fit, labels: Labels
    ) -> list[Remark]:
        """Warn of labels that train lacks, and of long texts.

        Raises:
          InputError: an example has no label.
        """
        self.require_gold(split, examples)
        counts = Counter(label for e in examples for label in self.classes_in(e))
        text = "example{s} of %s {label}, which train lacks: counted as wrong"
        remarks = unseen_labels(split, counts, labels, text % self.noun)
        return remarks + super().remarks(split, examples, fit, labels)

    def judge(
        self,
        examples: Examples,
        labels: Labels,
        candidates: Sequence[dict[str, float]] | None = None,
    ) -> dict[str, Judged]:
        """Return for each label, or the positive class, gold and probabilities."""
        units = groups_of(examples)
        return {
            label: Judged(
                [label in (self.gold(example) or ()) for example in examples],
                candidates and [chances[label] for chances in candidates],
                units,
            )
            for label in (labels if self.has_several else labels[-1:])
        }

    def count(
        self,
        example: Any,
        prediction: Prediction,
        names: Collection[str] = ("",),
    ) -> TypeCounts:
        """Count the labels of one text that are among the names."""
        gold, guesses = (
            {x for x in labels if x in names or "" in names}
            for labels in (self.gold(example) or (), prediction.values)
        )
        return TypeCounts(len(gold & guesses), len(guesses), len(gold))

    def tune(
        self, examples: Examples, candidates: Sequence[dict[str, float]], labels: Labels
    ) -> TunedThreshold | TunedThresholds:
        """Choose the threshold with the best F1, or that of each label."""
        judged = self.judge(examples, labels, candidates).values()
        gold, scores, *_ = map(np.transpose, zip(*judged, strict=True))
        default = self.default_threshold
        if self.has_several:
            return thresholds.tune_per_label(scores, gold, labels, default=default)
        return thresholds.tune(scores[:, 0], gold[:, 0], default=default)

    def arrays(
        self, examples: Examples, predictions: Predictions, labels: Labels
    ) -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray]:
        """Return the labels of train and of gold, and arrays `[N, C]` of them.

        They are whether a label is gold, whether it is predicted, and its probability,
        which is 0 for labels that train lacks.
        """
        rows = [self.gold(example) or () for example in examples]
        names = [*labels, *sorted({name for row in rows for name in row} - set(labels))]
        chances = [[p.probabilities.get(n, 0.0) for n in names] for p in predictions]
        gold, predicted = (
            np.array([[name in row for name in names] for row in column], bool)
            for column in (rows, [prediction.values for prediction in predictions])
        )
        return names, gold, predicted, np.array(chances)

    def example_statistics(
        self, examples: Examples, predictions: Predictions, labels: Labels
    ) -> np.ndarray:
        """Return numerators and denominators of F1, per label if macro; or shares."""
        metric = self.primary_metric
        if self.class_of_interest is not None:
            return self.f1_statistics(examples, predictions)
        _, gold, predicted, chances = self.arrays(examples, predictions, labels)
        if metric == "matthews":
            raise InputError(
                f"task: {metric} is not a sum over examples, which the statistics "
                "need; take --task.primary_metric f1 or accuracy"
            )
        if metric == "accuracy":
            return mean_statistics((gold == predicted).all(axis=1))
        if metric == "lrap":
            rank = multi_label.label_ranking_average_precision(gold, chances)
            return mean_statistics(rank)
        counts = np.stack([2.0 * (gold & predicted), 1.0 * gold + predicted], axis=-1)
        if metric == "micro_f1":
            return counts.sum(axis=1, keepdims=True)
        is_positive = metric == "f1" and len(labels) == 2 and not self.has_several
        return counts[:, 1:2] if is_positive else counts

    def compact(self, prediction: Prediction) -> Prediction:
        """Return a prediction whose probabilities take eight bytes for each label."""
        chances = prediction.probabilities
        return Prediction(prediction.values, CompactChances(chances))

    def require_gold(self, split: str, examples: Examples) -> None:
        """Check that all gold labels are known.

        Raises:
          InputError: an example has no label.
        """
        without = [example.id for example in examples if self.gold(example) is None]
        if without:
            do = "label or remove them: null means unknown and is not a class"
            if len(without) == len(examples):
                do = f"name a labelled one (--data.{split})"
            raise InputError(
                f"{len(without)} of {len(examples)} examples of {split} have no label, "
                f"{quote(without[0])} among them; {do}"
            )

    def show(
        self, example: Any, prediction: Prediction
    ) -> tuple[dict[str, Any], list[str]]:
        """Format the labels and the probabilities of all."""
        texts, by_label = [example.first], prediction.probabilities
        texts += [] if example.second is None else [example.second]
        names = prediction.values
        labels = {"labels": list(names)} if self.has_several else {"label": names[0]}
        text = ", ".join(f"{name}  ({by_label[name]:.3f})" for name in names)
        record = {"texts": texts, **labels, "probabilities": by_label}
        return record, [*texts, f"  {text or '-'}"]

    def parse(self, line: str, number: int) -> Any:
        """Take a text, or two with a tab between them."""
        first, *rest = line.split("\t")
        if len(rest) > 1:
            raise InputError(f"text {number} has {len(rest)} tabs; want one at most")
        second = rest[0] if rest else None
        (kind,) = self.takes
        return kind(first.strip(), second, None, str(number - 1), number)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Classification(TextTask):
    """One class for each text or pair of texts.

    Of two classes the rarer one of train is positive, unless one is named; "f1" is its
    F1, and a threshold on its probability decides. Of two that are equally frequent it
    is the one that its name calls so ("1", "true", "yes", "positive"), or the last by
    name. Of more classes "f1" is the mean over classes (macro).

    Args:
      primary_metric: metric that selects the best checkpoint and is compared;
        "f1:NAME" is the F1 of one class, which is the positive one of two.
      positive: the positive class where there are two; None: the rarer one of train.
      tune_threshold: choose the threshold with the best F1 on dev, instead of 0.5; for
        two classes. Scores with and without it are reported.
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
            {example.label for example in examples}
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
        decides = self.tune_threshold or self.threshold is not None
        if len(names) > 2:
            if self.positive is not None or decides:
                raise InputError(
                    f"positive, threshold and tune_threshold are for 2 classes; there "
                    f"are {listed}. Leave them out, and name the class that counts "
                    "with --task.primary_metric f1:NAME; a threshold of its own has "
                    "each label of MultiLabelClassification"
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
        named = {
            "positive": self.positive,
            "primary_metric": self.class_of_interest,
            "threshold": (self.constraint and self.constraint.label) or None,
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

    def soften(self, items: Items, examples: Texts, labels: Labels) -> Items:
        """Return training items with probabilities of classes, if any text has them.

        A class that is sure has probability 1. They may miss a sum of 1 by `ROUNDING`,
        and are divided by their sum.
        """
        if all(example.probabilities is None for example in examples):
            return items
        soft = [_distribution(example, labels) for example in examples]
        name = HEAD + PROBABILITIES
        return [
            dataclasses.replace(item, arrays={**item.arrays, name: soft[item.example]})
            for item in items
        ]

    def encode_target(
        self, gold: Sequence[str] | None, index: Mapping[str, int]
    ) -> int:
        """Return the number of the class; `IGNORED` if it is unknown."""
        return IGNORED if gold is None else index.get(gold[0], IGNORED)

    def targets(self, labels: Labels) -> dict[str, Target]:
        """Return one class per sequence."""
        return {HEAD: Target("classes", tuple(labels), has_negative=len(labels) == 2)}

    def reduce_logits(self, outputs, batch) -> Predicted:
        """Take the probability of each class, `[B, S, C]`."""
        return Predicted(sequences={HEAD: jax.nn.softmax(outputs[HEAD], axis=-1)})

    def decide(
        self, candidates: dict[str, float], threshold: float | None = None
    ) -> Prediction:
        """Take the likeliest class; of two, the last from the threshold on."""
        label = max(candidates, key=candidates.get)
        if len(candidates) == 2:
            negative, positive = candidates
            limit = self.default_threshold if threshold is None else threshold
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
        scores = classification.scores(matrix)
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
        )
        return of_split.leading_with(self.primary_metric)


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
    pairs = example.probabilities
    pairs = ((example.label, 1.0),) if pairs is None else pairs
    by_class, total = dict(pairs), sum(share for _, share in pairs)
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
