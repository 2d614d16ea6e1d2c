"""The jitted training and prediction steps."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
from jax import Array
from jax.sharding import Mesh

from dicejax.mesh import in_use
from dicejax.metrics.score_counts import count_scores
from dicejax.models.network import Network, Params
from dicejax.objectives import Objective
from dicejax.optimizers import Optimizer
from dicejax.tasks import Predicted, Target, Task
from dicejax.training.accumulation import loss_and_gradient
from dicejax.training.sharding import shardings
from dicejax.training.state import TrainState

Batch = Mapping[str, Array]


@functools.partial(
    jax.jit,
    static_argnames=("network", "task", "micro_batches", "mesh"),
    donate_argnames="state",
)
def train_step(
    state: TrainState,
    batch: Batch,
    objective: Objective,
    *,
    network: Network,
    optimizer: Optimizer,
    task: Task | None = None,
    micro_batches: int = 1,
    mesh: Mesh | None = None,
) -> tuple[TrainState, dict[str, Array]]:
    """Take one step on the global batch.

    The loss is written on the whole batch; where the batch is split over devices the
    compiler turns its sums into all-reduces, so a loss over a set stays exact. A step
    whose loss or gradient is not finite changes nothing but the number of the step, and
    the loss scale where there is one.

    Args:
      state: state before the step; its buffers are donated.
      batch: int `[B, T]` arrays, inputs and labels by name.
      objective: a pytree; its hyper-parameters are traced.
      network: architecture.
      optimizer: update rule, a pytree; its two rates are traced.
      task: turns outputs and batch into the inputs of the objective; None: they are.
      micro_batches: number of micro-batches, to save memory; the result is unchanged.
      mesh: devices over which parameters are split.

    Returns:
      The state after the step, and scalars: `loss`, `gradient_norm`, `learning_rate`,
      `skipped` (1 if the step was) and `loss_scale` where there is one.
    """
    scaling = state.loss_scaling
    result = loss_and_gradient(
        optimizer.stop_frozen(state.params),
        batch,
        objective,
        network=network,
        task=task,
        objective_state=state.objective_state,
        progress=state.step / state.total_steps,
        rng=jax.random.fold_in(state.rng, state.step),
        mesh=mesh,
        micro_batches=micro_batches,
        scale=1.0 if scaling is None else scaling.scale,
    )
    gradients = result.gradients
    if scaling is not None:  # exact: the factor is a power of two
        gradients = jax.tree.map(lambda g: g / scaling.scale, gradients)
    update = optimizer.update(
        gradients, state.opt_state, state.params, state.step, state.total_steps
    )
    averaged = state.averaged
    if averaged is not None:
        averaged = optimizer.average(averaged, update.params, state.step)
    updated = dataclasses.replace(
        state,
        params=update.params,
        opt_state=update.opt_state,
        objective_state=result.objective_state,
        averaged=averaged,
    )
    finite = jnp.isfinite(update.gradient_norm) & jnp.isfinite(result.loss)
    state = dataclasses.replace(
        jax.tree.map(
            lambda new, old: old if new is old else jnp.where(finite, new, old),
            updated,
            state,
        ),
        step=state.step + 1,
        loss_scaling=None if scaling is None else scaling.after(finite),
    )
    if mesh is not None:
        state = jax.lax.with_sharding_constraint(state, shardings(state, mesh))
    metrics = {
        "loss": result.loss,
        "gradient_norm": update.gradient_norm,
        "learning_rate": update.learning_rate,
        "skipped": 1 - finite.astype(jnp.int32),
    }
    if scaling is not None:
        metrics["loss_scale"] = scaling.scale
    return state, metrics


@functools.partial(
    jax.jit, static_argnames=("network", "task", "counted", "count", "mesh")
)
def predict_step(
    params: Params,
    batch: Batch,
    shifts: Sequence[Mapping[str, Array]] = ({},),
    *,
    network: Network,
    task: Task,
    counted: tuple[tuple[str, Target], ...] = (),
    count: Callable[..., Array] = count_scores,
    mesh: Mesh | None = None,
) -> tuple[list[Predicted], dict[str, Array]]:
    """Return the parts of a batch's logits that decoding needs, and counts of scores.

    Each of the `shifts`, float `[C]` by output, is added to the logits, for which the
    network runs once. Of the outputs that are `counted`, each with its target, there
    are the counts of unshifted logits by `count`, a function of `metrics.score_counts`.
    """
    with in_use(mesh):
        outputs = network.apply(params, batch)
    predicted = [
        task.reduce_logits(
            {name: x + shift.get(name, 0.0) for name, x in outputs.items()}, batch
        )
        for shift in shifts
    ]
    if not counted:
        return predicted, {}
    logits, labels = task.loss_inputs(outputs, batch)
    counts = {
        name: count(logits[name], labels[name], kind=target.kind)
        for name, target in counted
    }
    return predicted, counts
