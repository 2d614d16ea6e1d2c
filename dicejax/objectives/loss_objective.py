"""The objective of a registered loss: how the loss of a batch is reduced."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Mapping
from typing import Any, ClassVar

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
    objective,
)


@objective
class LossObjective(Objective):
    """The objective of a registered loss; a subclass has its hyper-parameters.

    A "pointwise" loss is averaged over the labels of a batch; so is a "batch" or a
    "stateful" one, on the logits of the whole batch. For a "set" loss see
    `SetObjective`.
    """

    takes_gold: ClassVar[bool] = True
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
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name in takes
        }
        settings |= layout
        if "class_counts" in takes:
            settings["class_counts"] = self._class_counts(logits, labels)
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
        """Return the numbers of labels and of labelled elements, `[2]`."""
        if not self.is_additive:
            return super().elements(targets)
        return self._counts(as_gold(targets[self._output_among(targets)]))

    def _counts(self, gold: Gold) -> LabelCounts:
        """Return the numbers of labels and of elements that have one, `[2]`.

        With weights of examples they are the sums of those.
        """
        seen = gold.weigh(gold.labels != MASKED_LABEL)
        return jnp.stack([jnp.sum(seen), jnp.sum(jnp.max(seen, axis=-1, initial=0))])

    def _mean(
        self, values: Array, logits: Array, gold: Gold, counts: LabelCounts
    ) -> Array:
        """Return the sum of values, divided by the count that their shape is of."""
        del logits
        if values.ndim < gold.labels.ndim:  # of all classes of an element
            return gold.weigh(values).sum() / or_one(counts[1])
        if values.ndim > gold.labels.ndim:  # of each class, for labels that name one
            values = values.mean(axis=-1)
        values = jnp.where(gold.labels == MASKED_LABEL, 0, values)
        return gold.weigh(values).sum() / or_one(counts[0])

    def with_class_counts(self, class_counts: Mapping[str, np.ndarray]) -> Objective:
        """Return the objective with the counts of its output, if it takes any."""
        if not self._wants_counts or vars(self)["class_counts"]:
            return self
        name = self._output_among(class_counts)
        if name not in class_counts:
            raise ValueError(
                f"objective {self._name} needs class counts, but the labels of output "
                f"{name!r} are positions"
            )
        counts = np.maximum(class_counts[name], 1)
        changes: dict[str, Any] = {"class_counts": tuple(map(float, counts.ravel()))}
        return dataclasses.replace(self, **changes)

    @property
    def _wants_counts(self) -> bool:
        takes = "class_counts" in self.declaration.takes
        return takes and getattr(self, "scheme", None) != "none"

    def _class_counts(self, logits: Array, labels: Array) -> Array | None:
        """Return the counts that the loss takes: `[C]`, or `[C, 2]` if multi-label."""
        if not self._wants_counts:
            return None
        class_counts = vars(self)["class_counts"]
        if not class_counts:
            raise ValueError(
                "class_counts is empty: call `with_class_counts` with those of the "
                "training data"
            )
        classes, several = logits.shape[-1], labels.ndim == logits.ndim
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
    reads_positions: ClassVar[bool] = True
