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
from dicejax.training.state import TrainState

Batch = Mapping[str, Array]


@dataclasses.dataclass(frozen=True)
class Gradient:
    """The loss of a batch, its gradient, and the next state of the objective.

    Attributes:
      loss: float scalar.
      gradients: like the parameters, float32; times the scale.
      objective_state: after this batch.
    """

    loss: Array
    gradients: Params
    objective_state: Any


@dataclasses.dataclass(frozen=True)
class LossOfBatch:
    """A loss as a function of parameters and batch.

    Args:
      network: architecture.
      task: turns outputs and batch into the inputs of the objective; None: they are.
      objective: loss.
      objective_state: state of the objective.
      progress: share of training that is done.
      rng: key of the step's dropout; None switches dropout off.
      mesh: devices over which parameters are split.
    """

    network: Network
    task: Task | None
    objective: Objective
    objective_state: Any = ()
    progress: float | Array = 0.0
    rng: Array | None = None
    mesh: Mesh | None = None

    @classmethod
    def of_step(
        cls,
        state: TrainState,
        objective: Objective,
        *,
        network: Network,
        task: Task | None,
        mesh: Mesh | None,
    ) -> LossOfBatch:
        """Return the loss of the next step, dropout included."""
        return cls(
            network=network,
            task=task,
            objective=objective,
            objective_state=state.objective_state,
            progress=state.step / state.total_steps,
            rng=jax.random.fold_in(state.rng, state.step),
            mesh=mesh,
        )

    def gradient(
        self,
        params: Params,
        batch: Batch,
        *,
        micro_batches: int = 1,
        scale: float | Array = 1.0,
        one_pass: bool | None = None,
    ) -> Gradient:
        """Differentiate the loss of a batch.

        Args:
          params: of the network.
          batch: arrays whose first axis is that of the rows.
          micro_batches: number of micro-batches; divides the rows.
          scale: factor of the gradient, for narrow types.
          one_pass: run each micro-batch once; None: where that is exact.

        Raises:
          ValueError: the rows do not divide, or one pass is asked for and not exact.
        """
        if one_pass and not self.is_additive:
            name = self.objective.short_name
            raise ValueError(f"objective {name} is not a mean over labelled elements")
        with in_use(self.mesh):
            return self._gradient(params, batch, micro_batches, scale, one_pass)

    def _gradient(
        self,
        params: Params,
        batch: Batch,
        micro_batches: int,
        scale: float | Array,
        one_pass: bool | None,
    ) -> Gradient:
        if micro_batches == 1:
            return self._whole(params, batch, scale)
        parts = _cut((dict(batch), _row_numbers(batch)), micro_batches)
        if self.is_additive if one_pass is None else one_pass:
            return self._in_one_pass(params, batch, parts, scale)
        return self._cut_at_logits(params, batch, parts, scale)

    def outputs(
        self, params: Params, batch: Batch, *, micro_batches: int = 1
    ) -> dict[str, Array]:
        """Return the logits of the whole batch by name, computed in parts."""
        with in_use(self.mesh):
            if micro_batches == 1:
                return self._outputs(params, batch, _row_numbers(batch))
            parts = _cut((dict(batch), _row_numbers(batch)), micro_batches)
            return _joined(lax.map(lambda part: self._outputs(params, *part), parts))

    def of_outputs(self, outputs: Mapping[str, Array], batch: Batch) -> Array:
        """Return the loss of logits by name."""
        return self._of_outputs(outputs, batch, 1.0)[1][0]

    @property
    def is_additive(self) -> bool:
        """Whether the shares of micro-batches add up to the loss."""
        if self.task is not None and self.task.labels_follow_outputs:
            return False
        return self.objective.is_additive

    def _outputs(self, params: Params, batch: Batch, rows: Array) -> dict[str, Array]:
        keys = None if self.rng is None else DropoutKeys.of(self.rng, rows)
        return self.network.apply(params, batch, keys)

    def _inputs(self, outputs: Mapping[str, Array], batch: Batch) -> tuple[Any, Any]:
        """Return logits and labels as the objective takes them."""
        outputs = weighted(outputs, batch)
        if self.task is None:
            return outputs, batch
        return self.task.loss_inputs(outputs, batch)

    def _of_outputs(
        self, outputs: Mapping[str, Array], batch: Batch, scale: float | Array
    ) -> tuple[Array, tuple[Array, Any]]:
        """Return the scaled loss, with the loss and the objective's state."""
        loss, state = self.objective(
            *self._inputs(outputs, batch), self.objective_state, self.progress
        )
        return scale * loss, (loss, state)

    def _whole(self, params: Params, batch: Batch, scale: float | Array) -> Gradient:
        def loss(params: Params):
            outputs = self._outputs(params, batch, _row_numbers(batch))
            return self._of_outputs(outputs, batch, scale)

        gradients, (value, state) = jax.grad(loss, has_aux=True)(params)
        return Gradient(value, gradients, state)

    def _cut_at_logits(
        self, params: Params, batch: Batch, parts: Any, scale: float | Array
    ) -> Gradient:
        outputs = lax.map(lambda part: self._outputs(params, *part), parts)
        of_outputs = jax.grad(self._of_outputs, has_aux=True)
        cotangents, (value, state) = of_outputs(_joined(outputs), batch, scale)

        def back(params: Params, both: Any) -> Params:
            part, cotangent = both
            _, backward = jax.vjp(lambda params: self._outputs(params, *part), params)
            return backward(cotangent)[0]

        cotangents = _cut(cotangents, len(parts[1]))
        gradients = self._added_up(back, params, (parts, cotangents))
        return Gradient(value, gradients, state)

    def _in_one_pass(
        self, params: Params, batch: Batch, parts: Any, scale: float | Array
    ) -> Gradient:
        # Labels say how many elements there are; of the outputs shapes are enough.
        shapes = jax.eval_shape(self._outputs, params, batch, _row_numbers(batch))
        elements = self.objective.elements(self._inputs(_zeros(shapes), batch)[1])

        def contribution(params: Params, part: Any) -> tuple[Array, Array]:
            inputs = self._inputs(self._outputs(params, *part), part[0])
            value = self.objective.contribution(*inputs, elements, self.progress)
            return scale * value, value

        of_part = jax.grad(contribution, has_aux=True)
        gradients, loss = self._added_up(of_part, params, parts)
        return Gradient(loss, gradients, self.objective_state)

    def _added_up(
        self, of_part: Callable[[Params, Any], Any], params: Params, parts: Any
    ) -> Any:
        """Add up a function of parameters and micro-batch over the micro-batches.

        Each index of the `data` axis adds up what its own rows give, and the sums are
        reduced once: the compiler would reduce each micro-batch's.
        """

        def total(params: Params, parts: Any) -> Any:
            def add(total: Any, part: Any) -> tuple[Any, None]:
                return _sum(total, of_part(params, part)), None

            first = jax.tree.map(lambda x: x[0], parts)
            zeros = _zeros(jax.eval_shape(of_part, params, first))
            return lax.scan(add, zeros, parts)[0]

        def reduced(params: Params, parts: Any) -> Any:
            return lax.psum(total(params, parts), "data")

        if self.mesh is None or self.mesh.shape["data"] == 1:
            return total(params, parts)
        if self.mesh.shape["tensor"] > 1:  # XLA of jaxlib 0.12 aborts on it
            return total(params, parts)
        return jax.shard_map(
            reduced,
            in_specs=(P(), P(None, "data")),
            out_specs=P(),
            axis_names={"data"},
            check_vma=False,
        )(params, parts)


def _row_numbers(batch: Batch) -> Array:
    return jnp.arange(len(batch["input_ids"]))


def _cut(tree: Any, parts: int) -> Any:
    """Split the rows `[B, ...]` into `[K, B / K, ...]`.

    Part k takes the rows k, k + K, ..., so every device keeps its share of each part.
    """

    def one(x: Array) -> Array:
        if len(x) % parts:
            raise ValueError(f"{len(x)} rows do not divide into {parts} micro-batches")
        return x.reshape(-1, parts, *x.shape[1:]).swapaxes(0, 1)

    return jax.tree.map(one, tree)


def _joined(tree: Any) -> Any:
    """Undo `_cut`."""
    return jax.tree.map(lambda x: x.swapaxes(0, 1).reshape(-1, *x.shape[2:]), tree)


def _zeros(tree: Any) -> Any:
    return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), tree)


def _sum(a: Any, b: Any) -> Any:
    return jax.tree.map(jnp.add, a, b)


def weighted(
    outputs: Mapping[str, Array], batch: Mapping[str, Array]
) -> Mapping[str, Array]:
    """Scale the gradients of logits by example weights, values unchanged.

    With weights 1 / (n q), for examples drawn with probability q, the gradient of a
    mean over elements is unbiased.

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
