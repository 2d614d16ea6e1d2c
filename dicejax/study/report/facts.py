"""All that a report shows, computed once from the runs."""

from __future__ import annotations

import dataclasses
import functools
import json
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath

from dicejax import config
from dicejax.config import Experiment
from dicejax.metrics import score_counts
from dicejax.metrics.calibration import ReliabilityBin
from dicejax.metrics.score_counts import ThresholdCurve
from dicejax.study.compare.jobs import Outcome, is_resampled, like_seed_of
from dicejax.study.compare.statistics import Row, results_of
from dicejax.tasks.described import text_and_gold
from dicejax.training.logging import FILE as METRICS
from dicejax.training.run_folder import EXPERIMENT, Run

RERUN = "rerun.py"
THRESHOLD = 0.5
MOST_CHANGED = 10


@dataclasses.dataclass(frozen=True)
class Band:
    """A number by training step, over seeds.

    Attributes:
      steps: training steps.
      mean: mean over the seeds that have the step.
      sd: sample standard deviation over these; 0 for one seed.
      seeds: all seeds.
    """

    steps: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    seeds: tuple[int, ...] = ()

    @classmethod
    def of(cls, records: Mapping[int, Sequence[Mapping[str, Any]]], name: str) -> Band:
        """Return a metric of runs; values that were not finite are null in records.

        >>> runs = {0: [{"step": 10, "f1": 1.0}, {"step": 20, "f1": 4.0}],
        ...         1: [{"step": 10, "f1": 3.0}, {"step": 20, "f1": None}]}
        >>> band = Band.of(runs, "f1")
        >>> band.steps.tolist(), band.mean.tolist(), band.sd.round(3).tolist()
        ([10, 20], [2.0, 4.0], [1.414, 0.0])
        """
        at: dict[int, list[float]] = {}
        for record in (record for run in records.values() for record in run):
            if record.get(name) is not None:
                at.setdefault(record["step"], []).append(record[name])
        steps = sorted(at)
        sds = [statistics.stdev(at[s]) if len(at[s]) > 1 else 0.0 for s in steps]
        means = [statistics.fmean(at[step]) for step in steps]
        numbers = np.array(means, float), np.array(sds, float)
        return cls(np.array(steps, int), *numbers, tuple(records))

    def __mul__(self, factor: float) -> Band:
        return Band(self.steps, factor * self.mean, factor * self.sd, self.seeds)

    def to_json(self) -> dict[str, Any]:
        """Return lists of numbers."""
        return {
            "step": self.steps.tolist(),
            "mean": self.mean.tolist(),
            "mean_minus_sd": (self.mean - self.sd).tolist(),
            "mean_plus_sd": (self.mean + self.sd).tolist(),
            "seeds": list(self.seeds),
        }


@dataclasses.dataclass(frozen=True)
class Probabilities:
    """Predicted probabilities of an output, counted on the test set.

    Attributes:
      by_seed: int `[C, 2, BINS]` of all classes but the negative one, by seed; see
        `metrics.score_counts`.
    """

    by_seed: Mapping[int, np.ndarray]

    @functools.cached_property
    def counts(self) -> np.ndarray:
        """Counts of all seeds together."""
        return np.sum(list(self.by_seed.values()), axis=0)

    @functools.cached_property
    def curve(self) -> ThresholdCurve:
        """Precision and recall of all seeds together."""
        return score_counts.curve(self.counts)

    @functools.cached_property
    def bins(self) -> list[ReliabilityBin]:
        """Bins of the reliability diagram that hold anything."""
        return [b for b in score_counts.reliability(self.counts).bins if b.count]

    def to_json(self) -> dict[str, Any]:
        """Return pooled curves at every eighth threshold, half a unit of log-odds."""
        eighth = slice(None, None, 8)
        return {
            "average_precision": self.curve.average_precision,
            "f1_at_default": self.curve.f1_at(THRESHOLD),
            "calibration_error": score_counts.calibration_error(self.counts),
            "threshold": self.curve.thresholds[eighth].tolist(),
            "precision": self.curve.precision[eighth].tolist(),
            "recall": self.curve.recall[eighth].tolist(),
            "reliability": [(b.confidence, b.accuracy, b.count) for b in self.bins],
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class LossFacts:
    """Measurements of the runs of one loss.

    Attributes:
      loss: name of the loss.
      experiment: experiment of its first run; None before any has begun.
      dev: primary metric on dev.
      training: training loss.
      probabilities: counted probabilities by output.
      classes: by class, its count in test and its scores in each run.
    """

    loss: str
    experiment: Experiment | None = None
    dev: Band | None = None
    training: Band | None = None
    probabilities: Mapping[str, Probabilities] = dataclasses.field(default_factory=dict)
    classes: Mapping[str, tuple[int, Sequence[Mapping[str, float]]]]

    def of_classes(self, score: str) -> dict[str, list[float]]:
        """Return a score of each class that has it, in each run."""
        found = {
            name: [run[score] for run in runs if score in run]
            for name, (_, runs) in self.classes.items()
        }
        return {name: values for name, values in found.items() if values}

    def to_json(self) -> dict[str, Any]:
        """Return the curves and the scores of classes."""
        return {
            "dev": self.dev.to_json(),
            "training_loss": self.training.to_json(),
            "scores": {k: one.to_json() for k, one in self.probabilities.items()},
            "classes": {
                name: {"support": self.classes[name][0], "f1": f1}
                for name, f1 in self.of_classes("f1").items()
            },
        }


def facts_by_loss(rows: Sequence[Row]) -> list[LossFacts]:
    """Read the folders of finished runs.

    A row that shares its runs with an earlier one, as a baseline does, has no curves
    and no counts.

    Raises:
      InputError: a file is missing or damaged.
    """
    facts, taken = [], set()
    for row in rows:
        folders = {one.folder: one for one in row.outcomes if one.folder not in taken}
        taken |= set(folders)
        facts.append(_of_row(row, list(folders.values())))
    return facts


def _of_row(row: Row, outcomes: Sequence[Outcome]) -> LossFacts:
    classes = _classes(row)
    begun = {
        one.seed: run
        for one in outcomes
        if ((run := Run(epath.Path(one.folder))).path / EXPERIMENT).exists()
    }
    if not begun:
        return LossFacts(loss=row.loss, classes=classes)
    runs = {one.seed: begun[one.seed] for one in outcomes if one.result}
    experiment = next(iter(begun.values())).experiment()
    records = {seed: run.records(METRICS) for seed, run in runs.items()}
    counts: dict[str, dict[int, np.ndarray]] = {}
    for seed, run in runs.items():
        targets = run.experiment().task.targets(run.labels())
        for output, number in run.score_counts().items():
            positive = number[int(targets[output].has_negative) :]
            counts.setdefault(output, {})[seed] = positive
    return LossFacts(
        loss=row.loss,
        experiment=experiment,
        dev=Band.of(records, f"dev/{experiment.task.primary_metric}"),
        training=Band.of(records, "loss"),
        probabilities={k: Probabilities(by_seed) for k, by_seed in counts.items()},
        classes=classes,
    )


def _classes(row: Row) -> dict[str, tuple[int, list[Mapping[str, float]]]]:
    classes: dict[str, tuple[int, list[Mapping[str, float]]]] = {}
    for result in (one.result for one in row.outcomes if one.result):
        for name, scores in result["test"].get("per_type", {}).items():
            if support := int(scores.get("support", 0)):
                classes.setdefault(name, (support, []))[1].append(scores)
    return classes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Changed:
    """Test examples whose answers the best rival changes.

    Attributes:
      losses: names of the baseline and of the rival.
      runs: number of runs of each.
      better: number of examples that the rival has right in more runs.
      worse: number of examples that it has right in fewer.
      right: number of runs of each in which an example is wholly right, by the
        example's number from 1; those that change in most runs, these first.
      texts: text and gold answer of each of these; empty without the data.
    """

    losses: tuple[str, str]
    runs: tuple[int, int]
    better: int
    worse: int
    right: Mapping[str, tuple[int, int]]
    texts: Mapping[str, Sequence[str]]


def changed(
    rows: Sequence[Row],
    examples: Sequence[Any] | None,
    earlier: Mapping[str, Sequence[str]] = {},
) -> Changed | None:
    """Return the test examples whose answers the best rival changes; None without any.

    Args:
      rows: as `rows_of` orders them.
      examples: of the test set; None where the data was not read.
      earlier: texts and gold answers of an earlier report, by number.
    """
    rivals = rivals_of(rows)
    if not rivals:
        return None
    theirs, ours = _right(rows[0]), _right(rivals[0])
    if ours is None or theirs is None or len(ours[0]) != len(theirs[0]):
        return None
    gain = ours[0] / ours[1] - theirs[0] / theirs[1]
    order = sorted(np.flatnonzero(gain), key=lambda n: (-abs(gain[n]), n))
    if not order:
        return None
    numbers = {f"{n + 1}": int(n) for n in order[:MOST_CHANGED]}
    # Where parts of examples are scored, their numbers are not those of examples.
    if examples is not None and len(examples) == len(gain):
        earlier = {name: text_and_gold(examples[n]) for name, n in numbers.items()}
    has_texts = all(name in earlier for name in numbers)
    return Changed(
        losses=(rows[0].loss, rivals[0].loss),
        runs=(theirs[1], ours[1]),
        better=int((gain > 0).sum()),
        worse=int((gain < 0).sum()),
        right={k: (int(theirs[0][n]), int(ours[0][n])) for k, n in numbers.items()},
        texts={name: earlier[name] for name in numbers} if has_texts else {},
    )


def rivals_of(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that are neither the baseline nor controls, the best first."""
    return [row for row in rows[1:] if row.against and not row.is_control]


def _right(row: Row) -> tuple[np.ndarray, int] | None:
    """Return in how many runs each example is wholly right, and their number."""
    counts = [one.example_statistics for one in row.outcomes if one.result]
    right = [(n[..., 0] == n[..., 1]).all(-1) for n in counts if n is not None]
    return (np.sum(right, axis=0), len(right)) if right else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rerun:
    """Provenance of the runs.

    Attributes:
      experiment: experiment with all losses and the first seed.
      command: command that trains all runs again.
      facts: names and values: seeds, hardware, versions, the test set.
      differences: settings that differ between losses.
      folders: folders of all runs.
    """

    experiment: Experiment
    command: str
    facts: Mapping[str, str]
    differences: tuple[str, ...]
    folders: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return all but the folders."""
        return {
            "experiment": json.loads(config.to_json(self.experiment)),
            "command": self.command,
            **self.facts,
            "differences": list(self.differences),
        }


def rerun_of(
    rows: Sequence[Row], losses: Sequence[LossFacts], folders: Sequence[str]
) -> Rerun:
    """Return the settings that all runs share, and those that differ."""
    trained = {m.loss: m.experiment for m in losses if m.experiment is not None}
    first = next(iter(trained.values()))
    seeds = sorted({one.seed for row in rows for one in row.outcomes})
    results = results_of(rows)
    experiment = dataclasses.replace(
        first,
        compared=tuple(one.objective for one in trained.values()),
        training=dataclasses.replace(first.training, seed=seeds[0]),
    )
    changes = {loss: _changes(experiment, ours) for loss, ours in trained.items()}
    return Rerun(
        experiment=experiment,
        command=f"dicejax compare {RERUN} --seeds {seeds[-1] - seeds[0] + 1} "
        f"{'--resample ' * is_resampled(first)}--out FOLDER",
        facts={
            "data set": experiment.name,
            "seeds": ", ".join(map(str, seeds)),
            "checksum of the encoded test set": _distinct(results, "test_data"),
            "devices": _distinct(results, "devices"),
            "hardware": _distinct(results, "device_kind"),
            **_versions(results),
        },
        differences=tuple(
            f"{loss} has settings of its own: {'; '.join(settings)}"
            for loss, settings in changes.items()
            if settings
        ),
        folders=tuple(folders),
    )


def _distinct(results: Sequence[Mapping[str, Any]], name: str) -> str:
    texts = dict.fromkeys(str(one[name]) for one in results if name in one)
    return ", ".join(texts) or "not recorded by these runs"


def _versions(results: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    recorded = [one["versions"] for one in results if "versions" in one]
    if not recorded:
        return {"versions": "not recorded by these runs"}
    names = dict.fromkeys(name for one in recorded for name in one)
    return {f"version of {name}": _distinct(recorded, name) for name in names}


def _changes(experiment: Experiment, ours: Experiment) -> list[str]:
    """Return the settings that differ, except loss and seed."""
    alike = dataclasses.replace(
        like_seed_of(ours, experiment),
        objective=experiment.objective,
        compared=experiment.compared,
    )
    return config.differences(experiment, alike)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Facts:
    """All that a report shows.

    Attributes:
      rows: statistics of each loss, as `rows_of` orders them.
      losses: measurements of each loss, in the same order.
      margin: differences within it do not matter in practice.
      changed: test examples whose answers change.
      rerun: provenance of the runs.
      tuning: trials and chosen settings; None without tuning.
    """

    rows: Sequence[Row]
    losses: Sequence[LossFacts]
    margin: float
    changed: Changed | None
    rerun: Rerun
    tuning: Mapping[str, Any] | None = None

    @property
    def trained(self) -> list[LossFacts]:
        """Losses with runs that no other loss has too."""
        return [one for one in self.losses if one.experiment is not None]

    @property
    def metric(self) -> str:
        """Name of the score that losses are compared by."""
        return results_of(self.rows)[0]["primary_metric"]
