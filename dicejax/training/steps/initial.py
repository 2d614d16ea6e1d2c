"""The state before the first step, compiled once for runs that differ in the seed."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
from jax.sharding import Mesh

from dicejax.models.network import Network, Params
from dicejax.objectives import Objective
from dicejax.optimizers import Optimizer
from dicejax.training.devices.sharding import shardings
from dicejax.training.steps.state import TrainState


@functools.lru_cache(maxsize=8)
def drawing(
    network: Network, mesh: Mesh, heads: tuple[str, ...] | None = None
) -> Callable[[jax.Array], Params]:
    """Return what draws parameters from a key, each device the part that it holds.

    Args:
      network: whose parameters they are.
      mesh: the devices.
      heads: those of these heads alone; None: all.
    """

    def draw(key: jax.Array) -> Params:
        params = network.init(key)
        if heads is None:
            return params
        return {"heads": {name: params["heads"][name] for name in heads}}

    places = shardings(jax.eval_shape(draw, jax.random.key(0)), mesh)
    return jax.jit(draw, out_shardings=places)


@functools.lru_cache(maxsize=8)
def creating(
    network: Network, optimizer: Optimizer, objective: Objective, mesh: Mesh
) -> Callable[[Params, jax.Array, int], TrainState]:
    """Return what makes the state of parameters, a key and the number of steps."""
    places = shardings(abstract_state(network, optimizer, objective), mesh)
    return jax.jit(_created(network, optimizer, objective), out_shardings=places)


def abstract_state(
    network: Network, optimizer: Optimizer, objective: Objective
) -> TrainState:
    """Return the shapes of a state."""
    key = jax.random.key(0)
    params = jax.eval_shape(network.init, key)
    return jax.eval_shape(_created(network, optimizer, objective), params, key, 1)


def _created(
    network: Network, optimizer: Optimizer, objective: Objective
) -> Callable[[Params, jax.Array, int], TrainState]:
    def create(params: Params, rng: jax.Array, steps: int) -> TrainState:
        return TrainState.create(
            params,
            optimizer,
            total_steps=steps,
            rng=rng,
            objective_state=objective.initial_state(),
            precision=network.precision,
        )

    return create
