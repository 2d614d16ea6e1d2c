"""Objectives that take each class as a yes or no, whatever the form of the labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from dicejax import losses
from dicejax.objectives.objective import (
    Counts,
    Elements,
    MeanObjective,
    count_labels,
    counted,
    is_multi_label,
    objective,
    to_multi_label,
)


@objective
class Asymmetric(MeanObjective):
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

    def values(self, logits: Array, labels: Array) -> Array:
        """Return the loss of each class of each token; their mean sums over classes.

        For yes or no, it is the mean over labelled entries.
        """
        return losses.asymmetric(
            logits,
            to_multi_label(logits, labels),
            gamma_positive=self.gamma_positive,
            gamma_negative=self.gamma_negative,
            margin=self.margin,
        )


@objective
class ZLPR(MeanObjective):
    """Zero-bounded pairwise ranking: positives over 0, negatives below.

    Args:
      output: name of the output whose logits the loss reads, and of its labels; None
        for all the task has.
    """

    short_name: ClassVar[str] = "zlpr"

    def values(self, logits: Array, labels: Array) -> Array:
        """Return the loss of each token."""
        return losses.zlpr(logits, to_multi_label(logits, labels))

    def elements(self, targets: Mapping[str, Array]) -> Elements:
        """Return how many labels there are and how many tokens have one, `[2]`.

        The mean is over the first if a label names a class, and over the second for yes
        or no; labels alone do not tell which form they have.
        """
        labels = targets[self._one_of(targets)]
        return jnp.stack([count_labels(labels), count_labels(labels, together=True)])

    def contribution(
        self,
        outputs: Mapping[str, Array],
        targets: Mapping[str, Array],
        whole: Elements,
        progress: float | Array = 0.0,
    ) -> Array:
        """Return what a micro-batch adds to the loss of the whole batch, a scalar."""
        of_forms = super().contribution(outputs, targets, whole, progress)
        name = self._one_of(outputs)
        return of_forms[int(is_multi_label(outputs[name], targets[name]))]


@objective
class DistributionBalanced(MeanObjective):
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

    def values(self, logits: Array, labels: Array) -> Array:
        """Return the mean over classes of each token; for yes or no, each class."""
        counts = counted(self.class_counts, logits, labels)
        positives, total, each = counts, jnp.sum(counts), is_multi_label(logits, labels)
        if each:
            positives, total = counts[:, 1], jnp.max(jnp.sum(counts, axis=-1))
        values = losses.distribution_balanced(
            logits,
            to_multi_label(logits, labels),
            positives=positives,
            total=jnp.where(self.total > 0, self.total, total),
            alpha=self.alpha,
            beta=self.beta,
            mu=self.mu,
            kappa=self.kappa,
            scale=self.scale,
        )
        return values if each else jnp.mean(values, axis=-1)
