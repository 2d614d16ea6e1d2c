"""Objectives of the losses, whose functions document the fields.

Written by `python -m tests.write_objectives` from the declarations of the losses.
"""

from typing import Literal

from dicejax import losses
from dicejax.objectives.declared import of_loss
from dicejax.objectives.loss_objective import LossObjective

# fmt: off
__all__ = [
    "GHM", "LDAM", "ZLPR", "Asymmetric", "Brier", "ClassBalanced", "CrossEntropy",
    "DistributionBalanced", "Focal", "HardNegatives", "LogitAdjusted",
    "MajorityOrMinority", "Poly", "PolyFocal", "VectorScaling", "WeightedCrossEntropy",
]
# fmt: on


@of_loss(losses.brier)
class Brier(LossObjective):
    """Brier score of each element: the squared error of its probabilities."""


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
