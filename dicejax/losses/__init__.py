"""Losses: pure functions of logits and labels, masked, jitted and never reduced.

`loss(logits, labels, *, where=None, axis=None, class_axis=-1, ...)`: pointwise losses
return one value per element, set losses one per class and set. A label out of range is
refused where its value is known, and masked where it is traced.
"""

import difflib
from typing import TYPE_CHECKING

from dicejax.losses import class_weights
from dicejax.losses.anyloss import anyloss, mcc
from dicejax.losses.aucm import auc_margin
from dicejax.losses.brier import brier
from dicejax.losses.cross_entropy import (
    cross_entropy,
    focal,
    majority_or_minority,
    poly,
    poly_focal,
    weighted_cross_entropy,
)
from dicejax.losses.declaration import REGISTRY
from dicejax.losses.density import GHMState, ghm, ghm_regression, ghm_state
from dicejax.losses.dice import (
    dice,
    dice_from_counts,
    dice_semimetric,
    log_cosh_dice,
    log_dice,
)
from dicejax.losses.f1 import sigmoid_f1, soft_f1
from dicejax.losses.generalized_dice import generalized_dice
from dicejax.losses.lovasz import lovasz_hinge, lovasz_softmax
from dicejax.losses.mining import hard_negative_mask, hard_negatives
from dicejax.losses.multi_label import (
    asymmetric,
    class_balanced,
    distribution_balanced,
    zlpr,
)
from dicejax.losses.overlap import OverlapCounts, overlap_counts
from dicejax.losses.pairs import average_precision, pairwise_auc
from dicejax.losses.priors import adjust_logits, ldam, logit_adjusted, vs
from dicejax.losses.self_adjusting import self_adjusting_dice
from dicejax.losses.tversky import focal_tversky, jaccard, tversky, tversky_from_counts
from dicejax.losses.unified_focal import unified_focal

# fmt: off
__all__ = [
    "GHMState", "OverlapCounts", "adjust_logits", "anyloss", "asymmetric", "auc_margin",
    "average_precision", "brier", "class_balanced", "class_weights", "cross_entropy",
    "dice", "dice_from_counts", "dice_semimetric", "distribution_balanced", "focal",
    "focal_tversky", "generalized_dice", "ghm", "ghm_regression", "ghm_state",
    "hard_negative_mask", "hard_negatives", "jaccard", "ldam", "log_cosh_dice",
    "log_dice", "logit_adjusted", "lovasz_hinge", "lovasz_softmax",
    "majority_or_minority", "mcc", "overlap_counts", "pairwise_auc", "poly",
    "poly_focal", "self_adjusting_dice", "sigmoid_f1", "soft_f1", "tversky",
    "tversky_from_counts", "unified_focal", "vs", "weighted_cross_entropy", "zlpr"
]
# fmt: on

if not TYPE_CHECKING:  # to type checkers any name would then be valid

    def __getattr__(name: str) -> object:
        named = REGISTRY.get(name)  # as `--losses` has it
        close = difflib.get_close_matches(name, __all__)
        close = [named.function.__name__] if named else close
        meant = f"; did you mean {' or '.join(close)}?" if close else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{meant}")
