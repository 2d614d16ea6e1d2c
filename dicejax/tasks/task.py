"""The base class of tasks: from examples to arrays, from outputs to scores."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import numpy as np
from jax import Array
from tokenizers import Tokenizer

from dicejax.data.pack import BatchLayout
from dicejax.errors import InputError
from dicejax.metrics.scores import Scores
from dicejax.metrics.thresholds import TunedThreshold
from dicejax.models.heads import Head

IGNORED = -100
"""The label of what the loss leaves out."""

Outputs = Mapping[str, np.ndarray]
"""The network's outputs for one item, by name; see `Predicted`."""


@dataclasses.dataclass(frozen=True)
class Item:
    """One sequence for the network. An example may need several.

    Attributes:
      arrays: as the task's layout names them: int `[n]` for each token, or one number.
      example: which example it is of.
      detail: what decoding has to know of it.
    """

    arrays: Mapping[str, Any]
    example: int
    detail: Any = None

    def __len__(self) -> int:
        return len(self.arrays["input_ids"])


class Target(NamedTuple):
    """The training target of one output of the network.

    Attributes:
      kind: "classes": logits `[..., C]`, labels `[...]` of one class. "multi_label":
        logits and labels `[..., C]`, each class 0 or 1 by itself. "positions": logits
        `[..., T]`, the label is a place in the row.
      classes: their names, the negative one first where there is one; those that are
        "multi_label" have none. Empty for positions.
      has_negative: whether the first class says that there is nothing to find.
    """

    kind: Literal["classes", "multi_label", "positions"]
    classes: tuple[str, ...] = ()
    has_negative: bool = False


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Predicted:
    """The arrays that prediction takes from the device, by name.

    Attributes:
      tokens: `[B, T, ...]`, one entry a token.
      sequences: `[B, S, ...]`, one entry for each item of a packed row.
      pairs: `[B, T, T]`, one entry for each pair of tokens.
    """

    tokens: dict[str, Array] = dataclasses.field(default_factory=dict)
    sequences: dict[str, Array] = dataclasses.field(default_factory=dict)
    pairs: dict[str, Array] = dataclasses.field(default_factory=dict)

    def item(self, row: int, number: int, start: int, end: int) -> Outputs:
        """Cut out what belongs to one item; arrays must lie on the host.

        Args:
          row: of the batch.
          number: which item of the row it is, from 0.
          start: its first token in the row.
          end: the token behind its last.
        """
        here = slice(start, end)
        return (
            {name: values[row, here] for name, values in self.tokens.items()}
            | {name: values[row, number] for name, values in self.sequences.items()}
            | {name: values[row, here, here] for name, values in self.pairs.items()}
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task(abc.ABC):
    """The settings of a task; a subclass for each kind of task.

    A prediction is made in three steps: on the device `predicted` reduces logits to
    what decoding needs; on the host `decode` finds candidates, with their scores; and
    `decide` chooses among them by a threshold, if the task has one.
    """

    takes: ClassVar[tuple[type, ...]]  # the kinds of examples
    primary_metric: ClassVar[str] = "f1"  # the score that selects the best checkpoint
    reads_words: ClassVar[bool] = True  # or raw text
    default_threshold: ClassVar[float | None] = None  # None: nothing is decided by one

    def adapt(self, examples: Sequence[Any]) -> Sequence[Any]:
        """Return examples of the one kind that the other methods know.

        Raises:
          InputError: the data is of another kind of task.
        """
        for example in examples:
            if not isinstance(example, self.takes):
                wanted = " or ".join(kind.__name__ for kind in self.takes)
                raise InputError(
                    f"task {type(self).__name__} takes {wanted}, but the data holds "
                    f"{type(example).__name__}; choose another task or another reader"
                )
        return examples

    @property
    def tunes_threshold(self) -> bool:
        """Whether the decision threshold is to be tuned on the dev split."""
        return False

    @property
    def loss_weights(self) -> Mapping[str, float]:
        """The weight of each output's loss in the sum; 1 where it says nothing."""
        return {}

    @abc.abstractmethod
    def label_names(self, examples: Sequence[Any]) -> tuple[str, ...]:
        """Return the labels the network chooses from."""

    @abc.abstractmethod
    def texts(self, examples: Sequence[Any]) -> Iterable[str]:
        """Yield words or texts, from which a vocabulary can be learnt."""

    @abc.abstractmethod
    def heads(self, labels: Sequence[str]) -> tuple[tuple[str, Head], ...]:
        """Return the heads that the network needs, each with its name."""

    @abc.abstractmethod
    def targets(self, labels: Sequence[str]) -> dict[str, Target]:
        """Return what each output of the heads is trained towards, by its name."""

    @abc.abstractmethod
    def layout(self, tokenizer: Tokenizer) -> BatchLayout:
        """Return what the arrays of an item are, and what fills a packed row."""

    @abc.abstractmethod
    def encode(
        self,
        examples: Sequence[Any],
        tokenizer: Tokenizer,
        labels: Sequence[str],
        max_length: int,
    ) -> list[Item]:
        """Encode examples for the network, in their order.

        What is longer than `max_length` is cut; gold is not, so what cannot be
        predicted counts as missed.

        Args:
          examples: as `adapt` returns them.
          tokenizer: reads words or texts, as `reads_words` says.
          labels: as `label_names` returns them.
          max_length: pieces per item, the special ones included.

        Raises:
          InputError: `max_length` leaves no room.
        """

    def loss_inputs(
        self, outputs: Mapping[str, Array], batch: Mapping[str, Array]
    ) -> tuple[Mapping[str, Array], Mapping[str, Array]]:
        """Return logits and labels as the objective takes them, both by output.

        Args:
          outputs: the network's logits.
          batch: the arrays of the batch.
        """
        return outputs, batch

    @property
    def labels_follow_outputs(self) -> bool:
        """Whether the labels that `loss_inputs` makes depend on the logits."""
        return False

    def class_counts(
        self, items: Sequence[Item], labels: Sequence[str]
    ) -> dict[str, np.ndarray]:
        """Count the labels of items, by output; `IGNORED` ones are left out.

        Returns:
          int `[C]` where one class is chosen; `[C, 2]` where each is 0 or 1. Outputs
          whose labels are positions have no counts.
        """
        counts = {}
        for name, target in self.targets(labels).items():
            if target.kind == "positions":
                continue
            columns = [np.atleast_1d(item.arrays[name]) for item in items]
            values = np.concatenate(columns) if columns else np.zeros(0, int)
            known = values[values >= 0]
            if target.kind == "multi_label":
                counts[name] = np.bincount(known, minlength=2)[None]
            else:
                counts[name] = np.bincount(known, minlength=len(target.classes))
        return counts

    @abc.abstractmethod
    def predicted(
        self, outputs: Mapping[str, Array], batch: Mapping[str, Array]
    ) -> Predicted:
        """Reduce logits to what decoding needs, on the device."""

    @abc.abstractmethod
    def decode(
        self,
        example: Any,
        items: Sequence[Item],
        outputs: Sequence[Outputs],
        labels: Sequence[str],
    ) -> Any:
        """Find what one example may hold, with scores where `decide` needs them.

        Args:
          example: as it was encoded.
          items: the items of this example.
          outputs: what `predicted` gave for each of them.
          labels: as `label_names` returns them.
        """

    def decide(self, found: Any, threshold: float | None = None) -> Any:
        """Choose the prediction among what `decode` found.

        Args:
          found: of one example.
          threshold: None takes the task's default.
        """
        del threshold
        return found

    def tune(
        self, examples: Sequence[Any], found: Sequence[Any], labels: Sequence[str]
    ) -> TunedThreshold:
        """Choose the threshold that scores best on examples.

        Raises:
          ValueError: nothing of this task is decided by a threshold.
        """
        del examples, found, labels
        raise ValueError(f"{type(self).__name__} decides nothing by a threshold")

    @abc.abstractmethod
    def score(
        self,
        examples: Sequence[Any],
        predictions: Sequence[Any],
        labels: Sequence[str],
    ) -> Scores:
        """Compare predictions with the gold of their examples."""

    def score_found(
        self,
        examples: Sequence[Any],
        found: Sequence[Any],
        labels: Sequence[str],
        threshold: float | None = None,
    ) -> Scores:
        """Decide what was found in each example, and score that."""
        predictions = [self.decide(one, threshold) for one in found]
        return self.score(examples, predictions, labels)

    def example_statistics(
        self,
        examples: Sequence[Any],
        predictions: Sequence[Any],
        labels: Sequence[str],
    ) -> np.ndarray:
        """Return what each example adds to the primary metric.

            primary_metric = mean_c(sum_n shares[n, c, 0] / sum_n shares[n, c, 1])

        with 0 for 0 / 0: statistics over examples draw from these. Here the primary
        metric is a mean over examples; a task with another kind of score says so.

        Args:
          examples: of a split.
          predictions: what was decided for each.
          labels: as `label_names` returns them.

        Returns:
          float `[N, C, 2]`, numerators and denominators; C is 1 for scores that do not
          average over classes.

        Raises:
          InputError: the primary metric is no such quotient.
        """
        pairs = [
            (self.score([one], [prediction], labels).values[self.primary_metric], 1.0)
            for one, prediction in zip(examples, predictions, strict=True)
        ]
        return np.array(pairs).reshape(-1, 1, 2)

    @abc.abstractmethod
    def warnings(
        self,
        split: str,
        examples: Sequence[Any],
        items: Sequence[Item],
        labels: Sequence[str],
    ) -> list[str]:
        """Return warnings about an encoded split, a sentence each.

        Above all: how much gold cannot be predicted, and why.
        """

    @abc.abstractmethod
    def parse(self, line: str, number: int) -> Any:
        """Make an example without gold of a line of text.

        Args:
          line: not blank.
          number: of the line, from 1.

        Raises:
          InputError: the line lacks a part.
        """

    @abc.abstractmethod
    def show(self, example: Any, prediction: Any) -> tuple[dict[str, Any], list[str]]:
        """Present a prediction: for JSON, and as lines for the terminal."""
