"""Classes of texts and of pairs of texts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import numpy as np

from dicejax.data.examples import LabelledText
from dicejax.errors import InputError, quote
from dicejax.metrics import classification, ranking, thresholds
from dicejax.metrics.scores import Scores
from dicejax.metrics.thresholds import TunedThreshold
from dicejax.models.heads import SequenceHead
from dicejax.tasks.task import IGNORED, Labels, Predicted, Target
from dicejax.tasks.texts import HEAD, TextTask, shown_texts

Texts = Sequence[LabelledText]


class Decision(NamedTuple):
    """The prediction for a text.

    Attributes:
      label: the class.
      probabilities: of all classes.
    """

    label: str
    probabilities: dict[str, float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Classification(TextTask):
    """One class for each text or pair of texts.

    Of two classes the last in the order of their names is the positive one, unless
    `positive` names it; "f1" is its F1, and a threshold on its probability decides. Of
    more classes "f1" is the mean over classes (macro).

    Args:
      stride: see `TextTask`.
      primary_metric: metric that selects the best checkpoint.
      positive: the positive class where there are two; None: the last by name.
      tune_threshold: choose the threshold with the best F1 on dev, instead of 0.5; for
        two classes. Scores with and without it are reported.
    """

    takes: ClassVar[tuple[type, ...]] = (LabelledText,)
    told: ClassVar[str] = "class"

    primary_metric: Literal["f1", "accuracy", "matthews"] = "f1"
    positive: str | None = None
    tune_threshold: bool = False

    @property
    def tunes_threshold(self) -> bool:
        """Whether the decision threshold is to be tuned on the dev split."""
        return self.tune_threshold

    def label_names(self, examples: Texts) -> tuple[str, ...]:
        """Return the classes that occur, the positive one last.

        Raises:
          InputError: an example has no class, there is but one, `positive` is none of
            them, or a threshold is to be tuned and there are more than two.
        """
        self.require_gold("train", examples)
        names = sorted({example.label for example in examples})
        listed = ", ".join(map(quote, names))
        if len(names) < 2:
            raise InputError(f"train has {listed or 'no class'} alone; want 2 classes")
        if self.positive is not None and self.positive not in names:
            raise InputError(
                f"positive is {quote(self.positive)}, but the classes are {listed}"
            )
        if len(names) > 2 and (self.positive is not None or self.tune_threshold):
            raise InputError(
                f"positive and tune_threshold are for 2 classes; there are {listed}"
            )
        return tuple(sorted(names, key=lambda name: name == self.positive))

    def gold(self, example: LabelledText) -> tuple[str] | None:
        """Return the class."""
        return None if example.label is None else (example.label,)

    def encode_target(
        self, gold: Sequence[str] | None, index: Mapping[str, int]
    ) -> int | np.ndarray:
        """Return the number of the class; `IGNORED` if it is unknown."""
        return IGNORED if gold is None else index.get(gold[0], IGNORED)

    def heads(self, labels: Labels) -> tuple[tuple[str, SequenceHead], ...]:
        """Return a head with logits of all classes for each sequence."""
        return ((HEAD, SequenceHead(classes=len(labels))),)

    def targets(self, labels: Labels) -> dict[str, Target]:
        """Return one class per sequence."""
        return {HEAD: Target("classes", tuple(labels), has_negative=len(labels) == 2)}

    def reduce_logits(self, outputs, batch) -> Predicted:
        """Take the probability of each class, `[B, S, C]`."""
        return Predicted(sequences={HEAD: jax.nn.softmax(outputs[HEAD], axis=-1)})

    def decide(
        self, found: dict[str, float], threshold: float | None = None
    ) -> Decision:
        """Take the likeliest class; of two, the last from the threshold on."""
        label = max(found, key=found.get)
        if len(found) == 2:
            negative, positive = found
            limit = self.default_threshold if threshold is None else threshold
            label = positive if found[positive] >= limit else negative
        return Decision(label, found)

    def tune(
        self, examples: Texts, found: Sequence[dict[str, float]], labels: Labels
    ) -> TunedThreshold:
        """Choose the threshold with the best F1 of the positive class."""
        positive = labels[-1]
        return thresholds.tune(
            [one[positive] for one in found],
            [example.label == positive for example in examples],
            default=self.default_threshold,
        )

    def score(
        self, examples: Texts, predictions: Sequence[Decision], labels: Labels
    ) -> Scores:
        """Compute F1, accuracy, Matthews' correlation and average precision.

        Raises:
          InputError: an example has no class.
        """
        self.require_gold("test", examples)
        names = [*labels, *sorted({e.label for e in examples} - set(labels))]
        index = {name: number for number, name in enumerate(names)}
        gold = np.array([index[example.label] for example in examples])
        matrix = classification.confusion(
            gold, [index[one.label] for one in predictions], len(names)
        )
        scores = classification.scores(matrix)
        known = gold < len(labels)
        likelihood = np.array(
            [[one.probabilities[name] for name in labels] for one in predictions]
        )
        precision = ranking.average_precision_per_class(gold[known], likelihood[known])
        two = len(names) == 2
        main = scores.per_class[1] if two else scores.macro
        average = precision.per_class[1] if two else precision.macro
        return Scores(
            {
                "f1": main.f1,
                "accuracy": scores.accuracy,
                "precision": main.precision,
                "recall": main.recall,
                "matthews": scores.matthews,
                "average_precision": average,
            },
            {
                name: dataclasses.asdict(scores.per_class[number])
                for name, number in index.items()
            },
        )

    def example_statistics(
        self, examples: Texts, predictions: Sequence[Decision], labels: Labels
    ) -> np.ndarray:
        """Return per-class numerators and denominators of F1, or of accuracy."""
        gold = np.array([example.label for example in examples])
        found = np.array([one.label for one in predictions])
        if self.primary_metric == "accuracy":
            right = (gold == found).astype(float)
            return np.stack([right, np.ones_like(right)], axis=-1)[:, None]
        if self.primary_metric != "f1":
            raise InputError(
                f"task: {self.primary_metric} is no sum over examples, as statistics "
                "over them need; take --task.primary_metric f1 or accuracy"
            )
        names = [*labels, *sorted(set(gold) - set(labels))]
        wanted, given = (
            values[:, None] == np.array(names[1:] if len(names) == 2 else names)
            for values in (gold, found)
        )
        return np.stack([2.0 * (wanted & given), 1.0 * wanted + given], axis=-1)

    def show(
        self, example: LabelledText, prediction: Decision
    ) -> tuple[dict[str, Any], list[str]]:
        """Format the class and its probability."""
        texts = shown_texts(example)
        record = {"texts": texts, **prediction._asdict()}
        chance = prediction.probabilities[prediction.label]
        return record, [*texts, f"  {prediction.label}  ({chance:.3f})"]
