"""What an objective is: a loss, its hyper-parameters and the output it reads."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dicejax.losses import class_weights
from dicejax.losses.contract import MASKED_LABEL

State: TypeAlias = Any  # a pytree of arrays
Elements: TypeAlias = Any  # a pytree of counts
Counts: TypeAlias = tuple[float, ...]
Scheme = Literal["log_ratio", "inverse", "inverse_square_root", "effective_number"]

NO_WEIGHTS: Mapping[str, float] = types.MappingProxyType({})

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

    An output has labels in one of two forms. With one axis less than the logits
    `[..., C]` they name one class of each element (softmax). With the logits' shape
    they are 0 or 1, and each class is a yes or no by itself (sigmoid): a mean over
    labelled tokens is then one over labelled entries, tokens times classes, and a set
    loss takes the yeses of each class. C may be 1. A label of -100 is left out.

    A subclass is decorated with `objective`, declares its hyper-parameters as fields
    and defines `loss`, or `loss_and_state` if it carries state from step to step; one
    that averages over labels is a `MeanObjective` and defines `values`. Fields of type
    float are traced; all others are part of the compiled program.

    Args:
      output: name of the output whose logits the loss reads, and of its labels; None
        for all the task has.
    """

    short_name: ClassVar[str]

    output: str | None = None

    def __call__(
        self,
        outputs: Mapping[str, Array],
        targets: Mapping[str, Array],
        state: State = (),
        progress: float | Array = 0.0,
    ) -> tuple[Array, State]:
        """Return the loss of a batch, a float scalar, and the next state.

        Args:
          outputs: logits `[..., C]` by name of the output.
          targets: integer labels `[...]`, or `[..., C]` of 0 and 1, by name of the
            output; -100 is left out.
          state: what `initial_state` or the previous call returned.
          progress: the share of training that is done, in [0, 1].

        Raises:
          ValueError: it is not told which of several outputs it reads.
        """
        del progress
        name = self._one_of(outputs)
        return self.loss_and_state(outputs[name], targets[name], state)

    def loss_and_state(
        self, logits: Array, labels: Array, state: State
    ) -> tuple[Array, State]:
        """Return the loss of one output, and the next state."""
        return self.loss(logits, labels), state

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the loss of logits `[..., C]` against labels, a scalar."""
        raise TypeError(f"{type(self).__name__} does not define `loss`")

    @property
    def is_additive(self) -> bool:
        """Whether the loss of a batch is a mean over its labels, and has no state.

        Micro-batches then add up to it, by `elements` and `contribution`.
        """
        return False

    def elements(self, targets: Mapping[str, Array]) -> Elements:
        """Return how many elements the mean is over: of these labels, whatever logits.

        Args:
          targets: labels by name of the output, as those of a call.

        Returns:
          An int scalar, 0 if all is masked; for an objective made of others, a tuple of
          what each returns. Counts of micro-batches add up to those of the batch.

        Raises:
          TypeError: it is not additive.
        """
        if not self.is_additive:
            raise TypeError(
                f"objective {self._name} is not additive: its loss of a batch is no sum"
                " over micro-batches"
            )
        return count_labels(targets[self._one_of(targets)])

    def contribution(
        self,
        outputs: Mapping[str, Array],
        targets: Mapping[str, Array],
        whole: Elements,
        progress: float | Array = 0.0,
    ) -> Array:
        r"""Return what a micro-batch adds to the loss of the whole batch, a scalar.

        .. math:: L = \sum_k L_k \frac{n_k}{n}, \qquad n = \sum_k n_k

        with n_k the `elements` of micro-batch k, so its gradients can be added as they
        come. A micro-batch without labels adds 0.

        Args:
          outputs: logits of the micro-batch, as those of a call.
          targets: its labels.
          whole: the `elements` of all micro-batches, added.
          progress: the share of training that is done, in [0, 1].

        Raises:
          TypeError: it is not additive.

        Example:
          >>> import jax, jax.numpy as jnp
          >>> from dicejax.objectives import CrossEntropy
          >>> logits = jnp.array([[2.0, 0.0], [0.0, 0.0], [0.0, 1.0], [9.0, 9.0]])
          >>> labels, loss = jnp.array([0, 1, 1, -100]), CrossEntropy()
          >>> parts = [
          ...     ({"tags": logits[rows]}, {"tags": labels[rows]})
          ...     for rows in (slice(0, 2), slice(2, 4))
          ... ]
          >>> counts = [loss.elements(targets) for _, targets in parts]
          >>> whole = jax.tree.map(lambda *each: sum(each), *counts)
          >>> print(*counts, whole)
          2 1 3
          >>> round(float(sum(loss.contribution(*part, whole) for part in parts)), 4)
          0.3778
          >>> round(float(loss({"tags": logits}, {"tags": labels})[0]), 4)
          0.3778
        """
        del progress
        name = self._one_of(outputs)
        labels = targets[name]
        number = self.elements({name: labels})
        return self.loss(outputs[name], labels) * number / jnp.maximum(whole, 1)

    def initial_state(self) -> State:
        """Return what the first call is given: nothing, for most objectives."""
        return ()

    def with_class_counts(self, class_counts: Mapping[str, np.ndarray]) -> Objective:
        """Return the objective with what it needs of the training data.

        Args:
          class_counts: how often each class is a label, `[C]`, or how often it is 0 and
            how often 1, `[C, 2]`, by name of the output. Outputs whose labels are
            positions have none.

        Raises:
          ValueError: the output it reads has no counts, or is one of several and none
            is named.
        """
        if not self.needs_counts():
            return self
        name = self._one_of(class_counts)
        if name not in class_counts:
            raise ValueError(
                f"objective {self._name} needs class counts, which output {name!r} has"
                " none of: its labels are positions"
            )
        counts = np.maximum(class_counts[name], 1)
        return dataclasses.replace(self, class_counts=tuple(map(float, counts.ravel())))

    def needs_counts(self) -> bool:
        """Return whether it wants class counts and has none yet."""
        return getattr(self, "class_counts", None) == ()

    def bind_outputs(
        self, outputs: Sequence[str], weights: Mapping[str, float] = NO_WEIGHTS
    ) -> Objective:
        """Return the objective with every output that is None filled in.

        Where there are several outputs, a weighted sum of one copy for each. An output
        that is named stays, and is not weighed.

        Args:
          outputs: all that the task has.
          weights: of the copies by output; 1 for those that it leaves out.

        Raises:
          ValueError: the task has no outputs, or not one that is named here.
        """
        # Not at the top: sums are made of objectives.
        from dicejax.objectives.combining import WeightedSum

        named = () if self.output is None else (self.output,)
        for name in (*named, *weights):
            _check_known(name, outputs)
        if named:
            return self
        if not outputs:
            raise ValueError(f"objective {self._name} has no output to read")
        copies = tuple(dataclasses.replace(self, output=name) for name in outputs)
        shares = tuple(weights.get(name, 1.0) for name in outputs)
        if shares == (1.0,):
            return copies[0]
        return WeightedSum(parts=copies, weights=shares)

    @property
    def is_of_a_set(self) -> bool:
        """Whether it compares classes over a set of elements, such as the batch.

        Labels that are positions in a sequence are of no class, and do not suit it.
        """
        return False

    def terms(self) -> tuple[Objective, ...]:
        """Return those that read an output: this one, or what it is made of."""
        return (self,)

    @property
    def _name(self) -> str:
        return getattr(self, "short_name", type(self).__name__)

    def _one_of(self, outputs: Collection[str]) -> str:
        if self.output is not None:
            return self.output
        if len(outputs) != 1:
            raise ValueError(
                f"objective {self._name} names no output and there are {len(outputs)}"
                f" ({', '.join(outputs)}): call `bind_outputs` with those of the task"
            )
        return next(iter(outputs))


@objective
class MeanObjective(Objective):
    """The mean over labels of a loss of each; a subclass says which, by `values`.

    Args:
      output: name of the output whose logits the loss reads, and of its labels; None
        for all the task has.
    """

    @property
    def is_additive(self) -> bool:
        """Whether the loss of a batch is a mean over its labels: it is."""
        return True

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the mean over labelled tokens; for yes or no, over entries."""
        return mean(self.values(logits, labels), labels)

    def values(self, logits: Array, labels: Array) -> Array:
        """Return what `mean` takes: the loss of each element, whatever the others."""
        raise TypeError(f"{type(self).__name__} does not define `values`")


def _check_known(name: str, outputs: Sequence[str]) -> None:
    if name in outputs:
        return
    close = difflib.get_close_matches(name, outputs, 1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    known = ", ".join(map(repr, outputs))
    raise ValueError(f"output {name!r} is none of the task's: {known}{hint}")


def is_multi_label(logits: Array, labels: Array) -> bool:
    """Return whether labels are a yes or no for each class, not one class each."""
    return labels.ndim == logits.ndim


def counted(class_counts: Counts, logits: Array, labels: Array) -> Array:
    """Return the counts of a fitted objective, `[C]`, or `[C, 2]` for yes or no.

    Raises:
      ValueError: it has none, or not as many as the classes want.
    """
    if not class_counts:
        raise ValueError(
            "class_counts is empty: call `with_class_counts` with those of the "
            "training data"
        )
    classes = logits.shape[-1]
    shape = (classes, 2) if is_multi_label(logits, labels) else (classes,)
    if len(class_counts) != math.prod(shape):
        kind = " of yes or no" if len(shape) == 2 else ""
        raise ValueError(
            f"class_counts has {len(class_counts)} numbers but {classes} classes{kind}"
            f" want {math.prod(shape)}"
        )
    counts = jnp.stack([jnp.asarray(count, float) for count in class_counts])
    return counts.reshape(shape)


def weights_of(scheme: Scheme, counts: Array, k: float, beta: float) -> Array:
    """Return weights like the counts, over their last axis.

    k is that of log_ratio, beta of effective_number.
    """
    match scheme:
        case "log_ratio":
            return class_weights.log_ratio(counts, k=k)
        case "effective_number":
            return class_weights.effective_number(counts, beta=beta)
        case _:
            return getattr(class_weights, scheme)(counts)


def mean(values: Array, labels: Array) -> Array:
    """Average over labels that are not masked; 0 where there are none.

    Several values for a label, `[..., C]` for labels `[...]`, are summed. One value for
    several labels, `[...]` for labels `[..., C]`, counts once, if any of them is there.
    """
    number = count_labels(labels, together=values.ndim < labels.ndim)
    return values.sum() / jnp.maximum(number, 1)


def count_labels(labels: Array, *, together: bool = False) -> Array:
    """Count the labels that are not masked; `together`, those of the last axis as one.

    >>> labels = jnp.array([[1, 0, -100], [-100, -100, -100]])
    >>> print(count_labels(labels), count_labels(labels, together=True))
    2 1
    """
    seen = labels != MASKED_LABEL
    return jnp.sum(jnp.any(seen, axis=-1) if together else seen)


def to_multi_label(logits: Array, labels: Array) -> Array:
    """Return labels shaped like the logits: those of one class become a 1 among 0s."""
    if is_multi_label(logits, labels):
        return labels
    one_hot = (labels[..., None] == jnp.arange(logits.shape[-1])).astype(jnp.int32)
    return jnp.where(labels[..., None] == MASKED_LABEL, MASKED_LABEL, one_hot)


def one_or_each(
    loss: Callable[..., Array], logits: Array, labels: Array, **of_classes: Array
) -> Array:
    """Return a loss of one class per element, or its binary form for each class.

    Args:
      loss: one with a binary form but without one for several labels.
      logits: floats `[..., C]`.
      labels: in either form. For yes or no, what the loss returns for each class by
        itself is stacked along a last axis.
      **of_classes: more arguments: arrays whose first axis is that of the classes.
    """
    if not is_multi_label(logits, labels):
        return loss(logits, labels, **of_classes)
    binary = functools.partial(loss, class_axis=None)
    return jax.vmap(binary, in_axes=-1, out_axes=-1)(logits, labels, **of_classes)
