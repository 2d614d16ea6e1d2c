"""Objectives that training minimises, and weighted sums of them."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import (
    Any,
    ClassVar,
    Literal,
    Protocol,
    TypeAlias,
    TypeVar,
    dataclass_transform,
)

import jax
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from dicejax.errors import hint
from dicejax.losses.declaration import Range
from dicejax.objectives.gold import Gold

State: TypeAlias = Any  # a pytree of arrays
Targets: TypeAlias = Mapping[str, Array | Gold]
LabelCounts: TypeAlias = Any  # `SetCounts`, or a tuple of those of members
_Class = TypeVar("_Class", bound=type)

GOLD_REFUSED = (
    "train has example weights or class probabilities, which this objective does not "
    "take; choose a loss over elements, such as ce, or leave them out"
)
NO_COUNTS: Mapping[str, np.ndarray] = types.MappingProxyType({})

CLASSES: dict[str, type[Objective]] = {}
"""The objectives by the name of their class, which JSON carries."""


class _Target(Protocol):
    """What an objective sees of an output: a `Target` of the task."""

    @property
    def kind(self) -> Literal["classes", "multi_label", "positions"]: ...
    @property
    def classes(self) -> tuple[str, ...]: ...
    @property
    def has_negative(self) -> bool: ...
    @property
    def weight(self) -> float: ...


@dataclass_transform(kw_only_default=True, frozen_default=True)
def objective(cls: _Class) -> _Class:
    """Make a class an objective: a frozen dataclass whose floats are pytree leaves.

    Fields whose type is float, or made of floats or objectives, are traced: a new value
    runs the program already compiled. All others are part of the program.
    """
    dataclasses.dataclass(frozen=True, kw_only=True)(cls)
    hints = inspect.get_annotations(cls, eval_str=True)
    for field in dataclasses.fields(cls):
        field.type = hints.get(field.name, field.type)
    return register(cls)


def register(cls: _Class) -> _Class:
    """Make a frozen dataclass an objective, see `objective`."""
    fields = dataclasses.fields(cls)
    traced = {field.name for field in fields if _is_traced(field.type)}
    jax.tree_util.register_dataclass(
        cls,
        data_fields=[field.name for field in fields if field.name in traced],
        meta_fields=[field.name for field in fields if field.name not in traced],
    )
    CLASSES[cls.__name__] = cls
    return cls


def _is_traced(hint: Any) -> bool:
    if typing.get_origin(hint) in (typing.Union, types.UnionType, tuple):
        parts = set(typing.get_args(hint)) - {type(None), Ellipsis}
        return all(map(_is_traced, parts))
    return hint is float or hint in CLASSES.values()


def by_short_name() -> dict[str, type[Objective]]:
    """Return all objectives by their short names."""
    classes = [cls for cls in CLASSES.values() if "short_name" in vars(cls)]
    return {cls.short_name: cls for cls in classes}


def at_defaults(short_name: str) -> Objective:
    """Return an objective at its defaults."""
    return by_short_name()[short_name]()


def tunable(default: Any, low: float, high: float, **how: Any) -> Any:
    """Return a field of an objective that tuning varies; see `Range`."""
    return dataclasses.field(
        default=default, metadata={"range": Range(low=low, high=high, **how)}
    )


@objective
class Objective:
    """A scalar that training minimises, from one or several outputs.

    An output has labels in one of two forms. With one axis less than the logits `[...,
    C]` they name one class of each element (softmax). With the logits' shape they are
    multi-label: 0 or 1 for each class (sigmoid). A mean over labelled elements is then
    one over labelled entries, elements times classes. C may be 1. A label of -100 is
    masked.

    A subclass is decorated with `objective`, declares its hyper-parameters as fields
    and defines `loss`, or `loss_and_state` if it carries state. For a loss that is a
    function, the decorator `dicejax.objectives.loss` makes the subclass.

    Args:
      output: output whose logits and labels the loss reads; None for all outputs of the
        task.
    """

    short_name: ClassVar[str]

    output: str | None = None

    def __call__(
        self,
        outputs: Mapping[str, Array],
        targets: Targets,
        state: State = (),
        progress: float | Array = 0.0,
        counts: LabelCounts = None,
    ) -> tuple[Array, State]:
        """Return the loss of a batch, a float scalar, and the next state.

        Args:
          outputs: logits `[..., C]` by name of the output.
          targets: labels by name of the output, or `Gold`.
          state: state returned by `initial_state` or the previous call.
          progress: completed share of training, in [0, 1].
          counts: the `elements` of the whole batch, where this is a part of it.

        Raises:
          ValueError: no output is named and there are several, or the targets are more
            than it takes.
        """
        del progress
        name = self._output_among(outputs)
        part = () if counts is None else (counts,)
        return self.loss_and_state(outputs[name], targets[name], state, *part)

    def loss_and_state(
        self,
        logits: Array,
        labels: Array | Gold,
        state: State,
        counts: LabelCounts = None,
    ) -> tuple[Array, State]:
        """Return the loss of one output, and the next state."""
        if isinstance(labels, Gold):
            raise ValueError(GOLD_REFUSED)
        return self.loss(logits, labels), state

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the loss of logits `[..., C]` against labels, a scalar."""
        raise TypeError(f"{type(self).__name__} does not define `loss`")

    @property
    def is_additive(self) -> bool:
        """Whether the loss of a batch is a mean over its labels, and has no state.

        Micro-batches then add up to it, by `elements` and `contribution`.
        """
        return False

    def elements(self, targets: Targets) -> LabelCounts:
        """Return the counts that the mean divides by, which depend on the labels alone.

        Those of micro-batches add up to those of the batch. Raises a TypeError if the
        objective is not additive.
        """
        raise TypeError(
            f"objective {self._name} is not additive: the loss of a batch is not a "
            "sum over micro-batches"
        )

    def contribution(
        self,
        outputs: Mapping[str, Array],
        targets: Targets,
        whole: LabelCounts,
        progress: float | Array = 0.0,
    ) -> Array:
        r"""Return a micro-batch's contribution to the loss of the batch, a scalar.

        .. math:: L = \sum_k L_k \frac{n_k}{n}, \qquad n = \sum_k n_k

        with n_k the `elements` of micro-batch k, so gradients can be accumulated. A
        micro-batch without labels adds 0. `whole` is the sum of the `elements` of all;
        a TypeError is raised if the objective is not additive.

        Example:
          >>> import jax, jax.numpy as jnp
          >>> from dicejax.objectives import CrossEntropy
          >>> logits = jnp.array([[2.0, 0.0], [0.0, 0.0], [0.0, 1.0], [9.0, 9.0]])
          >>> labels, loss = jnp.array([0, 1, 1, -100]), CrossEntropy()
          >>> parts = [
          ...     ({"tags": logits[rows]}, {"tags": labels[rows]})
          ...     for rows in (slice(0, 2), slice(2, 4))
          ... ]
          >>> counts = [loss.elements(targets) for _, targets in parts]
          >>> whole = jax.tree.map(lambda *each: sum(each), *counts)
          >>> round(float(sum(loss.contribution(*part, whole) for part in parts)), 4)
          0.3778
          >>> round(float(loss({"tags": logits}, {"tags": labels})[0]), 4)
          0.3778
        """
        self.elements(targets)
        return self(outputs, targets, (), progress, whole)[0]

    def initial_state(self) -> State:
        """Return the state for the first call: those of its members, empty for most."""
        return tuple(member.initial_state() for member in self.members)

    def bind(
        self,
        targets: Mapping[str, _Target],
        class_counts: Mapping[str, np.ndarray] = NO_COUNTS,
    ) -> Objective:
        """Return the objective for the outputs of a task and the training data.

        Where no output is named it is a weighted sum of one copy for each. An output
        that is named is not weighed.

        Args:
          targets: what the task trains by output, as of `Task.targets`.
          class_counts: by output, the count of each class, `[C]`, or of its 0s and 1s,
            `[C, 2]`. Outputs whose labels are positions have none.

        Raises:
          ValueError: the task has no outputs, or not the one that is named here, or
            the objective does not fit it.
        """
        if self.members:
            return self.with_members(
                x.bind(targets, class_counts) for x in self.members
            )
        if self.output is not None:
            if self.output not in targets:
                raise ValueError(
                    f"output {self.output!r} is none of the task's: "
                    f"{', '.join(map(repr, targets))}{hint(self.output, targets)}"
                )
            return self.fit(targets[self.output], class_counts.get(self.output))
        if not targets:
            raise ValueError(f"objective {self._name} has no output to read")
        parts = tuple(self.reading(x).bind(targets, class_counts) for x in targets)
        weights = tuple(target.weight for target in targets.values())
        if weights == (1.0,):
            return parts[0]
        return WeightedSum(parts=parts, weights=weights)

    def reading(self, output: str) -> Objective:
        """Return the objective with an output where none is named."""
        if self.members:
            return self.with_members(member.reading(output) for member in self.members)
        return dataclasses.replace(self, output=self.output or output)

    def fit(self, target: _Target, counts: np.ndarray | None) -> Objective:
        """Return the objective for the output that it names, see `bind`."""
        return self

    def after_epoch(self, decisions: Mapping[str, ArrayLike]) -> Objective:
        """Return the objective of the next epoch.

        Args:
          decisions: counts of elements of dev by output, int `[C, 2, 2]`: by class, by
            whether it is gold, by whether it is predicted. Of outputs that are bound
            and, before the first epoch, of none.
        """
        return self.with_members(
            member.after_epoch(decisions) for member in self.members
        )

    @property
    def follows_decisions(self) -> bool:
        """Whether `after_epoch` changes it, or a member of it."""
        kinds: list[type[Objective]] = [type(term) for term in self.terms()]
        return any(kind.after_epoch is not Objective.after_epoch for kind in kinds)

    @property
    def members(self) -> tuple[Objective, ...]:
        """The objectives among its fields, none for most."""
        return tuple(
            member for member in self._flat()[0] if isinstance(member, Objective)
        )

    def with_members(self, members: Iterable[Objective]) -> Objective:
        """Return the objective with other members."""
        leaves, structure = self._flat()
        left = iter(members)
        changed = [
            next(left) if isinstance(leaf, Objective) else leaf for leaf in leaves
        ]
        return jax.tree.unflatten(structure, changed)

    def _flat(self) -> tuple[list[Any], Any]:
        return jax.tree.flatten(
            self, is_leaf=lambda node: isinstance(node, Objective) and node is not self
        )

    def terms(self) -> tuple[Objective, ...]:
        """Return the objectives that read an output: this one, or its members."""
        members = [leaf for member in self.members for leaf in member.terms()]
        return tuple(members) or (self,)

    @property
    def _name(self) -> str:
        return getattr(self, "short_name", type(self).__name__)

    def _output_among(self, outputs: Collection[str]) -> str:
        if self.output is not None:
            return self.output
        if len(outputs) != 1:
            raise ValueError(
                f"objective {self._name} names no output and there are {len(outputs)}"
                f" ({', '.join(outputs)}): call `bind` with those of the task"
            )
        return next(iter(outputs))


@objective
class Combination(Objective):
    """A linear combination of objectives.

    Args:
      output: without effect: each objective reads its own.
    """

    def combine_losses(self, values: Sequence[Array], progress: float | Array) -> Array:
        """Return the loss from the losses of the members."""
        raise TypeError(f"{type(self).__name__} does not define `combine_losses`")

    def __call__(
        self,
        outputs: Mapping[str, Array],
        targets: Targets,
        state: State = (),
        progress: float | Array = 0.0,
        counts: LabelCounts = None,
    ) -> tuple[Array, State]:
        """Return the loss of a batch, and the states of the members."""
        members, states = self.members, state or self.initial_state()
        whole = [None] * len(members) if counts is None else counts
        values, states = zip(
            *(
                member(outputs, targets, member_state, progress, member_counts)
                for member, member_state, member_counts in zip(
                    members, states, whole, strict=True
                )
            ),
            strict=True,
        )
        return self.combine_losses(values, progress), states

    @property
    def is_additive(self) -> bool:
        """Whether all members are."""
        return all(member.is_additive for member in self.members)

    def elements(self, targets: Targets) -> LabelCounts:
        """Return the counts of the members."""
        if not self.is_additive:
            return super().elements(targets)
        return tuple(member.elements(targets) for member in self.members)


@objective
class WeightedSum(Combination):
    """A weighted sum of objectives: cross-entropy plus dice by default.

    Args:
      parts: objectives to add.
      weights: weight of each part.

    Raises:
      ValueError: the numbers of weights and parts differ.
    """

    short_name: ClassVar[str] = "sum"

    parts: tuple[Objective, ...] = dataclasses.field(
        default_factory=lambda: (at_defaults("ce"), at_defaults("dice"))
    )
    weights: tuple[float, ...] = tunable(
        (1.0, 1.0),
        0.1,
        10.0,
        scale="log",
        why="ten times less to ten times more than the first part, whose weight stays",
    )

    def __post_init__(self) -> None:
        if len(self.parts) != len(self.weights):
            raise ValueError(
                f"weights has {len(self.weights)} numbers for {len(self.parts)} parts"
            )

    def combine_losses(self, values: Sequence[Array], progress: float | Array) -> Array:
        """Return the weighted sum."""
        del progress
        weighed = zip(self.weights, values, strict=True)
        first, *others = (weight * value for weight, value in weighed)
        return sum(others, start=first)
