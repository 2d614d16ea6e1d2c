"""Objectives that average a loss of each labelled element."""

from __future__ import annotations

from typing import ClassVar, Literal

import jax.numpy as jnp
from jax import Array

from dicejax import losses
from dicejax.losses import GHMState
from dicejax.objectives.objective import (
    Counts,
    Objective,
    Scheme,
    counted,
    mean,
    objective,
    weights_of,
    yes_or_no,
)


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
        return mean(values, labels)


@objective
class WeightedCrossEntropy(Objective):
    """Cross-entropy with class weights from the training data (the paper's WCE, eq. 2).

    Args:
      output: name of the head whose logits the loss reads, and of its labels.
      scheme: how counts become weights; "log_ratio" is the paper's.
      k: the K of "log_ratio", at least 1.
      beta: the beta of "effective_number", in [0, 1).
      label_smoothing: share of the target spread evenly over all classes.
      class_counts: how often each class occurs; taken from the training data if empty.
    """

    short_name: ClassVar[str] = "wce"

    scheme: Scheme = "log_ratio"
    k: float = 1.0
    beta: float = 0.999
    label_smoothing: float = 0.0
    class_counts: Counts = ()

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the mean over labelled tokens, not divided by the weights."""
        values = losses.cross_entropy(
            logits,
            labels,
            label_smoothing=self.label_smoothing,
            class_weights=weights_of(self.scheme, self.class_counts, self.k, self.beta),
        )
        return mean(values, labels)


@objective
class Focal(Objective):
    """Focal loss (the paper's FL, eq. 4), with class weights if wanted.

    Args:
      output: name of the head whose logits the loss reads, and of its labels.
      gamma: 0 is cross-entropy; the larger, the less an easy token counts.
      scheme: how counts become weights (alpha); "none" for equal weights.
      k: the K of "log_ratio", at least 1.
      beta: the beta of "effective_number", in [0, 1).
      class_counts: how often each class occurs; taken from the training data if empty.
    """

    short_name: ClassVar[str] = "focal"

    gamma: float = 2.0
    scheme: Literal[
        "none", "log_ratio", "inverse", "inverse_square_root", "effective_number"
    ] = "none"
    k: float = 1.0
    beta: float = 0.999
    class_counts: Counts = ()

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the mean over labelled tokens."""
        weights = None
        if self.scheme != "none":
            weights = weights_of(self.scheme, self.class_counts, self.k, self.beta)
        values = losses.focal(logits, labels, gamma=self.gamma, class_weights=weights)
        return mean(values, labels)


@objective
class Poly(Objective):
    """Poly-1 loss: cross-entropy plus epsilon (1 - p).

    Args:
      output: name of the head whose logits the loss reads, and of its labels.
      epsilon: at least -1; 0 is cross-entropy.
    """

    short_name: ClassVar[str] = "poly"

    epsilon: float = 1.0

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the mean over labelled tokens."""
        return mean(losses.poly(logits, labels, epsilon=self.epsilon), labels)


@objective
class MajorityOrMinority(Objective):
    """Majority-or-minority loss: tokens of the majority count in full, others less.

    Args:
      output: name of the head whose logits the loss reads, and of its labels.
      weight: of tokens outside the majority, in [0, 1]; 1 is cross-entropy.
      majority_class: index of the majority label; O is the first.
    """

    short_name: ClassVar[str] = "mom"

    weight: float = 0.5
    majority_class: int = 0

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the mean over labelled tokens."""
        values = losses.majority_or_minority(
            logits, labels, majority_class=self.majority_class, weight=self.weight
        )
        return mean(values, labels)


@objective
class LogitAdjusted(Objective):
    """Logit-adjusted cross-entropy: class frequencies are added while training.

    Args:
      output: name of the head whose logits the loss reads, and of its labels.
      tau: strength; 0 is cross-entropy.
      class_counts: how often each class occurs; taken from the training data if empty.
    """

    short_name: ClassVar[str] = "logit_adjusted"

    tau: float = 1.0
    class_counts: Counts = ()

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the mean over labelled tokens."""
        values = losses.logit_adjusted(
            logits, labels, class_counts=counted(self.class_counts), tau=self.tau
        )
        return mean(values, labels)


@objective
class LDAM(Objective):
    """Label-distribution-aware margins: rare classes must win by more.

    Args:
      output: name of the head whose logits the loss reads, and of its labels.
      max_margin: the margin of the rarest class, in units of logits.
      scale: factor of all logits; 30 if they are cosines.
      class_counts: how often each class occurs; taken from the training data if empty.
    """

    short_name: ClassVar[str] = "ldam"

    max_margin: float = 0.5
    scale: float = 1.0
    class_counts: Counts = ()

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the mean over labelled tokens."""
        values = losses.ldam(
            logits,
            labels,
            class_counts=counted(self.class_counts),
            max_margin=self.max_margin,
            scale=self.scale,
        )
        return mean(values, labels)


@objective
class VectorScaling(Objective):
    """Vector-scaling loss: logits scaled and shifted by class frequency.

    Args:
      output: name of the head whose logits the loss reads, and of its labels.
      tau: strength of the shift.
      gamma: strength of the scale; 0 is the logit-adjusted loss.
      class_counts: how often each class occurs; taken from the training data if empty.
    """

    short_name: ClassVar[str] = "vs"

    tau: float = 1.0
    gamma: float = 0.15
    class_counts: Counts = ()

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the mean over labelled tokens."""
        values = losses.vs(
            logits,
            labels,
            class_counts=counted(self.class_counts),
            tau=self.tau,
            gamma=self.gamma,
        )
        return mean(values, labels)


@objective
class GHM(Objective):
    """Gradient-harmonised cross-entropy, with a running density of gradient norms.

    Args:
      output: name of the head whose logits the loss reads, and of its labels.
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
        values, state = losses.ghm(logits, labels, state, momentum=self.momentum)
        return mean(values, labels), state


@objective
class HardNegatives(Objective):
    """Cross-entropy of the positives and the hardest negatives of the batch.

    Args:
      output: name of the head whose logits the loss reads, and of its labels.
      negatives_per_positive: how many negatives stay for each positive.
      minimum: how many negatives stay in any case.
      negative_class: index of the negative label; O is the first.
    """

    short_name: ClassVar[str] = "hard_negatives"

    negatives_per_positive: float = 3.0
    minimum: float = 1.0
    negative_class: int = 0

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the mean over the tokens that stay."""
        values = losses.cross_entropy(logits, labels)
        kept = losses.hard_negative_mask(
            values,
            labels != self.negative_class,
            where=labels >= 0,
            negatives_per_positive=self.negatives_per_positive,
            minimum=self.minimum,
        )
        return jnp.sum(jnp.where(kept, values, 0)) / jnp.maximum(kept.sum(), 1)


@objective
class Asymmetric(Objective):
    """Asymmetric loss (ASL): each class a yes or no, easy negatives left out.

    Args:
      output: name of the head whose logits the loss reads, and of its labels.
      gamma_positive: focusing of positives.
      gamma_negative: focusing of negatives.
      margin: probability below which a negative gives nothing.
    """

    short_name: ClassVar[str] = "asymmetric"

    gamma_positive: float = 1.0
    gamma_negative: float = 4.0
    margin: float = 0.05

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the mean over labelled tokens of the sum over classes."""
        values = losses.asymmetric(
            logits,
            yes_or_no(logits, labels),
            gamma_positive=self.gamma_positive,
            gamma_negative=self.gamma_negative,
            margin=self.margin,
        )
        return mean(values.sum(-1), labels)


@objective
class ZLPR(Objective):
    """Zero-bounded pairwise ranking: positives over 0, negatives below.

    Args:
      output: name of the head whose logits the loss reads, and of its labels.
    """

    short_name: ClassVar[str] = "zlpr"

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the mean over labelled tokens."""
        return mean(losses.zlpr(logits, yes_or_no(logits, labels)), labels)


@objective
class DistributionBalanced(Objective):
    """Distribution-balanced loss: each class a yes or no, weighed by frequency.

    Args:
      output: name of the head whose logits the loss reads, and of its labels.
      alpha: lower end of the weights.
      beta: how steeply the weights rise.
      mu: where they do.
      kappa: strength of the shift by frequency.
      scale: by which the slope of negatives is delayed.
      total: how many tokens were counted; the sum of the counts if 0.
      class_counts: how often each class occurs; taken from the training data if empty.
    """

    short_name: ClassVar[str] = "distribution_balanced"

    alpha: float = 0.1
    beta: float = 10.0
    mu: float = 0.3
    kappa: float = 0.05
    scale: float = 2.0
    total: float = 0.0
    class_counts: Counts = ()

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the mean over labelled tokens of the mean over classes."""
        counts = counted(self.class_counts)
        values = losses.distribution_balanced(
            logits,
            yes_or_no(logits, labels),
            positives=counts,
            total=jnp.where(self.total > 0, self.total, jnp.sum(counts)),
            alpha=self.alpha,
            beta=self.beta,
            mu=self.mu,
            kappa=self.kappa,
            scale=self.scale,
        )
        return mean(values.mean(-1), labels)
