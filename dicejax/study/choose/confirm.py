"""Confirmation of a choice on test: fresh seeds, one comparison, one look."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from etils import epath

from dicejax.config import Experiment
from dicejax.study import report
from dicejax.study.choose.settings import Setting
from dicejax.study.compare.jobs import Job, train_all, with_seed
from dicejax.study.compare.record import Comparison
from dicejax.study.compare.results import evaluate_runs
from dicejax.training.progress import TrainingProgress

FOLDER = "confirm"
SEED = 3_000_000
"""The first of the fresh seeds."""


def confirm(
    experiment: Experiment,
    settings: Sequence[Setting],
    folder: str,
    progress: TrainingProgress,
    *,
    seeds: int,
    margin: float,
) -> Comparison:
    """Train settings with fresh seeds, and compare them with the first on test."""
    path = epath.Path(folder) / FOLDER
    jobs = [
        Job(
            setting.name,
            with_seed(setting.apply_to(experiment), seed, False),
            str(path / setting.name / f"seed-{seed}"),
        )
        for seed in range(SEED, SEED + seeds)
        for setting in settings
    ]
    train_all(jobs, progress)
    comparison = evaluate_runs(
        jobs, str(path), margin=margin, baseline=settings[0].name
    )
    return report.write(dataclasses.replace(comparison, name=experiment.name))
