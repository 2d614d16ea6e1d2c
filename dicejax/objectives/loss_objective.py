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
from dicejax.objectives.objective import LabelCounts, Objective, State, objective


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

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the loss of logits `[..., C]` against labels, a scalar."""
        return self.loss_and_state(logits, labels, ())[0]

    def loss_and_state(
        self, logits: Array, labels: Array, state: State, counts: LabelCounts = None
    ) -> tuple[Array, State]:
        """Return the loss of one output, and the next state."""
        values, state = self.values(logits, labels, state)
        counts = self._counts(labels) if counts is None else counts
        return self._mean(values, logits, labels, counts), state

    def values(
        self, logits: Array, labels: Array, state: State = (), **layout: Any
    ) -> tuple[Array, State]:
        """Return the loss of one output, unreduced, and the next state."""
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

    def elements(self, targets: Mapping[str, Array]) -> LabelCounts:
        """Return the numbers of labels and of labelled elements, `[2]`."""
        if not self.is_additive:
            return super().elements(targets)
        return self._counts(targets[self._output_among(targets)])

    def _counts(self, labels: Array) -> LabelCounts:
        """Return the numbers of labels and of elements that have one, `[2]`."""
        seen = labels != MASKED_LABEL
        return jnp.stack([jnp.sum(seen), jnp.sum(jnp.any(seen, axis=-1))])

    def _mean(
        self, values: Array, logits: Array, labels: Array, counts: LabelCounts
    ) -> Array:
        """Return the sum of values, divided by the count that their shape is of."""
        del logits
        if values.ndim < labels.ndim:  # of all classes of an element
            return values.sum() / jnp.maximum(counts[1], 1)
        if values.ndim > labels.ndim:  # of each class, for labels that name one
            values = values.mean(axis=-1)
        values = jnp.where(labels == MASKED_LABEL, 0, values)
        return values.sum() / jnp.maximum(counts[0], 1)

    def with_class_counts(self, class_counts: Mapping[str, np.ndarray]) -> Objective:
        """Return the objective with the counts of its output, if it takes any."""
        if not self._wants_counts or vars(self)["class_counts"]:
            return self
        name = self._output_among(class_counts)
        if name not in class_counts:
            raise ValueError(
                f"objective {self._name} needs class counts, which output {name!r} has"
                " none of: its labels are positions"
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
