"""Hard negative mining with any loss: the unchosen negatives are masked."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from dicejax.losses.contract import MASKED_LABEL
from dicejax.losses.cross_entropy import cross_entropy
from dicejax.losses.mining import hard_negative_mask
from dicejax.objectives.gold import Gold
from dicejax.objectives.objective import (
    GOLD_REFUSED,
    NO_COUNTS,
    Combination,
    LabelCounts,
    Objective,
    State,
    Targets,
    _Target,
    at_defaults,
    objective,
    tunable,
)


@objective
class Mined(Combination):
    r"""Any objective on the positives and the hardest negatives of the batch.

    .. math:: k = \max(\text{minimum}, \lfloor \text{ratio} \cdot n_+ \rfloor)

    Of each output the k negatives of the largest cross-entropy stay, which are those of
    the largest probability of a positive; of equal ones the first. All others are
    masked, so a mean divides by what stays and a set loss counts it alone. The set is
    the whole batch, whatever the micro-batches and devices.

    The published code keeps k - 2 instead of k negatives, and all of them for k of 0
    or 1.

    Args:
      of: objective of what stays.
      negatives_per_positive: negatives kept per positive.
      minimum: negatives kept in any case.
      negative_class: label of the negatives, O in tagging. Of labels that are 0 or 1
        for each class every 0 is a negative.
    """

    short_name: ClassVar[str] = "mined"

    of: Objective = dataclasses.field(default_factory=lambda: at_defaults("dsc"))
    negatives_per_positive: float = tunable(
        3.0,
        1.0,
        10.0,
        scale="log",
        why="from as many negatives as positives to most of them",
    )
    minimum: float = 1.0
    negative_class: int = 0

    def __call__(
        self,
        outputs: Mapping[str, Array],
        targets: Targets,
        state: State = (),
        progress: float | Array = 0.0,
        counts: LabelCounts = None,
    ) -> tuple[Array, State]:
        """Return the loss of what stays of a batch, and the state of the objective."""
        read = {leaf.output for leaf in self.terms()}
        masked = {}
        for name, logits in outputs.items():
            if name in read or None in read:
                labels = targets[name]
                if isinstance(labels, Gold):
                    raise ValueError(GOLD_REFUSED)
                masked[name] = self.mask_easy_negatives(logits, labels)
        return super().__call__(outputs, {**targets, **masked}, state, progress, counts)

    def mask_easy_negatives(self, logits: Array, labels: Array) -> Array:
        """Return labels of one output with the unchosen negatives masked."""
        several = labels.ndim == logits.ndim
        negative = 0 if several else self.negative_class
        mask = hard_negative_mask(
            cross_entropy(logits, labels, multi_label=several),
            labels != negative,
            where=labels != MASKED_LABEL,
            negatives_per_positive=self.negatives_per_positive,
            minimum=self.minimum,
        )
        return jnp.where(mask, labels, MASKED_LABEL)

    def bind(
        self,
        targets: Mapping[str, _Target],
        class_counts: Mapping[str, np.ndarray] = NO_COUNTS,
    ) -> Objective:
        """Return the objective with its members bound, of outputs with classes."""
        read = {leaf.output for leaf in self.terms()}
        for name, target in targets.items():
            if target.kind == "positions" and (name in read or None in read):
                raise ValueError(
                    f"objective mined chooses negatives, but labels of output {name!r} "
                    "are positions, none of which is negative"
                )
        return super().bind(targets, class_counts)

    def combine_losses(self, values: Sequence[Array], progress: float | Array) -> Array:
        """Return the loss of what stays."""
        return values[0]

    @property
    def is_additive(self) -> bool:
        """Return False: the negatives are chosen from the whole batch."""
        return False
