"""Losses: pure functions of logits and labels, masked, jitted and never reduced.

`loss(logits, labels, *, where=None, axis=None, class_axis=-1, ...)`: pointwise losses
return one value per element, set losses one per class and set.
"""

from dicejax.losses.cross_entropy import cross_entropy
from dicejax.losses.overlap import (
    OverlapCounts,
    dice,
    dice_from_counts,
    overlap_counts,
)
from dicejax.losses.self_adjusting import self_adjusting_dice

__all__ = [
    "OverlapCounts",
    "cross_entropy",
    "dice",
    "dice_from_counts",
    "overlap_counts",
    "self_adjusting_dice",
]
