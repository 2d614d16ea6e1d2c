"""What an objective is: a loss, its hyper-parameters and the head it reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dicejax.losses import class_weights
from dicejax.losses.contract import MASKED_LABEL

State: TypeAlias = Any  # a pytree of arrays
Counts: TypeAlias = tuple[float, ...]
Scheme = Literal["log_ratio", "inverse", "inverse_square_root", "effective_number"]

# Fields of these types are traced; `from __future__ import annotations` leaves a
# field's type as text.
_TRACED = ("float", "Counts", "tuple[float, ...]", "Objective", "tuple[Objective, ...]")


@dataclass_transform(kw_only_default=True, frozen_default=True)
def objective(cls: type) -> type:
    """Make a class an objective: a frozen dataclass whose floats are pytree leaves."""
    cls = dataclasses.dataclass(frozen=True, kw_only=True)(cls)
    traced = {
        field.name: field.type is float or field.type in _TRACED
        for field in dataclasses.fields(cls)
    }
    return jax.tree_util.register_dataclass(
        cls,
        data_fields=[name for name, is_traced in traced.items() if is_traced],
        meta_fields=[name for name, is_traced in traced.items() if not is_traced],
    )


@objective
class Objective:
    """What training minimises.

    A subclass is decorated with `objective`, declares its hyper-parameters as fields
    and defines `loss`, or `loss_and_state` if it carries state from step to step.
    Fields of type float are traced; all others are part of the compiled program.

    Args:
      output: name of the head whose logits the loss reads, and of its labels.
    """

    short_name: ClassVar[str]

    output: str = "tags"

    def __call__(
        self,
        outputs: Mapping[str, Array],
        targets: Mapping[str, Array],
        state: State = (),
        progress: float | Array = 0.0,
    ) -> tuple[Array, State]:
        """Return the loss of a batch, a float scalar, and the next state.

        Args:
          outputs: logits `[..., C]` by head name.
          targets: integer labels `[...]` by head name; -100 is left out.
          state: what `initial_state` or the previous call returned.
          progress: the share of training that is done, in [0, 1].
        """
        del progress
        return self.loss_and_state(outputs[self.output], targets[self.output], state)

    def loss_and_state(
        self, logits: Array, labels: Array, state: State
    ) -> tuple[Array, State]:
        """Return the loss of one head, and the next state."""
        return self.loss(logits, labels), state

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the loss of logits `[..., C]` against labels `[...]`, a scalar."""
        raise TypeError(f"{type(self).__name__} does not define `loss`")

    def initial_state(self) -> State:
        """Return what the first call is given: nothing, for most objectives."""
        return ()

    def fitted(self, class_counts: Mapping[str, np.ndarray]) -> Objective:
        """Return the objective with what it needs of the training data.

        Args:
          class_counts: how often each class is a label, `[C]`, by head name.
        """
        if getattr(self, "class_counts", None) != ():
            return self
        counts = np.maximum(class_counts[self.output], 1)
        return dataclasses.replace(self, class_counts=tuple(map(float, counts)))


def counted(class_counts: Counts) -> Array:
    """Return the counts of a fitted objective as an array.

    Raises:
      ValueError: it has none.
    """
    if not class_counts:
        raise ValueError(
            "class_counts is empty: call `fitted` with the counts of the training data"
        )
    return jnp.stack([jnp.asarray(count, float) for count in class_counts])


def weights_of(scheme: Scheme, class_counts: Counts, k: float, beta: float) -> Array:
    """Return class weights `[C]`; k is that of log_ratio, beta of effective_number."""
    counts = counted(class_counts)
    match scheme:
        case "log_ratio":
            return class_weights.log_ratio(counts, k=k)
        case "effective_number":
            return class_weights.effective_number(counts, beta=beta)
        case _:
            return getattr(class_weights, scheme)(counts)


def mean(values: Array, labels: Array) -> Array:
    """Average over labelled elements; 0 where there are none.

    Values of several classes per element, `[..., C]` for labels `[...]`, are summed.
    """
    seen = labels != MASKED_LABEL
    if values.ndim < labels.ndim:  # one value for an element of several labels
        seen = jnp.any(seen, axis=-1)
    return values.sum() / jnp.maximum(seen.sum(), 1)


def yes_or_no(logits: Array, labels: Array) -> Array:
    """Return labels shaped like the logits: those of one class become a 1 among 0s."""
    if labels.ndim == logits.ndim:
        return labels
    one_hot = (labels[..., None] == jnp.arange(logits.shape[-1])).astype(jnp.int32)
    return jnp.where(labels[..., None] == MASKED_LABEL, MASKED_LABEL, one_hot)
