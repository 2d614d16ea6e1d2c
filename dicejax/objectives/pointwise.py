"""Objectives that average a loss of each labelled element."""

from __future__ import annotations

import functools
from typing import ClassVar, Literal

import jax.numpy as jnp
from jax import Array

from dicejax import losses
from dicejax.losses import GHMState
from dicejax.objectives.objective import (
    Counts,
    MeanObjective,
    Objective,
    Scheme,
    counted,
    is_multi_label,
    mean,
    objective,
    one_or_each,
    weights_of,
)


@objective
class CrossEntropy(MeanObjective):
    """Cross-entropy, averaged over the labelled tokens (the paper's CE, eq. 1).

    Args:
      output: name of the output whose logits the loss reads, and of its labels; None
        for all the task has.
      label_smoothing: share of the target spread evenly over all classes.
    """

    short_name: ClassVar[str] = "ce"

    label_smoothing: float = 0.0

    def values(self, logits: Array, labels: Array) -> Array:
        """Return the loss of each token."""
        return losses.cross_entropy(
            logits,
            labels,
            multi_label=is_multi_label(logits, labels),
            label_smoothing=self.label_smoothing,
        )


@objective
class WeightedCrossEntropy(MeanObjective):
    """Cross-entropy with class weights from the training data (the paper's WCE, eq. 2).

    Args:
      output: name of the output whose logits the loss reads, and of its labels; None
        for all the task has.
      scheme: how counts become weights; "log_ratio" is the paper's.
      k: the K of "log_ratio", at least 1.
      beta: the beta of "effective_number", in [0, 1).
      label_smoothing: share of the target spread evenly over all classes.
      class_counts: how often each class occurs, for yes or no its 0s and then its 1s;
        taken from the training data if empty.
    """

    short_name: ClassVar[str] = "wce"

    scheme: Scheme = "log_ratio"
    k: float = 1.0
    beta: float = 0.999
    label_smoothing: float = 0.0
    class_counts: Counts = ()

    def values(self, logits: Array, labels: Array) -> Array:
        """Return the loss of each token; their mean is not divided by the weights."""
        counts = counted(self.class_counts, logits, labels)
        return losses.cross_entropy(
            logits,
            labels,
            multi_label=is_multi_label(logits, labels),
            label_smoothing=self.label_smoothing,
            class_weights=weights_of(self.scheme, counts, self.k, self.beta),
        )


@objective
class Focal(MeanObjective):
    """Focal loss (the paper's FL, eq. 4), with class weights if wanted.

    Args:
      output: name of the output whose logits the loss reads, and of its labels; None
        for all the task has.
      gamma: 0 is cross-entropy; the larger, the less an easy token counts.
      scheme: how counts become weights (alpha); "none" for equal weights.
      k: the K of "log_ratio", at least 1.
      beta: the beta of "effective_number", in [0, 1).
      class_counts: how often each class occurs, for yes or no its 0s and then its 1s;
        taken from the training data if empty.
    """

    short_name: ClassVar[str] = "focal"

    gamma: float = 2.0
    scheme: Literal[
        "none", "log_ratio", "inverse", "inverse_square_root", "effective_number"
    ] = "none"
    k: float = 1.0
    beta: float = 0.999
    class_counts: Counts = ()

    def needs_counts(self) -> bool:
        """Return whether its weights want class counts and it has none yet."""
        return self.scheme != "none" and super().needs_counts()

    def values(self, logits: Array, labels: Array) -> Array:
        """Return the loss of each token."""
        weights = None
        if self.scheme != "none":
            counts = counted(self.class_counts, logits, labels)
            weights = weights_of(self.scheme, counts, self.k, self.beta)
        return losses.focal(
            logits,
            labels,
            multi_label=is_multi_label(logits, labels),
            gamma=self.gamma,
            class_weights=weights,
        )


@objective
class Poly(MeanObjective):
    """Poly-1 loss: cross-entropy plus epsilon (1 - p).

    Args:
      output: name of the output whose logits the loss reads, and of its labels; None
        for all the task has.
      epsilon: at least -1; 0 is cross-entropy.
    """

    short_name: ClassVar[str] = "poly"

    epsilon: float = 1.0

    def values(self, logits: Array, labels: Array) -> Array:
        """Return the loss of each token."""
        return losses.poly(
            logits,
            labels,
            multi_label=is_multi_label(logits, labels),
            epsilon=self.epsilon,
        )


@objective
class MajorityOrMinority(MeanObjective):
    """Majority-or-minority loss: tokens of the majority count in full, others less.

    Args:
      output: name of the output whose logits the loss reads, and of its labels; None
        for all the task has.
      weight: of tokens outside the majority, in [0, 1]; 1 is cross-entropy.
      majority_class: index of the majority label; O is the first. For yes or no, 0 says
        that noes are the majority of each class.
    """

    short_name: ClassVar[str] = "mom"

    weight: float = 0.5
    majority_class: int = 0

    def values(self, logits: Array, labels: Array) -> Array:
        """Return the loss of each token."""
        return losses.majority_or_minority(
            logits,
            labels,
            class_axis=None if is_multi_label(logits, labels) else -1,
            majority_class=self.majority_class,
            weight=self.weight,
        )


@objective
class LogitAdjusted(MeanObjective):
    """Logit-adjusted cross-entropy: class frequencies are added while training.

    Args:
      output: name of the output whose logits the loss reads, and of its labels; None
        for all the task has.
      tau: strength; 0 is cross-entropy.
      class_counts: how often each class occurs, for yes or no its 0s and then its 1s;
        taken from the training data if empty.
    """

    short_name: ClassVar[str] = "logit_adjusted"

    tau: float = 1.0
    class_counts: Counts = ()

    def values(self, logits: Array, labels: Array) -> Array:
        """Return the loss of each token."""
        return losses.logit_adjusted(
            logits,
            labels,
            multi_label=is_multi_label(logits, labels),
            class_counts=counted(self.class_counts, logits, labels),
            tau=self.tau,
        )


@objective
class LDAM(MeanObjective):
    """Label-distribution-aware margins: rare classes must win by more.

    Args:
      output: name of the output whose logits the loss reads, and of its labels; None
        for all the task has.
      max_margin: the margin of the rarest class, in units of logits.
      scale: factor of all logits; 30 if they are cosines.
      class_counts: how often each class occurs, for yes or no its 0s and then its 1s;
        taken from the training data if empty.
    """

    short_name: ClassVar[str] = "ldam"

    max_margin: float = 0.5
    scale: float = 1.0
    class_counts: Counts = ()

    def values(self, logits: Array, labels: Array) -> Array:
        """Return the loss of each token."""
        loss = functools.partial(
            losses.ldam, max_margin=self.max_margin, scale=self.scale
        )
        counts = counted(self.class_counts, logits, labels)
        return one_or_each(loss, logits, labels, class_counts=counts)


@objective
class VectorScaling(MeanObjective):
    """Vector-scaling loss: logits scaled and shifted by class frequency.

    Args:
      output: name of the output whose logits the loss reads, and of its labels; None
        for all the task has.
      tau: strength of the shift.
      gamma: strength of the scale; 0 is the logit-adjusted loss.
      class_counts: how often each class occurs, for yes or no its 0s and then its 1s;
        taken from the training data if empty.
    """

    short_name: ClassVar[str] = "vs"

    tau: float = 1.0
    gamma: float = 0.15
    class_counts: Counts = ()

    def values(self, logits: Array, labels: Array) -> Array:
        """Return the loss of each token."""
        loss = functools.partial(losses.vs, tau=self.tau, gamma=self.gamma)
        counts = counted(self.class_counts, logits, labels)
        return one_or_each(loss, logits, labels, class_counts=counts)


@objective
class GHM(Objective):
    """Gradient-harmonised cross-entropy, with a running density of gradient norms.

    Args:
      output: name of the output whose logits the loss reads, and of its labels; None
        for all the task has.
      bins: parts into which [0, 1] is cut.
      momentum: of the running density, in [0, 1).
    """

    short_name: ClassVar[str] = "ghm"

    bins: int = 10
    momentum: float = 0.75

    def initial_state(self) -> GHMState:
        """Return a density that has seen nothing."""
        return losses.ghm_state(self.bins)

    def loss_and_state(
        self, logits: Array, labels: Array, state: GHMState
    ) -> tuple[Array, GHMState]:
        """Return the mean over labelled tokens, and the density with this batch."""
        state = state or self.initial_state()
        values, state = losses.ghm(
            logits,
            labels,
            state,
            multi_label=is_multi_label(logits, labels),
            momentum=self.momentum,
        )
        return mean(values, labels), state


@objective
class HardNegatives(Objective):
    """Cross-entropy of the positives and the hardest negatives of the batch.

    Args:
      output: name of the output whose logits the loss reads, and of its labels; None
        for all the task has.
      negatives_per_positive: how many negatives stay for each positive.
      minimum: how many negatives stay in any case.
      negative_class: index of the negative label; O is the first. Of no meaning for yes
        or no, where each 0 is a negative.
    """

    short_name: ClassVar[str] = "hard_negatives"

    negatives_per_positive: float = 3.0
    minimum: float = 1.0
    negative_class: int = 0

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the mean over the tokens that stay."""
        each = is_multi_label(logits, labels)
        values = losses.cross_entropy(logits, labels, multi_label=each)
        kept = losses.hard_negative_mask(
            values,
            labels == 1 if each else labels != self.negative_class,
            where=labels >= 0,
            negatives_per_positive=self.negatives_per_positive,
            minimum=self.minimum,
        )
        return jnp.sum(jnp.where(kept, values, 0)) / jnp.maximum(kept.sum(), 1)
