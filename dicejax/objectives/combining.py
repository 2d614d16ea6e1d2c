"""Objectives made of others: weighted sums, and changes from one to another."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from dicejax.objectives.objective import (
    NO_WEIGHTS,
    Elements,
    Objective,
    State,
    objective,
)
from dicejax.objectives.pointwise import CrossEntropy
from dicejax.objectives.sets import Dice


@objective
class Combination(Objective):
    """What objectives made of others share; a subclass says of which, and how.

    Args:
      output: of no meaning here: each member reads its own.
    """

    @property
    def members(self) -> tuple[Objective, ...]:
        """The objectives that this one is made of."""
        raise TypeError(f"{type(self).__name__} does not define `members`")

    def with_members(self, members: Sequence[Objective]) -> Objective:
        """Return the same of others."""
        raise TypeError(f"{type(self).__name__} does not define `with_members`")

    def combined(self, values: Sequence[Array], progress: float | Array) -> Array:
        """Return the loss, given those of the members; linear in them."""
        raise TypeError(f"{type(self).__name__} does not define `combined`")

    def __call__(
        self,
        outputs: Mapping[str, Array],
        targets: Mapping[str, Array],
        state: State = (),
        progress: float | Array = 0.0,
    ) -> tuple[Array, State]:
        """Return the loss of a batch, and the states of the members."""
        results = [
            member(outputs, targets, one, progress)
            for member, one in zip(
                self.members, state or self.initial_state(), strict=True
            )
        ]
        values, states = zip(*results, strict=True)
        return self.combined(values, progress), states

    @property
    def is_additive(self) -> bool:
        """Whether all members are, in whatever shares."""
        return all(member.is_additive for member in self.members)

    def elements(self, targets: Mapping[str, Array]) -> Elements:
        """Return those of the members."""
        return tuple(member.elements(targets) for member in self.members)

    def contribution(
        self,
        outputs: Mapping[str, Array],
        targets: Mapping[str, Array],
        whole: Elements,
        progress: float | Array = 0.0,
    ) -> Array:
        """Return what the contributions of the members make."""
        values = [
            member.contribution(outputs, targets, one, progress)
            for member, one in zip(self.members, whole, strict=True)
        ]
        return self.combined(values, progress)

    def initial_state(self) -> State:
        """Return the states of the members."""
        return tuple(member.initial_state() for member in self.members)

    def with_class_counts(self, class_counts: Mapping[str, np.ndarray]) -> Objective:
        """Return the same of fitted members."""
        return self.with_members(
            [one.with_class_counts(class_counts) for one in self.members]
        )

    def terms(self) -> tuple[Objective, ...]:
        """Return those of all members."""
        return tuple(leaf for member in self.members for leaf in member.terms())

    def bind_outputs(
        self, outputs: Sequence[str], weights: Mapping[str, float] = NO_WEIGHTS
    ) -> Objective:
        """Return the same of members of which each reads what it names, or all."""
        return self.with_members(
            [member.bind_outputs(outputs, weights) for member in self.members]
        )


@objective
class WeightedSum(Combination):
    """A weighted sum of objectives: cross-entropy plus dice, unless told otherwise.

    Args:
      output: of no meaning here: each part reads its own.
      parts: what is added.
      weights: one for each part.

    Raises:
      ValueError: there are not as many weights as parts.
    """

    short_name: ClassVar[str] = "sum"

    parts: tuple[Objective, ...] = (CrossEntropy(), Dice())
    weights: tuple[float, ...] = (1.0, 1.0)

    def __post_init__(self):
        if len(self.parts) != len(self.weights):
            raise ValueError(
                f"weights has {len(self.weights)} numbers for {len(self.parts)} parts"
            )

    @property
    def members(self) -> tuple[Objective, ...]:
        """The parts."""
        return self.parts

    def with_members(self, members: Sequence[Objective]) -> Objective:
        """Return the sum of other parts, with the same weights."""
        return dataclasses.replace(self, parts=tuple(members))

    def combined(self, values: Sequence[Array], progress: float | Array) -> Array:
        """Return the weighted sum."""
        del progress
        weighed = zip(self.weights, values, strict=True)
        return sum(weight * value for weight, value in weighed)


@objective
class Schedule(Combination):
    """One objective first, another later; a subclass says when, by `share`.

    Cross-entropy first and dice later, unless told otherwise: a set loss has little
    slope for classes that the network does not predict at all yet.

    Args:
      output: of no meaning here: each objective reads its own.
      first: what is minimised at the start.
      then: what is minimised at the end.
    """

    first: Objective = CrossEntropy()
    then: Objective = Dice()

    def share(self, progress: float | Array) -> Array:
        """Return how much of the loss is `then`, in [0, 1]."""
        raise TypeError(f"{type(self).__name__} does not define `share`")

    @property
    def members(self) -> tuple[Objective, ...]:
        """The first objective and the other."""
        return self.first, self.then

    def with_members(self, members: Sequence[Objective]) -> Objective:
        """Return the same change between others."""
        first, then = members
        return dataclasses.replace(self, first=first, then=then)

    def combined(self, values: Sequence[Array], progress: float | Array) -> Array:
        """Return the mixture at `progress`."""
        early, late = values
        share = self.share(progress)
        return (1 - share) * early + share * late


@objective
class LinearSchedule(Schedule):
    """One objective first, another later, mixed linearly in between.

    Args:
      output: of no meaning here: each objective reads its own.
      first: what is minimised at the start.
      then: what is minimised at the end.
      begin: the share of training after which the change begins.
      end: the share of training after which it is complete.
    """

    short_name: ClassVar[str] = "linear"

    begin: float = 0.2
    end: float = 0.6

    def share(self, progress: float | Array) -> Array:
        """Return 0 before `begin`, 1 after `end`, and a straight line in between."""
        length = jnp.maximum(self.end - self.begin, 1e-9)
        return jnp.clip((progress - self.begin) / length, 0, 1)


@objective
class StepSchedule(Schedule):
    """One objective first, another from a point of training on.

    Args:
      output: of no meaning here: each objective reads its own.
      first: what is minimised at the start.
      then: what is minimised at the end.
      at: the share of training after which `then` takes over.
    """

    short_name: ClassVar[str] = "step"

    at: float = 0.4

    def share(self, progress: float | Array) -> Array:
        """Return 0 before the change and 1 after it."""
        return jnp.where(progress < self.at, 0.0, 1.0)
