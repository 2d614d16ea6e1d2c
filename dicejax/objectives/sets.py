"""The objective of a set loss: its sets, its classes, and how both are reduced."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Literal, get_args

import jax.numpy as jnp
import numpy as np
from jax import Array

from dicejax.errors import hint
from dicejax.losses import class_weights
from dicejax.losses.contract import MASKED_LABEL
from dicejax.losses.declaration import Scheme, check_choice
from dicejax.objectives.gold import Gold, as_gold
from dicejax.objectives.loss_objective import LossObjective, or_one
from dicejax.objectives.objective import LabelCounts, Objective, State, objective

Sets = Literal["batch", "sequence", "element", "published"]
Reduction = Literal["mean", "sum", "micro"]
Weights = Literal["none", Scheme]

# Settings of some losses that give one class a part of its own.
_OF_ONE_CLASS = ("exclude_class", "background")


@objective
class SetObjective(LossObjective):
    """The objective of a loss over sets; a subclass has its hyper-parameters.

    The loss of a batch is the mean over its sets, of the mean or the sum over classes.
    Sets without a label do not count. Multi-label, each class counts the sets in which
    it has labels.

    Args:
      over: the elements of a set: "batch" for all; "sequence" for those of a row of the
        batch, which holds several texts if rows are packed; "element" for one; a number
        of rows, in the order of the batch, of which the last set may have
        fewer; "published" for those in the paper's code, "element" for a softmax of
        three or more classes, else "batch".
      classes: classes that count: "all"; "positive" for all but the negative one, which
        is the first; "published" for "positive" of two classes and "all" of more; or
        some by name or number, where PER is B-PER and I-PER too.
      reduce: "mean" or "sum" over classes; or "micro" for one set of all classes that
        count, whose counts are added, in which each element occurs once for each.
      weights: how classes weigh in their mean or sum: "none" for equally; or a function
        of `dicejax.losses.class_weights`, divided by its mean over those that count.
      class_counts: counts per class (multi-label: 0s, 1s) for `weights`; training
        data's if empty.
    """

    over: Sets | int = "batch"
    classes: tuple[str, ...] = ("all",)
    reduce: Reduction = "mean"
    weights: Weights = "none"
    class_counts: tuple[float, ...] = ()

    is_of_a_set: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.over, str):
            check_choice("over", self.over, get_args(Sets))
        elif self.over < 1:
            raise ValueError(f"over is {self.over} but a set has 1 row or more")
        check_choice("reduce", self.reduce, get_args(Reduction))
        check_choice("weights", self.weights, get_args(Weights))
        classes: Any = self.classes
        classes = classes.split(",") if isinstance(classes, str) else classes
        object.__setattr__(self, "classes", tuple(map(str, classes)))
        if not all(self.classes or [""]):
            raise ValueError("classes has an empty name; want all, positive or names")

    @property
    def is_additive(self) -> bool:
        """Whether no micro-batch, which has whole rows, cuts a set."""
        return self.over in ("element", "sequence", 1)

    def check_weights(self) -> None:
        """Check that its loss of a batch is a mean, which weights of examples take.

        Raises:
          ValueError: it compares elements.
        """
        if self.over != "element":
            raise ValueError(
                f"train has example weights, but a set is over {self.over}; take "
                "over=element, or a loss over elements, such as ce, or leave the "
                "weights out"
            )

    def loss_and_state(
        self,
        logits: Array,
        labels: Array | Gold,
        state: State,
        counts: LabelCounts = None,
    ) -> tuple[Array, State]:
        """Return the loss of one output, and the next state."""
        shape = as_gold(labels).labels.shape
        classes = 1 if len(shape) == logits.ndim else logits.shape[-1]
        changes: dict[str, Any] = {}
        if self.over == "published":
            changes["over"] = "element" if classes > 2 else "batch"
        if self.classes == ("published",):
            changes["classes"] = ("positive",) if classes == 2 else ("all",)
        chosen = dataclasses.replace(self, **changes) if changes else self
        return super(SetObjective, chosen).loss_and_state(logits, labels, state, counts)

    def values(
        self, logits: Array, labels: Array | Gold, state: State = (), **layout: Any
    ) -> tuple[Array, State]:
        """Return the loss of each set, and of each class unless it has one for all."""
        gold = as_gold(labels)
        labels, soft = gold.labels, gold.probabilities
        layout |= self._of_classes(logits, labels)
        if isinstance(self.over, int):
            logits = _in_sets(logits, self.over, 0)
            labels = _in_sets(labels, self.over, MASKED_LABEL)
            soft = None if soft is None else _in_sets(soft, self.over, 0)
        if self.over != "batch":
            if "axis" not in self.declaration.takes:
                raise ValueError(f"over is {self.over!r}, but it takes no axis")
            whole = self.over != "element"
            layout["axis"] = tuple(range(1, logits.ndim - 1)) if whole else ()
        return super().values(logits, Gold(labels, soft), state, **layout)

    def bind_classes(
        self, names: Mapping[str, Sequence[str]], negative: Collection[str]
    ) -> Objective:
        """Return the objective with the numbers of its classes."""
        if self.classes in (("all",), ("published",)):
            return self
        output = self._output_among(names)
        class_names = list(names[output])
        if self.classes == ("positive",):
            has_negative = output in negative or not class_names
            return self if has_negative else dataclasses.replace(self, classes=("all",))
        selected: set[int] = set()
        for name in self.classes:
            if name in class_names:
                numbers = [class_names.index(name)]
            else:  # a type, whose tags are B-PER and I-PER, or a number
                types = [tag.partition("-")[2] for tag in class_names]
                numbers = [n for n, kind in enumerate(types) if kind == name]
            limit = len(class_names) or np.inf
            if not numbers and name.isdecimal() and int(name) < limit:
                numbers = [int(name)]
            if not numbers:
                raise ValueError(
                    f"classes has {name!r}, which output {output!r} lacks: "
                    f"{', '.join(class_names) or 'its classes have no names'}"
                    f"{hint(name, class_names)}"
                )
            selected.update(numbers)
        numbered = tuple(map(str, sorted(selected)))
        return dataclasses.replace(self, classes=numbered)

    def _numbers(self, logits: Array, labels: Array) -> np.ndarray | None:
        """Return the numbers of the classes that count; None for all."""
        classes = logits.shape[-1]
        if self.classes == ("all",):
            return None
        if self.classes == ("positive",):
            whole = labels.ndim == logits.ndim or classes == 1
            return None if whole else np.arange(1, classes)
        for name in self.classes:
            if not name.isdecimal():
                raise ValueError(f"classes has {name!r}: names want `bind_classes`")
            if int(name) >= classes:
                raise ValueError(f"classes has {name} but there are {classes} classes")
        return np.unique([int(name) for name in self.classes])

    def _of_classes(self, logits: Array, labels: Array) -> dict[str, Any]:
        """Return the arguments of the loss for the classes that count and micro."""
        numbers, micro = self._numbers(logits, labels), self.reduce == "micro"
        if numbers is None and not micro:
            return {}
        setting, other = f"classes is {','.join(self.classes)}", "all"
        if numbers is None:
            setting, other = "reduce is 'micro'", "mean"
        for name in _OF_ONE_CLASS:
            if getattr(self, name, None) is not None:
                message = f"{setting}, but {name} names a class too; want {other}"
                raise ValueError(message)
        arguments: dict[str, Any] = {"average": "micro"} if micro else {}
        if numbers is not None:
            others = np.setdiff1d(np.arange(logits.shape[-1]), numbers)
            arguments["exclude_class"] = tuple(others.tolist())
        if not arguments.keys() <= self.declaration.takes:
            raise ValueError(f"{setting}, but it is defined for all classes only")
        return arguments

    def _labelled(self, labels: Array, axes: int) -> Array:
        """Return which sets have a label, for elements on so many axes."""
        seen, over = labels != MASKED_LABEL, self.over
        if over == "element":
            return seen
        if isinstance(over, int):
            seen, axes = _in_sets(seen, over, False), axes + 1
        return jnp.any(seen, axis=tuple(range(int(over != "batch"), axes)))

    def _counts(self, gold: Gold) -> LabelCounts:
        """Count labelled sets of a softmax, and multi-label of each class and of any.

        Labels alone do not tell the two apart. Weights of examples are summed.
        """
        labels = gold.labels
        several = gold.weigh(self._labelled(labels, labels.ndim - 1))
        each = jnp.sum(several, axis=tuple(range(several.ndim - 1)))
        any_class = jnp.sum(jnp.max(several, axis=-1, initial=0))
        number = jnp.sum(gold.weigh(self._labelled(labels, labels.ndim)))
        return number, each, any_class

    def _mean(
        self, values: Array, logits: Array, gold: Gold, counts: LabelCounts
    ) -> Array:
        """Return the mean over labelled sets, and the mean or sum over classes."""
        labels = gold.labels
        number, each, any_class = counts
        several = labels.ndim == logits.ndim
        labelled = self._labelled(labels, labels.ndim - several)
        per_class = values.ndim == labelled.ndim + (not several)
        weights = None if self.weights == "none" else self._weights(logits, labels)
        for name in ("reduce", "weights"):
            setting = getattr(self, name)
            if not per_class and setting not in ("mean", "micro", "none"):
                raise ValueError(
                    f"{name} is {setting!r}, but it has one value for all classes"
                )
        if weights is not None:
            values = weights * values
        if several:
            number = any_class
            numbers = self._numbers(logits, labels)
            if not per_class:
                labelled = jnp.any(labelled, axis=-1)
            elif numbers is not None:
                labelled, each = labelled[..., numbers], each[numbers]
            if per_class and self.reduce == "mean":
                number = jnp.sum(each if weights is None else weights * each)
        elif per_class:
            values = getattr(jnp, self.reduce)(values, axis=-1)
        return jnp.sum(gold.weigh(jnp.where(labelled, values, 0))) / or_one(number)

    @property
    def _wants_counts(self) -> bool:
        return self.weights != "none" or super()._wants_counts

    def _weights(self, logits: Array, labels: Array) -> Array:
        """Return the weights of the classes that count, of mean 1."""
        counts = self._class_counts(logits, labels)
        assert counts is not None
        counts = counts[..., 1] if counts.ndim > 1 else counts
        scheme: Any = self.weights
        weights = class_weights.from_counts(counts, scheme=scheme, k=1.0, beta=0.999)
        numbers = self._numbers(logits, labels)
        weights = weights if numbers is None else weights[numbers]
        return weights / or_one(jnp.mean(weights))


def _in_sets(array: Array, rows: int, fill: int | bool) -> Array:
    """Cut rows `[B, ...]` into `[sets, rows, ...]`, the last one filled up."""
    missing = [(0, -len(array) % rows)] + [(0, 0)] * (array.ndim - 1)
    array = jnp.pad(array, missing, constant_values=fill)
    return array.reshape(-1, rows, *array.shape[1:])
