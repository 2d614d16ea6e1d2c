"""Base class of tasks on texts and pairs of texts."""

from __future__ import annotations

import abc
import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from tokenizers import Tokenizer

from dicejax.data import tokenize
from dicejax.data.examples import groups_of
from dicejax.data.pack import BatchLayout
from dicejax.errors import InputError, quote
from dicejax.metrics import thresholds
from dicejax.metrics.scores import beta_of
from dicejax.metrics.thresholds import TunedThreshold
from dicejax.models.heads import SequenceHead
from dicejax.tasks.judged import Judged, ThresholdRule
from dicejax.tasks.remarks import Fit, Remark, unseen_labels
from dicejax.tasks.task import (
    IGNORED,
    Examples,
    Item,
    Items,
    Labels,
    Outputs,
    Prediction,
    Predictions,
    Task,
    token_arrays,
    token_fills,
)
from dicejax.tasks.windows import cut

HEAD = "label"
DEFAULT = 0.5
"""The threshold of probabilities where none is chosen."""


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
    has_controls: ClassVar[bool] = True
    has_several: ClassVar[bool] = False  # labels, and a threshold for each
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

    @property
    def threshold_rule(self) -> ThresholdRule:
        """Return 1/2 by default."""
        return ThresholdRule.for_task(self, DEFAULT, tunes=self.tunes)

    @property
    def tunes(self) -> bool:
        """Whether the threshold is to be tuned on dev."""
        return getattr(self, "tune_threshold", False)

    def labelled(
        self, example: Any, prediction: Prediction | None = None
    ) -> list[tuple[str, None]]:
        """Return the labels."""
        names = self.gold(example) if prediction is None else prediction.values
        return [(name, None) for name in names or ()]

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
        counts = Counter(label for e in examples for label, _ in self.labelled(e))
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
                by_label=self.has_several,
            )
            for label in (labels if self.has_several else labels[-1:])
        }

    def tune(
        self, examples: Examples, candidates: Sequence[dict[str, float]], labels: Labels
    ) -> TunedThreshold:
        """Choose the threshold with the best F1 or F-beta, or that of each label.

        Beta is that of the primary metric, and 1 of a metric without one.
        """
        beta = beta_of(self.primary_metric) or 1.0
        judged = self.judge(examples, labels, candidates).values()
        gold = np.stack([np.asarray(each.gold) for each in judged], axis=-1)
        scores = np.stack([np.asarray(each.scores) for each in judged], axis=-1)
        if self.has_several:
            return thresholds.tune_per_label(
                scores, gold, labels, default=DEFAULT, beta=beta
            )
        return thresholds.tune(scores[:, 0], gold[:, 0], default=DEFAULT, beta=beta)

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

    def require_gold(self, split: str, examples: Examples) -> None:
        """Check that all gold labels are known.

        Raises:
          InputError: an example has no label.
        """
        without = [example.id for example in examples if self.gold(example) is None]
        if without:
            remedy = "label or remove them: null means unknown and is not a class"
            if len(without) == len(examples):
                remedy = f"name a labelled one (--data.{split})"
            raise InputError(
                f"{len(without)} of {len(examples)} examples of {split} have no label, "
                f"{quote(without[0])} among them; {remedy}"
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

    def parse(self, text: str | Sequence[str], number: int) -> Any:
        """Take a text, or two with a tab between them."""
        first, *rest = line_of(self, text, number).split("\t")
        if len(rest) > 1:
            raise InputError(f"text {number} has {len(rest)} tabs; want one at most")
        second = rest[0] if rest else None
        (kind,) = self.takes
        return kind(first.strip(), second, None, str(number - 1), number)


def line_of(task: Task, text: str | Sequence[str], number: int) -> str:
    """Return the text of a task that takes no words.

    Raises:
      InputError: it is given words.
    """
    if isinstance(text, str):
        return text
    name = type(task).__name__
    raise InputError(f"line {number}: task {name} takes texts, not words; give a text")
