"""Objectives: a loss, its hyper-parameters and the output it reads, as one dataclass.

An experiment file and the command line set every field. An objective is a pytree whose
floats are leaves, so that a new value runs the program already compiled. Each loss of
`dicejax.losses` has its objective here: `Dice`, `Focal`, ...
"""

from typing import TYPE_CHECKING, Any

from dicejax.losses.declaration import NON_NEGATIVE, POSITIVE, UNIT_INTERVAL, Bounds
from dicejax.objectives.loss_objective import LossObjective
from dicejax.objectives.mining import Mined
from dicejax.objectives.naming import is_loss, name_of, names_of
from dicejax.objectives.objective import (
    CLASSES,
    Combination,
    Objective,
    WeightedSum,
    by_short_name,
    objective,
)
from dicejax.objectives.of_losses import loss
from dicejax.objectives.positions import PositionCrossEntropy
from dicejax.objectives.presets import PRESETS, Preset
from dicejax.objectives.schedules import LinearSchedule, Schedule, StepSchedule
from dicejax.objectives.sets import SetObjective

__all__ = [
    "CLASSES",
    "NON_NEGATIVE",
    "POSITIVE",
    "PRESETS",
    "UNIT_INTERVAL",
    "Bounds",
    "Combination",
    "LinearSchedule",
    "LossObjective",
    "Mined",
    "Objective",
    "PositionCrossEntropy",
    "Preset",
    "Schedule",
    "SetObjective",
    "StepSchedule",
    "WeightedSum",
    "by_short_name",
    "is_loss",
    "loss",
    "name_of",
    "names_of",
    "objective",
]
_OF_LOSSES = {name: cls for name, cls in CLASSES.items() if name not in __all__}
globals().update(_OF_LOSSES)
__all__ += _OF_LOSSES

if TYPE_CHECKING:  # they are made of the registered losses

    def __getattr__(name: str) -> Any: ...
