"""The experiment of a loss or control that is named, and back."""

from __future__ import annotations

import dataclasses

from dicejax.config import Experiment
from dicejax.objectives import Candidate, Control, CrossEntropy, FromPrior
from dicejax.tasks.priors import require_classes


def with_candidate(experiment: Experiment, candidate: Candidate) -> Experiment:
    """Return the experiment of a control, or of a loss with the start that it names.

    Heads begin at the class frequencies and learn faster if it is `FromPrior`, and at
    zero if not.

    Raises:
      InputError: they are to begin at the class frequencies, and there are no classes.
    """
    optimizer, control = experiment.optimizer, None
    training = dataclasses.replace(experiment.training, head_bias="zeros")
    if isinstance(candidate, Control):
        control, candidate = candidate.name, CrossEntropy()
    elif isinstance(candidate, FromPrior):
        require_classes(experiment.task.targets(()))
        training = dataclasses.replace(training, head_bias="prior")
        factor = optimizer.head_learning_rate or FromPrior.FACTOR
        optimizer = dataclasses.replace(optimizer, head_learning_rate=factor)
        candidate = candidate.objective
    return dataclasses.replace(
        experiment,
        objective=candidate,
        control=control,
        training=training,
        optimizer=optimizer,
    )


def candidate_of(experiment: Experiment) -> Candidate:
    """Return what an experiment trains: the inverse of `with_candidate`."""
    if experiment.control is not None:
        return Control(experiment.control)
    is_from_prior = experiment.training.head_bias == "prior"
    return FromPrior(experiment.objective) if is_from_prior else experiment.objective
