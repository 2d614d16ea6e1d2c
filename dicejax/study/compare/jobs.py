"""Train the runs of a comparison, and read their results."""

from __future__ import annotations

import dataclasses
import functools
import re
import shlex
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
from etils import epath

from dicejax.config import Experiment, PretrainedEncoder, ScratchEncoder
from dicejax.errors import Diverged, InputError, quote
from dicejax.io.files import file_name
from dicejax.objectives import (
    Candidate,
    ControlName,
    CrossEntropy,
    WeightedCrossEntropy,
    names_of,
)
from dicejax.study.gradients.history import History
from dicejax.tasks import Task
from dicejax.training.candidate import with_candidate
from dicejax.training.checkpoint import only_weights_stay
from dicejax.training.logging import FILE as METRICS
from dicejax.training.progress import TrainingProgress, time_left
from dicejax.training.run_folder import CHECKPOINTS, EXPERIMENT, Run
from dicejax.training.run_lock import run_lock
from dicejax.training.setup import prepare
from dicejax.training.train import train

BASELINE = CrossEntropy()
PLAIN: tuple[ControlName, ...] = get_args(ControlName)
"""Controls that are no fine-tuned encoders, the cheapest first."""
Source = Literal["run", "example scores", "run scores"]
Status = Literal["finished", "diverged", "missing"]


@dataclasses.dataclass(frozen=True)
class Job:
    """One run: a loss with a seed, which the experiment has too."""

    loss: str
    experiment: Experiment
    folder: str

    @property
    def seed(self) -> int:
        """Seed of initial weights, data order and dropout."""
        return self.experiment.training.seed


def with_baselines(
    objectives: Sequence[Candidate], task: Task | None = None
) -> tuple[Candidate, ...]:
    """Add cross-entropy if missing, and for a task that with class weights, if any."""
    first = () if BASELINE in objectives else (BASELINE,)
    losses = (*first, *objectives)
    has_weights = any(isinstance(loss, WeightedCrossEntropy) for loss in losses)
    if task is None or has_weights or has_positions(task):
        return losses
    return (*losses, WeightedCrossEntropy())


def has_positions(task: Task) -> bool:
    """Return whether a task labels positions, which have no class frequencies."""
    return any(target.kind == "positions" for target in task.targets(()).values())


def plain_models(experiment: Experiment) -> list[ControlName]:
    """Return the models that are no fine-tuned encoders, if the task has such."""
    is_pretrained = isinstance(experiment.encoder, PretrainedEncoder)
    models: list[ControlName] = [x for x in PLAIN if x != "frozen" or is_pretrained]
    return models if experiment.task.has_controls else []


def jobs_of(
    experiment: Experiment,
    objectives: Sequence[Candidate],
    seeds: int,
    folder: str,
    *,
    resample: bool = False,
) -> list[Job]:
    """Return the runs of a comparison, in `folder/NAME/seed-N`, seed by seed.

    Seeds begin with the experiment's, losses with cross-entropy.

    Raises:
      InputError: two objectives have the same name, no folder can have one's, there is
        no other training sample to draw, or no class frequencies to begin at.
    """
    reason = None
    if getattr(experiment.data, "max_train", None) is None:
        reason = "trains on all of its data; add --data.max_train N"
    elif isinstance(experiment.encoder, ScratchEncoder):
        reason = (
            "learns its vocabulary from the sample, which would encode test texts in "
            "another way for each; name a pretrained encoder"
        )
    if resample and reason:
        raise InputError(
            "--resample draws another training sample for each seed, but this "
            f"experiment {reason}"
        )
    objectives = with_baselines(objectives)
    names = [file_name(name, "loss") for name in names_of(objectives)]
    jobs, first = [], experiment.training.seed
    for seed in range(first, first + seeds):
        seeded = with_seed(experiment, seed, resample)
        for name, objective in zip(names, objectives, strict=True):
            path = epath.Path(folder) / name / f"seed-{seed}"
            jobs.append(Job(name, with_candidate(seeded, objective), str(path)))
    return jobs


def require_one_label_set(experiments: Sequence[Experiment]) -> None:
    """Raise an InputError unless all training samples have the same labels."""
    labels: dict[Any, tuple[str, ...]] = {}
    for experiment in experiments:
        data, first = experiment.data, experiments[0]
        if data not in labels:
            labels[data] = experiment.task.label_names(data.load().train)
        seeds = f"{first.training.seed} and {experiment.training.seed}"
        if missing := sorted({*labels[first.data]} ^ {*labels[data]}):
            raise InputError(
                f"--resample: samples {seeds} do not both have the label "
                f"{quote(missing[0])}; raise --data.max_train"
            )
    if len({*labels.values()}) > 1:
        raise InputError(
            "--resample: not all samples have the same rarer class; name the positive "
            "one with --task.positive"
        )


def require_fit(jobs: Sequence[Job], *, overwrite: bool = False) -> None:
    """Raise an InputError if a loss does not fit the task or the training data.

    Nor do runs that are used again and have another positive class fit, or texts that
    are represented otherwise.
    """
    # The notes of reading are those of each run.
    setup = prepare(jobs[0].experiment, lambda note: None, weights=False)
    for objective in {job.loss: job.experiment.objective for job in jobs}.values():
        setup.bind(objective)
    labels, summary = setup.data.labels, setup.network.text_summary
    for job in () if overwrite else jobs:
        run = Run(epath.Path(job.folder))
        if not (run.path / EXPERIMENT).exists():
            continue
        texts = run.encoder().text_summary if summary else None
        if summary and texts and texts.position != summary.position:
            raise InputError(
                f"{job.folder}: was trained on each text as {texts}, and it would be "
                f"{summary} now; keep to it with --encoder.pooling {texts.position}, "
                "or train all runs again with --overwrite"
            )
        before = run.labels()
        if before != labels and sorted(before) == sorted(labels):
            raise InputError(
                f"{job.folder}: was trained with {quote(before[-1])} as the positive "
                f"class, and {quote(labels[-1])} is it now; keep to it with "
                f"--task.positive {shlex.quote(before[-1])}, or train all runs again "
                "with --overwrite"
            )


def with_seed(experiment: Experiment, seed: int, resample: bool) -> Experiment:
    """Return an experiment with another seed, and its training sample if it has one."""
    sample = {"train_sample": seed} if resample else {}
    data = dataclasses.replace(experiment.data, **sample)
    training = dataclasses.replace(experiment.training, seed=seed)
    return dataclasses.replace(experiment, data=data, training=training)


def is_resampled(experiment: Experiment) -> bool:
    """Return whether the training sample is that of the seed."""
    sample = getattr(experiment.data, "train_sample", None)
    return sample is not None and sample == experiment.training.seed


def shard_of(jobs: Sequence[Job], shard: str | None) -> list[Job]:
    """Return every n-th job from the i-th on, for a shard "i/n".

    >>> shard_of([1, 2, 3, 4, 5], "2/3")
    [2, 5]
    """
    if shard is None:
        return list(jobs)
    match = re.fullmatch(r"(\d+)/(\d+)", shard)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        want = "want I/N with I from 1 to N, as 3/16"
        raise InputError(f"--shard is {quote(shard)}; {want}")
    return list(jobs[int(match[1]) - 1 :: int(match[2])])


def train_all(
    jobs: Sequence[Job], progress: TrainingProgress, *, overwrite: bool = False
) -> None:
    """Train every run that is not finished; of each only the best weights remain.

    After the first that was trained from its beginning, the time of the others is said.

    Raises:
      InputError: a folder holds a run of other settings, raised before any is trained;
        or another process trains one of them.
      Stopped: a signal interrupted training.
    """
    runs = [Run.create(job.folder, job.experiment, overwrite=overwrite) for job in jobs]
    overall = progress.begin("all runs", len(jobs), status="")
    run_one = functools.partial(train, overwrite=overwrite, progress=progress)
    left = sum(not (run.continues and run.has_ended) for run in runs)
    a_run: float | None = None  # seconds
    for job, run in zip(jobs, runs, strict=True):
        name = f"{job.loss} seed {job.seed}"
        if run.continues and run.diverged() is not None:
            progress.say(f"{name}: diverged before, see {job.folder}; not tried again")
            progress.advance(overall)
            continue
        try:
            with run_lock(run.path):
                if run.continues and run.is_finished:
                    progress.say(f"{name}: used again from {job.folder}")
                    best_step = run.result()["best_step"]
                else:
                    began, left = time.monotonic(), left - 1
                    best_step = run_one(job.experiment, job.folder).best_step or 0
                    if a_run is None and left and not run.continues:
                        a_run = time.monotonic() - began
                        progress.say(time_left(a_run, left))
                # The optimizer states of many runs would fill the disk.
                only_weights_stay(run.path / CHECKPOINTS, best_step)
        except Diverged as error:
            progress.say(f"{name}: diverged: {error}")
        progress.advance(overall)


EMPTY: np.ndarray = np.zeros((0, 2))


@dataclasses.dataclass(frozen=True)
class ScoredRun:
    """One run, which is missing if it has neither finished nor diverged.

    Of a finished run it has the contents of `result.json`, the statistics of each test
    example, float `[N, C, 2]`, and what was measured on the way. Scores from elsewhere
    have no experiment, nor has a run that was not begun; those of whole runs have two
    equal examples.

    Attributes:
      groups: group of each test example, such as its document, int `[N]`; None where
        examples are independent.
      dev: step and primary metric on dev at each evaluation, float `[S, 2]`.
      training_loss: step and loss of each line of metrics, float `[S, 2]`.
      score_counts: counts of `score_counts.count_scores` on test by output, without the
        negative class.
      gradients: measurements of the gradients by output.
      moved: result and statistics with moved decisions, by the name of the move.
      names: names of the test examples in scores from elsewhere, `[N]`; empty else.
    """

    loss: str
    seed: int
    folder: str
    status: Status
    result: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    example_statistics: np.ndarray | None = None
    experiment: Experiment | None = None
    source: Source = "run"
    groups: np.ndarray | None = None
    dev: np.ndarray = dataclasses.field(default_factory=EMPTY.copy)
    training_loss: np.ndarray = dataclasses.field(default_factory=EMPTY.copy)
    score_counts: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    gradients: tuple[History, ...] = ()
    moved: Mapping[str, tuple[Mapping[str, Any], np.ndarray]] = dataclasses.field(
        default_factory=dict
    )
    names: np.ndarray | None = None

    def with_move(self, move: str) -> ScoredRun | None:
        """Return the run with moved decisions; None if it has no such scores."""
        if not self.result:  # it has no decisions to move
            return self
        if move not in self.moved:
            return None
        result, shares = self.moved[move]
        return dataclasses.replace(self, result=result, example_statistics=shares)

    @property
    def score(self) -> float:
        """Primary metric on test, of a finished run."""
        return self.result["test"][self.result["primary_metric"]]

    @property
    def example_count(self) -> int:
        """Number of test examples that were scored, of a finished run."""
        return len(np.asarray(self.example_statistics))

    @property
    def item_statistics(self) -> np.ndarray | None:
        """Statistics of independent items: each example, or the sum of each group."""
        if self.example_statistics is None or self.groups is None:
            return self.example_statistics
        names, items = np.unique(self.groups, return_inverse=True)
        sums = np.zeros((len(names), *self.example_statistics.shape[1:]))
        np.add.at(sums, items, self.example_statistics)
        return sums


def scored(job: Job) -> ScoredRun:
    """Read what a run has measured, an InputError if one of its files is damaged."""
    run = Run(epath.Path(job.folder))
    begun = job.experiment if (run.path / EXPERIMENT).exists() else None
    if not run.is_finished:
        status: Status = "missing" if run.diverged() is None else "diverged"
        return ScoredRun(job.loss, job.seed, job.folder, status, experiment=begun)
    statistics: np.ndarray | None = run.example_statistics()
    result = run.result()
    if point := result.get("at_constraint"):  # where the threshold will be used
        scores = {**result["test"], point["name"]: point["value"]}
        result = {**result, "primary_metric": point["name"], "test": scores}
        statistics = run.test_array("at_constraint")
    task = job.experiment.task
    # A model that is no fine-tuned encoder has no curve.
    records = [] if job.experiment.control else run.records(METRICS)
    targets = task.targets(run.labels())
    return ScoredRun(
        job.loss,
        job.seed,
        job.folder,
        "finished",
        result,
        statistics,
        experiment=begun,
        groups=run.test_array("groups"),
        dev=_by_step(records, f"dev/{task.primary_metric}"),
        training_loss=_by_step(records, "loss"),
        score_counts={
            output: counts[int(targets[output].has_negative) :]
            for output, counts in run.score_counts().items()
        },
    )


def _by_step(records: Sequence[Mapping[str, Any]], name: str) -> np.ndarray:
    """Return step and value of a metric; values that were not finite are null there."""
    points = [(x["step"], x[name]) for x in records if x.get(name) is not None]
    return np.array(points, np.float64).reshape(-1, 2)


def share_groups(runs: Sequence[ScoredRun]) -> list[ScoredRun]:
    """Return runs of one test set, all with the groups that any of them recorded.

    Raises:
      InputError: two runs have other groups.
    """
    grouped = [(x.folder, x.groups) for x in runs if x.groups is not None]
    first, shared = grouped[0] if grouped else ("", None)
    for folder, groups in grouped:
        if shared is not None and not np.array_equal(groups, shared):
            raise InputError(
                f"{folder}: the documents of the test examples differ from those "
                f"of {first}; their scores cannot be compared"
            )
    return [dataclasses.replace(run, groups=shared) for run in runs]


def unfinished(jobs: Sequence[Job]) -> int:
    """Return the number of runs that have neither finished nor diverged."""
    return sum(not Run(epath.Path(job.folder)).has_ended for job in jobs)
