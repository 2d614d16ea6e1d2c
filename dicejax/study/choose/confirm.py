"""Confirmation of a choice on test: fresh seeds, one comparison, one look."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from etils import epath

from dicejax.config import Experiment
from dicejax.study import report
from dicejax.study.choose.settings import Setting
from dicejax.study.compare.baselines import controls_among
from dicejax.study.compare.changed import quote
from dicejax.study.compare.jobs import (
    PLAIN,
    Job,
    ScoredRun,
    scored,
    share_groups,
    train_all,
    with_seed,
)
from dicejax.study.compare.record import Comparison
from dicejax.study.compare.results import assess
from dicejax.study.compare.same_data import require_one_data
from dicejax.training.progress import TrainingProgress
from dicejax.training.run_folder import Run

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
    """Train settings with fresh seeds, and compare them with the first on test.

    A model that is no fine-tuned encoder is fitted once, as seeds do not change it.
    Where the task has its threshold tuned on dev, it decides.
    """
    path = epath.Path(folder) / FOLDER
    jobs = [
        Job(
            setting.name,
            with_seed(setting.apply_to(experiment), seed, False),
            str(path / setting.name / f"seed-{seed}"),
        )
        for seed in range(SEED, SEED + seeds)
        for setting in settings
        if seed == SEED or not setting.is_plain
    ]
    train_all(jobs, progress)
    runs = share_groups([with_threshold_scores(scored(job)) for job in jobs])
    runs += [
        dataclasses.replace(run, seed=seed)
        for run in runs
        if run.loss in PLAIN
        for seed in range(SEED + 1, SEED + seeds)
    ]
    require_one_data(runs)
    first, *others = (setting.name for setting in settings)
    controls, name = controls_among(others), experiment.name
    comparison = assess(
        runs, str(path), first, name=name, margin=margin, controls=controls
    )
    return report.write(quote(comparison))


def with_threshold_scores(run: ScoredRun) -> ScoredRun:
    """Return a run with the scores of its tuned threshold, if it has one."""
    result = dict(run.result)
    if "at_constraint" in result or not (
        tuned := result.get("test_with_tuned_threshold")
    ):
        return run
    shares = Run(epath.Path(run.folder)).test_array("with_tuned_threshold")
    result["test"] = tuned
    return dataclasses.replace(run, result=result, example_statistics=shares)
