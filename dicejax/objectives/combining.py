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
class WeightedSum(Objective):
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

    def __call__(
        self,
        outputs: Mapping[str, Array],
        targets: Mapping[str, Array],
        state: State = (),
        progress: float | Array = 0.0,
    ) -> tuple[Array, State]:
        """Return the sum, and the states of the parts."""
        values, states = _all(self.parts, outputs, targets, state, progress)
        return self._weighed(values), states

    @property
    def is_additive(self) -> bool:
        """Whether all parts are."""
        return all(part.is_additive for part in self.parts)

    def elements(self, targets: Mapping[str, Array]) -> Elements:
        """Return those of the parts."""
        return tuple(part.elements(targets) for part in self.parts)

    def contribution(
        self,
        outputs: Mapping[str, Array],
        targets: Mapping[str, Array],
        whole: Elements,
        progress: float | Array = 0.0,
    ) -> Array:
        """Return the sum of the contributions of the parts."""
        return self._weighed(_adding(self.parts, outputs, targets, whole, progress))

    def initial_state(self) -> State:
        """Return the states of the parts."""
        return tuple(part.initial_state() for part in self.parts)

    def fitted(self, class_counts: Mapping[str, np.ndarray]) -> Objective:
        """Return the sum of the fitted parts."""
        parts = tuple(part.fitted(class_counts) for part in self.parts)
        return dataclasses.replace(self, parts=parts)

    def leaves(self) -> tuple[Objective, ...]:
        """Return those of all parts."""
        return tuple(leaf for part in self.parts for leaf in part.leaves())

    def reading(
        self, outputs: Sequence[str], weights: Mapping[str, float] = NO_WEIGHTS
    ) -> Objective:
        """Return the sum of parts of which each reads what it names, or all outputs."""
        parts = tuple(part.reading(outputs, weights) for part in self.parts)
        return dataclasses.replace(self, parts=parts)

    def _weighed(self, values: Sequence[Array]) -> Array:
        weighed = zip(self.weights, values, strict=True)
        return sum(weight * value for weight, value in weighed)


@objective
class Schedule(Objective):
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

    def __call__(
        self,
        outputs: Mapping[str, Array],
        targets: Mapping[str, Array],
        state: State = (),
        progress: float | Array = 0.0,
    ) -> tuple[Array, State]:
        """Return the mixture at `progress`, and both states."""
        pair = (self.first, self.then)
        values, states = _all(pair, outputs, targets, state, progress)
        return self._mixed(values, progress), states

    @property
    def is_additive(self) -> bool:
        """Whether both objectives are, whatever their shares."""
        return self.first.is_additive and self.then.is_additive

    def elements(self, targets: Mapping[str, Array]) -> Elements:
        """Return those of both."""
        return self.first.elements(targets), self.then.elements(targets)

    def contribution(
        self,
        outputs: Mapping[str, Array],
        targets: Mapping[str, Array],
        whole: Elements,
        progress: float | Array = 0.0,
    ) -> Array:
        """Return the mixture of both contributions at `progress`."""
        pair = (self.first, self.then)
        values = _adding(pair, outputs, targets, whole, progress)
        return self._mixed(values, progress)

    def initial_state(self) -> State:
        """Return both states."""
        return self.first.initial_state(), self.then.initial_state()

    def fitted(self, class_counts: Mapping[str, np.ndarray]) -> Objective:
        """Return the schedule of the fitted objectives."""
        return dataclasses.replace(
            self,
            first=self.first.fitted(class_counts),
            then=self.then.fitted(class_counts),
        )

    def leaves(self) -> tuple[Objective, ...]:
        """Return those of both."""
        return self.first.leaves() + self.then.leaves()

    def reading(
        self, outputs: Sequence[str], weights: Mapping[str, float] = NO_WEIGHTS
    ) -> Objective:
        """Return the schedule of two objectives that read what they name, or all."""
        return dataclasses.replace(
            self,
            first=self.first.reading(outputs, weights),
            then=self.then.reading(outputs, weights),
        )

    def _mixed(self, values: Sequence[Array], progress: float | Array) -> Array:
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


def _all(
    parts: tuple[Objective, ...],
    outputs: Mapping[str, Array],
    targets: Mapping[str, Array],
    state: State,
    progress: float | Array,
) -> tuple[tuple[Array, ...], State]:
    states = state or tuple(part.initial_state() for part in parts)
    results = [
        part(outputs, targets, one, progress)
        for part, one in zip(parts, states, strict=True)
    ]
    values, states = zip(*results, strict=True)
    return values, states


def _adding(
    parts: tuple[Objective, ...],
    outputs: Mapping[str, Array],
    targets: Mapping[str, Array],
    whole: Elements,
    progress: float | Array,
) -> tuple[Array, ...]:
    return tuple(
        part.contribution(outputs, targets, one, progress)
        for part, one in zip(parts, whole, strict=True)
    )
