"""Classes of texts and of pairs of texts."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import numpy as np
from tokenizers import Tokenizer

from dicejax.data import tokenize
from dicejax.data.examples import LabelledText
from dicejax.data.pack import BatchLayout
from dicejax.errors import InputError, shown
from dicejax.metrics import classification, ranking, thresholds
from dicejax.metrics.scores import Scores
from dicejax.metrics.thresholds import TunedThreshold
from dicejax.models.heads import SequenceHead
from dicejax.tasks import windows
from dicejax.tasks.task import IGNORED, Item, Outputs, Predicted, Target, Task

HEAD = "label"


class Decision(NamedTuple):
    """The prediction for a text.

    Attributes:
      label: the class.
      probabilities: of all classes.
    """

    label: str
    probabilities: dict[str, float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Classification(Task):
    """One class for each text or pair of texts.

    Of two classes the last in the order of their names is the positive one, unless
    `positive` names it; "f1" is its F1, and a threshold on its probability decides. Of
    more classes "f1" is the mean over classes (macro).

    A text longer than `max_length` is cut into windows that overlap: each is trained
    with the text's class, and the mean of their probabilities decides. Of a pair the
    longer text is truncated.

    Args:
      primary_metric: metric that selects the best checkpoint.
      positive: the positive class where there are two; None: the last by name.
      tune_threshold: choose the threshold with the best F1 on dev, instead of 0.5; for
        two classes. Scores with and without it are reported.
      stride: overlap of neighbouring windows in pieces, at most half of a window.
    """

    takes: ClassVar[tuple[type, ...]] = (LabelledText,)
    reads_words: ClassVar[bool] = False
    default_threshold: ClassVar[float | None] = 0.5

    primary_metric: Literal["f1", "accuracy", "matthews"] = "f1"
    positive: str | None = None
    tune_threshold: bool = False
    stride: int = 64

    def __post_init__(self):
        if self.stride < 0:
            raise ValueError(f"stride is {self.stride}; want 0 or more")

    @property
    def tunes_threshold(self) -> bool:
        """Whether the decision threshold is to be tuned on the dev split."""
        return self.tune_threshold

    def label_names(self, examples: Sequence[LabelledText]) -> tuple[str, ...]:
        """Return the classes that occur, the positive one last.

        Raises:
          InputError: an example has no class, there is but one, `positive` is none of
            them, or a threshold is to be tuned and there are more than two.
        """
        _require_labels("train", examples)
        names = sorted({example.label for example in examples})
        listed = ", ".join(map(shown, names))
        if len(names) < 2:
            raise InputError(f"train has {listed or 'no class'} alone; want 2 classes")
        if self.positive is not None and self.positive not in names:
            raise InputError(
                f"positive is {shown(self.positive)}, but the classes are {listed}"
            )
        if len(names) > 2 and (self.positive is not None or self.tune_threshold):
            raise InputError(
                f"positive and tune_threshold are for 2 classes; there are {listed}"
            )
        return tuple(sorted(names, key=lambda name: name == self.positive))

    def texts(self, examples: Sequence[LabelledText]) -> Iterable[str]:
        """Yield the words of all texts."""
        for example in examples:
            yield from example.first.split()
            yield from (example.second or "").split()

    def heads(self, labels: Sequence[str]) -> tuple[tuple[str, SequenceHead], ...]:
        """Return a head with logits of all classes for each sequence."""
        return ((HEAD, SequenceHead(classes=len(labels))),)

    def targets(self, labels: Sequence[str]) -> dict[str, Target]:
        """Return one class per sequence."""
        return {HEAD: Target("classes", tuple(labels), has_negative=len(labels) == 2)}

    def layout(self, tokenizer: Tokenizer) -> BatchLayout:
        """Return the layout of an item's arrays."""
        return BatchLayout(
            tokens={"input_ids": tokenize.pad_id(tokenizer), "token_type_ids": 0},
            sequences={HEAD: IGNORED},
            places={"summary_positions": -1},
        )

    def encode(
        self,
        examples: Sequence[LabelledText],
        tokenizer: Tokenizer,
        labels: Sequence[str],
        max_length: int,
    ) -> list[Item]:
        """Encode texts, in windows, and pairs; the detail: whether a pair was cut.

        The longer text of a pair is truncated; unknown classes are left out of the
        loss.
        """
        index = {label: number for number, label in enumerate(labels)}
        items = []
        for number, (example, whole) in enumerate(
            zip(examples, _pieces(examples, tokenizer), strict=True)
        ):
            for pieces in _fitted(example, whole, max_length, self.stride):
                arrays = {
                    "input_ids": pieces.ids,
                    "token_type_ids": pieces.token_types,
                    HEAD: index.get(example.label, IGNORED),
                    "summary_positions": pieces.summary,
                }
                cut = example.second is not None and len(pieces) < len(whole)
                items.append(Item(arrays, number, cut))
        return items

    def predicted(self, outputs, batch) -> Predicted:
        """Take the probability of each class, `[B, S, C]`."""
        del batch
        return Predicted(sequences={HEAD: jax.nn.softmax(outputs[HEAD], axis=-1)})

    def decode(
        self,
        example: LabelledText,
        items: Sequence[Item],
        outputs: Sequence[Outputs],
        labels: Sequence[str],
    ) -> dict[str, float]:
        """Return the probability of each class, the mean over the windows."""
        del example, items
        mean = np.mean([output[HEAD] for output in outputs], axis=0)
        return dict(zip(labels, mean.tolist(), strict=True))

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
        self,
        examples: Sequence[LabelledText],
        found: Sequence[dict[str, float]],
        labels: Sequence[str],
    ) -> TunedThreshold:
        """Choose the threshold with the best F1 of the positive class."""
        positive = labels[-1]
        return thresholds.tune(
            [one[positive] for one in found],
            [example.label == positive for example in examples],
            default=self.default_threshold,
        )

    def score(
        self,
        examples: Sequence[LabelledText],
        predictions: Sequence[Decision],
        labels: Sequence[str],
    ) -> Scores:
        """Compute F1, accuracy, Matthews' correlation and average precision.

        Raises:
          InputError: an example has no class.
        """
        _require_labels("test", examples)
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
        self,
        examples: Sequence[LabelledText],
        predictions: Sequence[Decision],
        labels: Sequence[str],
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

    def warnings(
        self,
        split: str,
        examples: Sequence[LabelledText],
        items: Sequence[Item],
        labels: Sequence[str],
    ) -> list[str]:
        """Warn of classes that train lacks, and of truncated texts.

        Raises:
          InputError: an example has no class.
        """
        _require_labels(split, examples)
        counts = Counter(example.label for example in examples)
        said = [
            f"{split} has {count} example{'s' if count > 1 else ''} of class "
            f"{shown(label)}, which train lacks: counted as wrong"
            for label, count in sorted(counts.items(), key=str)
            if label is not None and label not in labels
        ]
        cut = sum(item.detail for item in items)
        if cut:
            said.append(
                f"{cut} of {len(items)} {split} pairs ({cut / len(items):.0%}) are cut "
                f"off at {max(map(len, items))} tokens; raise --training.max_length"
            )
        return [*said, *windows.remark(split, examples, items)]

    def parse(self, line: str, number: int) -> LabelledText:
        """Take a text, or two with a tab between them."""
        first, *rest = line.split("\t")
        if len(rest) > 1:
            raise InputError(f"text {number} has {len(rest)} tabs; want one at most")
        second = rest[0] if rest else None
        return LabelledText(first.strip(), second, None, str(number - 1), number)

    def show(
        self, example: LabelledText, prediction: Decision
    ) -> tuple[dict[str, Any], list[str]]:
        """Format the class and its probability."""
        texts = [example.first] + ([] if example.second is None else [example.second])
        record = {"texts": texts, **prediction._asdict()}
        chance = prediction.probabilities[prediction.label]
        return record, [*texts, f"  {prediction.label}  ({chance:.3f})"]


def _require_labels(split: str, examples: Sequence[LabelledText]) -> None:
    without = [example.id for example in examples if example.label is None]
    if without:
        raise InputError(
            f"{len(without)} of {len(examples)} examples of {split} have no label, "
            f"{shown(without[0])} among them: there is nothing to compare with; name a "
            f"labelled one (--data.{split})"
        )


def _fitted(
    example: LabelledText, whole: tokenize.EncodedText, max_length: int, stride: int
) -> Iterator[tokenize.EncodedText]:
    """Yield the windows of a text, or a pair, its longer text truncated."""
    if example.second is None:
        for part in windows.of_text(whole, max_length, stride):
            yield part.encoded
        return
    try:
        yield whole.shortened(max_length, longer_first=True)
    except ValueError as error:
        raise InputError(f"max_length: {error}; make it larger") from error


def _pieces(
    examples: Sequence[LabelledText], tokenizer: Tokenizer
) -> list[tokenize.EncodedText]:
    firsts = [example.first for example in examples]
    pairs = [example.second for example in examples]
    if all(pair is None for pair in pairs):
        return tokenize.encode_texts(tokenizer, firsts)
    if any(pair is None for pair in pairs):
        place = next(n for n, pair in enumerate(pairs) if pair is None)
        raise InputError(
            f"example {examples[place].id} is one text, others are pairs; give all "
            "texts a second, or none"
        )
    return tokenize.encode_texts(tokenizer, firsts, pairs)
