"""Labels of texts and of pairs of texts, any number of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import jax
import numpy as np
from numpy.typing import ArrayLike

from dicejax.data.examples import MultiLabelText
from dicejax.errors import InputError
from dicejax.metrics import multi_label, ranking, thresholds
from dicejax.metrics.scores import Scores
from dicejax.metrics.thresholds import TunedThresholds
from dicejax.models.heads import SequenceHead
from dicejax.tasks.classification import HEAD, TextTask
from dicejax.tasks.task import (
    IGNORED,
    Labels,
    Predicted,
    Prediction,
    Predictions,
    Target,
    mean_statistics,
)

Texts = Sequence[MultiLabelText]


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultiLabelClassification(TextTask):
    """Any number of labels for each text or pair of texts, none included.

    Each label is decided by itself: it holds where its probability, a sigmoid, is at
    least its threshold. Labels that train lacks cannot be predicted and have
    probability 0 in the scores.

    Args:
      stride: overlap of neighbouring windows in pieces, at most half of a window.
      primary_metric: metric that selects the best checkpoint; "lrap" is the
        label-ranking average precision, which needs no threshold.
      tune_thresholds: choose the threshold of each label with its best F1 on dev,
        instead of 0.5; a label without examples there keeps 0.5. Scores with and
        without it are reported.
      threshold: constraint on new data that the threshold of each label keeps, such as
        "recall:0.95", instead of the best F1; see `Constraint`.
      threshold_delta: probability that dev is a sample with which any label does not.
    """

    takes: ClassVar[tuple[type, ...]] = (MultiLabelText,)
    has_threshold_per_label: ClassVar[bool] = True

    primary_metric: Literal["micro_f1", "macro_f1", "lrap"] = "micro_f1"
    tune_thresholds: bool = False

    @property
    def tunes_threshold(self) -> bool:
        """Whether the thresholds of labels are to be tuned on the dev split."""
        return self.tune_thresholds

    def label_names(self, examples: Texts) -> tuple[str, ...]:
        """Return the labels that occur, sorted.

        Raises:
          InputError: the labels of an example are unknown, or none occurs.
        """
        self.require_gold("train", examples)
        names = sorted({label for example in examples for label in example.labels})
        if not names:
            raise InputError("no text of train has a label; want some that have")
        return tuple(names)

    def gold(self, example: MultiLabelText) -> tuple[str, ...] | None:
        """Return the labels."""
        return example.labels

    def label_fields(self, labels: Labels) -> dict[str, Any]:
        """Return the labels."""
        return {"labels": list(labels)}

    def encode_target(
        self, gold: Sequence[str] | None, index: Mapping[str, int]
    ) -> np.ndarray:
        """Return 1 for each label that holds, int `[C]`; `IGNORED` if unknown."""
        if gold is None:
            return np.full(len(index), IGNORED)
        target = np.zeros(len(index), int)
        target[[index[label] for label in gold if label in index]] = 1
        return target

    def heads(self, labels: Labels) -> tuple[tuple[str, SequenceHead], ...]:
        """Return a head with logits of all labels for each sequence."""
        return ((HEAD, SequenceHead(classes=len(labels), multi_label=True)),)

    def targets(self, labels: Labels) -> dict[str, Target]:
        """Return any number of labels per sequence."""
        return {HEAD: Target("multi_label", tuple(labels))}

    def reduce_logits(self, outputs, batch) -> Predicted:
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
            if probability >= limits.get(label, self.default_threshold)
        )
        return Prediction(labels, candidates)

    def tune(
        self, examples: Texts, candidates: Sequence[dict[str, float]], labels: Labels
    ) -> TunedThresholds:
        """Choose the threshold of each label with its best F1."""
        judged = self.judge(examples, labels, candidates)
        gold, chances = (np.transpose(x) for x in zip(*judged.values(), strict=True))
        default = self.default_threshold
        return thresholds.tune_per_label(chances, gold, labels, default=default)

    def judge(
        self,
        examples: Texts,
        labels: Labels,
        candidates: Sequence[dict[str, float]] | None = None,
    ) -> dict[str, tuple[ArrayLike, Any]]:
        """Return for each label where it holds, and its probabilities."""
        gold = _indicators([example.labels for example in examples], labels)
        return {
            label: (column, candidates and [chance[label] for chance in candidates])
            for label, column in zip(labels, gold.T, strict=True)
        }

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
        names, gold, predicted, chances = _arrays(examples, predictions, labels)
        scores = multi_label.scores(gold, predicted)
        precision = ranking.average_precision_per_class(gold, chances)
        rank = multi_label.label_ranking_average_precision(gold, chances)
        return Scores(
            {
                "micro_f1": scores.micro.f1,
                "micro_precision": scores.micro.precision,
                "micro_recall": scores.micro.recall,
                "macro_f1": scores.macro.f1,
                "macro_average_precision": precision.macro,
                "lrap": float(rank.mean()),
                "subset_accuracy": scores.subset_accuracy,
            },
            {
                name: dataclasses.asdict(row)
                for name, row in zip(names, scores.per_label, strict=True)
            },
        )

    def example_statistics(
        self, examples: Texts, predictions: Predictions, labels: Labels
    ) -> np.ndarray:
        """Return numerators and denominators of F1, per label if macro; or LRAP."""
        _, gold, predicted, chances = _arrays(examples, predictions, labels)
        if self.primary_metric == "lrap":
            rank = multi_label.label_ranking_average_precision(gold, chances)
            return mean_statistics(rank)
        counts = np.stack([2.0 * (gold & predicted), 1.0 * gold + predicted], axis=-1)
        if self.primary_metric == "micro_f1":
            counts = counts.sum(axis=1, keepdims=True)
        return counts


def _arrays(
    examples: Texts, predictions: Predictions, labels: Labels
) -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray]:
    """Return the labels of train and of gold, and for each example and label `[N, C]`.

    The arrays are whether a label is gold, whether it is predicted, and its
    probability, which is 0 for labels that train lacks.
    """
    present = {label for example in examples for label in example.labels or ()}
    names = [*labels, *sorted(present - set(labels))]
    chances = [[p.probabilities.get(n, 0.0) for n in names] for p in predictions]
    gold = _indicators([example.labels for example in examples], names)
    predicted = _indicators([guess.values for guess in predictions], names)
    return names, gold, predicted, np.array(chances)


def _indicators(rows: Sequence[Sequence[str]], names: Sequence[str]) -> np.ndarray:
    """Return whether each row of labels holds each name, bool `[N, C]`."""
    index = {name: number for number, name in enumerate(names)}
    indicators = np.zeros((len(rows), len(names)), bool)
    for indicator, row in zip(indicators, rows, strict=True):
        indicator[[index[label] for label in row if label in index]] = True
    return indicators
