"""Base class of tasks: examples to arrays, outputs to predictions and scores."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import numpy as np
from jax import Array
from numpy.typing import ArrayLike
from tokenizers import Tokenizer

from dicejax.data import tokenize
from dicejax.data.pack import BatchLayout
from dicejax.data.tokenize import EncodedText
from dicejax.errors import InputError, quote
from dicejax.metrics.scores import Scores, as_f1, class_of
from dicejax.metrics.thresholds import TunedThreshold
from dicejax.models.heads import Head
from dicejax.tasks.judged import Judged, ThresholdRule
from dicejax.tasks.remarks import Fit, Remark, cut_inputs
from dicejax.tasks.windows import Cuts

IGNORED = -100
"""The label of elements left out of the loss."""
PROBABILITIES = "_probabilities"
"""The end of the name of an item's array with the soft label of an output."""

Examples = Sequence[Any]
Labels = Sequence[str]
Arrays = Mapping[str, Array]

Output = Mapping[str, np.ndarray]
"""The network's outputs for one item, by name; see `Predicted`."""
Outputs = Sequence[Output]


@dataclasses.dataclass(frozen=True)
class Item:
    """One input sequence; an example may need several.

    Attributes:
      arrays: as in the task's layout: int `[n]` for each token, or one number.
      example: index of the example.
      detail: information for decoding.
      is_cut: whether a part of the input is cut off, and in no other item.
    """

    arrays: Mapping[str, Any]
    example: int
    detail: Any = None
    is_cut: bool = False

    def __len__(self) -> int:
        return len(self.arrays["input_ids"])


Items = Sequence[Item]


class Target(NamedTuple):
    """The training target of one output of the network.

    Attributes:
      kind: "classes": logits `[..., C]`, labels `[...]` of one class. "multi_label":
        logits and labels `[..., C]`, each class 0 or 1 independently. "positions":
        logits `[..., T]`, the label is a place in the row.
      classes: their names, the negative one first where there is one. Empty for
        positions.
      has_negative: whether the first class is the negative one.
      weight: that of the output's loss in the sum.
      follows_outputs: whether the labels of `loss_inputs` depend on the logits.
    """

    kind: Literal["classes", "multi_label", "positions"]
    classes: tuple[str, ...] = ()
    has_negative: bool = False
    weight: float = 1.0
    follows_outputs: bool = False


@dataclasses.dataclass(frozen=True, slots=True)  # of a split there are many
class Prediction:
    """Labels or spans in one example, and the probabilities behind them.

    Attributes:
      values: a label per word, the spans, or the labels of a text.
      probabilities: one per value, None where a word has no piece; of a text those of
        all labels by name.
      word_probabilities: that of each word's tag, where `values` are spans of tags.
    """

    values: Sequence[Any]
    probabilities: Any = None
    word_probabilities: Sequence[float | None] | None = None


Predictions = Sequence[Prediction]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Predicted:
    """Arrays that prediction takes from the device, by name; later they are NumPy's.

    Attributes:
      tokens: `[B, T, ...]`, one entry per token.
      sequences: `[B, S, ...]`, one entry per item of a packed row.
      pairs: `[B, T, T]`, one entry per pair of tokens.
    """

    tokens: dict[str, Any] = dataclasses.field(default_factory=dict)
    sequences: dict[str, Any] = dataclasses.field(default_factory=dict)
    pairs: dict[str, Any] = dataclasses.field(default_factory=dict)

    def item(self, row: int, number: int, start: int, end: int) -> Output:
        """Return the entries of an item, in tokens `[start, end)` of a row.

        The arrays must be on the host; `number` is the index of the item in the row.
        """
        places = slice(start, end)
        return (
            {name: values[row, places] for name, values in self.tokens.items()}
            | {name: values[row, number] for name, values in self.sequences.items()}
            | {name: values[row, places, places] for name, values in self.pairs.items()}
        )


RENAMED = {
    "labelled": ("class_names", "classes_in", "count"),
    "threshold_rule": ("constraint", "default_threshold", "tunes_threshold"),
    "targets": ("labels_follow_outputs", "loss_weights", "soften"),
    "judge": ("score_sign",),
    "fit": ("readings",),
    "remarks": ("warnings",),
}
"""What a task defines, and what it defined for it in earlier versions."""


class TaskSettings:
    """Settings that only some tasks have, with what holds for the others."""

    primary_metric: str = "f1"  # the score that selects the best checkpoint
    prompt: bool = False  # whether each sentence answers a prompt


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task(TaskSettings, abc.ABC):
    """Base class of tasks: codec, targets, scores, and statistics of their examples.

    A prediction is made in three steps: on the device `reduce_logits`; on the host
    `decode` finds candidates, with their scores; and `decide` chooses among them by a
    threshold, if the task has one.

    A text longer than `max_length` is read in windows that overlap. Each word is
    trained and predicted in the one that shows most of its surroundings, and so is each
    span, of those that show all of it.

    Args:
      stride: overlap of neighbouring windows in pieces, at most half of a window.
    """

    takes: ClassVar[tuple[type[Any], ...]]  # the kinds of examples
    reads_words: ClassVar[bool] = True  # or raw text
    reads_context: ClassVar[bool] = False  # the words around a sentence
    cut_text: ClassVar[str] = ""  # warning of inputs cut off, with `split` and `cuts`
    metrics: ClassVar[tuple[str, ...]] = ()  # others than that of one class
    noun: ClassVar[str] = "class"  # what scores are grouped by, in sentences
    unit: ClassVar[str] = "example"  # an example, in sentences
    has_controls: ClassVar[bool] = False  # whether `dicejax.controls` fit it

    stride: int = 64

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, earlier in RENAMED.items():
            for old in vars(cls).keys() & {*earlier}:
                raise InputError(
                    f"task {cls.__name__} defines {old}, which tasks no longer have; "
                    f"define {name}"
                )

    def __post_init__(self) -> None:
        if self.stride < 0:
            raise ValueError(f"stride is {self.stride}; want 0 or more")
        is_choice = not self.metrics or as_f1(self.primary_metric) in self.metrics
        if not is_choice and not class_of(self.primary_metric):
            raise ValueError(
                f"primary_metric is {quote(self.primary_metric)}; want "
                f"{', '.join(self.metrics)}, or f1:NAME for the F1 of one {self.noun}; "
                "with another beta than 1 as f2 or f0.5"
            )
        _ = self.threshold_rule  # its errors

    def adapt(self, examples: Examples) -> Sequence[Any]:
        """Return examples in the form that the other methods take.

        Raises:
          InputError: the data is of another kind of task, or has context or prompts
            that it does not read, or lacks them.
        """
        task = f"task {type(self).__name__}"
        for example in examples:
            if not isinstance(example, self.takes):
                kinds = " or ".join(kind.__name__ for kind in self.takes)
                raise InputError(
                    f"{task} takes {kinds}, but the data holds "
                    f"{type(example).__name__}; choose another task or another reader"
                )
            around = (getattr(example, side, ()) for side in ("before", "after"))
            prompt = getattr(example, "prompt", "")
            if any(around) and not self.reads_context:
                raise InputError(
                    f"{task} reads no context of a sentence; leave out --data.context, "
                    "or take Tagging or WordTagging"
                )
            if prompt and not self.prompt:
                raise InputError(
                    f"line {example.line} has a prompt, which {task} does not read; "
                    "take Tagging, WordTagging or JointTagging with --task.prompt, or "
                    "leave the prompts out"
                )
            if self.prompt and not prompt.strip():
                raise InputError(
                    f"line {example.line} has no prompt, and the task reads a prompt "
                    "and its answer; add it, or leave out --task.prompt"
                )
        return examples

    @abc.abstractmethod
    def texts(self, examples: Examples) -> Iterable[str]:
        """Yield words or texts, to learn a vocabulary from."""

    @abc.abstractmethod
    def layout(self, tokenizer: Tokenizer) -> BatchLayout:
        """Return the layout of an item's arrays and their fill values."""

    @abc.abstractmethod
    def encode(
        self, examples: Examples, tokenizer: Tokenizer, labels: Labels, max_length: int
    ) -> list[Item]:
        """Encode examples of `adapt` for the network, in their order.

        Inputs are cut to windows of `max_length` pieces, the special ones included, or
        truncated; gold is not. The tokenizer is of words or texts, see `reads_words`.

        Raises:
          InputError: `max_length` leaves no room.
        """

    @abc.abstractmethod
    def reduce_logits(self, outputs: Arrays, batch: Arrays) -> Predicted:
        """Reduce logits to the input of decoding, on the device."""

    @abc.abstractmethod
    def decode(
        self, example: Any, items: Items, outputs: Outputs, labels: Labels
    ) -> Any:
        """Return candidates of an example, with scores where `decide` needs them."""

    def decide(self, candidates: Any, threshold: Any = None) -> Any:
        """Choose the prediction among the candidates of one example.

        The threshold is one that `tune` found; None takes the task's default.
        """
        return candidates

    @abc.abstractmethod
    def parse(self, text: str | Sequence[str], number: int) -> Any:
        """Parse a line that is not blank, or words, as an example without gold.

        Words may hold spaces.

        Raises:
          InputError: the line lacks a part, or the task takes no words.
        """

    @abc.abstractmethod
    def show(self, example: Any, prediction: Any) -> tuple[dict[str, Any], list[str]]:
        """Format a prediction as JSON, and as lines for the terminal."""

    @abc.abstractmethod
    def label_names(self, examples: Examples) -> tuple[str, ...]:
        """Return the labels of the network."""

    @abc.abstractmethod
    def heads(self, labels: Labels) -> tuple[tuple[str, Head], ...]:
        """Return the heads of the network by name."""

    @abc.abstractmethod
    def targets(self, labels: Labels) -> dict[str, Target]:
        """Return the training target of each output, by name."""

    def class_counts(self, items: Items, labels: Labels) -> dict[str, np.ndarray]:
        """Count the labels of items, by output; `IGNORED` ones are left out.

        The counts are int `[C]`, or `[C, 2]` where each class is 0 or 1. There are none
        of positions, and of outputs that items hold no labels of.
        """
        counts = {}
        for name, target in self.targets(labels).items():
            if target.kind == "positions" or (items and name not in items[0].arrays):
                continue
            columns = [np.atleast_1d(item.arrays[name]) for item in items]
            values = np.concatenate(columns) if columns else np.zeros(0, int)
            classes = len(target.classes)
            if target.kind == "multi_label":
                rows = values.reshape(-1, max(classes, 1))
                counts[name] = np.stack([(rows == n).sum(0) for n in (0, 1)], axis=-1)
            else:
                counts[name] = np.bincount(values[values >= 0], minlength=classes)
        return counts

    def loss_inputs(self, outputs: Arrays, batch: Arrays) -> tuple[Arrays, Arrays]:
        """Return logits and labels by output, as the objective takes them."""
        return outputs, batch

    def with_labels(self, labels: Labels) -> Any:
        """Return the task that gives these labels again, whatever it is trained on."""
        return self

    def over_positions(self, positions: bool) -> Any:
        """Return the task whose labels are positions, or are not.

        The same task where it cannot have both. Going back and forth restores it.
        """
        return self

    @abc.abstractmethod
    def score(
        self, examples: Examples, predictions: Sequence[Any], labels: Labels
    ) -> Scores:
        """Compare predictions with the gold of their examples.

        `dicejax.tasks.scoring.score` checks that `example_statistics` have its metric.
        """

    def example_statistics(
        self, examples: Examples, predictions: Sequence[Any], labels: Labels
    ) -> np.ndarray:
        """Return each example's contribution to the primary metric.

            primary_metric = mean_c(sum_n shares[n, c, 0] / sum_n shares[n, c, 1])

        with 0 / 0 = 0. By default the primary metric is a mean over examples.

        Returns:
          float `[N, C, 2]`, numerators and denominators; C is 1 without class averages.

        Raises:
          InputError: the primary metric is no such quotient.
        """
        pairs = zip(examples, predictions, strict=True)
        scores = [self.score([x], [y], labels).values for x, y in pairs]
        return mean_statistics([values[self.primary_metric] for values in scores])

    def labelled(
        self, example: Any, prediction: Any = None
    ) -> Sequence[tuple[str, Hashable]]:
        """Return what has a label: its class and its place, such as that of a word.

        That is what is predicted, or gold where no prediction is given. The class is ""
        where what counts has none.
        """
        return ()

    @property
    def threshold_rule(self) -> ThresholdRule | None:
        """How the threshold is chosen that decides; None where none does.

        Raises:
          ValueError: the settings contradict each other.
        """
        return None

    def judge(
        self,
        examples: Examples,
        labels: Labels,
        candidates: Sequence[Any] | None = None,
    ) -> Mapping[str, Judged]:
        """Return what a threshold decides, by label.

        Raises:
          ValueError: the task has no threshold.
        """
        raise ValueError(f"{type(self).__name__} decides nothing by a threshold")

    def tune(
        self, examples: Examples, candidates: Sequence[Any], labels: Labels
    ) -> TunedThreshold:
        """Choose the threshold with the best score on examples, or one per label.

        Raises:
          ValueError: the task has no threshold.
        """
        raise ValueError(f"{type(self).__name__} decides nothing by a threshold")

    def fit(self, examples: Examples, items: Items) -> Fit:
        """Count what does not fit in the windows of some examples."""
        counts = np.bincount([item.example for item in items], minlength=len(examples))
        return Fit(count_cuts(items), int((counts > 1).sum()))

    def remarks(
        self, split: str, examples: Examples, fit: Fit, labels: Labels
    ) -> list[Remark]:
        """Return warnings, such as on gold that cannot be predicted.

        They are of the sum of `fit` over parts of a split, by default on inputs that
        are cut off and texts read in windows.

        Raises:
          InputError: the gold of an example is unknown.
        """
        remarks = cut_inputs(self.cut_text, split, fit.cuts)
        if fit.several:
            remarks.append(
                f"{fit.several} of {len(examples)} {split} texts "
                f"({fit.several / len(examples):.0%}) are longer than "
                f"{fit.cuts.longest} tokens and read in windows; "
                "--training.max_length sets their length"
            )
        return remarks


def count_cuts(items: Items) -> Cuts:
    """Count the examples that are cut off; counts of parts of a data set add up."""
    count = len({item.example for item in items if item.is_cut})
    longest = max(map(len, items), default=0)
    return Cuts(count, len({item.example for item in items}), longest)


def mean_statistics(values: ArrayLike) -> np.ndarray:
    """Return the example statistics of a mean of values `[N]`, float `[N, 1, 2]`."""
    column = np.asarray(values, float)
    return np.stack([column, np.ones_like(column)], axis=-1)[:, None]


def token_arrays(pieces: EncodedText) -> dict[str, Any]:
    """Return the input of the network for the pieces of an item."""
    return {"input_ids": pieces.ids, "token_type_ids": pieces.token_types}


def token_fills(tokenizer: Tokenizer) -> dict[str, int]:
    """Return the fill values of `token_arrays`, by name."""
    return {"input_ids": tokenize.pad_id(tokenizer), "token_type_ids": 0}
