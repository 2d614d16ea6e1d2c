"""Find the comparison that run folders belong to."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence

from etils import epath

from dicejax import config
from dicejax.errors import InputError
from dicejax.io import files
from dicejax.objectives import name_of
from dicejax.study.compare import tuning
from dicejax.study.compare.jobs import Job, is_resampled, with_seed
from dicejax.study.compare.record import FILE as RECORD
from dicejax.training.candidate import candidate_of
from dicejax.training.logging import is_local
from dicejax.training.run_folder import DATA, EXPERIMENT, PLACES, Run

HEAD_SETTINGS = ("training.head_bias ", "optimizer.head_learning_rate ")
"""Settings that differ where some losses begin at the class frequencies."""

CHOICE, SEARCH = "choose.json", "search"
"""The record of a choice, and the folder beside it of its trials on dev."""
SEARCHES = ((tuning.FILE, tuning.TRIALS), (CHOICE, SEARCH))
"""Records with the folders of their trials, which have no scores on test."""


def jobs_from(paths: Sequence[str]) -> list[Job]:
    """Return the runs in folders, at any depth, as those of one comparison.

    Those of a choice below a folder are left out: they are another comparison.

    They are sorted by loss and seed. A seed that only some losses have is a missing
    run.

    Raises:
      InputError: there are none, two have the same loss and seed, or they differ in
        more than loss, seed and the place of their data; tuned ones may differ in the
        learning rate too, and losses that begin at the class frequencies in the heads'
        settings.
    """
    runs = list(_runs_in(paths))
    if not runs:
        raise InputError(f"{', '.join(paths)}: no run folders there (no {EXPERIMENT})")
    experiments = [run.experiment() for run in runs]
    firsts = {experiments[0].training.head_bias: 0}
    for run, experiment in zip(runs[1:], experiments[1:], strict=True):
        bias = experiment.training.head_bias
        first_run = firsts.get(bias, 0)
        changes = changed_settings(experiments[first_run], experiment)
        free = [] if bias in firsts else [*HEAD_SETTINGS]
        free += ["control "]
        free += ["optimizer.learning_rate "] if _record(run) else []
        if all((each.path / DATA).exists() for each in (run, runs[first_run])):
            free += PLACES  # whose content is compared
        changes = [change for change in changes if not change.startswith(tuple(free))]
        if changes:
            raise InputError(
                f"{run.path}: differs from {runs[first_run].path} in more than loss and"
                f" seed: {'; '.join(changes)}; their scores cannot be compared"
            )
        firsts.setdefault(bias, experiments.index(experiment))
    jobs: dict[tuple[str, int], Job] = {}
    candidates = map(candidate_of, experiments)
    for run, experiment, candidate in zip(runs, experiments, candidates, strict=True):
        name = run.path.parent.name if _record(run) else name_of(candidate)
        job = Job(name, experiment, str(run.path))
        first = jobs.setdefault((job.loss, job.seed), job)
        if first is not job:
            raise InputError(
                f"{job.folder}: is {job.loss} with seed {job.seed}, as {first.folder} "
                "is; name one of them"
            )
    seeds = {seed for _, seed in jobs}
    for job in list(jobs.values()):
        for seed in seeds:
            experiment = with_seed(job.experiment, seed, resample=False)
            folder = str(epath.Path(job.folder).parent / f"seed-{seed}")
            jobs.setdefault((job.loss, seed), Job(job.loss, experiment, folder))
    return [job for _, job in sorted(jobs.items())]


def tuning_of(jobs: Sequence[Job]) -> tuning.Record | None:
    """Return the tuning record of runs, an InputError if there are several.

    None without tuning.
    """
    records = {path for job in jobs if (path := _record(Run(epath.Path(job.folder))))}
    if len(records) > 1:
        paths = ", ".join(sorted(map(str, records)))
        raise InputError(f"{paths}: runs of several tunings cannot be compared")
    for file in records:
        return tuning.read(file.parent)
    return None


def common_folder(paths: Sequence[str]) -> str:
    """Return the deepest folder that holds all of these, or the only one.

    >>> common_folder(["runs/mine/ce", "runs/mine/dice/seed-0"])
    'runs/mine'
    """
    folders = [epath.Path(path) for path in paths]
    folder = folders[0]
    while not all(path.is_relative_to(folder) for path in folders):
        folder = folder.parent
    return str(folder)


def is_alone(folder: str) -> bool:
    """Return whether a folder has the record of a comparison, and no run."""
    has_record = (epath.Path(folder) / RECORD).exists()
    return has_record and next(_runs_in([folder]), None) is None


def _runs_in(paths: Sequence[str]) -> Iterator[Run]:
    """Yield each run once, though links may lead to it in several ways."""
    waiting, seen = [epath.Path(path) for path in reversed(paths)], set()
    for path in waiting:
        if not path.is_dir():
            raise InputError(f"{path}: no such folder")
    while waiting:
        folder = waiting.pop()
        place = os.path.realpath(folder) if is_local(folder) else str(folder)
        if place in seen:
            continue
        seen.add(place)
        if (folder / EXPERIMENT).exists():
            yield Run(folder)
            continue
        trials = {trials for file, trials in SEARCHES if (folder / file).exists()}
        for entry in files.entries(folder):
            is_hidden = entry.name.startswith(".") or entry.name in trials
            if entry.is_dir() and not (is_hidden or (entry / CHOICE).exists()):
                waiting.append(entry)


def _record(run: Run) -> epath.Path | None:
    """Return the tuning record of a run's comparison."""
    file = run.path.parent.parent / tuning.FILE
    return file if file.exists() else None


def changed_settings(first: config.Experiment, other: config.Experiment) -> list[str]:
    """Return the settings of an experiment that differ, except loss and seed."""
    both = is_resampled(other) and is_resampled(first)
    other = dataclasses.replace(
        other, objective=first.objective, compared=first.compared
    )
    return config.differences(first, with_seed(other, first.training.seed, both))
