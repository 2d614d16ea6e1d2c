"""Which runs a comparison is made of, and training them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

from dicejax.comparison.stacks import StackSize, begun_stacks, in_turn
from dicejax.config import Experiment
from dicejax.errors import Diverged, InputError
from dicejax.objectives import CrossEntropy, Objective, WeightedCrossEntropy, names_of
from dicejax.tasks import Task
from dicejax.training.checkpoint import only_weights_stay
from dicejax.training.loop import train, train_stack
from dicejax.training.progress import TrainingProgress
from dicejax.training.run_folder import Run
from dicejax.training.runs.companions import Companions

BASELINE = CrossEntropy()


@dataclasses.dataclass(frozen=True)
class Job:
    """One run: a loss with a seed.

    Attributes:
      loss: its name.
      experiment: everything, the loss and the seed included.
      folder: where it goes.
    """

    loss: str
    experiment: Experiment
    folder: str

    @property
    def seed(self) -> int:
        """The seed of initial weights, data order and dropout."""
        return self.experiment.training.seed


def with_baselines(
    objectives: Sequence[Objective], task: Task | None = None
) -> tuple[Objective, ...]:
    """Put cross-entropy first where it is missing, and that with class weights last.

    Args:
      objectives: what to compare.
      task: where it is given and its labels are of classes, cross-entropy with class
        weights takes part; positions have no weights.
    """
    if BASELINE not in objectives:
        objectives = (BASELINE, *objectives)
    if task is None or any(isinstance(o, WeightedCrossEntropy) for o in objectives):
        return tuple(objectives)
    of_classes = all(one.kind != "positions" for one in task.targets(()).values())
    return (*objectives, *([WeightedCrossEntropy()] if of_classes else []))


def jobs_of(
    experiment: Experiment, objectives: Sequence[Objective], seeds: int, folder: str
) -> list[Job]:
    """Return the runs of a comparison: all losses of a seed before the next seed.

    Cut off at any point, each loss has then as many runs as the others.

    Args:
      experiment: everything but the objective and the seed.
      objectives: what to compare. Cross-entropy is put first where it is missing.
      seeds: runs per objective, with the seeds from the experiment's own upwards.
      folder: the runs go to `folder/NAME/seed-N`.

    Raises:
      InputError: two objectives have the same name.
    """
    objectives = with_baselines(objectives)
    names, first = names_of(objectives), experiment.training.seed
    return [
        Job(
            name,
            dataclasses.replace(
                experiment,
                objective=objective,
                training=dataclasses.replace(experiment.training, seed=seed),
            ),
            str(epath.Path(folder) / name / f"seed-{seed}"),
        )
        for seed in range(first, first + seeds)
        for name, objective in zip(names, objectives, strict=True)
    ]


def shard_of(jobs: Sequence[Job], shard: str | None) -> list[Job]:
    """Return every n-th job from the i-th on, for a shard written "i/n".

    >>> shard_of([1, 2, 3, 4, 5], "2/3")
    [2, 5]

    Raises:
      InputError: it is not written so.
    """
    if shard is None:
        return list(jobs)
    found = re.fullmatch(r"(\d+)/(\d+)", shard)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise InputError(f"--shard is {shard!r}; want I/N with I from 1 to N, as 3/16")
    return list(jobs[int(found[1]) - 1 :: int(found[2])])


def train_all(
    jobs: Sequence[Job],
    progress: TrainingProgress,
    *,
    overwrite: bool = False,
    stack: StackSize = "off",
) -> None:
    """Train what is not finished; what was cut off goes on where it was.

    A run that diverges is recorded as one and the next begins. Of a finished one only
    the best weights stay.

    Args:
      jobs: the runs.
      progress: shows where they stand.
      overwrite: train again what is there.
      stack: how many runs one program steps, see `stacks.in_turn`.

    Raises:
      InputError: a folder holds a run of other settings: seen before any is trained.
      Stopped: a signal asked for it.
    """
    runs = {
        job.folder: Run.create(job.folder, job.experiment, overwrite=overwrite)
        for job in jobs
    }
    overall = progress.begin("all runs", len(jobs), status="")
    left = []
    for job in jobs:
        run = runs[job.folder]
        if run.continues and run.diverged() is not None:
            told = f"diverged before, see {job.folder}; not tried again"
        elif run.continues and run.is_finished:
            told = f"used again from {job.folder}"
            _slim(run, run.result())
        else:
            left.append(job)
            continue
        progress.say(f"{_told(job)}: {told}")
        progress.advance(overall)
    begun = begun_stacks(left, runs, stack)
    for together in in_turn(left, stack, begun):
        _train(
            together,
            [runs[job.folder] for job in together],
            begun.get(together[0].folder),
            progress,
        )
        for _ in together:
            progress.advance(overall)


def _train(
    jobs: Sequence[Job],
    runs: Sequence[Run],
    companions: Companions | None,
    progress: TrainingProgress,
) -> None:
    """Train one run, or several by one program; those that diverge are told."""
    if len(jobs) > 1 or companions is not None:
        experiments = [job.experiment for job in jobs]
        outcomes = train_stack(experiments, runs, progress, companions=companions)
    else:
        try:
            outcomes = [train(jobs[0].experiment, runs[0], progress)]
        except Diverged as error:
            outcomes = [error]
    for job, run, outcome in zip(jobs, runs, outcomes, strict=True):
        if isinstance(outcome, Diverged):
            progress.say(f"{_told(job)}: diverged: {outcome}")
        else:
            _slim(run, outcome)


def _slim(run: Run, result: Mapping[str, Any]) -> None:
    """Of many runs the optimizers' states would fill the disk."""
    only_weights_stay(run.checkpoints, result["best_step"])


def _told(job: Job) -> str:
    return f"{job.loss} seed {job.seed}"
