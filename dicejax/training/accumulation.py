"""Loss and gradient of a batch in micro-batches.

A set loss is not a mean over micro-batches, so averaging their gradients is wrong.
Instead:

Cut at the logits: the encoder runs over the micro-batches and keeps only their logits;
the loss is computed once on those of the whole batch, and its gradient is sent back
through the encoder, which runs each micro-batch again. Exact for every loss, for one
more forward pass.

One pass: where the loss is a mean over labelled elements, whose number is known
beforehand, each micro-batch contributes its share at once.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from dicejax.mesh import in_use
from dicejax.models.dropout import DropoutKeys
from dicejax.models.network import Network, Params
from dicejax.objectives import Objective
from dicejax.tasks import Task
from dicejax.training.gold import gold_of_batch

Batch = Mapping[str, Array]


@dataclasses.dataclass(frozen=True)
class Gradient:
    """The loss of a batch, its float32 gradient times the scale, and the next state."""

    loss: Array
    gradients: Params
    objective_state: Any


def loss_and_gradient(
    params: Params,
    batch: Batch,
    objective: Objective,
    *,
    network: Network,
    task: Task | None = None,
    objective_state: Any = (),
    progress: float | Array = 0.0,
    rng: Array | None = None,
    mesh: Mesh | None = None,
    micro_batches: int = 1,
    scale: float | Array = 1.0,
    one_pass: bool | None = None,
) -> Gradient:
    """Return the loss of a batch, whose arrays have rows first, and its gradient.

    Without a task, outputs and batch are the inputs of the objective; without a key
    there is no dropout. The gradient is multiplied by `scale`, for narrow types. With
    `one_pass` each micro-batch is run once; None does so where that is exact.

    Raises:
      ValueError: the rows do not divide, or one pass is asked for and not exact.
    """
    apply = functools.partial(_apply, network, rng)

    def inputs(outputs: Mapping[str, Array], batch: Batch) -> tuple[Any, Any]:
        outputs = scale_gradients(outputs, batch)
        if task is None:
            return outputs, gold_of_batch(outputs, batch, batch)
        logits, labels = task.loss_inputs(outputs, batch)
        return logits, gold_of_batch(logits, labels, batch)

    def loss(outputs: Mapping[str, Array]) -> tuple[Array, tuple[Array, Any]]:
        value, state = objective(*inputs(outputs, batch), objective_state, progress)
        return scale * value, (value, state)

    def cut_at_logits() -> Gradient:
        outputs = lax.map(lambda part: apply(params, *part), parts)
        cotangents, (value, state) = jax.grad(loss, has_aux=True)(_join(outputs))

        def back(params: Params, both: Any) -> Params:
            part, cotangent = both
            _, backward = jax.vjp(lambda params: apply(params, *part), params)
            return backward(cotangent)[0]

        both = parts, _cut(cotangents, micro_batches)
        return Gradient(value, _sum_parts(back, params, both, mesh), state)

    def in_one_pass() -> Gradient:
        # Labels say how many elements there are; of the outputs shapes are enough.
        shapes = jax.eval_shape(apply, params, *rows)
        elements = objective.elements(inputs(_zeros(shapes), batch)[1])

        def contribution(params: Params, part: Any) -> tuple[Array, Array]:
            pair = inputs(apply(params, *part), part[0])
            value = objective.contribution(*pair, elements, progress)
            return scale * value, value

        gradient = jax.grad(contribution, has_aux=True)
        gradients, value = _sum_parts(gradient, params, parts, mesh)
        return Gradient(value, gradients, objective_state)

    if one_pass or (one_pass is None and micro_batches > 1):
        targets = {} if task is None else task.targets(())
        follows = any(target.follows_outputs for target in targets.values())
        is_exact = objective.is_additive and not follows
        if one_pass and not is_exact:
            name = objective.short_name
            raise ValueError(f"objective {name} is not a mean over labelled elements")
        one_pass = is_exact
    rows = dict(batch), jnp.arange(len(batch["input_ids"]))
    with in_use(mesh):
        if micro_batches == 1:
            whole = jax.grad(lambda params: loss(apply(params, *rows)), has_aux=True)
            gradients, (value, state) = whole(params)
            return Gradient(value, gradients, state)
        parts = _cut(rows, micro_batches)
        return in_one_pass() if one_pass else cut_at_logits()


def logits_of(
    params: Params,
    batch: Batch,
    *,
    network: Network,
    rng: Array | None = None,
    mesh: Mesh | None = None,
    micro_batches: int = 1,
) -> dict[str, Array]:
    """Return the logits of the whole batch by name, computed in parts."""
    rows = dict(batch), jnp.arange(len(batch["input_ids"]))
    with in_use(mesh):
        if micro_batches == 1:
            return _apply(network, rng, params, *rows)
        parts = _cut(rows, micro_batches)
        return _join(lax.map(lambda part: _apply(network, rng, params, *part), parts))


def _apply(
    network: Network, rng: Array | None, params: Params, batch: Batch, rows: Array
) -> dict[str, Array]:
    keys = None if rng is None else DropoutKeys.for_rows(rng, rows)
    return network.apply(params, batch, keys)


def _sum_parts(
    function: Callable[[Params, Any], Any],
    params: Params,
    parts: Any,
    mesh: Mesh | None,
) -> Any:
    """Add up a function of parameters and micro-batch over the micro-batches.

    Each index of the `data` axis adds up what its own rows give, and the sums are
    reduced once: the compiler would reduce each micro-batch's.
    """

    def total(params: Params, parts: Any) -> Any:
        def add(total: Any, part: Any) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, total, function(params, part)), None

        first = jax.tree.map(lambda x: x[0], parts)
        zeros = _zeros(jax.eval_shape(function, params, first))
        return lax.scan(add, zeros, parts)[0]

    if mesh is None or mesh.shape["data"] == 1:
        return total(params, parts)
    return jax.shard_map(
        lambda params, parts: lax.psum(total(params, parts), "data"),
        in_specs=(P(), P(None, "data")),
        out_specs=P(),
        axis_names={"data"},
        check_vma=False,
    )(params, parts)


def _cut(tree: Any, parts: int) -> Any:
    """Split the rows `[B, ...]` into `[K, B / K, ...]`.

    Part k takes the rows k, k + K, ..., so every device keeps its share of each part.
    """

    def cut(x: Array) -> Array:
        if len(x) % parts:
            raise ValueError(f"{len(x)} rows do not divide into {parts} micro-batches")
        return x.reshape(-1, parts, *x.shape[1:]).swapaxes(0, 1)

    return jax.tree.map(cut, tree)


def _join(tree: Any) -> Any:
    """Undo `_cut`."""
    return jax.tree.map(lambda x: x.swapaxes(0, 1).reshape(-1, *x.shape[2:]), tree)


def _zeros(tree: Any) -> Any:
    return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), tree)


def scale_gradients(
    outputs: Mapping[str, Array], batch: Mapping[str, Array]
) -> Mapping[str, Array]:
    """Scale the gradients of logits by example weights, values unchanged.

    With weights 1 / (n q), for examples drawn with probability q, the gradient of a
    mean over elements is unbiased. Logits are `[B, T, ...]` or `[B, S, ...]`, and the
    batch has `token_weights` `[B, T]` and `sequence_weights` `[B, S]`, or neither.
    """
    if "token_weights" not in batch:
        return outputs

    def scale(logits: Array) -> Array:
        weights = batch["token_weights"]
        if logits.shape[: weights.ndim] != weights.shape:
            weights = batch["sequence_weights"]
        weights = weights.reshape(weights.shape + (1,) * (logits.ndim - weights.ndim))
        return weights * logits + jax.lax.stop_gradient((1 - weights) * logits)

    return {name: scale(logits) for name, logits in outputs.items()}
