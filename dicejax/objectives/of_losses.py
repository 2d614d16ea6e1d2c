"""Objectives of the losses, whose functions document the fields.

Written by `python -m tests.write_objectives` from the declarations of the losses.
"""

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
    """One minus a metric of each class, of amplified probabilities over a set.

    Args:
      metric: "f_beta", "accuracy", "balanced_accuracy", "g_mean" or "mcc".
      beta: weight of recall against precision in "f_beta".
      amplification: the L of A; the larger, the nearer to decisions.
    """

    metric: Literal["f_beta", "accuracy", "balanced_accuracy", "g_mean", "mcc"] = (
        "f_beta"
    )
    beta: float = 1.0
    amplification: float = 73.0


@of_loss(losses.mcc)
class MatthewsCorrelation(SetObjective):
    """One minus the Matthews correlation of each class over a set, or of all classes.

    Args:
      variant: "one_versus_rest" or "multiclass", for a softmax only.
    """

    variant: Literal["one_versus_rest", "multiclass"] = "one_versus_rest"


@of_loss(losses.auc_margin)
class AUCMargin(SetObjective):
    """AUC margin loss (AUCM) of each class over a set: means and spread of the scores.

    Args:
      margin: m, in units of probabilities.
    """

    margin: float = 1.0


@of_loss(losses.cross_entropy)
class CrossEntropy(LossObjective):
    """Cross-entropy of each element: the usual loss of a classifier.

    Args:
      label_smoothing: epsilon, in [0, 1]: part of the target spread over all classes.
    """

    label_smoothing: float = 0.0


@of_loss(losses.weighted_cross_entropy)
class WeightedCrossEntropy(LossObjective):
    """Cross-entropy of each element, with class weights made from counts.

    The preset wce at its defaults.

    Args:
      scheme: a function of `class_weights`; "log_ratio" is the paper's.
      k: the K of "log_ratio", at least 1.
      beta: the beta of "effective_number", in [0, 1).
      label_smoothing: epsilon, in [0, 1]: part of the target spread over all classes.
      class_counts: counts per class (multi-label: 0s, 1s); training data's if empty.
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
    """Poly-1 loss: cross-entropy with its first polynomial term reweighted.

    Args:
      epsilon: in [-1, inf); above 0 the slope near p = 1 is steeper, below 0 flatter.
    """

    epsilon: float = 1.0


@of_loss(losses.focal)
class Focal(LossObjective):
    r"""Focal loss of each element.

    The preset fl at its defaults.

    Args:
      gamma: focusing exponent: 0 is cross-entropy, more down-weights easy elements.
      scheme: a function of `class_weights`; "none" needs no class counts.
      k: the K of "log_ratio", at least 1.
      beta: the beta of "effective_number", in [0, 1).
      stop_gradient_weight: whether :math:`(1-p)^\gamma` is a constant for gradients.
        False as in the paper, whose gradient has its slope.
      class_counts: counts per class (multi-label: 0s, 1s); training data's if empty.
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
    """Poly-1 focal loss: focal loss with its first polynomial term reweighted.

    Args:
      gamma: focusing exponent: 0 is `poly`, more down-weights easy elements.
      epsilon: in [-1, inf); 0 is `focal`.
    """

    gamma: float = 2.0
    epsilon: float = 1.0


@of_loss(losses.majority_or_minority)
class MajorityOrMinority(LossObjective):
    """Majority-or-minority loss: more weight for the majority class, O in tagging.

    Args:
      weight: lambda, in [0, 1]; 1 is cross-entropy.
      majority_class: label of the majority, O in tagging; multi-label, 0 for negatives.
    """

    weight: float = 0.5
    majority_class: int = 0


@of_loss(losses.ghm)
class GHM(LossObjective):
    """Gradient-harmonised cross-entropy (GHM-C): down-weights common gradient norms.

    Args:
      bins: number of bins of equal width in [0, 1].
      momentum: m, in [0, 1); 0 for no averaging over batches.
    """

    bins: int = 10
    momentum: float = 0.75


@of_loss(losses.dice)
class Dice(SetObjective):
    """Dice loss of each class over a set: one minus a soft F1.

    Not a loss of the paper; its losses are the presets dl-set, dl.

    Args:
      smooth: added to numerator and denominator, in counts: weighs less in large sets.
      squared: whether to sum squares in the denominator.
      absent: loss of a class without gold: "smooth" by its false positives, "skip" 0.
    """

    smooth: float = 1e-05
    squared: bool = False
    absent: Literal["smooth", "skip"] = "smooth"


@of_loss(losses.log_cosh_dice)
class LogCoshDice(SetObjective):
    """Log-cosh Dice loss: the slope fades as a class is learned.

    Args:
      smooth: added to numerator and denominator, in counts: weighs less in large sets.
      squared: whether to sum squares in the denominator.
      absent: loss of a class without gold: "smooth" by its false positives, "skip" 0.
    """

    smooth: float = 1e-05
    squared: bool = False
    absent: Literal["smooth", "skip"] = "smooth"


@of_loss(losses.log_dice)
class LogDice(SetObjective):
    """Log Dice loss of each class over a set: steepest for classes that are missed.

    Args:
      smooth: added to numerator and denominator, in counts: weighs less in large sets.
      squared: whether to sum squares in the denominator.
      absent: loss of a class without gold: "smooth" by its false positives, "skip" 0.
    """

    smooth: float = 1e-05
    squared: bool = False
    absent: Literal["smooth", "skip"] = "smooth"


@of_loss(losses.generalized_dice)
class GeneralizedDice(SetObjective):
    """Generalised Dice loss: one value for all classes, rare ones weighing more.

    Args:
      smooth: added to numerator and denominator, in counts: weighs less in large sets.
      weighting: "square": 1 / Y^2; "simple": 1 / Y; "uniform": 1.
      absent: weight of a class without gold in its set. "skip": 0. "smooth": that of
        the rarest class present, so that its false positives count.
    """

    smooth: float = 1e-05
    weighting: Literal["square", "simple", "uniform"] = "square"
    absent: Literal["smooth", "skip"] = "skip"


@of_loss(losses.dice_semimetric)
class DiceSemimetric(SetObjective):
    """Dice semimetric loss: a Dice loss minimised at p = y for soft labels too.

    Args:
      smooth: added to numerator and denominator, in counts: weighs less in large sets.
      variant: "dml1" or "dml2".
      absent: loss of a class without gold: "smooth" by its false positives, "skip" 0.
    """

    smooth: float = 1e-05
    variant: Literal["dml1", "dml2"] = "dml1"
    absent: Literal["smooth", "skip"] = "smooth"


@of_loss(losses.soft_f1)
class SoftF1(SetObjective):
    """One minus a soft F-beta score over a set, averaged over classes.

    Args:
      beta: weight of recall against precision; 1 gives F1, per class that of `dice`.
      smooth: added to numerator and denominator, in counts: weighs less in large sets.
      absent: loss of a class without gold: "smooth" by its false positives, "skip" 0.
      exclude_class: class, or a tuple of them, left out: O for the F1 of tagging. The
        others keep their probabilities.
      average: "none" for a loss of each class; "macro" for their mean, with
        `absent="skip"` of those with gold in their set; "micro" for one set of all
        classes, in which an element occurs once for each. No effect in the binary form.
    """

    beta: float = 1.0
    smooth: float = 1e-05
    absent: Literal["smooth", "skip"] = "smooth"
    exclude_class: int | tuple[int, ...] | None = None
    average: Literal["none", "macro", "micro"] = "macro"


@of_loss(losses.sigmoid_f1)
class SigmoidF1(SetObjective):
    """One minus the F1 of a scaled and shifted sigmoid, multi-label or binary.

    Args:
      slope: beta; the gradient fades where slope times the distance is large.
      offset: eta, in units of logits; the decision is at z = -eta.
      smooth: added to numerator and denominator, in counts: weighs less in large sets.
      absent: loss of a class without gold: "smooth" by its false positives, "skip" 0.
      exclude_class: class, or a tuple of them, left out: O for the F1 of tagging. The
        others keep their probabilities.
      average: "none" for a loss of each class; "macro" for their mean, with
        `absent="skip"` of those with gold in their set; "micro" for one set of all
        classes, in which an element occurs once for each. No effect in the binary form.
    """

    slope: float = 1.0
    offset: float = 0.0
    smooth: float = 1e-05
    absent: Literal["smooth", "skip"] = "smooth"
    exclude_class: int | tuple[int, ...] | None = None
    average: Literal["none", "macro", "micro"] = "macro"


@of_loss(losses.lovasz_softmax)
class LovaszSoftmax(SetObjective):
    """Lovász-softmax loss of each class over a set.

    Args:
      absent: loss of a class without gold in its set. "skip": 0, as its authors'
        "present"; "smooth": the formula, which is the largest error.
    """

    absent: Literal["smooth", "skip"] = "skip"


@of_loss(losses.lovasz_hinge)
class LovaszHinge(SetObjective):
    """Lovász hinge of each class over a set: the Jaccard loss of a margin of 1.

    Args:
      absent: loss of a class without gold in its set. "smooth": the formula, which is
        the largest hinge; "skip": 0.
    """

    absent: Literal["smooth", "skip"] = "smooth"


@of_loss(losses.hard_negatives)
class HardNegatives(LossObjective):
    """Cross-entropy of the positives and the hardest negatives of the batch.

    Args:
      negatives_per_positive: negatives kept per positive.
      minimum: negatives kept in any case.
      negative_class: label of the negatives, O in tagging; multi-label, always 0.
    """

    negatives_per_positive: float = 3.0
    minimum: float = 1.0
    negative_class: int = 0


@of_loss(losses.asymmetric)
class Asymmetric(LossObjective):
    r"""Asymmetric loss (ASL): focal loss with faster decay and a margin for negatives.

    Args:
      gamma_positive: exponent for positives.
      gamma_negative: exponent for negatives.
      margin: m, in [0, 1). With margin 0 and equal exponents it is `focal`.
      stop_gradient_weight: whether :math:`(1-p)^{\gamma_+}` and :math:`p_m^{\gamma_-}`
        are constants for gradients, as in their authors' code by default. False is
        the gradient of the formula, which the paper's section 2.4 analyses.
    """

    gamma_positive: float = 1.0
    gamma_negative: float = 4.0
    margin: float = 0.05
    stop_gradient_weight: bool = False


@of_loss(losses.zlpr)
class ZLPR(LossObjective):
    """Zero-bounded log-sum-exp and pairwise rank-based loss (ZLPR)."""


@of_loss(losses.distribution_balanced)
class DistributionBalanced(LossObjective):
    """Distribution-balanced loss: weights for label co-occurrence, tolerant negatives.

    Args:
      alpha: lower end of the weights.
      beta: steepness of the weight around mu.
      mu: value of r with half weight.
      kappa: strength of the shift by class frequency; 0 for none.
      scale: lambda, the tolerance that delays the slope of negatives; 1 for none.
      gamma: focusing exponent of DB-focal; 0 for none.
      class_counts: counts per class (multi-label: 0s, 1s); training data's if empty.
    """

    alpha: float = 0.1
    beta: float = 10.0
    mu: float = 0.3
    kappa: float = 0.05
    scale: float = 2.0
    gamma: float = 0.0
    class_counts: tuple[float, ...] = ()


@of_loss(losses.class_balanced)
class ClassBalanced(LossObjective):
    """Class-balanced sigmoid or focal loss: all classes weigh as the element's label.

    Args:
      beta: in [0, 1): 0 weighs all classes equally, values near 1 by 1 / n.
      gamma: focusing exponent; 0 is the sigmoid cross-entropy.
      class_counts: counts per class (multi-label: 0s, 1s); training data's if empty.
    """

    beta: float = 0.999
    gamma: float = 0.0
    class_counts: tuple[float, ...] = ()


@of_loss(losses.pairwise_auc)
class PairwiseAUC(SetObjective):
    """AUC loss of each class over a set: positives against negatives, in pairs.

    Args:
      surrogate: "squared_hinge", "hinge", "logistic", "squared" or "barrier_hinge".
      scores: "probability", which bounds the loss, or "log_odds", log p / (1 - p), cut
        to 1e15 either way.
      margin: m of all but the logistic, in units of the scores.
      scale: s of the logistic.
      barrier: b of the barrier hinge, its slope at both ends; at least 1.
      max_fpr: beta, in (0, 1], the largest rate of false positives; None for all.
    """

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
    """One minus a soft average precision of each class over a set.

    Args:
      surrogate: "squared_hinge", "hinge" or "logistic".
      scores: "probability", or "log_odds", log p / (1 - p), cut to 1e15 either way.
      margin: m of the hinges, in units of the scores.
      scale: s of the logistic.
    """

    surrogate: Literal["squared_hinge", "hinge", "logistic"] = "squared_hinge"
    scores: Literal["probability", "log_odds"] = "probability"
    margin: float = 1.0
    scale: float = 1.0


@of_loss(losses.logit_adjusted)
class LogitAdjusted(LossObjective):
    """Logit-adjusted cross-entropy: log class frequencies added to the logits.

    Args:
      tau: strength of the adjustment; 0 is cross-entropy.
      class_counts: counts per class (multi-label: 0s, 1s); training data's if empty.
    """

    tau: float = 1.0
    class_counts: tuple[float, ...] = ()


@of_loss(losses.ldam)
class LDAM(LossObjective):
    """Label-distribution-aware margin loss (LDAM): larger margins for rare classes.

    Args:
      max_margin: m, margin of the rarest class in units of logits; 0: cross-entropy.
      scale: s; its authors use 30 for logits that are cosines, 1 suits a linear head.
      class_counts: counts per class (multi-label: 0s, 1s); training data's if empty.
    """

    max_margin: float = 0.5
    scale: float = 1.0
    class_counts: tuple[float, ...] = ()


@of_loss(losses.vs)
class VectorScaling(LossObjective):
    """Vector-scaling loss (VS): logits scaled and shifted by the class counts.

    Args:
      tau: strength of the shift. With gamma 0 it is `logit_adjusted`.
      gamma: strength of the scale. With both 0 it is weighted cross-entropy.
      class_counts: counts per class (multi-label: 0s, 1s); training data's if empty.
    """

    tau: float = 1.0
    gamma: float = 0.15
    class_counts: tuple[float, ...] = ()


@of_loss(losses.self_adjusting_dice)
class SelfAdjustingDice(SetObjective):
    r"""Self-adjusting Dice loss of each class over a set, or of each element.

    Not a loss of the paper; its losses are the presets dsc-eq11, dsc-official.

    Args:
      alpha: exponent of the factor; 0 gives `dice`.
      smooth: added to numerator and denominator, in counts: weighs less in large sets.
      squared: whether to sum squares in the denominator.
      stop_gradient_weight: whether :math:`(1-p)^\alpha` is a constant for gradients.
    """

    alpha: float = 0.01
    smooth: float = 1.0
    squared: bool = True
    stop_gradient_weight: bool = False


@of_loss(losses.tversky)
class Tversky(SetObjective):
    """Tversky loss of each class over a set.

    Not a loss of the paper; its losses are the presets tl.

    Args:
      alpha: weight of false positives.
      beta: weight of false negatives.
      smooth: added to numerator and denominator, in counts: weighs less in large sets.
      intersection: "product": p y; "minimum": the smaller of p and y, so that for soft
        labels p = y costs nothing. The same for labels of 0 and 1.
      absent: loss of a class without gold: "smooth" by its false positives, "skip" 0.
    """

    alpha: float = 0.5
    beta: float = 0.5
    smooth: float = 1e-05
    intersection: Literal["product", "minimum"] = "product"
    absent: Literal["smooth", "skip"] = "smooth"


@of_loss(losses.focal_tversky)
class FocalTversky(SetObjective):
    """Focal Tversky loss: a steeper slope for classes that are nearly learned.

    Args:
      alpha: weight of false positives.
      beta: weight of false negatives.
      gamma: in [1, 8]; its authors use 4/3.
      smooth: added to numerator and denominator, in counts: weighs less in large sets.
      absent: loss of a class without gold: "smooth" by its false positives, "skip" 0.
    """

    alpha: float = 0.3
    beta: float = 0.7
    gamma: float = 1.3333333333333333
    smooth: float = 1e-05
    absent: Literal["smooth", "skip"] = "smooth"


@of_loss(losses.jaccard)
class Jaccard(SetObjective):
    """Jaccard loss of each class over a set: one minus a soft intersection over union.

    Args:
      smooth: added to numerator and denominator, in counts: weighs less in large sets.
      squared: whether to sum squares in P and Y.
      intersection: "product": p y; "minimum": the smaller of p and y, so that for soft
        labels p = y costs nothing. The same for labels of 0 and 1.
      absent: loss of a class without gold: "smooth" by its false positives, "skip" 0.
    """

    smooth: float = 1e-05
    squared: bool = False
    intersection: Literal["product", "minimum"] = "product"
    absent: Literal["smooth", "skip"] = "smooth"


@of_loss(losses.unified_focal)
class UnifiedFocal(SetObjective):
    """Unified focal loss of a set: one value for all classes.

    Args:
      weight: lambda, the share of F.
      delta: weight of false negatives, and of all but the background in F.
      gamma: in [0, 1): strength of fading and of enhancing.
      smooth: added to numerator and denominator, in counts: weighs less in large sets.
      variant: "asymmetric" or "symmetric".
      background: label of the frequent class, O in tagging.
      absent: loss of a class without gold: "smooth" by its false positives, "skip" 0.
    """

    weight: float = 0.5
    delta: float = 0.6
    gamma: float = 0.5
    smooth: float = 1e-06
    variant: Literal["asymmetric", "symmetric"] = "asymmetric"
    background: int = 0
    absent: Literal["smooth", "skip"] = "smooth"
