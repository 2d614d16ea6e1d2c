"""Objectives: a loss, its hyper-parameters and the output it reads, as one dataclass.

An experiment file and the command line set every field. An objective is a pytree whose
numbers are leaves, so that changing a number runs the program already compiled.
"""

from dicejax.objectives.combining import (
    LinearSchedule,
    Schedule,
    StepSchedule,
    WeightedSum,
)
from dicejax.objectives.multi_label import ZLPR, Asymmetric, DistributionBalanced
from dicejax.objectives.naming import name_of, names_of
from dicejax.objectives.objective import MeanObjective, Objective, objective
from dicejax.objectives.pointwise import (
    GHM,
    LDAM,
    CrossEntropy,
    Focal,
    HardNegatives,
    LogitAdjusted,
    MajorityOrMinority,
    Poly,
    VectorScaling,
    WeightedCrossEntropy,
)
from dicejax.objectives.sets import (
    Dice,
    DiceSemimetric,
    FocalTversky,
    GeneralizedDice,
    Jaccard,
    LogCoshDice,
    LovaszSoftmax,
    SelfAdjustingDice,
    SigmoidF1,
    SoftF1,
    Tversky,
    UnifiedFocal,
)

__all__ = [
    "GHM",
    "LDAM",
    "ZLPR",
    "Asymmetric",
    "CrossEntropy",
    "Dice",
    "DiceSemimetric",
    "DistributionBalanced",
    "Focal",
    "FocalTversky",
    "GeneralizedDice",
    "HardNegatives",
    "Jaccard",
    "LinearSchedule",
    "LogCoshDice",
    "LogitAdjusted",
    "LovaszSoftmax",
    "MajorityOrMinority",
    "MeanObjective",
    "Objective",
    "Poly",
    "Schedule",
    "SelfAdjustingDice",
    "SigmoidF1",
    "SoftF1",
    "StepSchedule",
    "Tversky",
    "UnifiedFocal",
    "VectorScaling",
    "WeightedCrossEntropy",
    "WeightedSum",
    "by_short_name",
    "name_of",
    "names_of",
    "objective",
]


def by_short_name() -> dict[str, type[Objective]]:
    """Return the objectives by the names that the command line takes."""
    found, classes = {}, Objective.__subclasses__()
    while classes:
        cls = classes.pop(0)
        if "short_name" in vars(cls):
            found[cls.short_name] = cls
        classes = cls.__subclasses__() + classes
    return found
