"""What a training step reads and writes."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array

from dicejax.models.network import Params


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
    """Everything that changes from step to step.

    Attributes:
      step: int32 scalar, the number of updates done.
      total_steps: int32 scalar, the number of updates planned.
      params: nested dict of float32 arrays.
      opt_state: the state of the optax transformation.
      rng: the run's PRNG key; step n uses `fold_in(rng, n)`.
      objective_state: what the objective carries from step to step.
    """

    step: Array
    total_steps: Array
    params: Params
    opt_state: Any
    rng: Array
    objective_state: Any = ()

    @classmethod
    def create(
        cls,
        params: Params,
        transform: optax.GradientTransformation,
        *,
        total_steps: int,
        rng: Array,
        objective_state: Any = (),
    ) -> TrainState:
        """Return the state before the first step."""
        return cls(
            step=jnp.zeros((), jnp.int32),
            total_steps=jnp.asarray(total_steps, jnp.int32),
            params=params,
            opt_state=transform.init(params),
            rng=rng,
            objective_state=objective_state,
        )
