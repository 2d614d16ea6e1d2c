"""The state of a training step."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.sharding import Mesh

from dicejax.models.network import Network, Params
from dicejax.objectives import Objective
from dicejax.optimizers import Optimizer
from dicejax.training.sharding import by_path, shardings

FIRST_SCALE = 2.0**15
GROWS_AFTER = 1000
LARGEST_SCALE = 2.0**24


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LossScaling:
    """Dynamic loss scaling for float16.

    The smallest float16 is 6e-8, and most gradients of an encoder are smaller, so they
    are computed for the loss times a power of two and divided by it in float32. The
    factor is halved when a gradient overflows, and doubled after 1000 steps without
    (Micikevicius et al., 2018, https://arxiv.org/abs/1710.03740).

    >>> scaling = LossScaling()
    >>> float(scaling.scale), float(scaling.after(jnp.array(False)).scale)
    (32768.0, 16384.0)
    """

    scale: Array = dataclasses.field(default_factory=lambda: jnp.float32(FIRST_SCALE))
    good_steps: Array = dataclasses.field(default_factory=lambda: jnp.int32(0))

    def after(self, finite: Array) -> LossScaling:
        """Return the next factor, given whether this gradient was finite."""
        good_steps = jnp.where(finite, self.good_steps + 1, 0)
        grown = good_steps == GROWS_AFTER
        double = jnp.minimum(2 * self.scale, LARGEST_SCALE)
        larger = jnp.where(grown, double, self.scale)
        smaller = jnp.maximum(self.scale / 2, 1.0)
        return LossScaling(
            jnp.where(finite, larger, smaller), jnp.where(grown, 0, good_steps)
        )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
    """Everything that changes from step to step, and the number of steps.

    Both numbers are int32 scalars, parameters a nested dict of float32 arrays. Step n
    uses the key `fold_in(rng, n)`. Parameters have a moving average if the optimizer
    keeps one, and float16 has its loss scaled.
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
        """Return the state before the first step; float16 has its loss scaled."""
        return cls(
            step=jnp.zeros((), jnp.int32),
            total_steps=jnp.asarray(total_steps, jnp.int32),
            params=params,
            opt_state=optimizer.init(params),
            rng=rng,
            objective_state=objective_state,
            averaged=jax.tree.map(jnp.copy, params) if optimizer.ema_decay else None,
            loss_scaling=LossScaling() if precision == "float16" else None,
        )

    @property
    def weights(self) -> Params:
        """The parameters that predict: the averaged ones where there are any."""
        return self.params if self.averaged is None else self.averaged


@functools.lru_cache(maxsize=8)
def init_params_fn(
    network: Network, mesh: Mesh, heads: tuple[str, ...] | None = None
) -> Callable[[jax.Array], Params]:
    """Return a function from a key to parameters, drawn where they are to be.

    It draws the parameters of some heads alone, or of the whole network.
    """

    def draw_heads(key: jax.Array) -> Params:
        params = network.init(key)
        return {"heads": {name: params["heads"][name] for name in heads or ()}}

    draw = network.init if heads is None else draw_heads
    places = shardings(jax.eval_shape(draw, jax.random.key(0)), mesh)
    return jax.jit(draw, out_shardings=places)


@functools.lru_cache(maxsize=8)
def init_state_fn(
    network: Network,
    optimizer: Optimizer,
    objective: Objective,
    mesh: Mesh | None = None,
) -> Callable[..., TrainState]:
    """Return `TrainState.create` for parameters, `total_steps` and `rng`.

    With a mesh it is compiled, and places the state there.
    """
    create = functools.partial(
        TrainState.create,
        optimizer=optimizer,
        objective_state=objective.initial_state(),
        precision=network.precision,
    )
    if mesh is None:
        return create
    places = shardings(abstract_state(network, optimizer, objective), mesh)
    return jax.jit(create, out_shardings=places)


def abstract_state(
    network: Network, optimizer: Optimizer, objective: Objective
) -> TrainState:
    """Return the shapes of a state."""
    key = jax.random.key(0)
    params = jax.eval_shape(network.init, key)
    create = init_state_fn(network, optimizer, objective)
    return jax.eval_shape(create, params, total_steps=1, rng=key)


@jax.jit
def _are_finite(params: Params) -> Params:
    return jax.tree.map(lambda x: jnp.isfinite(x).all(), params)


def not_finite(params: Params) -> str | None:
    """Name the weights that hold an infinite value or NaN; None without any.

    >>> not_finite({"head": {"bias": jnp.array([0.0, jnp.nan]), "kernel": jnp.ones(2)}})
    'head/bias is not finite'
    """
    flags: dict[str, Array] = jax.device_get(_are_finite(params))
    names = [name for name, is_finite in by_path(flags).items() if not is_finite]
    if not names:
        return None
    more = f", nor are {len(names) - 1} more arrays" if len(names) > 1 else ""
    return f"{names[0]} is not finite{more}"
