"""Check before training that a threshold can keep its constraint on new data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dicejax.config import Experiment
from dicejax.errors import InputError
from dicejax.objectives import Objective


def check_promise(
    experiment: Experiment,
    objective: Objective,
    dev: Sequence[Any],
    labels: Sequence[str],
) -> None:
    """Check that dev can promise what the task's threshold is to keep.

    The checkpoint is that of the best of all epochs on dev.

    Raises:
      InputError: dev is too small, or the objective learns from it.
    """
    task = experiment.task
    if task.constraint is None:
        return
    if any(term.reads_decisions for term in objective.terms()):
        raise InputError(
            f"task.threshold: {objective.short_name} learns from decisions on dev, "
            "which then promise nothing for new data; take another loss, or "
            "--task.tune_threshold"
        )
    task.require_attainable(dev, labels, experiment.training.epochs)
