"""The objective of a set loss: its sets, its classes, and how both are reduced."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, get_args

import jax.numpy as jnp
import numpy as np
from jax import Array

from dicejax.errors import InputError, hint
from dicejax.losses import class_weights
from dicejax.losses.contract import MASKED_LABEL
from dicejax.losses.declaration import Average, Scheme, check_choice
from dicejax.objectives.gold import Gold, as_gold
from dicejax.objectives.loss_objective import LossObjective, SetCounts, or_one
from dicejax.objectives.objective import Objective, State, _Target, objective

Sets = Literal["batch", "sequence", "element"]
ClassWeights = Literal["none", Scheme]

NEGATIVES = "negatives"

# Fields of earlier versions, with what says it now.
RENAMED = {
    "classes": "exclude_class, which names those left out",
    "reduce": "average",
    "weights": "class_weights",
}
# What `classes` said, without names.
_LEFT_OUT = {("all",): (), ("published",): (), ("positive",): (NEGATIVES,)}


@objective
class SetObjective(LossObjective):
    """The objective of a loss over sets; a subclass has its hyper-parameters.

    It asks its function for what the fields of the same names say, and takes the mean
    over sets and over what there is of classes. Sets without a label do not count.
    Multi-label, each class counts the sets in which it has labels.

    Args:
      over: the elements of a set: "batch" for all; "sequence" for those of a row of the
        batch, which holds several texts if rows are packed; "element" for one; or a
        number of rows, in the order of the batch, of which the last set may have
        fewer.
      exclude_class: classes left out, by name or number, where PER is B-PER and I-PER
        too; "negatives" for the first, where it is the negative one.
      average: that of the function, whose default it has: "none" for a loss of each
        class, "macro" for their mean in each set, "micro" for one set of all classes.
      class_weights: a function of `dicejax.losses.class_weights`, for weights with the
        mean 1 over the classes that count; "none" weighs them equally.
      class_counts: counts per class (multi-label: 0s, 1s) for `class_weights`;
        training data's if empty.
    """

    over: Sets | int = "batch"
    exclude_class: tuple[str, ...] = ()
    average: Average = "none"
    class_weights: ClassWeights = "none"
    class_counts: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.over, str):
            check_choice("over", self.over, get_args(Sets))
        elif self.over < 1:
            raise ValueError(f"over is {self.over} but a set has 1 row or more")
        check_choice("average", self.average, get_args(Average))
        check_choice("class_weights", self.class_weights, get_args(ClassWeights))
        named: Any = self.exclude_class
        named = named.split(",") if isinstance(named, str) else named
        named = named if isinstance(named, list | tuple) else (named,)
        object.__setattr__(self, "exclude_class", tuple(map(str, named)))
        if not all(self.exclude_class):
            raise ValueError(
                "exclude_class has an empty name; want negatives, names or numbers"
            )
        for name in ("over", "exclude_class", "average", "class_weights"):
            word, value = "axis" if name == "over" else name, getattr(self, name)
            if (
                value not in ("batch", (), "none")
                and word not in self.declaration.takes
            ):
                raise ValueError(
                    f"{name} is {value!r}, but the function of {self._name} takes no "
                    f"{word}"
                )

    @classmethod
    def recorded(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a run's record, by which earlier versions said it.

        Raises:
          InputError: nothing says it now.
        """
        if not RENAMED.keys() <= fields.keys():
            return fields
        left = {"average": "none", "exclude_class": None} | fields
        classes, reduce, weights = map(left.pop, RENAMED)
        if tuple(classes) not in _LEFT_OUT:
            raise InputError(f"classes is {classes}; it is now {RENAMED['classes']}")
        if reduce == "sum":
            raise InputError("reduce is sum; only dsc-official adds classes now")
        if reduce == "micro":
            left["average"] = "micro"
        number = left["exclude_class"]
        numbers = [] if number is None else np.ravel(number).tolist()
        excluded = [*_LEFT_OUT[tuple(classes)], *map(str, numbers)]
        return left | {"exclude_class": excluded, "class_weights": weights}

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

    def values(
        self, logits: Array, labels: Array | Gold, state: State = (), **layout: Any
    ) -> tuple[Array, State]:
        """Return the loss of each set, and of each class unless it has one for all."""
        gold = as_gold(labels)
        labels, soft = gold.labels, gold.probabilities
        classes, several = logits.shape[-1], labels.ndim == logits.ndim
        layout["exclude_class"] = self._excluded(classes, several) or None
        layout["class_weights"] = self._weights(classes, several)
        if isinstance(self.over, int):
            logits = _in_sets(logits, self.over, 0)
            labels = _in_sets(labels, self.over, MASKED_LABEL)
            soft = None if soft is None else _in_sets(soft, self.over, 0)
        if self.over != "batch":
            whole = self.over != "element"
            layout["axis"] = tuple(range(1, logits.ndim - 1)) if whole else ()
        return super().values(logits, Gold(labels, soft), state, **layout)

    def fit(self, target: _Target, counts: np.ndarray | None) -> Objective:
        """Return the objective with the numbers of the classes left out."""
        if target.kind == "positions":
            raise ValueError(
                f"compares classes over the batch, but labels of output "
                f"{self.output!r} are positions; choose another form of the task "
                "(--task.form sigmoid) or loss"
            )
        numbers = {
            number
            for name in self.exclude_class
            if name != NEGATIVES
            for number in _numbers(name, self.output, target.classes)
        }
        has_negative = target.has_negative or not target.classes
        first = (NEGATIVES,) if NEGATIVES in self.exclude_class and has_negative else ()
        excluded = (*first, *map(str, sorted(numbers)))
        changed = dataclasses.replace(self, exclude_class=excluded)
        return super(SetObjective, changed).fit(target, counts)

    def _excluded(self, classes: int, several: bool) -> tuple[int, ...]:
        """Return the numbers of the classes left out."""
        numbers: set[int] = set()
        for name in self.exclude_class:
            if name.isdecimal():
                numbers.add(int(name))
            elif name != NEGATIVES:
                raise ValueError(f"exclude_class has {name!r}: names want `bind`")
            elif classes > 1 and not several:
                numbers.add(0)
        return tuple(sorted(numbers))

    def _chosen(self, classes: int, several: bool) -> np.ndarray:
        """Return the numbers of the classes that count."""
        excluded = np.array(self._excluded(classes, several), int)
        return np.setdiff1d(np.arange(classes), excluded)

    def _labelled(self, labels: Array, axes: int) -> Array:
        """Return which sets have a label, for elements on so many axes."""
        seen, over = super()._labelled(labels, axes), self.over
        if over == "element":
            return seen
        if isinstance(over, int):
            seen, axes = _in_sets(seen, over, False), axes + 1
        return jnp.any(seen, axis=tuple(range(int(over != "batch"), axes)))

    def _counts(self, gold: Gold) -> SetCounts:
        """Count labelled sets, those of each class too."""
        labels = gold.labels
        by_class = gold.weigh(self._labelled(labels, labels.ndim - 1))
        total = jnp.sum(by_class, axis=tuple(range(by_class.ndim - 1)))
        return super()._counts(gold)._replace(by_class=total)

    def _by_class(self, labelled: Array, counts: SetCounts) -> tuple[Array, Array]:
        """Return which sets have a label of each class that counts, and how many."""
        number, classes = counts.by_class, labelled.shape[-1]
        assert number is not None
        weights, chosen = self._weights(classes, True), self._chosen(classes, True)
        number = number if weights is None else weights * number
        return labelled[..., chosen], jnp.sum(number[chosen])

    @property
    def _wants_counts(self) -> bool:
        return self.class_weights != "none" or super()._wants_counts

    def _weights(self, classes: int, several: bool) -> Array | None:
        """Return weights `[C]` of the classes, of mean 1 over those that count."""
        scheme = self.class_weights
        if scheme == "none":
            return None
        counts = self._class_counts(classes, several)
        assert counts is not None
        counts = counts[..., 1] if counts.ndim > 1 else counts
        weights = class_weights.from_counts(counts, scheme=scheme, k=1.0, beta=0.999)
        return weights / or_one(jnp.mean(weights[self._chosen(classes, several)]))


def _numbers(name: str, output: str | None, class_names: tuple[str, ...]) -> set[int]:
    """Return the numbers of the classes that a name, a type of tags or a number is."""
    types = [tag.partition("-")[2] for tag in class_names]
    numbers = {n for n, label in enumerate(class_names) if label == name}
    numbers = numbers or {n for n, kind in enumerate(types) if kind == name}
    if not numbers and name.isdecimal() and int(name) < (len(class_names) or np.inf):
        numbers = {int(name)}
    if not numbers:
        raise ValueError(
            f"exclude_class has {name!r}, which output {output!r} lacks: "
            f"{', '.join(class_names) or 'its classes have no names'}"
            f"{hint(name, [*class_names, NEGATIVES])}"
        )
    return numbers


def _in_sets(array: Array, rows: int, fill: int | bool) -> Array:
    """Cut rows `[B, ...]` into `[sets, rows, ...]`, the last one filled up."""
    missing = [(0, -len(array) % rows)] + [(0, 0)] * (array.ndim - 1)
    array = jnp.pad(array, missing, constant_values=fill)
    return array.reshape(-1, rows, *array.shape[1:])
