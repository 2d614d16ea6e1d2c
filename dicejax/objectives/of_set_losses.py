"""Objectives of the set losses, whose functions document the fields.

Written by `python -m tests.write_objectives` from the declarations of the losses.
"""

from typing import Literal

from dicejax import losses
from dicejax.objectives.declared import of_loss
from dicejax.objectives.sets import SetObjective

# fmt: off
__all__ = [
    "AUCMargin", "AnyLoss", "AveragePrecision", "Dice", "DiceSemimetric",
    "FocalTversky", "GeneralizedDice", "Jaccard", "LogCoshDice", "LogDice",
    "LovaszHinge", "LovaszSoftmax", "MatthewsCorrelation", "PairwiseAUC",
    "SelfAdjustingDice", "SigmoidF1", "SoftF1", "Tversky", "UnifiedFocal",
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
      average: "none" for a loss of each class; "macro" for their mean, with
        `absent="skip"` of those with gold in their set; "micro" for one set of all
        classes, in which an element occurs once for each. No effect in the binary form.
    """

    beta: float = 1.0
    smooth: float = 1e-05
    absent: Literal["smooth", "skip"] = "smooth"
    average: Literal["none", "macro", "micro"] = "macro"


@of_loss(losses.sigmoid_f1)
class SigmoidF1(SetObjective):
    """One minus the F1 of a scaled and shifted sigmoid, multi-label or binary.

    Args:
      slope: beta; the gradient fades where slope times the distance is large.
      offset: eta, in units of logits; the decision is at z = -eta.
      smooth: added to numerator and denominator, in counts: weighs less in large sets.
      absent: loss of a class without gold: "smooth" by its false positives, "skip" 0.
      average: "none" for a loss of each class; "macro" for their mean, with
        `absent="skip"` of those with gold in their set; "micro" for one set of all
        classes, in which an element occurs once for each. No effect in the binary form.
    """

    slope: float = 1.0
    offset: float = 0.0
    smooth: float = 1e-05
    absent: Literal["smooth", "skip"] = "smooth"
    average: Literal["none", "macro", "micro"] = "macro"


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
