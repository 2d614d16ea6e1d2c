"""The jitted steps: one that learns, one that predicts."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
import optax
from jax import Array

from dicejax.models.network import Network, Params
from dicejax.objectives import Objective
from dicejax.tasks import Predicted, Task
from dicejax.training.optimizers import AdamW
from dicejax.training.state import TrainState

Batch = Mapping[str, Array]


@functools.partial(
    jax.jit, static_argnames=("network", "optimizer", "task"), donate_argnames="state"
)
def train_step(
    state: TrainState,
    batch: Batch,
    objective: Objective,
    *,
    network: Network,
    optimizer: AdamW,
    task: Task | None = None,
) -> tuple[TrainState, dict[str, Array]]:
    """Take one step on the global batch.

    The loss is written on the whole batch; where the batch is split over devices the
    compiler turns its sums into all-reduces, so a loss over a set stays exact.

    Args:
      state: before the step; its buffers are given up.
      batch: int `[B, T]` arrays, inputs and labels by name.
      objective: a pytree; its hyper-parameters are traced, so that a new value runs
        the same program.
      network: the architecture.
      optimizer: the update rule.
      task: makes of outputs and batch what the objective reads; None: they are that.

    Returns:
      The state after the step, and `loss`, `gradient_norm` and `learning_rate` as
      float32 scalars.
    """
    progress = state.step / state.total_steps

    def loss(params: Params) -> tuple[Array, Any]:
        outputs = network.apply(
            params, batch, jax.random.fold_in(state.rng, state.step)
        )
        outputs = weighted(outputs, batch)
        if task is not None:
            outputs, targets = task.loss_inputs(outputs, batch)
        else:
            targets = batch
        return objective(outputs, targets, state.objective_state, progress)

    differentiate = jax.value_and_grad(loss, has_aux=True)
    (value, objective_state), gradients = differentiate(state.params)
    updates, opt_state = optimizer.transform().update(
        gradients, state.opt_state, state.params
    )
    rate = optimizer.rate(state.step, state.total_steps)
    params = jax.tree.map(lambda p, u: p - rate * u, state.params, updates)
    state = dataclasses.replace(
        state,
        step=state.step + 1,
        params=params,
        opt_state=opt_state,
        objective_state=objective_state,
    )
    metrics = {
        "loss": value,
        "gradient_norm": optax.tree.norm(gradients),
        "learning_rate": rate,
    }
    return state, metrics


@functools.partial(jax.jit, static_argnames=("network", "task"))
def predict_step(
    params: Params, batch: Batch, *, network: Network, task: Task
) -> Predicted:
    """Return what the task's decoding needs of the logits of a batch."""
    return task.predicted(network.apply(params, batch), batch)


def weighted(outputs: Mapping[str, Array], batch: Batch) -> Mapping[str, Array]:
    """Scale the gradients of logits by the weights of their examples, values unchanged.

    With weights 1 / (n q), for examples drawn with probability q, the gradient of a
    mean over elements is on average that of all examples drawn alike.

    Args:
      outputs: logits by name, `[B, T, ...]` or `[B, S, ...]`.
      batch: may have `token_weights` `[B, T]` and `sequence_weights` `[B, S]`.
    """
    if "token_weights" not in batch:
        return outputs

    def scaled(logits: Array) -> Array:
        weights = batch["token_weights"]
        if logits.shape[: weights.ndim] != weights.shape:
            weights = batch["sequence_weights"]
        weights = weights.reshape(weights.shape + (1,) * (logits.ndim - weights.ndim))
        return weights * logits + jax.lax.stop_gradient((1 - weights) * logits)

    return {name: scaled(logits) for name, logits in outputs.items()}
