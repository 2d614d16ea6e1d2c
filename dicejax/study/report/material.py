"""Curves, counts and per-class scores of the compared runs, read from their folders."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath

from dicejax.config import Experiment
from dicejax.study.compare.jobs import Outcome
from dicejax.study.compare.statistics import Row
from dicejax.training.logging import FILE as METRICS
from dicejax.training.run_folder import EXPERIMENT, Run

Series = tuple[tuple[int, float], ...]
"""Pairs of a training step and a number."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Material:
    """Measurements of the runs of one loss.

    Attributes:
      loss: name of the loss.
      has_runs: whether it has runs of its own, finished or not.
      experiment: experiment of its first run; None before any has begun.
      dev: primary metric on dev, by seed.
      training: training loss, by seed.
      counts: by output and seed, int `[C, 2, BINS]` of all classes but the negative
        one; see `metrics.score_counts`.
      classes: by class, its count in test and its F1 in each run.
    """

    loss: str
    has_runs: bool = True
    experiment: Experiment | None = None
    dev: Mapping[int, Series] = dataclasses.field(default_factory=dict)
    training: Mapping[int, Series] = dataclasses.field(default_factory=dict)
    counts: Mapping[str, Mapping[int, np.ndarray]] = dataclasses.field(
        default_factory=dict
    )
    classes: Mapping[str, tuple[int, tuple[float, ...]]] = dataclasses.field(
        default_factory=dict
    )


def gathered(rows: Sequence[Row]) -> list[Material]:
    """Read the folders of finished runs.

    A row that shares its runs with an earlier one, as a baseline does, has no curves
    and no counts.

    Raises:
      InputError: a file is missing or damaged.
    """
    found, taken = [], set()
    for row in rows:
        folders = {one.folder: one for one in row.outcomes if one.folder not in taken}
        taken |= set(folders)
        found.append(_of_row(row, list(folders.values())))
    return found


def _of_row(row: Row, outcomes: Sequence[Outcome]) -> Material:
    classes = _classes(row)
    begun = {
        one.seed: run
        for one in outcomes
        if ((run := Run(epath.Path(one.folder))).path / EXPERIMENT).exists()
    }
    if not begun:
        return Material(loss=row.loss, has_runs=bool(outcomes), classes=classes)
    runs = {one.seed: begun[one.seed] for one in outcomes if one.result}
    experiment = next(iter(begun.values())).experiment()
    primary_metric = experiment.task.primary_metric
    records = {seed: run.records(METRICS) for seed, run in runs.items()}
    counts = collections.defaultdict(dict)
    for seed, run in runs.items():
        for output, number in _positives(run).items():
            counts[output][seed] = number
    return Material(
        loss=row.loss,
        experiment=experiment,
        dev={seed: _curve(of, f"dev/{primary_metric}") for seed, of in records.items()},
        training={seed: _curve(of, "loss") for seed, of in records.items()},
        counts=dict(counts),
        classes=classes,
    )


def _curve(records: Sequence[Mapping[str, Any]], name: str) -> Series:
    """Return a metric by step; values that were not finite are null in the record."""
    return tuple(
        (one["step"], one[name]) for one in records if one.get(name) is not None
    )


def _positives(run: Run) -> dict[str, np.ndarray]:
    """Return the counts of a run by output, without the negative class."""
    targets = run.experiment().task.targets(run.labels())
    return {
        output: number[int(targets[output].has_negative) :]
        for output, number in run.score_counts().items()
    }


def _classes(row: Row) -> dict[str, tuple[int, tuple[float, ...]]]:
    """Return the test count and F1 of each class; all runs share the test split."""
    found: dict[str, tuple[int, tuple[float, ...]]] = {}
    for one in row.outcomes:
        for name, scores in (
            (one.result or {"test": {}})["test"].get("per_type", {}).items()
        ):
            if "f1" in scores and scores.get("support"):
                known = found.get(name, (int(scores["support"]), ()))
                found[name] = (known[0], (*known[1], scores["f1"]))
    return found
