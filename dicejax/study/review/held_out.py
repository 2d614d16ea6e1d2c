"""What models say of labelled examples that they were not trained on."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from etils import epath
from scipy import special

from dicejax.config import Experiment
from dicejax.data.source import text_of
from dicejax.errors import InputError
from dicejax.formats import FileSource
from dicejax.metrics.calibration import fit_temperature
from dicejax.study.compare.finding import jobs_from
from dicejax.study.compare.jobs import BASELINE, Job, train_all
from dicejax.study.compare.same_data import warn_of_changes
from dicejax.tasks import JointTagging, Tagging, Task, WordTagging
from dicejax.tasks.task import Arrays, Items, Labels, Outputs, Predicted
from dicejax.tasks.texts import TextTask
from dicejax.tasks.word_items import HEAD, by_word
from dicejax.training.inference import Predictor
from dicejax.training.new_texts import split_parts
from dicejax.training.predict import decode_logits
from dicejax.training.progress import TrainingProgress, progress_of
from dicejax.training.run_folder import Run

CONSTANT = "majority"
"""The control that says the same of every text."""
_LEAST = np.finfo(np.float32).tiny


Reviewed = TextTask | Tagging | WordTagging


@dataclasses.dataclass(frozen=True)
class HeldOut:
    """Labelled examples, and the probabilities of models not trained on them.

    What has a label is a place: a text, each label of a text that may have several, or
    a word.

    Attributes:
      task: task of the runs.
      labels: names of the classes; of texts with several labels each is 0 or 1.
      examples: N examples, with their gold.
      splits: name of the split of each, and its number there from 0.
      starts: first place of each example, and the number of all, int `[N + 1]`.
      gold: class of each place, int `[P]`; -1 where no model knows it.
      shares: calibrated probabilities, float32 `[M, P, C]` of M models; NaN of a model
        that was trained on the text, or that does not see the word.
      models: name of each model.
      predictions: predictions of each model, None where it was trained on the text.
    """

    task: Reviewed
    labels: tuple[str, ...]
    examples: Sequence[Any]
    splits: Sequence[tuple[str, int]]
    starts: np.ndarray
    gold: np.ndarray
    shares: np.ndarray
    models: Sequence[str]
    predictions: Sequence[Sequence[Any]]


@dataclasses.dataclass(frozen=True)
class _Logits:
    """A task of words whose candidates are the logits of each word, float `[W, C]`."""

    task: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.task, name)

    def reduce_logits(self, outputs: Arrays, batch: Arrays) -> Predicted:
        return Predicted(tokens=dict(outputs))

    def decode(
        self, example: Any, items: Items, outputs: Outputs, labels: Labels
    ) -> np.ndarray:
        return by_word(items, outputs, HEAD, np.nan)


def finished_jobs(paths: Sequence[str], warn: Callable[[str], None]) -> list[Job]:
    """Return the finished runs in folders that can judge labels.

    Raises:
      InputError: there are none, they are of several experiments, or their task has no
        labels of texts or words.
    """
    if not paths:
        raise InputError("review needs run folders: none is named")
    jobs = [j for j in jobs_from(paths) if Run(epath.Path(j.folder)).is_finished]
    usable = [j for j in jobs if j.experiment.control != CONSTANT]
    if not usable:
        kind = f"only the control {CONSTANT}" if jobs else "no finished run"
        raise InputError(f"{', '.join(paths)}: {kind} there; train one")
    _reviewed(usable[0].experiment.task)
    warn_of_changes(usable, warn)
    return usable


def _reviewed(task: Task) -> Reviewed:
    if not isinstance(task, Reviewed) or isinstance(task, JointTagging):
        raise InputError(
            f"review ranks tags of entities, labels of words and classes of texts, and "
            f"{type(task).__name__} has none of these; take runs of Tagging"
        )
    return task


def train_folds(
    jobs: Sequence[Job], count: int, folder: str, progress: TrainingProgress
) -> list[Job]:
    """Train runs without each of `count` parts of train, and return them.

    They are of cross-entropy, or of the first loss where that is not among the runs,
    and of each control that is.

    Raises:
      InputError: there are fewer than 2 parts, or train comes from no files.
    """
    if count < 2:
        raise InputError(f"--folds is {count}; want at least 2")
    plain = sorted(jobs, key=lambda job: job.experiment.objective != BASELINE)
    kinds = {job.experiment.control: job for job in reversed(plain)}
    made = []
    for first in sorted(kinds.values(), key=plain.index):
        experiment = offline(first)
        source = _whole(experiment, jobs)
        if not isinstance(source, FileSource):
            raise InputError(
                "--folds leaves out a part of a file, and train is in none"
            )
        for part in range(1, count + 1):
            data = dataclasses.replace(source, leave_out=f"{part}/{count}")
            path = epath.Path(folder) / f"folds-{count}" / first.loss / f"part-{part}"
            without = dataclasses.replace(experiment, data=data)
            made.append(Job(f"{first.loss} without part {part}", without, str(path)))
    with progress_of(progress) as display:
        train_all(made, display)
    return [job for job in made if Run(epath.Path(job.folder)).is_finished]


def judge(
    jobs: Sequence[Job], splits: Sequence[str], warn: Callable[[str], None]
) -> HeldOut:
    """Return what models say of the splits' examples that they were not trained on.

    The probabilities of each are calibrated by the temperature that fits these examples
    best. Texts of train are held out from a model that was trained on no equal text;
    those that no model can judge are left out, which is warned of.

    Raises:
      InputError: runs or data cannot be read, or nothing is left.
    """
    experiment = offline(jobs[0])
    task, labels = _reviewed(experiment.task), _labels_of(jobs)
    corpus = _whole(experiment, jobs).load()
    seen = _trained_on(jobs) if "train" in splits else [frozenset[Any]()] * len(jobs)
    examples: list[Any] = []
    names: list[tuple[str, int]] = []
    for split in splits:
        if split == "test" and corpus.test == corpus.dev and "dev" in splits:
            continue
        lost, some = 0, task.adapt(getattr(corpus, split))
        for number, example in enumerate(some):
            if _gold(task, example, labels) is None:
                continue
            if split == "train" and all(text_of(example) in texts for texts in seen):
                lost += 1
                continue
            examples.append(example)
            names.append((split, number))
        if lost:
            warn(
                f"{lost:,} of {len(some):,} train examples are left out, as every run "
                "was trained on them; --folds 5 trains models that judge all"
            )
    if not examples:
        raise InputError(f"no example of {' and '.join(splits)} can be judged")
    golds = [np.atleast_1d(_gold(task, example, labels)) for example in examples]
    starts = np.cumsum([0, *map(len, golds)])
    gold = np.concatenate(golds)
    classes = 2 if isinstance(task, TextTask) and task.has_several else len(labels)
    shares = np.full((len(jobs), len(gold), classes), np.nan, np.float32)
    predictions: list[list[Any]] = []
    for number, (job, texts) in enumerate(zip(jobs, seen, strict=True)):
        is_new = [
            split != "train" or text_of(example) not in texts
            for example, (split, _) in zip(examples, names, strict=True)
        ]
        places = np.flatnonzero(is_new)
        predictions.append([None] * len(examples))
        if not len(places):
            continue
        logs, decided = _say(job, [examples[n] for n in places], labels)
        rows = np.concatenate([np.arange(starts[n], starts[n + 1]) for n in places])
        shares[number, rows] = _calibrated(np.concatenate(logs), gold[rows])
        for place, prediction in zip(places, decided, strict=True):
            predictions[-1][place] = prediction
    folders = [f"{job.loss} seed {job.seed}" for job in jobs]
    parts = (task, labels, examples, names, starts, gold, shares, folders, predictions)
    return HeldOut(*parts)


def offline(job: Job) -> Experiment:
    """Return the experiment of a run, whose data are read without fetching anything."""
    return Run.open(job.folder).offline_experiment()


def _whole(experiment: Experiment, jobs: Sequence[Job]) -> Any:
    """Return the source of all train examples that the runs drew theirs from."""
    data: Any = experiment.data
    if isinstance(data, FileSource):
        data = dataclasses.replace(data, leave_out=None)
    samples = {getattr(job.experiment.data, "train_sample", None) for job in jobs}
    if len(samples) > 1:
        data = dataclasses.replace(data, max_train=None, train_sample=None)
    return data


def _labels_of(jobs: Sequence[Job]) -> tuple[str, ...]:
    """Return the labels of all runs: a part of train may lack a rare one."""
    by_run = [Run.open(job.folder).labels() for job in jobs]
    return tuple(dict.fromkeys(name for names in by_run for name in names))


def _trained_on(jobs: Sequence[Job]) -> list[frozenset[Any]]:
    """Return the texts that each run was trained on."""
    by_data: dict[Any, frozenset[Any]] = {}
    for job in jobs:
        if job.experiment.data not in by_data:
            experiment = offline(job)
            train = experiment.task.adapt(experiment.data.load().train)
            by_data[job.experiment.data] = frozenset(map(text_of, train))
    return [by_data[job.experiment.data] for job in jobs]


def _gold(task: Any, example: Any, labels: Sequence[str]) -> Any:
    """Return the classes of an example's places; None where gold is unknown."""
    if not isinstance(task, TextTask):
        index = {name: number for number, name in enumerate(labels)}
        return np.array([index.get(x, -1) for x in task.word_classes(example)], int)
    names = task.gold(example)
    if names is None:
        return None
    if task.has_several:
        return np.array([int(label in names) for label in labels])
    return labels.index(names[0]) if names[0] in labels else -1


def _say(
    job: Job, examples: Sequence[Any], labels: Sequence[str]
) -> tuple[list[np.ndarray], list[Any]]:
    """Return a run's log-probabilities `[places, C]` of examples, and predictions."""
    run = Run.open(job.folder)
    task, names = run.experiment().task, run.labels()
    is_text = isinstance(task, TextTask)
    predict = Predictor(run, "best", task if is_text else _Logits(task))
    columns = [names.index(name) if name in names else -1 for name in labels]
    logs: list[np.ndarray] = []
    decided: list[Any] = []
    for part in split_parts(task, examples):
        items, candidates = predict(part)
        if not is_text:
            logits: list[Any] = [np.asarray(x, np.float32) for x in candidates]
            logs += [special.log_softmax(x, -1) for x in logits]
            decoded = decode_logits(logits, part, items, task=task, labels=names)
            candidates = decoded.candidates[0]
        else:
            rows = [np.array([x.get(n, np.nan) for n in labels]) for x in candidates]
            if isinstance(task, TextTask) and task.has_several:
                logs += [np.log(np.stack([1 - x, x], -1) + _LEAST) for x in rows]
            else:
                logs += [np.log(np.nan_to_num(x) + _LEAST)[None] for x in rows]
        decided += [task.decide(each) for each in candidates]
    if not is_text:  # a class that a part of train lacks has no chance
        lacking = np.array([n < 0 for n in columns])
        ordered = (x[:, columns] for x in logs)
        logs = [np.where(lacking, np.log(_LEAST), x) for x in ordered]
    return logs, decided


def _calibrated(logs: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """Return probabilities with the temperature that fits gold best, `[P, C]`."""
    rows = (gold >= 0) & ~np.isnan(logs).any(-1)
    temperature = fit_temperature(logs[rows], gold[rows]) if rows.any() else None
    return special.softmax(logs / (temperature or 1.0), axis=-1)


def split_counts(names: Sequence[tuple[str, int]]) -> dict[str, int]:
    """Return the number of examples of each split."""
    return dict(Counter(split for split, _ in names))
