"""Equal tuning: the same number of trials per loss, scored on dev only.

A trial is a run in `FOLDER/tuning/LOSS/trial-K`, or where each seed has a training
sample `.../seed-S/trial-K`. Chosen settings are in `FOLDER/tuning.json`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import optuna
from etils import epath
from optuna.distributions import (
    BaseDistribution,
    FloatDistribution,
    IntDistribution,
)

from dicejax.config import Experiment
from dicejax.errors import Diverged, InputError
from dicejax.io import files
from dicejax.metrics.scores import heading
from dicejax.study.compare import spaces
from dicejax.study.compare.jobs import Job, is_resampled, with_seed
from dicejax.study.sentences import sentences
from dicejax.training.progress import TrainingProgress
from dicejax.training.run_folder import CHECKPOINTS, Run
from dicejax.training.run_lock import run_lock
from dicejax.training.train import train

FILE = "tuning.json"
TRIALS = "tuning"
"""The folder of the trials, next to the file."""
SEED = 1_000_000
"""The seed of all trials, far from those of a comparison, which begin at 0.

With a sample for each seed, trials for seed S have seed and sample `SEED + S`.
"""

_FIRST_SPREAD = 4
"""So many trials say too little for the sampler to build on."""
_WORST = -1.0
"""No score is below: Matthews' correlation reaches it, shares end at 0."""


Record = Mapping[str, Any]
"""Contents of `tuning.json`: trials and the chosen one of each loss, by name."""


def tune(
    jobs: Sequence[Job],
    trials: int,
    folder: str,
    progress: TrainingProgress,
    *,
    overwrite: bool = False,
    may_train: bool = True,
    earlier: Record | None = None,
    is_part: bool = False,
) -> Record | None:
    """Choose the settings of each loss, and write `folder/tuning.json`.

    Each loss gets the same number of trials: the first with its settings as they are,
    three spread over the search space (Halton's sequence), the rest from the
    tree-structured Parzen estimator. Proposals depend on the scores so far alone, so an
    interrupted tuning resumes exactly. Runs that have a training sample for each seed
    are tuned seed by seed, results of earlier calls taken as they are, and of a part
    of the runs nothing is written. Losses are in the order of the runs. Without trials
    there is no record.

    Raises:
      InputError: thresholds are to keep a constraint on new data; a folder holds a
        trial of other settings, or untuned runs of the comparison; a trial is missing
        and may not be run; or the comparison in the folder is tuned and this is not.
      Stopped: a signal interrupted training.
    """
    if trials < 0:
        raise InputError(f"--tune is {trials}; want trials per loss, or 0 for none")
    file = epath.Path(folder) / FILE
    if trials == 0:
        if overwrite:
            file.unlink(missing_ok=True)
        elif file.exists():
            raise InputError(
                f"{file}: the losses of this folder were tuned; give --tune as before, "
                "name another folder with --out, or replace it with --overwrite"
            )
        return None
    rules = (job.experiment.task.threshold_rule for job in jobs)
    if any(rule is not None and rule.constraint is not None for rule in rules):
        raise InputError(
            "--tune chooses settings by dev, so that a threshold chosen there promises "
            "less than --task.threshold says; leave one out"
        )
    overwrite = overwrite and may_train
    if any(job.seed >= SEED for job in jobs):
        raise InputError(
            f"seeds from {SEED} on are those of trials and cannot be in a comparison; "
            "choose another --training.seed"
        )
    searches = _searches(jobs, folder)
    done = dict(earlier["losses"]) if earlier else {}
    left = [search for name, search in searches.items() if name not in done]
    for search in left:
        runs = _runs(search, trials)
        Run.create(str(runs[0].path), of_trial(search.experiment), overwrite=overwrite)
        if all(run.has_ended for run in runs):
            continue
        if not may_train:
            raise InputError(
                f"{folder}: {search.loss} has not finished {trials} trials; run with "
                f"--tune {trials} --seeds 0 first, with or without --shard"
            )
        for job in jobs if not overwrite else ():
            if search.loss in _names(job) and epath.Path(job.folder).exists():
                raise InputError(
                    f"{job.folder}: was trained before the tuning is done; name "
                    "another folder with --out, or replace it with --overwrite"
                )
    overall = progress.begin("all trials", len(left) * trials, status="")
    for search in left:
        made = []
        for trial in _search(search, trials, progress, overwrite):
            made.append(trial)
            progress.advance(overall)
        varied = {
            path: {"low": x.low, "high": x.high, "scale": x.scale}
            for path, x in spaces.ranges_of(search.experiment).items()
        }
        # The best on dev, the first of equals; the first if all diverged.
        chosen = max(range(trials), key=lambda number: _score(made[number]))
        done[search.loss] = {"varied": varied, "trials": made, "chosen": chosen}
    progress.remove_task(overall)
    if not done:
        return None
    record = {
        "trials": trials,
        "seed": SEED,
        "split": "dev",
        "primary_metric": jobs[0].experiment.task.primary_metric,
        # In the order of the runs: that of the trials varies by shard.
        "losses": {name: done[name] for name in searches} | done,
    }
    if not is_part:
        text = json.dumps(record, indent=2) + "\n"
        files.write_checked(file.parent, FILE, text)  # shards write the same
    return record


def _names(job: Job) -> tuple[str, str]:
    """Return the names under which a run may have trials: of all seeds, or its own."""
    return job.loss, f"{job.loss} seed {job.seed}"


def _searches(jobs: Sequence[Job], folder: str) -> dict[str, Job]:
    """Return what has trials, by name and in the order of the runs, with their folder.

    Controls that are no encoders have none: each fit chooses its settings by dev.
    """
    searches: dict[str, Job] = {}
    for job in jobs:
        if job.experiment.control is None:
            path, sampled = epath.Path(folder) / TRIALS / job.loss, job.experiment
            name = _names(job)[is_resampled(sampled)]
            path = path / f"seed-{job.seed}" if is_resampled(sampled) else path
            searches.setdefault(name, Job(name, job.experiment, str(path)))
    return searches


def _runs(search: Job, trials: int) -> list[Run]:
    """Return the runs of the trials of a loss, which may not exist yet."""
    path = epath.Path(search.folder)
    return [Run(path / f"trial-{number}") for number in range(trials)]


def trial_jobs(jobs: Sequence[Job], trials: int, folder: str) -> list[Job]:
    """Return the trials for the runs of a comparison, without their settings."""
    return [
        Job(search.loss, of_trial(search.experiment), str(run.path))
        for search in _searches(jobs, folder).values()
        for run in _runs(search, trials)
    ]


def read(folder: epath.Path) -> Record:
    """Read the tuning record of a comparison, an InputError if it is damaged."""
    return json.loads(files.read_checked(folder, FILE))


def apply_settings(jobs: Sequence[Job], record: Record | None) -> list[Job]:
    """Return the runs of a comparison with the chosen settings."""
    losses, tuned = record["losses"] if record else {}, []
    for job in jobs:
        for name in _names(job):
            if entry := losses.get(name):
                values = entry["trials"][entry["chosen"]]["values"]
                experiment = spaces.with_values(job.experiment, values)
                job = dataclasses.replace(job, experiment=experiment)
        tuned.append(job)
    return tuned


def remarks(record: Record | None) -> list[str]:
    """Return a line per loss on its chosen settings, below a heading."""
    if not record:
        return []
    texts, lines = sentences("tuning"), []
    for name, entry in record["losses"].items():
        settings = settings_text(entry["trials"][entry["chosen"]]["values"])
        metric = heading(record["primary_metric"])
        lines.append(f"  {texts.chosen(name, entry, metric, settings)}")
    return [texts.heading(record), *lines]


def of_trial(experiment: Experiment) -> Experiment:
    """Return the experiment with the trials' seed, without Weights & Biases."""
    # With samples, of another one than any run that is compared.
    resample = is_resampled(experiment)
    seed = SEED + resample * experiment.training.seed
    recording = dataclasses.replace(experiment.recording, wandb_project=None)
    seeded = with_seed(experiment, seed, resample)
    return dataclasses.replace(seeded, recording=recording)


def _search(
    search: Job, trials: int, progress: TrainingProgress, overwrite: bool
) -> Iterator[dict[str, Any]]:
    """Yield the trials of a loss one by one, as the record has them."""
    untuned, metric = search.experiment, search.experiment.task.primary_metric
    ranges = spaces.ranges_of(untuned)
    if list(ranges) == [spaces.LEARNING_RATE]:
        progress.say(f"{search.loss}: has only the learning rate to tune")
    distributions: dict[str, BaseDistribution] = {}
    for path, x in ranges.items():
        (low, high), log = x.drawn, x.scale != "linear"
        distributions[path] = FloatDistribution(low, high, log=log)
        if x.whole:
            distributions[path] = IntDistribution(int(low), int(high), log=log)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    seed = search.seed if is_resampled(untuned) else 0
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=_FIRST_SPREAD)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for draw in spaces.spread(ranges, _FIRST_SPREAD - 1):
        study.enqueue_trial(draw)
    for number, run in enumerate(_runs(search, trials)):
        asked, values = None, spaces.given_values(untuned)
        if number:
            asked = study.ask(distributions)
            values = spaces.drawn_values(untuned, asked.params)
        experiment = of_trial(spaces.with_values(untuned, values))
        run = Run.create(str(run.path), experiment, overwrite=overwrite)
        message = f"{search.loss} trial-{number}, {number + 1} of {trials}"
        if run.continues and run.has_ended:
            message += f", used again from {run.path}"
        dev = _dev_score(run, experiment, progress, overwrite)
        status = "diverged" if dev is None else "finished"
        trial = {"status": status, "dev": dev, "values": values}
        if asked is not None:
            study.tell(asked, _score(trial))
        else:
            settings: dict[str, Any] = {"distributions": distributions}
            settings["params"] = {k: r.to_drawn(values[k]) for k, r in ranges.items()}
            first = optuna.trial.create_trial(value=_score(trial), **settings)
            study.add_trial(first)
        text = status if dev is None else f"dev {heading(metric)} {100 * dev:.2f}"
        progress.say(f"{message}: {settings_text(values)}: {text}")
        yield trial


def _score(trial: Mapping[str, Any]) -> float:
    """Return the score on dev to rank a trial by, the worst possible if diverged."""
    return _WORST if trial["dev"] is None else trial["dev"]


def _dev_score(
    run: Run, experiment: Experiment, progress: TrainingProgress, overwrite: bool
) -> float | None:
    """Train a trial that has not ended, and return its score; None if it diverged."""
    if not (run.continues and run.has_ended):
        run_one = functools.partial(train, overwrite=overwrite, progress=progress)
        try:
            run_one(experiment, str(run.path), score_test=False)
        except Diverged as error:
            progress.say(f"diverged: {error}")
    if (run.path / CHECKPOINTS).exists():  # of no use any more, and large
        # Another process that holds the lock deletes them.
        with contextlib.suppress(InputError), run_lock(run.path):
            (run.path / CHECKPOINTS).rmtree(missing_ok=True)
    return run.result()["best_dev_score"] if run.is_finished else None


def settings_text(values: Mapping[str, float]) -> str:
    """Format settings for people.

    >>> settings_text({"optimizer.learning_rate": 0.01, "objective.parts.1.alpha": 2.0})
    'learning_rate 0.01, parts.1.alpha 2'
    """
    return ", ".join(
        f"{path.partition('.')[2]} {value:g}" for path, value in values.items()
    )
