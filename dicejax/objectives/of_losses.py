"""Objectives of registered losses: how a batch is reduced, by the kind of the loss."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dicejax.losses import contract
from dicejax.losses.contract import MASKED_LABEL
from dicejax.losses.declaration import REGISTRY, Declaration
from dicejax.losses.documentation import described_arguments
from dicejax.objectives.objective import LabelCounts, Objective, State, objective


@objective
class LossObjective(Objective):
    """The objective of a registered loss; a subclass has its hyper-parameters.

    A "pointwise" loss is averaged over the labels of a batch; so is a "batch" or a
    "stateful" one, on the logits of the whole batch; a "set" loss is averaged over
    classes, and over sets.

    Args:
      output: output whose logits and labels the loss reads; None for all outputs of the
        task.
    """

    declaration: ClassVar[Declaration]

    @property
    def is_of_a_set(self) -> bool:
        """Whether it compares classes over a set of elements, such as the batch."""
        return self.declaration.kind == "set" and self._layout.get("axis") != ()

    @property
    def is_additive(self) -> bool:
        """Whether the loss of a batch is a mean over its labels, and has no state."""
        kind = self.declaration.kind
        return kind == "pointwise" or (kind == "set" and not self.is_of_a_set)

    def initial_state(self) -> State:
        """Return the state before the first batch, empty for most losses."""
        make = self.declaration.initial_state
        if make is None:
            return ()
        return make(**{name: getattr(self, name) for name in _parameters(make)})

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the loss of logits `[..., C]` against labels, a scalar."""
        return self.loss_and_state(logits, labels, ())[0]

    def loss_and_state(
        self, logits: Array, labels: Array, state: State
    ) -> tuple[Array, State]:
        """Return the loss of one output, and the next state."""
        values, state = self.values(logits, labels, state)
        if self.is_of_a_set:
            return values.mean(), state
        total, place = _total(values, labels)
        return total / jnp.maximum(_counts(labels)[place], 1), state

    def values(
        self, logits: Array, labels: Array, state: State = ()
    ) -> tuple[Array, State]:
        """Return the loss of one output, unreduced, and the next state."""
        declared, several = self.declaration, is_multi_label(logits, labels)
        takes = declared.takes
        settings = {
            one.name: getattr(self, one.name)
            for one in dataclasses.fields(self)
            if one.name in takes
        }
        settings |= self._layout
        if "class_counts" in takes:
            settings["class_counts"] = self._class_counts(logits, labels)
        if declared.multi_label:
            labels = to_multi_label(logits, labels)
        elif "multi_label" in takes:
            settings["multi_label"] = several
        elif several and "class_axis" in takes:
            return _of_each_class(declared.function, logits, labels, settings), state
        if declared.initial_state is None:
            return declared.function(logits, labels, **settings), state
        state = state or self.initial_state()
        return declared.function(logits, labels, state, **settings)

    def elements(self, targets: Mapping[str, Array]) -> LabelCounts:
        """Return the numbers of labels and of labelled elements, `[2]`.

        The shape of the loss's values decides which of the two its mean divides by.
        """
        if not self.is_additive:
            return super().elements(targets)
        return _counts(targets[self._one_of(targets)])

    def contribution(
        self,
        outputs: Mapping[str, Array],
        targets: Mapping[str, Array],
        whole: LabelCounts,
        progress: float | Array = 0.0,
    ) -> Array:
        """Return a micro-batch's contribution to the loss of the batch, a scalar."""
        del progress
        self.elements(targets)
        name = self._one_of(outputs)
        values, _ = self.values(outputs[name], targets[name])
        total, place = _total(values, targets[name])
        return total / jnp.maximum(whole[place], 1)

    def with_class_counts(self, class_counts: Mapping[str, np.ndarray]) -> Objective:
        """Return the objective with the counts of its output, if it takes any."""
        if not self._wants_counts or vars(self)["class_counts"]:
            return self
        name = self._one_of(class_counts)
        if name not in class_counts:
            raise ValueError(
                f"objective {self._name} needs class counts, which output {name!r} has"
                " none of: its labels are positions"
            )
        counts = np.maximum(class_counts[name], 1)
        found: dict[str, Any] = {"class_counts": tuple(map(float, counts.ravel()))}
        return dataclasses.replace(self, **found)

    @property
    def _wants_counts(self) -> bool:
        takes = "class_counts" in self.declaration.takes
        return takes and getattr(self, "scheme", None) != "none"

    @property
    def _layout(self) -> Mapping[str, Any]:
        """The keywords of the set that `over` names."""
        over = self.declaration.over
        return over[vars(self)["over"]] if over else {}

    def _class_counts(self, logits: Array, labels: Array) -> Array | None:
        """Return the counts that the loss takes: `[C]`, or `[C, 2]` if multi-label."""
        if not self._wants_counts:
            return None
        given = vars(self)["class_counts"]
        if not given:
            raise ValueError(
                "class_counts is empty: call `with_class_counts` with those of the "
                "training data"
            )
        classes, several = logits.shape[-1], is_multi_label(logits, labels)
        shape = (classes, 2) if several else (classes,)
        if len(given) != math.prod(shape):
            form = " in the multi-label form" if several else ""
            raise ValueError(
                f"class_counts has {len(given)} numbers but {classes} "
                f"classes{form} want {math.prod(shape)}"
            )
        counts = jnp.stack([jnp.asarray(one, float) for one in given])
        counts = counts.reshape(shape)
        if self.declaration.multi_label and not several:
            others = jnp.maximum(jnp.sum(counts) - counts, 0.5)  # if there is one class
            counts = jnp.stack([others, counts], axis=-1)
        return counts


def _of_each_class(
    function: Callable, logits: Array, labels: Array, settings: dict[str, Any]
) -> Array:
    """Apply the binary form to each class of the last axis."""
    counts = settings.pop("class_counts", None)

    def binary(logits: Array, labels: Array, counts: Array | None) -> Array:
        own = {} if counts is None else {"class_counts": counts}
        return function(logits, labels, class_axis=None, **settings, **own)

    return jax.vmap(binary, (-1, -1, 0), -1)(logits, labels, counts)


def _total(values: Array, labels: Array) -> tuple[Array, int]:
    """Return the sum of a loss's values, and the index of its divisor in `_counts`."""
    if values.ndim > labels.ndim:  # of each class, for labels that name one
        values = values.mean(axis=-1)
    if values.ndim < labels.ndim:  # of all classes of an element
        return values.sum(), 1
    return jnp.where(labels == MASKED_LABEL, 0, values).sum(), 0


def _counts(labels: Array) -> Array:
    """Return the numbers of unmasked labels and of elements that have one."""
    seen = labels != MASKED_LABEL
    return jnp.stack([jnp.sum(seen), jnp.sum(jnp.any(seen, axis=-1))])


def is_multi_label(logits: Array, labels: Array) -> bool:
    """Return whether labels are 0 or 1 for each class, not one class each."""
    return labels.ndim == logits.ndim


def to_multi_label(logits: Array, labels: Array) -> Array:
    """Return labels shaped like the logits, one-hot if they name a class."""
    if is_multi_label(logits, labels):
        return labels
    one_hot = (labels[..., None] == jnp.arange(logits.shape[-1])).astype(jnp.int32)
    return jnp.where(labels[..., None] == MASKED_LABEL, MASKED_LABEL, one_hot)


@functools.wraps(contract.loss)
def loss(*names: Any, **declared: Any) -> Callable:
    """Declare a loss and its objective; see `dicejax.losses.contract.loss`."""

    def decorate(formula: Callable) -> Callable:
        function = contract.loss(*names, **declared)(formula)
        class_of(function.declaration)
        return function

    return decorate


def class_of(declaration: Declaration) -> type[LossObjective]:
    """Make the objective of a loss, and store it as the loss's `objective`."""
    members: dict[str, Any] = {
        # That of an experiment file is no module, where help would look for a source.
        "__module__": __package__,
        "__annotations__": {},
        "declaration": declaration,
        "short_name": declaration.short_name,
    }
    for name, (hint, default) in declaration.settings().items():
        bounds = declaration.bounds.get(name)
        members["__annotations__"][name] = hint
        members[name] = dataclasses.field(
            default=default, metadata={"range": bounds and bounds.tuning}
        )
    if declaration.over:
        choices = tuple(declaration.over)
        members["__annotations__"]["over"] = Literal[choices]
        members["over"] = choices[0]
    members["__doc__"] = _docstring(declaration, list(members["__annotations__"]))
    cls = objective(type(declaration.class_name, (LossObjective,), members))
    vars(declaration.function)["objective"] = cls
    return cls


def _docstring(declaration: Declaration, fields: list[str]) -> str:
    """Return the loss's summary and a line for each field, for help and reference."""
    text = inspect.getdoc(declaration.function) or ""
    told = described_arguments(LossObjective.__doc__ or "")
    for one in filter(None, (declaration.function, declaration.initial_state)):
        told |= described_arguments(inspect.getdoc(one) or "")
    told["over"] = "the set: " + " or ".join(map(repr, declaration.over)) + "."
    told["class_counts"] = (
        "how often each class occurs, in the multi-label form its 0s and then its 1s; "
        "taken from the training data if empty."
    )
    lines = [f"  {name}: {told.get(name, '')}" for name in ("output", *fields)]
    return "\n".join([text.partition("\n\n")[0], "", "Args:", *lines])


def _parameters(function: Callable) -> list[str]:
    return list(inspect.signature(function).parameters)


for _declaration in REGISTRY.values():
    class_of(_declaration)
