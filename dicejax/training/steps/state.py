"""What a training step reads and writes."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from dicejax.models.network import Params
from dicejax.optimizers import Optimizer
from dicejax.training.steps.loss_scaling import LossScaling


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
      averaged: a moving average of the parameters; None where there is none.
      loss_scaling: the factor of the loss for float16; None for other types.
    """

    step: Array
    total_steps: Array
    params: Params
    opt_state: Any
    rng: Array
    objective_state: Any = ()
    averaged: Params | None = None
    loss_scaling: LossScaling | None = None

    @classmethod
    def create(
        cls,
        params: Params,
        optimizer: Optimizer,
        *,
        total_steps: int,
        rng: Array,
        objective_state: Any = (),
        precision: str = "float32",
    ) -> TrainState:
        """Return the state before the first step.

        Args:
          params: initial parameters.
          optimizer: says what is kept beside them.
          total_steps: the number of updates planned.
          rng: the run's PRNG key.
          objective_state: what the objective's first call is given.
          precision: of the network; float16 has its loss scaled.
        """
        return cls(
            step=jnp.zeros((), jnp.int32),
            total_steps=jnp.asarray(total_steps, jnp.int32),
            params=params,
            opt_state=optimizer.init(params),
            rng=rng,
            objective_state=objective_state,
            averaged=jax.tree.map(jnp.copy, params) if optimizer.ema_decay else None,
            loss_scaling=LossScaling.create() if precision == "float16" else None,
        )

    def apply_gradients(
        self,
        params: Params,
        opt_state: Any,
        objective_state: Any,
        optimizer: Optimizer,
    ) -> TrainState:
        """Return the state with what a step has learnt; `step` is still that before."""
        averaged = self.averaged
        if averaged is not None:
            averaged = optimizer.average(averaged, params, self.step)
        return dataclasses.replace(
            self,
            params=params,
            opt_state=opt_state,
            objective_state=objective_state,
            averaged=averaged,
        )

    @property
    def weights(self) -> Params:
        """What predicts: the averaged parameters where there are any."""
        return self.params if self.averaged is None else self.averaged
