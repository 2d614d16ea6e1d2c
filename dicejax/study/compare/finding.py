"""Find the comparison that run folders belong to."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from typing import Any

from etils import epath

from dicejax import config
from dicejax.errors import InputError
from dicejax.io import files
from dicejax.objectives import names_of
from dicejax.study.compare import tuning
from dicejax.study.compare.jobs import Job, like_seed_of
from dicejax.training.boards import is_local
from dicejax.training.run_folder import EXPERIMENT, Run


def jobs_from(paths: Sequence[str]) -> list[Job]:
    """Return the runs in folders as those of one comparison, by loss and seed.

    A seed that only some losses have is a missing run.

    Args:
      paths: run folders, or folders that hold some at any depth.

    Raises:
      InputError: there are none, two have the same loss and seed, or they differ in
        more than loss and seed; tuned ones may differ in the learning rate too.
    """
    runs = list(_runs_in(paths))
    if not runs:
        raise InputError(f"{', '.join(paths)}: no run folders there (no {EXPERIMENT})")
    experiments = [run.experiment() for run in runs]
    _require_alike(runs, experiments)
    names = dict.fromkeys(one.objective for one in experiments)
    names = dict(zip(names, names_of(list(names)), strict=True))
    jobs: dict[tuple[str, int], Job] = {}
    for run, experiment in zip(runs, experiments, strict=True):
        name = run.path.parent.name if _record(run) else names[experiment.objective]
        job = Job(name, experiment, str(run.path))
        known = jobs.setdefault((job.loss, job.seed), job)
        if known is not job:
            raise InputError(
                f"{job.folder}: is {job.loss} with seed {job.seed}, as {known.folder} "
                "is; name one of them"
            )
    return [one for _, one in sorted((jobs | _missing(jobs)).items())]


def tuning_of(jobs: Sequence[Job]) -> dict[str, Any] | None:
    """Return the tuning record of runs; None without tuning.

    Raises:
      InputError: records differ, or cannot be read.
    """
    found = {path for job in jobs if (path := _record(Run(epath.Path(job.folder))))}
    if len(found) > 1:
        files_found = ", ".join(sorted(map(str, found)))
        raise InputError(f"{files_found}: runs of several tunings cannot be compared")
    for file in found:
        return tuning.read(file.parent)
    return None


def common_folder(paths: Sequence[str]) -> str:
    """Return the deepest folder that holds all of these, or the only one.

    >>> common_folder(["runs/mine/ce", "runs/mine/dice/seed-0"])
    'runs/mine'
    """
    folders = [epath.Path(path) for path in paths]
    found = folders[0]
    while not all(one.is_relative_to(found) for one in folders):
        found = found.parent
    return str(found)


def _runs_in(paths: Sequence[str]) -> Iterator[Run]:
    """Yield each run once, though links may lead to it in several ways."""
    waiting, seen = [epath.Path(path) for path in reversed(paths)], set()
    for folder in waiting:
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder")
    while waiting:
        here = waiting.pop()
        place = os.path.realpath(here) if is_local(here) else str(here)
        if place in seen:
            continue
        seen.add(place)
        if (here / EXPERIMENT).exists():
            yield Run(here)
            continue
        has_trials = (here / tuning.FILE).exists()
        waiting += [
            one
            for one in files.entries(here)
            if one.is_dir()
            and not one.name.startswith(".")
            and not (has_trials and one.name == tuning.TRIALS)
        ]


def _record(run: Run) -> epath.Path | None:
    """Return the tuning record of a run's comparison."""
    file = run.path.parent.parent / tuning.FILE
    return file if file.exists() else None


def _require_alike(
    runs: Sequence[Run], experiments: Sequence[config.Experiment]
) -> None:
    first = experiments[0]
    for run, experiment in zip(runs[1:], experiments[1:], strict=True):
        alike = dataclasses.replace(
            like_seed_of(experiment, first),
            objective=first.objective,
            compared=first.compared,
        )
        free = "optimizer.learning_rate " if _record(run) else None
        changes = [
            change
            for change in config.differences(first, alike)
            if free is None or not change.startswith(free)
        ]
        if changes:
            raise InputError(
                f"{run.path}: differs from {runs[0].path} in more than loss and seed: "
                f"{'; '.join(changes)}; their scores cannot be compared"
            )


def _missing(jobs: dict[tuple[str, int], Job]) -> dict[tuple[str, int], Job]:
    """Return the runs that the comparison lacks, with their folders."""
    of_loss = {job.loss: job for job in jobs.values()}
    seeds = {seed for _, seed in jobs}
    return {
        (loss, seed): _with_seed(job, seed)
        for loss, job in of_loss.items()
        for seed in seeds
        if (loss, seed) not in jobs
    }


def _with_seed(job: Job, seed: int) -> Job:
    training = dataclasses.replace(job.experiment.training, seed=seed)
    return Job(
        job.loss,
        dataclasses.replace(job.experiment, training=training),
        str(epath.Path(job.folder).parent / f"seed-{seed}"),
    )
