"""The arm `step` of the second protocol: dice for the first fifth of the updates."""

import dataclasses

from dicejax.config import Experiment
from dicejax.objectives import CrossEntropy, SelfAdjustingDice, StepSchedule
from experiments.ner import conll03


def get_config() -> Experiment:
    """Return the experiment of conll03.py with a change of losses."""
    dice = SelfAdjustingDice(smooth=0.01)
    step = StepSchedule(first=dice, then=CrossEntropy(), at=0.2)
    compared = (CrossEntropy(), step)
    experiment = conll03.get_config()
    return dataclasses.replace(experiment, objective=step, compared=compared)
