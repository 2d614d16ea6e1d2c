"""The objective of a registered loss: how the loss of a batch is reduced."""

from __future__ import annotations

import dataclasses
import inspect
import math
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dicejax.losses.contract import MASKED_LABEL
from dicejax.losses.declaration import REGISTRY, Declaration
from dicejax.objectives.gold import Gold, as_gold
from dicejax.objectives.objective import (
    LabelCounts,
    Objective,
    State,
    Targets,
    _Target,
    objective,
)


class SetCounts(NamedTuple):
    """Numbers of labelled sets, of which an element may be one; parts of a batch add.

    Labels alone do not tell a softmax from several labels, so there are those of both.

    Attributes:
      labelled: sets with a label, and of several labels each class's of an element.
      any_class: the sets in which any class of several has a label.
      by_class: `[C]`, the sets in which each has, for objectives that weigh them.
    """

    labelled: Array
    any_class: Array
    by_class: Array | None = None


@objective
class LossObjective(Objective):
    """The objective of a registered loss; a subclass has its hyper-parameters.

    A "pointwise" loss is averaged over the labels of a batch; so is a "batch" or a
    "stateful" one, on the logits of the whole batch. For a "set" loss see
    `SetObjective`.
    """

    declaration: ClassVar[Declaration]

    @property
    def is_additive(self) -> bool:
        """Whether the loss of a batch is a mean over its labels, and has no state."""
        return self.declaration.kind == "pointwise"

    def initial_state(self) -> State:
        """Return the state before the first batch, empty for most losses."""
        make = self.declaration.initial_state
        if make is None:
            return ()
        parameters = inspect.signature(make).parameters
        return make(**{name: getattr(self, name) for name in parameters})

    def check_weights(self) -> None:
        """Check that its loss of a batch is a mean, which weights of examples take.

        Raises:
          ValueError: it is another function of the elements.
        """
        if self.declaration.kind != "pointwise":
            raise ValueError(
                "train has example weights, but the loss of an element depends on "
                "others; take a loss over elements, such as ce, or leave them out"
            )

    def loss(self, logits: Array, labels: Array | Gold) -> Array:
        """Return the loss of logits `[..., C]` against labels, a scalar."""
        return self.loss_and_state(logits, labels, ())[0]

    def loss_and_state(
        self,
        logits: Array,
        labels: Array | Gold,
        state: State,
        counts: LabelCounts = None,
    ) -> tuple[Array, State]:
        """Return the loss of one output, and the next state."""
        gold = as_gold(labels)
        if gold.weights is not None:
            self.check_weights()
        values, state = self.values(logits, gold, state)
        counts = self._counts(gold) if counts is None else counts
        return self._mean(values, logits, gold, counts), state

    def values(
        self, logits: Array, labels: Array | Gold, state: State = (), **layout: Any
    ) -> tuple[Array, State]:
        """Return the loss of one output, unreduced, and the next state."""
        gold = as_gold(labels)
        labels = gold.labels
        declared, several = self.declaration, labels.ndim == logits.ndim
        takes = declared.takes
        settings = {
            field.name: getattr(self, field.name) for field in dataclasses.fields(self)
        } | layout
        settings = {name: settings[name] for name in settings.keys() & takes}
        if "class_counts" in takes:
            counts = self._class_counts(logits.shape[-1], several)
            settings["class_counts"] = counts
        if gold.probabilities is not None:
            seen = labels != MASKED_LABEL
            settings["where"] = jnp.any(seen, axis=-1) if several else seen
            labels = gold.probabilities
        if declared.multi_label:
            labels = to_multi_label(logits, labels)
        elif "multi_label" in takes:
            settings["multi_label"] = several
        elif several and "class_axis" in takes:
            class_counts = settings.pop("class_counts", None)

            def binary(logits: Array, labels: Array, counts: Array | None) -> Array:
                counted = {} if counts is None else {"class_counts": counts}
                counted |= settings | {"class_axis": None}
                return declared.function(logits, labels, **counted)

            each = jax.vmap(binary, (-1, -1, 0), -1)(logits, labels, class_counts)
            return each, state
        if declared.initial_state is None:
            return declared.function(logits, labels, **settings), state
        state = state or self.initial_state()
        return declared.function(logits, labels, state, **settings)

    def elements(self, targets: Targets) -> LabelCounts:
        """Return the numbers of labelled elements, or sets, that a mean divides by."""
        if not self.is_additive:
            return super().elements(targets)
        return self._counts(as_gold(targets[self._output_among(targets)]))

    def _counts(self, gold: Gold) -> SetCounts:
        """Count what is labelled; weights of examples are summed."""
        labels = gold.labels
        by_class = gold.weigh(self._labelled(labels, labels.ndim - 1))
        return SetCounts(
            labelled=jnp.sum(gold.weigh(self._labelled(labels, labels.ndim))),
            any_class=jnp.sum(jnp.max(by_class, axis=-1, initial=0)),
        )

    def _labelled(self, labels: Array, axes: int) -> Array:
        """Return which sets have a label, for elements on the first axes."""
        return labels != MASKED_LABEL  # each element is its own set

    def _mean(
        self, values: Array, logits: Array, gold: Gold, counts: SetCounts
    ) -> Array:
        """Return the mean over labelled sets and classes.

        Values of a set may be one, or one of each class that counts.
        """
        labels, number = gold.labels, counts.labelled
        several = labels.ndim == logits.ndim
        labelled = self._labelled(labels, labels.ndim - several)
        if values.ndim > labelled.ndim:  # of each class, for labels that name one
            values = values.mean(axis=-1)
        elif values.ndim < labelled.ndim:  # of all classes, for several labels
            labelled, number = jnp.any(labelled, axis=-1), counts.any_class
        elif several:
            labelled, number = self._by_class(labelled, counts)
        return jnp.sum(gold.weigh(jnp.where(labelled, values, 0))) / or_one(number)

    def _by_class(self, labelled: Array, counts: SetCounts) -> tuple[Array, Array]:
        """Return which sets have a label of each class that counts, and how many."""
        return labelled, counts.labelled

    def fit(self, target: _Target, counts: np.ndarray | None) -> Objective:
        """Return the objective with the counts of its output, if it takes any."""
        if not self._wants_counts or vars(self)["class_counts"]:
            return self
        if counts is None:
            raise ValueError(
                f"objective {self._name} needs class counts, but the labels of output "
                f"{self.output!r} are positions"
            )
        changes: dict[str, Any] = {
            "class_counts": tuple(map(float, np.maximum(counts, 1).ravel()))
        }
        return dataclasses.replace(self, **changes)

    @property
    def _wants_counts(self) -> bool:
        takes = "class_counts" in self.declaration.takes
        return takes and getattr(self, "scheme", None) != "none"

    def _class_counts(self, classes: int, several: bool) -> Array | None:
        """Return the counts that the loss takes: `[C]`, or `[C, 2]` if multi-label."""
        if not self._wants_counts:
            return None
        class_counts = vars(self)["class_counts"]
        if not class_counts:
            raise ValueError(
                "class_counts is empty: call `bind` with those of the training data"
            )
        shape = (classes, 2) if several else (classes,)
        if len(class_counts) != math.prod(shape):
            form = " in the multi-label form" if several else ""
            raise ValueError(
                f"class_counts has {len(class_counts)} numbers but {classes} "
                f"classes{form} want {math.prod(shape)}"
            )
        counts = jnp.stack([jnp.asarray(count, float) for count in class_counts])
        counts = counts.reshape(shape)
        if self.declaration.multi_label and not several:
            others = jnp.maximum(jnp.sum(counts) - counts, 0.5)  # if there is one class
            counts = jnp.stack([others, counts], axis=-1)
        return counts


def or_one(count: Array) -> Array:
    """Return a count, or a sum of weights, that may be a divisor: 1 for 0."""
    return jnp.where(count > 0, count, 1)


def to_multi_label(logits: Array, labels: Array) -> Array:
    """Return labels shaped like the logits, one-hot if they name a class."""
    if labels.ndim == logits.ndim:
        return labels
    one_hot = (labels[..., None] == jnp.arange(logits.shape[-1])).astype(jnp.int32)
    return jnp.where(labels[..., None] == MASKED_LABEL, MASKED_LABEL, one_hot)


@objective
class PositionCrossEntropy(LossObjective):
    """Cross-entropy of a softmax over the positions of a start, or of an end.

    The usual loss of question answering, and the baseline of the paper's Table 5. With
    it a task whose outputs are positive or negative at each token takes their logits
    for a softmax over the tokens of each window, [CLS] for no answer, and so decodes
    them; network and initial weights are the same.
    """

    short_name: ClassVar[str] = "position_ce"
    declaration: ClassVar[Declaration] = REGISTRY["ce"]

    def fit(self, target: _Target, counts: np.ndarray | None) -> Objective:
        """Return the objective, for labels that are positions."""
        if target.kind != "positions":
            raise ValueError(
                f"reads positions, but labels of output {self.output!r} are classes; "
                "it is for question answering"
            )
        return super().fit(target, counts)
