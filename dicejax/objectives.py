"""Objectives: a loss, its hyper-parameters and the head it reads, as one dataclass.

An experiment file and the command line set every field. An objective is a pytree whose
numbers are leaves, so that changing a number runs the program already compiled.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, Literal, dataclass_transform

import jax
import jax.numpy as jnp
from jax import Array

from dicejax import losses


@dataclass_transform(kw_only_default=True, frozen_default=True)
def objective(cls: type) -> type:
    """Make a class an objective: a frozen dataclass whose floats are pytree leaves."""
    cls = dataclasses.dataclass(frozen=True, kw_only=True)(cls)
    # `from __future__ import annotations` leaves a field's type as text.
    traced = {
        field.name: field.type in ("float", float) for field in dataclasses.fields(cls)
    }
    return jax.tree_util.register_dataclass(
        cls,
        data_fields=[name for name, is_float in traced.items() if is_float],
        meta_fields=[name for name, is_float in traced.items() if not is_float],
    )


@objective
class Objective:
    """What training minimises.

    A subclass is decorated with `objective`, declares its hyper-parameters as fields
    and defines `loss`. Fields of type float are traced; all others are part of the
    compiled program.

    Args:
      output: name of the head whose logits the loss reads, and of its labels.
    """

    short_name: ClassVar[str]

    output: str = "tags"

    def __call__(
        self, outputs: Mapping[str, Array], targets: Mapping[str, Array]
    ) -> Array:
        """Return the loss of a batch, a float scalar.

        Args:
          outputs: logits `[..., C]` by head name.
          targets: integer labels `[...]` by head name; -100 is left out.
        """
        return self.loss(outputs[self.output], targets[self.output])

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the loss of logits `[..., C]` against labels `[...]`, a scalar."""
        raise TypeError(f"{type(self).__name__} does not define `loss`")


@objective
class CrossEntropy(Objective):
    """Cross-entropy, averaged over the labelled tokens (the paper's CE, eq. 1).

    Args:
      output: name of the head whose logits the loss reads, and of its labels.
      label_smoothing: share of the target spread evenly over all classes.
    """

    short_name: ClassVar[str] = "ce"

    label_smoothing: float = 0.0

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the mean over labelled tokens."""
        values = losses.cross_entropy(
            logits, labels, label_smoothing=self.label_smoothing
        )
        return _mean(values, labels)


@objective
class Dice(Objective):
    """Dice of each class over the whole batch, averaged over the classes.

    Args:
      output: name of the head whose logits the loss reads, and of its labels.
      smooth: added to numerator and denominator, in units of counts.
      squared: squared sums in the denominator, the paper's DL (eq. 7, footnote 4).
    """

    short_name: ClassVar[str] = "dice"

    smooth: float = 1.0
    squared: bool = False

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the mean over classes, the batch being one set."""
        return losses.dice(
            logits, labels, smooth=self.smooth, squared=self.squared
        ).mean()


@objective
class SelfAdjustingDice(Objective):
    """Self-adjusting dice, the paper's DSC (eq. 11) with smoothing.

    Args:
      output: name of the head whose logits the loss reads, and of its labels.
      alpha: exponent of the factor (1-p)^alpha. The loss is lowest at
        p = 1/(1+alpha), so alpha 1 trains a token's own class to 0.5.
      smooth: added to numerator and denominator; in units of counts.
      over: the set. "batch": each class against the rest over the whole batch, then
        the mean over classes, as the paper's footnote 4 prefers and its code does.
        "token": each token by itself, as eq. 11 is written; its gradient vanishes for
        a gold class that has lost all probability, so rare classes may never be
        learnt.
      squared: squared sums in the denominator, as in the paper's DL and in all runs of
        its authors; batch only. Without it a rare class is pushed down by many small
        probabilities faster than it is learnt.
      stop_gradient_weight: treat the factor as a weight that is not differentiated.
    """

    short_name: ClassVar[str] = "dsc"

    alpha: float = 0.01
    smooth: float = 1.0
    over: Literal["batch", "token"] = "batch"
    squared: bool = True
    stop_gradient_weight: bool = False

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the mean over classes, or over labelled tokens."""
        settings = {
            "alpha": self.alpha,
            "smooth": self.smooth,
            "stop_gradient_weight": self.stop_gradient_weight,
        }
        if self.over == "token":
            values = losses.self_adjusting_dice(logits, labels, form="gold", **settings)
            return _mean(values, labels)
        return losses.self_adjusting_dice(
            logits,
            labels,
            axis=None,
            form="one_versus_rest",
            squared=self.squared,
            **settings,
        ).mean()


def by_short_name() -> dict[str, type[Objective]]:
    """Return the objectives by the names that the command line takes."""
    return {cls.short_name: cls for cls in Objective.__subclasses__()}


def _mean(values: Array, labels: Array) -> Array:
    """Average over labelled elements; 0 where there are none."""
    return values.sum() / jnp.maximum((labels != -100).sum(), 1)
