"""Objectives: a loss, its hyper-parameters and the output it reads, as one dataclass.

An experiment file and the command line set every field. An objective is a pytree whose
floats are leaves, so that a new value runs the program already compiled. Each loss of
`dicejax.losses` has its objective here: `Dice`, `Focal`, ...
"""

from dicejax.losses.declaration import NON_NEGATIVE, POSITIVE, UNIT_INTERVAL, Bounds
from dicejax.objectives import of_losses, of_set_losses
from dicejax.objectives.candidates import (
    Candidate,
    Candidates,
    Control,
    ControlName,
    FromPrior,
)
from dicejax.objectives.declared import loss
from dicejax.objectives.gold import Gold
from dicejax.objectives.loss_objective import LossObjective, PositionCrossEntropy
from dicejax.objectives.metro import Metro
from dicejax.objectives.mining import Mined
from dicejax.objectives.naming import name_of, names_of
from dicejax.objectives.objective import (
    CLASSES,
    Combination,
    Objective,
    WeightedSum,
    by_short_name,
    objective,
)
from dicejax.objectives.of_losses import *  # noqa: F403
from dicejax.objectives.of_set_losses import *  # noqa: F403
from dicejax.objectives.presets import (
    DL,
    FL,
    PRESETS,
    TL,
    DLSet,
    DSCEq11,
    DSCOfficial,
)
from dicejax.objectives.schedules import LinearSchedule, Schedule, StepSchedule
from dicejax.objectives.sets import SetObjective

# fmt: off
__all__ = [
    "CLASSES", "DL", "FL", "NON_NEGATIVE", "POSITIVE", "PRESETS", "TL", "UNIT_INTERVAL",
    "Bounds", "Candidate", "Candidates", "Combination",
    "Control", "ControlName", "DLSet", "DSCEq11",
    "DSCOfficial", "FromPrior", "Gold", "LinearSchedule", "LossObjective", "Metro",
    "Mined", "Objective", "PositionCrossEntropy", "Schedule", "SetObjective",
    "StepSchedule", "WeightedSum", "by_short_name", "loss", "name_of", "names_of",
    "objective"
]
# fmt: on
__all__ += of_losses.__all__
__all__ += of_set_losses.__all__
