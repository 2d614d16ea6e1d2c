"""Search on dev within a budget of time; test is not read."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import statistics
import time
from collections.abc import Collection, Sequence
from typing import Any

import cattrs
import numpy as np
from etils import epath

from dicejax import config
from dicejax.config import Experiment
from dicejax.errors import Diverged, InputError
from dicejax.io import files, json_text
from dicejax.metrics.scores import beta_of
from dicejax.study import significance
from dicejax.study.choose.settings import (
    Setting,
    first_settings,
    other_rates,
    other_settings,
)
from dicejax.study.compare.finding import CHOICE, SEARCH
from dicejax.study.compare.jobs import with_seed
from dicejax.study.sentences import sentences
from dicejax.study.significance import MIN_SEEDS
from dicejax.tasks import Task, scoring
from dicejax.training.outcome import choose_threshold
from dicejax.training.progress import TrainingProgress
from dicejax.training.restored import restore
from dicejax.training.run_folder import CHECKPOINTS, Run
from dicejax.training.setup import prepare
from dicejax.training.train import train

SEED = 2_000_000
"""Seed of the first trials, far from those of tuning and of the confirmation."""
SEEDS = 3
"""Seeds of a setting that leads, before what differs by more than its rate is tried."""
STATISTICS = "dev_statistics.npz"
SHARES = "example_statistics"
CONFIRMING = 5
"""Runs of the choice that time is left for, at most."""
LEVEL = 0.05


@dataclasses.dataclass(frozen=True)
class ScoredTrial:
    """One training: its score on dev, None where it diverged, and its time."""

    setting: Setting
    seed: int
    dev: float | None
    seconds: float


class Search:
    """The trials of an experiment in a folder, those of earlier calls included.

    Raises:
      InputError: the folder holds a search of another experiment.
    """

    def __init__(self, experiment: Experiment, folder: str, progress: TrainingProgress):
        self._experiment, self._progress = experiment, progress
        self._budget = 0.0
        self._path = epath.Path(folder)
        self.trials: list[ScoredTrial] = []
        if (self._path / CHOICE).exists():
            record = json_text.value_of(json_text.read(self._path / CHOICE), dict)
            changes = config.differences(
                config.from_json(json.dumps(record["experiment"])), experiment
            )
            if changes:
                raise InputError(
                    f"{self._path / CHOICE}: chose for other settings: "
                    f"{'; '.join(changes)}; name another --out"
                )
            self.trials = cattrs.structure(record["trials"], list[ScoredTrial])

    @property
    def seconds(self) -> float:
        """Time of all trials."""
        return sum(trial.seconds for trial in self.trials)

    def scores(self, setting: Setting) -> list[float]:
        """Return the scores on dev by seed; a diverged trial has -1."""
        return [
            -1.0 if trial.dev is None else trial.dev
            for trial in self.trials
            if trial.setting == setting
        ]

    def mean(self, setting: Setting) -> float:
        """Return the mean score on dev."""
        return statistics.fmean(self.scores(setting))

    @property
    def tried(self) -> list[Setting]:
        """All settings, the cheapest first."""
        settings = dict.fromkeys(trial.setting for trial in self.trials)
        return sorted(settings, key=lambda x: x.cost)

    def run(self, budget: float) -> None:
        """Try settings for a number of seconds in all.

        Time is left to confirm the choice. A training that is expected to take longer
        than what is left is not begun.
        """
        self._budget, refused = budget, set[Setting]()
        while (setting := self._next(refused)) is not None:
            if not self._fits(setting, budget):
                refused.add(setting)
                continue
            try:
                self._try(setting, SEED + len(self.scores(setting)))
            except InputError as error:
                if setting.epochs == 1:
                    raise
                # More epochs to choose from take more of dev, if a threshold promises.
                refused.add(setting)
                self._say(f"left out {setting.name}: {error}")

    def _next(self, refused: Collection[Setting]) -> Setting | None:
        """Return what is trained next, None where nothing is left that may help.

        After the first settings it is about the leader, the best on dev by its mean:
        its other rates are tried, then it has further seeds, and if it still leads,
        its other heads, epochs and losses are tried. A leader by one lucky seed loses
        its place by the next. It follows from the trials alone, so that an interrupted
        search goes on as it would have.
        """
        done = {*self.tried, *refused}
        for setting in first_settings(self._experiment):
            if setting not in done:
                return setting
        if (leader := self._leader()) is None:
            return None
        if len(self.scores(leader)) < SEEDS and leader not in refused:
            done.remove(leader)
        steps = [*other_rates(leader), leader]
        steps += other_settings(leader, self._experiment)
        return next((x for x in steps if x not in done), None)

    def _leader(self) -> Setting | None:
        """Return the best on dev of the fine-tuned encoders, the cheapest of equals."""
        tuned = [x for x in self.tried if not x.is_plain]
        return max(tuned, key=self.mean, default=None)

    def expected(self, setting: Setting) -> float:
        """Return the seconds that a run is expected to take, 0 if nothing tells."""
        same = [x.seconds for x in self.trials if x.setting == setting]
        if same or setting.is_plain:
            return max(same, default=0.0)
        others = [
            x.seconds / x.setting.epochs for x in self.trials if not x.setting.is_plain
        ]
        return setting.epochs * statistics.fmean(others) if others else 0.0

    def _fits(self, setting: Setting, budget: float) -> bool:
        plain = max((self.expected(x) for x in self.tried if x.is_plain), default=0.0)
        a_run = self.expected(setting)
        # Where a run is long, fewer fresh ones, so that more than a few are tried.
        confirming = min(CONFIRMING * a_run, max(MIN_SEEDS * a_run, budget / 3)) + plain
        return self.seconds + a_run + confirming <= budget

    def _try(self, setting: Setting, seed: int) -> None:
        path = self._path / SEARCH / setting.name / f"seed-{seed}"
        experiment = with_seed(setting.apply_to(self._experiment), seed, False)
        begin, score = time.monotonic(), None
        try:
            folder = str(path)
            result = train(
                experiment, folder, score_test=False, progress=self._progress
            )
            if not (path / STATISTICS).exists():
                write_statistics(experiment, Run(path))
            score = result.best_dev_score
            if (shares := _read_statistics(Run(path))) is not None:
                score = float(significance.score(shares))
        except Diverged as error:
            self._progress.say(f"{setting.name}: diverged: {error}")
        if (path / CHECKPOINTS).exists():
            (path / CHECKPOINTS).rmtree()
        seconds = round(time.monotonic() - begin, 1)
        self.trials.append(ScoredTrial(setting, seed, score, seconds))
        self.write({})
        tried = sentences("choose").tried
        self._say(tried(setting, seed, score, self._leader(), seconds))

    def _say(self, text: str) -> None:
        """Say what happened, and the time that is left."""
        minutes = max(self._budget - self.seconds, 0) / 60
        budget = round(self._budget / 60, 1)
        self._progress.say(f"{text}; {minutes:.1f} of {budget:g} min left")

    def write(self, more: dict[str, Any]) -> None:
        """Write the record of the search, whole."""
        record = {
            "experiment": json.loads(config.to_json(self._experiment)),
            "trials": self.trials,
            **more,
        }
        text = json.dumps(record, indent=2, default=dataclasses.asdict) + "\n"
        files.write_whole(self._path, CHOICE, text)

    def chosen(self) -> Setting:
        """Return the best on dev by at least two seeds, the cheapest of equals.

        One seed may be luck; where nothing has two, one has to do. Models that are no
        fine-tuned encoders are the same for every seed.
        """
        most = min(2, max((len(self.scores(x)) for x in self.tried), default=0))
        complete = [x for x in self.tried if x.is_plain or len(self.scores(x)) >= most]
        return max(complete, key=lambda x: (self.mean(x), [-n for n in x.cost[:3]]))

    def control(self, chosen: Setting) -> Setting | None:
        """Return the cheapest control that dev does not separate from the chosen one.

        Controls are models that are no fine-tuned encoders; where a task has none, it
        is cross-entropy as the experiment has it. Where dev separates all that are
        cheaper from the chosen one, it is the best of these; None where there is
        nothing cheaper.
        """
        plain = [x for x in self.tried if x.is_plain]
        controls = plain or [x for x in self.tried if x == Setting("ce")]
        cheaper = [x for x in controls if x.cost < chosen.cost]
        for setting in cheaper:
            if not self._is_separate(chosen, setting):
                return setting
        return max(cheaper, key=self.mean, default=None)

    def _is_separate(self, ours: Setting, other: Setting) -> bool:
        pair = [self._statistics(x) for x in (ours, other)]
        if any(not runs for runs in pair):
            return True
        seeds = min(map(len, pair)) if not other.is_plain else len(pair[0])
        stacked = [
            np.stack([runs[n % len(runs)] for n in range(seeds)]) for runs in pair
        ]
        return significance.approximate_randomisation(*stacked, resamples=2000) < LEVEL

    def _statistics(self, setting: Setting) -> list[np.ndarray]:
        runs = [
            Run(self._path / SEARCH / setting.name / f"seed-{trial.seed}")
            for trial in self.trials
            if trial.setting == setting and trial.dev is not None
        ]
        arrays = [_read_statistics(run) for run in runs]
        return [shares for shares in arrays if shares is not None]


def write_statistics(experiment: Experiment, run: Run) -> None:
    """Write the statistics of the examples of dev, by the best weights of a run.

    They are those of the decisions that are made of new data: by a threshold that is
    tuned, or that keeps a constraint, if the task has such.
    """
    experiment = run.as_begun(experiment)
    setup = prepare(experiment, lambda text: None, weights=False)
    mesh = experiment.mesh.make()
    _, params = restore(run, setup.network, "best", mesh)
    (candidates,) = setup.decode(params, "dev", mesh).candidates
    task, dev, labels = experiment.task, setup.data.corpus.dev, setup.data.labels
    rule, shares = task.threshold_rule, None
    if rule is not None and (rule.tunes or rule.constraint is not None):
        epochs, on_dev = experiment.training.epochs, (dev, candidates)
        _, _, arrays = choose_threshold(task, on_dev, on_dev, labels, epochs)
        shares = arrays.get("at_constraint", arrays.get("with_tuned_threshold"))
    if shares is None:
        decided = [task.decide(each) for each in candidates]
        _, shares = scoring.score(task, dev, decided, labels)
    run.write_arrays(STATISTICS, {} if shares is None else {SHARES: shares})


def _read_statistics(run: Run) -> np.ndarray | None:
    return run.arrays(STATISTICS).get(SHARES)


def with_tuned_threshold(experiment: Experiment, train: Sequence[Any]) -> Experiment:
    """Return an experiment whose threshold is tuned on dev, if it may be for F-beta.

    That costs no training, and all models have the same.
    """
    task = experiment.task
    rule, metric = task.threshold_rule, task.primary_metric
    names = {field.name for field in dataclasses.fields(task)}
    flag = next(iter(names & {"tune_threshold", "tune_thresholds"}), None)
    is_free = rule is not None and rule.constraint is None
    if flag is None or not is_free or beta_of(metric) is None:
        return experiment
    with contextlib.suppress(InputError):  # of more than two classes
        tuned: Task = dataclasses.replace(task, **{flag: True})
        tuned.label_names(train)
        return dataclasses.replace(experiment, task=tuned)
    return experiment
