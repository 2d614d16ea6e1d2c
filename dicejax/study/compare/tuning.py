"""Equal tuning: the same number of trials per loss, scored on dev only.

A trial is a run in `FOLDER/tuning/LOSS/trial-K`, or where each seed has a training
sample `.../seed-S/trial-K`. Chosen settings are in `FOLDER/tuning.json`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import optuna
from etils import epath
from optuna.distributions import FloatDistribution, IntDistribution

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


@dataclasses.dataclass(frozen=True)
class Trial:
    """Settings by path in the experiment, and the best score on dev, if any."""

    values: Mapping[str, float]
    dev: float | None

    @property
    def score(self) -> float:
        """Score on dev to rank trials by, the worst possible if diverged."""
        return _WORST if self.dev is None else self.dev

    def percent(self, metric: str | None = None) -> str:
        """Format the score, after the name of the metric if there is one."""
        name = "" if metric is None else f"dev {heading(metric)} "
        return "diverged" if self.dev is None else f"{name}{100 * self.dev:.2f}"


@dataclasses.dataclass(frozen=True)
class Tuned:
    """The trials of a loss, the first as given, for the runs of a seed or all."""

    loss: str
    experiment: Experiment
    trials: tuple[Trial, ...] = ()
    seed: int | None = None

    @property
    def name(self) -> str:
        """Name of the loss, with the seed if there is one."""
        return self.loss if self.seed is None else f"{self.loss} seed {self.seed}"

    def runs(self, folder: str, trials: int) -> list[Run]:
        """Return the runs of the trials, which may not exist yet."""
        path = epath.Path(folder) / TRIALS / self.loss
        if self.seed is not None:
            path /= f"seed-{self.seed}"
        return [Run(path / f"trial-{number}") for number in range(trials)]

    @property
    def chosen(self) -> int:
        """Index of the best trial on dev, the first of equals; 0 if all diverged."""
        scores = [trial.score for trial in self.trials]
        return scores.index(max(scores))

    def to_json(self) -> dict[str, Any]:
        """Return ranges and trials as plain dictionaries."""
        varied = {
            path: {"low": x.low, "high": x.high, "scale": x.scale}
            for path, x in spaces.ranges_of(self.experiment).items()
        }
        trials = []
        for x in self.trials:
            status = "diverged" if x.dev is None else "finished"
            trials.append({"status": status, "dev": x.dev, "values": dict(x.values)})
        return {"varied": varied, "trials": trials, "chosen": self.chosen}


def tune(
    jobs: Sequence[Job],
    trials: int,
    folder: str,
    progress: TrainingProgress,
    *,
    overwrite: bool = False,
    may_train: bool = True,
    earlier: Sequence[Tuned] = (),
    is_part: bool = False,
) -> list[Tuned]:
    """Choose the settings of each loss, and write `folder/tuning.json`.

    Each loss gets the same number of trials: the first with its settings as they are,
    three spread over the search space (Halton's sequence), the rest from the
    tree-structured Parzen estimator. Proposals depend on the scores so far alone, so an
    interrupted tuning resumes exactly. Runs that have a training sample for each seed
    are tuned seed by seed, results of earlier calls taken as they are, and of a part
    of the runs nothing is written. Losses are in the order of the runs.

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
        return []
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
    done = {(tuned.loss, tuned.seed): tuned for tuned in earlier}
    studies = _untuned(jobs)
    untuned = [study for key, study in studies.items() if key not in done]
    for study in untuned:
        runs = study.runs(folder, trials)
        Run.create(str(runs[0].path), of_trial(study.experiment), overwrite=overwrite)
        if all(run.has_ended for run in runs):
            continue
        if not may_train:
            raise InputError(
                f"{folder}: {study.name} has not finished {trials} trials; run with "
                f"--tune {trials} --seeds 0 first, with or without --shard"
            )
        for job in jobs if not overwrite else ():
            takes = job.loss == study.loss and study.seed in (None, job.seed)
            if takes and epath.Path(job.folder).exists():
                raise InputError(
                    f"{job.folder}: was trained before the tuning is done; name "
                    "another folder with --out, or replace it with --overwrite"
                )
    overall = progress.begin("all trials", len(untuned) * trials, status="")
    for study in untuned:
        results = []
        for trial in _search(study, folder, trials, progress, overwrite):
            results.append(trial)
            progress.advance(overall)
        key = study.loss, study.seed
        done[key] = dataclasses.replace(study, trials=tuple(results))
    progress.remove_task(overall)
    # In the order of the runs: that of the trials varies by shard.
    ordered = [*{**studies, **done}.values()]
    if not is_part:
        text = json.dumps(to_json(ordered), indent=2) + "\n"
        files.write_checked(file.parent, FILE, text)  # shards write the same
    return ordered


def _untuned(jobs: Sequence[Job]) -> dict[tuple[str, int | None], Tuned]:
    """Return what has trials, before the first of them, in the order of the runs.

    Controls that are no encoders have none: each fit chooses its settings by dev.
    """
    studies: dict[tuple[str, int | None], Tuned] = {}
    for job in jobs:
        if job.experiment.control is not None:
            continue
        key = job.loss, job.seed if is_resampled(job.experiment) else None
        studies.setdefault(key, Tuned(job.loss, job.experiment, seed=key[1]))
    return studies


def trial_jobs(jobs: Sequence[Job], trials: int, folder: str) -> list[Job]:
    """Return the trials for the runs of a comparison, without their settings."""
    return [
        Job(x.name, of_trial(x.experiment), str(run.path))
        for x in _untuned(jobs).values()
        for run in x.runs(folder, trials)
    ]


def read(folder: epath.Path) -> dict[str, Any]:
    """Read the tuning record of a comparison, an InputError if it is damaged."""
    return json.loads(files.read_checked(folder, FILE))


def apply_settings(jobs: Sequence[Job], tuned: Sequence[Tuned]) -> list[Job]:
    """Return the runs of a comparison with the chosen settings."""
    chosen = {(t.loss, t.seed): t.trials[t.chosen].values for t in tuned}
    result = []
    for job in jobs:
        values = chosen.get((job.loss, None)) or chosen.get((job.loss, job.seed))
        if values:
            experiment = spaces.with_values(job.experiment, values)
            job = dataclasses.replace(job, experiment=experiment)
        result.append(job)
    return result


def to_json(tuned: Sequence[Tuned]) -> dict[str, Any] | None:
    """Return trials and chosen settings as plain dictionaries; None without tuning."""
    if not tuned:
        return None
    return {
        "trials": len(tuned[0].trials),
        "seed": SEED,
        "split": "dev",
        "primary_metric": tuned[0].experiment.task.primary_metric,
        "losses": {result.name: result.to_json() for result in tuned},
    }


def remarks(tuned: Sequence[Tuned]) -> list[str]:
    """Return a line per loss on its chosen settings, below a heading."""
    if not tuned:
        return []
    texts = sentences("tuning")
    lines = [texts.heading(tuned[0])]
    for result in tuned:
        values = settings_text(result.trials[result.chosen].values)
        lines.append(f"  {texts.chosen(result, values)}")
    return lines


def of_trial(experiment: Experiment) -> Experiment:
    """Return the experiment with the trials' seed, without Weights & Biases."""
    # With samples, of another one than any run that is compared.
    resample = is_resampled(experiment)
    seed = SEED + resample * experiment.training.seed
    recording = dataclasses.replace(experiment.recording, wandb_project=None)
    seeded = with_seed(experiment, seed, resample)
    return dataclasses.replace(seeded, recording=recording)


def _search(
    study: Tuned, folder: str, trials: int, progress: TrainingProgress, overwrite: bool
) -> Iterator[Trial]:
    """Yield the trials of a loss one by one."""
    untuned, metric = study.experiment, study.experiment.task.primary_metric
    ranges = spaces.ranges_of(untuned)
    if list(ranges) == [spaces.LEARNING_RATE]:
        progress.say(f"{study.name}: has only the learning rate to tune")
    distributions = {}
    for path, x in ranges.items():
        kind = IntDistribution if x.whole else FloatDistribution
        distributions[path] = kind(*x.drawn, log=x.scale != "linear")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(
        seed=study.seed or 0, n_startup_trials=_FIRST_SPREAD
    )
    search = optuna.create_study(direction="maximize", sampler=sampler)
    for draw in spaces.spread(ranges, _FIRST_SPREAD - 1):
        search.enqueue_trial(draw)
    for number, run in enumerate(study.runs(folder, trials)):
        asked, values = None, spaces.given_values(untuned)
        if number:
            asked = search.ask(distributions)
            values = spaces.drawn_values(untuned, asked.params)
        experiment = of_trial(spaces.with_values(untuned, values))
        run = Run.create(str(run.path), experiment, overwrite=overwrite)
        message = f"{study.name} trial-{number}, {number + 1} of {trials}"
        if run.continues and run.has_ended:
            message += f", used again from {run.path}"
        trial = Trial(values, _dev_score(run, experiment, progress, overwrite))
        if asked is not None:
            search.tell(asked, trial.score)
        else:
            settings: dict[str, Any] = {"distributions": distributions}
            settings["params"] = {k: r.to_drawn(values[k]) for k, r in ranges.items()}
            search.add_trial(optuna.trial.create_trial(value=trial.score, **settings))
        progress.say(f"{message}: {settings_text(values)}: {trial.percent(metric)}")
        yield trial


def _dev_score(
    run: Run, experiment: Experiment, progress: TrainingProgress, overwrite: bool
) -> float | None:
    """Train a trial that has not ended, and return its score; None if it diverged."""
    if not (run.continues and run.has_ended):
        options = {"overwrite": overwrite, "progress": progress}
        try:
            train(experiment, str(run.path), score_test=False, **options)
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
