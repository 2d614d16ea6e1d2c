"""Labels of texts and of pairs of texts, any number of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, get_args

import jax
import numpy as np

from dicejax.data.examples import MultiLabelText
from dicejax.errors import InputError
from dicejax.metrics import multi_label, ranking
from dicejax.metrics.scores import Scores, as_f1, class_of
from dicejax.tasks.scoring import f_counts, f_statistics
from dicejax.tasks.task import (
    IGNORED,
    Arrays,
    Labels,
    Predicted,
    Prediction,
    Predictions,
    Target,
    mean_statistics,
)
from dicejax.tasks.texts import DEFAULT, HEAD, TextTask

Texts = Sequence[MultiLabelText]
Metric = Literal["micro_f1", "macro_f1", "lrap"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultiLabelClassification(TextTask):
    """Any number of labels for each text or pair of texts, none included.

    Each label is decided by itself: it holds where its probability, a sigmoid, is at
    least its threshold. Labels that train lacks cannot be predicted and have
    probability 0 in the scores.

    Args:
      primary_metric: metric that selects the best checkpoint and is compared; "lrap"
        is the label-ranking average precision, which needs no threshold; "f1:NAME" is
        the F1 of one label. Micro F1 follows the frequent labels. "micro_f2" or
        "macro_f0.5" is F-beta, of which recall counts beta times as much as precision.
      tune_thresholds: choose the threshold of each label with its best F1 on dev, or
        F-beta if that is the primary metric, instead of 0.5; a label without examples
        there keeps 0.5. Scores with and without it are reported.
    """

    takes: ClassVar[tuple[type, ...]] = (MultiLabelText,)
    has_several: ClassVar[bool] = True
    metrics: ClassVar[tuple[str, ...]] = get_args(Metric)

    primary_metric: Metric | str = "micro_f1"
    tune_thresholds: bool = False

    @property
    def tunes(self) -> bool:
        """Whether the thresholds of labels are to be tuned on dev."""
        return self.tune_thresholds

    def label_names(self, examples: Texts) -> tuple[str, ...]:
        """Return the labels that occur, sorted.

        Raises:
          InputError: the labels of an example are unknown, or none occurs.
        """
        self.require_gold("train", examples)
        names = sorted(
            {label for example in examples for label in example.labels or ()}
        )
        if not names:
            raise InputError("no text of train has a label; want some that have")
        return tuple(names)

    def gold(self, example: MultiLabelText) -> tuple[str, ...] | None:
        """Return the labels."""
        return example.labels

    def encode_target(
        self, gold: Sequence[str] | None, index: Mapping[str, int]
    ) -> np.ndarray:
        """Return 1 for each label that holds, int `[C]`; `IGNORED` if unknown."""
        if gold is None:
            return np.full(len(index), IGNORED)
        target = np.zeros(len(index), int)
        target[[index[label] for label in gold if label in index]] = 1
        return target

    def targets(self, labels: Labels) -> dict[str, Target]:
        """Return any number of labels per sequence."""
        return {HEAD: Target("multi_label", tuple(labels))}

    def reduce_logits(self, outputs: Arrays, batch: Arrays) -> Predicted:
        """Take the probability of each label, `[B, S, C]`."""
        return Predicted(sequences={HEAD: jax.nn.sigmoid(outputs[HEAD])})

    def decide(
        self, candidates: dict[str, float], threshold: Mapping[str, float] | None = None
    ) -> Prediction:
        """Take the labels whose probabilities are not below their thresholds."""
        limits = threshold or {}
        labels = tuple(
            label
            for label, probability in candidates.items()
            if probability >= limits.get(label, DEFAULT)
        )
        return Prediction(labels, candidates)

    def score(
        self, examples: Texts, predictions: Predictions, labels: Labels
    ) -> Scores:
        """Compute micro and macro F1, rankings, and the share without a mistake.

        Macro F1 is over the labels of train and of the examples; macro average
        precision over those that the examples have.

        Raises:
          InputError: the labels of an example are unknown.
        """
        self.require_gold("test", examples)
        names, gold, predicted, chances = self.arrays(examples, predictions, labels)
        scores = multi_label.scores(gold, predicted)
        precision = ranking.average_precision_per_class(gold, chances)
        rank = multi_label.label_ranking_average_precision(gold, chances)
        of_split = Scores(
            {
                "micro_f1": scores.micro.f1,
                "micro_precision": scores.micro.precision,
                "micro_recall": scores.micro.recall,
                "macro_f1": scores.macro.f1,
                "macro_average_precision": precision.macro,
                "lrap": float(rank.mean()),
                "subset_accuracy": scores.subset_accuracy,
            },
            dict(zip(names, map(dataclasses.asdict, scores.per_label), strict=True)),
        )
        return of_split.leading_with(self.primary_metric)

    def example_statistics(
        self, examples: Texts, predictions: Predictions, labels: Labels
    ) -> np.ndarray:
        """Return the parts of F1 or F-beta, see `f_statistics`, or ranks."""
        if class_of(self.primary_metric) is not None:
            return f_statistics(self, examples, predictions)
        _, gold, predicted, chances = self.arrays(examples, predictions, labels)
        match as_f1(self.primary_metric):
            case "lrap":
                rank = multi_label.label_ranking_average_precision(gold, chances)
                return mean_statistics(rank)
            case "micro_f1":
                counts = f_counts(gold, predicted, self.primary_metric)
                return counts.sum(axis=1, keepdims=True)
            case "macro_f1":
                return f_counts(gold, predicted, self.primary_metric)
        return super().example_statistics(examples, predictions, labels)
