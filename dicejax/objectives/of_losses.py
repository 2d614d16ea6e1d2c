"""Objectives of the losses, whose functions document the fields.

Written by `python -m tests.write_objectives` from the declarations of the losses.
"""

# ruff: noqa: E501 - a summary is one line

from typing import Literal

from dicejax import losses
from dicejax.objectives.declared import of_loss
from dicejax.objectives.loss_objective import LossObjective
from dicejax.objectives.sets import SetObjective

# fmt: off
__all__ = [
    "GHM", "LDAM", "ZLPR", "AUCMargin", "AnyLoss", "Asymmetric", "AveragePrecision",
    "ClassBalanced", "CrossEntropy", "Dice", "DiceSemimetric", "DistributionBalanced",
    "Focal", "FocalTversky", "GeneralizedDice", "HardNegatives", "Jaccard",
    "LogCoshDice", "LogDice", "LogitAdjusted", "LovaszHinge", "LovaszSoftmax",
    "MajorityOrMinority", "MatthewsCorrelation", "PairwiseAUC", "Poly", "PolyFocal",
    "SelfAdjustingDice", "SigmoidF1", "SoftF1", "Tversky", "UnifiedFocal",
    "VectorScaling", "WeightedCrossEntropy",
]
# fmt: on


@of_loss(losses.anyloss)
class AnyLoss(SetObjective):
    """One minus a metric of each class, of amplified probabilities over a set."""

    metric: Literal["f_beta", "accuracy", "balanced_accuracy", "g_mean", "mcc"] = (
        "f_beta"
    )
    beta: float = 1.0
    amplification: float = 73.0


@of_loss(losses.mcc)
class MatthewsCorrelation(SetObjective):
    """One minus the Matthews correlation of each class over a set, or of all classes."""

    variant: Literal["one_versus_rest", "multiclass"] = "one_versus_rest"


@of_loss(losses.auc_margin)
class AUCMargin(SetObjective):
    """AUC margin loss (AUCM) of each class over a set: means and spread of the scores."""

    margin: float = 1.0


@of_loss(losses.cross_entropy)
class CrossEntropy(LossObjective):
    """Cross-entropy of each element: the usual loss of a classifier."""

    label_smoothing: float = 0.0


@of_loss(losses.weighted_cross_entropy)
class WeightedCrossEntropy(LossObjective):
    """Cross-entropy of each element, with class weights made from counts.

    The preset wce at its defaults.
    """

    scheme: Literal[
        "log_ratio", "inverse", "inverse_square_root", "effective_number"
    ] = "log_ratio"
    k: float = 1.0
    beta: float = 0.999
    label_smoothing: float = 0.0
    class_counts: tuple[float, ...] = ()


@of_loss(losses.poly)
class Poly(LossObjective):
    """Poly-1 loss: cross-entropy with its first polynomial term reweighted."""

    epsilon: float = 1.0


@of_loss(losses.focal)
class Focal(LossObjective):
    """Focal loss of each element.

    The preset fl at its defaults.
    """

    gamma: float = 2.0
    scheme: Literal[
        "none", "log_ratio", "inverse", "inverse_square_root", "effective_number"
    ] = "none"
    k: float = 1.0
    beta: float = 0.999
    stop_gradient_weight: bool = False
    class_counts: tuple[float, ...] = ()


@of_loss(losses.poly_focal)
class PolyFocal(LossObjective):
    """Poly-1 focal loss: focal loss with its first polynomial term reweighted."""

    gamma: float = 2.0
    epsilon: float = 1.0


@of_loss(losses.majority_or_minority)
class MajorityOrMinority(LossObjective):
    """Majority-or-minority loss: more weight for the majority class, O in tagging."""

    weight: float = 0.5
    majority_class: int = 0


@of_loss(losses.ghm)
class GHM(LossObjective):
    """Gradient-harmonised cross-entropy (GHM-C): down-weights common gradient norms."""

    bins: int = 10
    momentum: float = 0.75


@of_loss(losses.dice)
class Dice(SetObjective):
    """Dice loss of each class over a set: one minus a soft F1.

    Not a loss of the paper; its losses are the presets dl-set, dl.
    """

    smooth: float = 1e-05
    squared: bool = False
    absent: Literal["smooth", "skip"] = "smooth"


@of_loss(losses.log_cosh_dice)
class LogCoshDice(SetObjective):
    """Log-cosh Dice loss: the slope fades as a class is learned."""

    smooth: float = 1e-05
    squared: bool = False
    absent: Literal["smooth", "skip"] = "smooth"


@of_loss(losses.log_dice)
class LogDice(SetObjective):
    """Log Dice loss of each class over a set: steepest for classes that are missed."""

    smooth: float = 1e-05
    squared: bool = False
    absent: Literal["smooth", "skip"] = "smooth"


@of_loss(losses.generalized_dice)
class GeneralizedDice(SetObjective):
    """Generalised Dice loss: one value for all classes, rare ones weighing more."""

    smooth: float = 1e-05
    weighting: Literal["square", "simple", "uniform"] = "square"
    absent: Literal["smooth", "skip"] = "skip"


@of_loss(losses.dice_semimetric)
class DiceSemimetric(SetObjective):
    """Dice semimetric loss: a Dice loss minimised at p = y for soft labels too."""

    smooth: float = 1e-05
    variant: Literal["dml1", "dml2"] = "dml1"
    absent: Literal["smooth", "skip"] = "smooth"


@of_loss(losses.soft_f1)
class SoftF1(SetObjective):
    """One minus a soft F-beta score over a set, averaged over classes."""

    beta: float = 1.0
    smooth: float = 1e-05
    absent: Literal["smooth", "skip"] = "smooth"
    exclude_class: int | tuple[int, ...] | None = None
    average: Literal["none", "macro", "micro"] = "macro"


@of_loss(losses.sigmoid_f1)
class SigmoidF1(SetObjective):
    """One minus the F1 of a scaled and shifted sigmoid, multi-label or binary."""

    slope: float = 1.0
    offset: float = 0.0
    smooth: float = 1e-05
    absent: Literal["smooth", "skip"] = "smooth"
    exclude_class: int | tuple[int, ...] | None = None
    average: Literal["none", "macro", "micro"] = "macro"


@of_loss(losses.lovasz_softmax)
class LovaszSoftmax(SetObjective):
    """Lovász-softmax loss of each class over a set."""

    absent: Literal["smooth", "skip"] = "skip"


@of_loss(losses.lovasz_hinge)
class LovaszHinge(SetObjective):
    """Lovász hinge of each class over a set: the Jaccard loss of a margin of 1."""

    absent: Literal["smooth", "skip"] = "smooth"


@of_loss(losses.hard_negatives)
class HardNegatives(LossObjective):
    """Cross-entropy of the positives and the hardest negatives of the batch."""

    negatives_per_positive: float = 3.0
    minimum: float = 1.0
    negative_class: int = 0


@of_loss(losses.asymmetric)
class Asymmetric(LossObjective):
    """Asymmetric loss (ASL): focal loss with faster decay and a margin for negatives."""

    gamma_positive: float = 1.0
    gamma_negative: float = 4.0
    margin: float = 0.05
    stop_gradient_weight: bool = False


@of_loss(losses.zlpr)
class ZLPR(LossObjective):
    """Zero-bounded log-sum-exp and pairwise rank-based loss (ZLPR)."""


@of_loss(losses.distribution_balanced)
class DistributionBalanced(LossObjective):
    """Distribution-balanced loss: weights for label co-occurrence, tolerant negatives."""

    alpha: float = 0.1
    beta: float = 10.0
    mu: float = 0.3
    kappa: float = 0.05
    scale: float = 2.0
    gamma: float = 0.0
    class_counts: tuple[float, ...] = ()


@of_loss(losses.class_balanced)
class ClassBalanced(LossObjective):
    """Class-balanced sigmoid or focal loss: all classes weigh as the element's label."""

    beta: float = 0.999
    gamma: float = 0.0
    class_counts: tuple[float, ...] = ()


@of_loss(losses.pairwise_auc)
class PairwiseAUC(SetObjective):
    """AUC loss of each class over a set: positives against negatives, in pairs."""

    surrogate: Literal[
        "squared_hinge", "hinge", "logistic", "squared", "barrier_hinge"
    ] = "squared_hinge"
    scores: Literal["probability", "log_odds"] = "probability"
    margin: float = 1.0
    scale: float = 1.0
    barrier: float = 2.0
    max_fpr: float | None = None


@of_loss(losses.average_precision)
class AveragePrecision(SetObjective):
    """One minus a soft average precision of each class over a set."""

    surrogate: Literal["squared_hinge", "hinge", "logistic"] = "squared_hinge"
    scores: Literal["probability", "log_odds"] = "probability"
    margin: float = 1.0
    scale: float = 1.0


@of_loss(losses.logit_adjusted)
class LogitAdjusted(LossObjective):
    """Logit-adjusted cross-entropy: log class frequencies added to the logits."""

    tau: float = 1.0
    class_counts: tuple[float, ...] = ()


@of_loss(losses.ldam)
class LDAM(LossObjective):
    """Label-distribution-aware margin loss (LDAM): larger margins for rare classes."""

    max_margin: float = 0.5
    scale: float = 1.0
    class_counts: tuple[float, ...] = ()


@of_loss(losses.vs)
class VectorScaling(LossObjective):
    """Vector-scaling loss (VS): logits scaled and shifted by the class counts."""

    tau: float = 1.0
    gamma: float = 0.15
    class_counts: tuple[float, ...] = ()


@of_loss(losses.self_adjusting_dice)
class SelfAdjustingDice(SetObjective):
    """Self-adjusting Dice loss of each class over a set, or of each element.

    Not a loss of the paper; its losses are the presets dsc-eq11, dsc-official.
    """

    alpha: float = 0.01
    smooth: float = 1.0
    squared: bool = True
    stop_gradient_weight: bool = False


@of_loss(losses.tversky)
class Tversky(SetObjective):
    """Tversky loss of each class over a set.

    Not a loss of the paper; its losses are the presets tl.
    """

    alpha: float = 0.5
    beta: float = 0.5
    smooth: float = 1e-05
    intersection: Literal["product", "minimum"] = "product"
    absent: Literal["smooth", "skip"] = "smooth"


@of_loss(losses.focal_tversky)
class FocalTversky(SetObjective):
    """Focal Tversky loss: a steeper slope for classes that are nearly learned."""

    alpha: float = 0.3
    beta: float = 0.7
    gamma: float = 1.3333333333333333
    smooth: float = 1e-05
    absent: Literal["smooth", "skip"] = "smooth"


@of_loss(losses.jaccard)
class Jaccard(SetObjective):
    """Jaccard loss of each class over a set: one minus a soft intersection over union."""

    smooth: float = 1e-05
    squared: bool = False
    intersection: Literal["product", "minimum"] = "product"
    absent: Literal["smooth", "skip"] = "smooth"


@of_loss(losses.unified_focal)
class UnifiedFocal(SetObjective):
    """Unified focal loss of a set: one value for all classes."""

    weight: float = 0.5
    delta: float = 0.6
    gamma: float = 0.5
    smooth: float = 1e-06
    variant: Literal["asymmetric", "symmetric"] = "asymmetric"
    background: int = 0
    absent: Literal["smooth", "skip"] = "smooth"
