"""Objectives that take each class as a yes or no, whatever the form of the labels."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from dicejax import losses
from dicejax.objectives.objective import (
    Counts,
    Objective,
    counted,
    is_yes_or_no,
    mean,
    objective,
    yes_or_no,
)


@objective
class Asymmetric(Objective):
    """Asymmetric loss (ASL): each class a yes or no, easy negatives left out.

    Args:
      output: name of the output whose logits the loss reads, and of its labels; None
        for all the task has.
      gamma_positive: focusing of positives.
      gamma_negative: focusing of negatives.
      margin: probability below which a negative gives nothing.
    """

    short_name: ClassVar[str] = "asymmetric"

    gamma_positive: float = 1.0
    gamma_negative: float = 4.0
    margin: float = 0.05

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the mean over labelled tokens of the sum over classes.

        For yes or no, the mean over labelled entries.
        """
        values = losses.asymmetric(
            logits,
            yes_or_no(logits, labels),
            gamma_positive=self.gamma_positive,
            gamma_negative=self.gamma_negative,
            margin=self.margin,
        )
        return mean(values, labels)


@objective
class ZLPR(Objective):
    """Zero-bounded pairwise ranking: positives over 0, negatives below.

    Args:
      output: name of the output whose logits the loss reads, and of its labels; None
        for all the task has.
    """

    short_name: ClassVar[str] = "zlpr"

    def loss(self, logits: Array, labels: Array) -> Array:
        """Return the mean over labelled tokens."""
        return mean(losses.zlpr(logits, yes_or_no(logits, labels)), labels)


@objective
class DistributionBalanced(Objective):
    """Distribution-balanced loss: each class a yes or no, weighed by frequency.

    Args:
      output: name of the output whose logits the loss reads, and of its labels; None
        for all the task has.
      alpha: lower end of the weights.
      beta: how steeply the weights rise.
      mu: where they do.
      kappa: strength of the shift by frequency.
      scale: by which the slope of negatives is delayed.
      total: how many tokens were counted; the sum of the counts if 0. For yes or no,
        that of the class with the most.
      class_counts: how often each class occurs, for yes or no its 0s and then its 1s;
        taken from the training data if empty.
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
        """Return the mean over labelled tokens and all classes."""
        counts = counted(self.class_counts, logits, labels)
        positives, total = counts, jnp.sum(counts)
        if is_yes_or_no(logits, labels):
            positives, total = counts[:, 1], jnp.max(jnp.sum(counts, axis=-1))
        labels = yes_or_no(logits, labels)
        values = losses.distribution_balanced(
            logits,
            labels,
            positives=positives,
            total=jnp.where(self.total > 0, self.total, total),
            alpha=self.alpha,
            beta=self.beta,
            mu=self.mu,
            kappa=self.kappa,
            scale=self.scale,
        )
        return mean(values, labels)
