"""Objectives over sets: the whole batch is one set, averaged over the classes.

For yes or no, a class is a set of yeses, and with C 1 there is that one alone: Dice is
then the paper's binary form. `UnifiedFocal` has the noes for a class too.
"""

from __future__ import annotations

import functools
from typing import ClassVar, Literal

from jax import Array

from dicejax import losses
from dicejax.objectives.objective import (
    Objective,
    is_multi_label,
    mean,
    objective,
    one_or_each,
    to_multi_label,
)

Absent = Literal["smooth", "skip"]


@objective
class SetObjective(Objective):
    """What compares, for each class, predicted and actual members of a set."""

    @property
    def is_of_a_set(self) -> bool:
        """Whether it does so with its settings."""
        return True


@objective
class Dice(SetObjective):
    """Dice of each class over the whole batch, averaged over the classes.

    Args:
      output: name of the output whose logits the loss reads, and of its labels; None
        for all the task has.
      smooth: added to numerator and denominator, in units of counts.
      squared: squared sums in the denominator, the paper's DL (eq. 7, footnote 4).
    """

    short_name: ClassVar[str] = "dice"

    smooth: float = 1.0
    squared: bool = False

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the mean over classes."""
        return losses.dice(
            logits,
            labels,
            multi_label=is_multi_label(logits, labels),
            smooth=self.smooth,
            squared=self.squared,
        ).mean()


@objective
class SelfAdjustingDice(SetObjective):
    """Self-adjusting dice, the paper's DSC (eq. 11) with smoothing.

    Args:
      output: name of the output whose logits the loss reads, and of its labels; None
        for all the task has.
      alpha: exponent of the factor (1-p)^alpha. The loss is lowest at
        p = 1/(1+alpha), so alpha 1 trains a token's own class to 0.5.
      smooth: added to numerator and denominator; in units of counts.
      over: the set. "batch": each class against the rest over the whole batch, then
        the mean over classes, as the paper's footnote 4 prefers and its code does.
        "token": each token by itself, as eq. 11 is written; its gradient vanishes for
        a gold class that has lost all probability, so rare classes may never be
        learnt. For yes or no, each entry is a set by itself.
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

    @property
    def is_of_a_set(self) -> bool:
        """Whether the set is the batch and not a token."""
        return self.over == "batch"

    @property
    def is_additive(self) -> bool:
        """Whether the loss is a mean over labels, each of which is a set by itself."""
        return not self.is_of_a_set

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the mean over classes, or over labelled tokens."""
        loss = functools.partial(
            losses.self_adjusting_dice,
            logits,
            labels,
            multi_label=is_multi_label(logits, labels),
            alpha=self.alpha,
            smooth=self.smooth,
            stop_gradient_weight=self.stop_gradient_weight,
        )
        if self.over == "token":
            return mean(loss(axis=(), form="gold"), labels)
        return loss(axis=None, form="one_versus_rest", squared=self.squared).mean()


@objective
class LogCoshDice(SetObjective):
    """Log-cosh of dice: classes that are nearly learnt pull less.

    Args:
      output: name of the output whose logits the loss reads, and of its labels; None
        for all the task has.
      smooth: added to numerator and denominator, in units of counts.
      squared: squared sums in the denominator.
    """

    short_name: ClassVar[str] = "log_cosh_dice"

    smooth: float = 1.0
    squared: bool = False

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the mean over classes."""
        return losses.log_cosh_dice(
            logits,
            labels,
            multi_label=is_multi_label(logits, labels),
            smooth=self.smooth,
            squared=self.squared,
        ).mean()


@objective
class GeneralizedDice(SetObjective):
    """Generalised dice: one ratio of all classes, rare ones weighing more.

    Args:
      output: name of the output whose logits the loss reads, and of its labels; None
        for all the task has.
      smooth: added to numerator and denominator, in counts of the rarest class.
      weighting: by 1 / count^2, 1 / count or not at all.
      absent: classes without gold in the batch: left out, or as the rarest present.
    """

    short_name: ClassVar[str] = "generalized_dice"

    smooth: float = 1e-5
    weighting: Literal["square", "simple", "uniform"] = "square"
    absent: Absent = "skip"

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the loss of the batch."""
        return losses.generalized_dice(
            logits,
            labels,
            multi_label=is_multi_label(logits, labels),
            smooth=self.smooth,
            weighting=self.weighting,
            absent=self.absent,
        )


@objective
class DiceSemimetric(SetObjective):
    """Dice semimetric: dice that is right for soft labels.

    Args:
      output: name of the output whose logits the loss reads, and of its labels; None
        for all the task has.
      smooth: added to numerator and denominator, in units of counts.
      variant: of the two forms; the same for hard labels.
    """

    short_name: ClassVar[str] = "dice_semimetric"

    smooth: float = 1.0
    variant: Literal["dml1", "dml2"] = "dml1"

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the mean over classes."""
        return losses.dice_semimetric(
            logits,
            labels,
            multi_label=is_multi_label(logits, labels),
            smooth=self.smooth,
            variant=self.variant,
        ).mean()


@objective
class Tversky(SetObjective):
    """Tversky loss over the batch (the paper's TL).

    Args:
      output: name of the output whose logits the loss reads, and of its labels; None
        for all the task has.
      alpha: weight of false positives.
      beta: weight of false negatives.
      smooth: added to numerator and denominator, in units of counts.
    """

    short_name: ClassVar[str] = "tversky"

    alpha: float = 0.5
    beta: float = 0.5
    smooth: float = 1.0

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the mean over classes."""
        return losses.tversky(
            logits,
            labels,
            multi_label=is_multi_label(logits, labels),
            alpha=self.alpha,
            beta=self.beta,
            smooth=self.smooth,
        ).mean()


@objective
class FocalTversky(SetObjective):
    """Focal Tversky loss: classes that are nearly learnt pull harder.

    Args:
      output: name of the output whose logits the loss reads, and of its labels; None
        for all the task has.
      alpha: weight of false positives.
      beta: weight of false negatives.
      gamma: the loss is taken to the power 1 / gamma; 1 is Tversky.
      smooth: added to numerator and denominator, in units of counts.
    """

    short_name: ClassVar[str] = "focal_tversky"

    alpha: float = 0.3
    beta: float = 0.7
    gamma: float = 4 / 3
    smooth: float = 1.0

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the mean over classes."""
        return losses.focal_tversky(
            logits,
            labels,
            multi_label=is_multi_label(logits, labels),
            alpha=self.alpha,
            beta=self.beta,
            gamma=self.gamma,
            smooth=self.smooth,
        ).mean()


@objective
class Jaccard(SetObjective):
    """Jaccard loss over the batch: one minus intersection over union.

    Args:
      output: name of the output whose logits the loss reads, and of its labels; None
        for all the task has.
      smooth: added to numerator and denominator, in units of counts.
    """

    short_name: ClassVar[str] = "jaccard"

    smooth: float = 1.0

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the mean over classes."""
        return losses.jaccard(
            logits,
            labels,
            multi_label=is_multi_label(logits, labels),
            smooth=self.smooth,
        ).mean()


@objective
class SoftF1(SetObjective):
    """One minus the soft F-beta of the batch.

    Args:
      output: name of the output whose logits the loss reads, and of its labels; None
        for all the task has.
      beta: weight of recall against precision.
      average: over classes, or of counts summed over classes.
      exclude_class: index of a class left out, 0 for O; None for none.
      smooth: added to numerator and denominator, in units of counts.
      absent: classes without gold in the batch: by the formula, or left out.
    """

    short_name: ClassVar[str] = "soft_f1"

    beta: float = 1.0
    average: Literal["macro", "micro"] = "macro"
    exclude_class: int | None = None
    smooth: float = 1.0
    absent: Absent = "smooth"

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the loss of the batch."""
        return losses.soft_f1(
            logits,
            labels,
            multi_label=is_multi_label(logits, labels),
            beta=self.beta,
            average=self.average,
            exclude_class=self.exclude_class,
            smooth=self.smooth,
            absent=self.absent,
        )


@objective
class SigmoidF1(SetObjective):
    """One minus the F1 of a tuned sigmoid, each class a yes or no.

    Args:
      output: name of the output whose logits the loss reads, and of its labels; None
        for all the task has.
      slope: of the sigmoid.
      offset: added to the logits.
      average: over classes, or of counts summed over classes.
      smooth: added to numerator and denominator, in units of counts.
    """

    short_name: ClassVar[str] = "sigmoid_f1"

    slope: float = 1.0
    offset: float = 0.0
    average: Literal["macro", "micro"] = "macro"
    smooth: float = 1.0

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the loss of the batch."""
        return losses.sigmoid_f1(
            logits,
            to_multi_label(logits, labels),
            slope=self.slope,
            offset=self.offset,
            average=self.average,
            smooth=self.smooth,
        )


@objective
class UnifiedFocal(SetObjective):
    """Unified focal loss: focal cross-entropy and focal Tversky in one.

    Args:
      output: name of the output whose logits the loss reads, and of its labels; None
        for all the task has.
      weight: share of the cross-entropy.
      delta: weight of rare classes and of false negatives.
      gamma: strength of fading and enhancing, in [0, 1).
      variant: whether the background is treated apart.
      background: index of the background label; O is the first. For yes or no, 0 says
        that noes are the background of each class.
    """

    short_name: ClassVar[str] = "unified_focal"

    weight: float = 0.5
    delta: float = 0.6
    gamma: float = 0.5
    variant: Literal["asymmetric", "symmetric"] = "asymmetric"
    background: int = 0

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the loss of the batch."""
        loss = functools.partial(
            losses.unified_focal,
            weight=self.weight,
            delta=self.delta,
            gamma=self.gamma,
            variant=self.variant,
            background=self.background,
        )
        return one_or_each(loss, logits, labels).mean()


@objective
class LovaszSoftmax(SetObjective):
    """Lovász-softmax loss over the batch.

    Args:
      output: name of the output whose logits the loss reads, and of its labels; None
        for all the task has.
      absent: classes without gold in the batch: loss 0, or the largest error.
    """

    short_name: ClassVar[str] = "lovasz"

    absent: Absent = "skip"

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the mean over classes."""
        return losses.lovasz_softmax(
            logits,
            labels,
            multi_label=is_multi_label(logits, labels),
            absent=self.absent,
        ).mean()
