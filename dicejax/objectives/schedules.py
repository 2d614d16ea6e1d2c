"""Schedules: objectives that change from one to another while training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from dicejax.objectives.objective import (
    Combination,
    Objective,
    at_defaults,
    objective,
    tunable,
)


@objective
class Schedule(Combination):
    """A change from one objective to another; subclasses define `share`.

    Cross-entropy first and dice later by default: a set loss has little slope for
    classes that the network does not predict yet.

    Args:
      first: objective at the start of training.
      then: objective at the end of training.
    """

    first: Objective = at_defaults("ce")
    then: Objective = at_defaults("dice")

    def share(self, progress: float | Array) -> Array:
        """Return the weight of `then`, in [0, 1]."""
        raise TypeError(f"{type(self).__name__} does not define `share`")

    def combine_losses(self, values: Sequence[Array], progress: float | Array) -> Array:
        """Return the mixture at `progress`."""
        early, late = values
        share = self.share(progress)
        return (1 - share) * early + share * late


@objective
class LinearSchedule(Schedule):
    """A linear change from one objective to another.

    Args:
      begin: the share of training after which the change begins.
      end: the share of training after which it is complete.
    """

    short_name: ClassVar[str] = "linear"

    begin: float = tunable(0.2, 0.0, 0.4, why="in the first half of training")
    end: float = tunable(0.6, 0.5, 1.0, why="in the second half of training")

    def share(self, progress: float | Array) -> Array:
        """Return 0 before `begin`, 1 after `end`, and a straight line in between."""
        length = jnp.maximum(self.end - self.begin, 1e-9)
        return jnp.clip((progress - self.begin) / length, 0, 1)


@objective
class StepSchedule(Schedule):
    """A change from one objective to another at one point of training.

    Args:
      at: the share of training after which `then` takes over.
    """

    short_name: ClassVar[str] = "step"

    at: float = tunable(0.4, 0.1, 0.9, why="so that both losses get a part of training")

    def share(self, progress: float | Array) -> Array:
        """Return 0 before the change and 1 after it."""
        return jnp.where(progress < self.at, 0.0, 1.0)
