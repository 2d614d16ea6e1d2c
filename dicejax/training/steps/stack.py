"""Several runs in one program: their states on a new first axis, and a step of all.

The step is that of one run, mapped over the axis. Each run keeps its own number of
steps, random keys, learning rate and loss scale, and skips its own steps.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import Array
from jax.sharding import Mesh

from dicejax.models.network import Network
from dicejax.objectives import Objective
from dicejax.optimizers import Optimizer
from dicejax.tasks import Task
from dicejax.training.sharding import replicate
from dicejax.training.state import TrainState
from dicejax.training.step import Batch, train_step

Tree = TypeVar("Tree")


@functools.partial(
    jax.jit,
    static_argnames=("network", "optimizer", "task", "micro_batches"),
    donate_argnames="state",
)
def train_steps(
    state: TrainState,
    batch: Batch,
    objective: Objective,
    *,
    network: Network,
    optimizer: Optimizer,
    task: Task | None = None,
    micro_batches: int = 1,
) -> tuple[TrainState, dict[str, Array]]:
    """Take a step of N runs: `train_step`, mapped over the first axis of everything.

    Args:
      state: of all runs, as `stacked` makes it; its buffers are given up.
      batch: int `[N, B, T]` arrays, the batch of each run.
      objective: with hyper-parameters `[N]`.
      network: the architecture, of all runs alike.
      optimizer: the update rule.
      task: as in `train_step`.
      micro_batches: parts that the batch of each run is cut into.

    Returns:
      The states after the step, and what `train_step` tells of each run, `[N]`.
    """
    step = functools.partial(
        train_step,
        network=network,
        optimizer=optimizer,
        task=task,
        micro_batches=micro_batches,
    )
    return jax.vmap(step)(state, batch, objective)


def stacked(trees: Sequence[Tree], mesh: Mesh) -> Tree:
    """Put the arrays of runs on a new first axis; those of the runs are given up.

    One array after the other, so that never all are there twice.

    Args:
      trees: states or objectives of one structure, numbers among their leaves.
      mesh: of one device.
    """

    def one(*leaves: Any) -> Array:
        whole = replicate(jnp.stack([jnp.asarray(leaf) for leaf in leaves]), mesh)
        for leaf in leaves:
            if isinstance(leaf, jax.Array):
                leaf.delete()
        return whole

    return jax.tree.map(one, *trees)


@jax.jit
def unstacked(tree: Tree, place: Array | int) -> Tree:
    """Return the arrays of the run at a place of the stack, as it has them alone."""
    return jax.tree.map(lambda x: x[place], tree)


@functools.partial(jax.jit, donate_argnames="stack")
def restacked(stack: Tree, tree: Tree, place: Array | int) -> Tree:
    """Return a stack with the arrays of another run at a place; the old is given up."""
    return jax.tree.map(lambda many, one: many.at[place].set(one), stack, tree)
