"""All that a report shows, computed once from the runs."""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath

from dicejax.config import Experiment
from dicejax.metrics import score_counts
from dicejax.metrics.calibration import ReliabilityBin
from dicejax.metrics.score_counts import ThresholdCurve
from dicejax.study.compare import jobs
from dicejax.study.compare.finding import changed_settings
from dicejax.study.compare.statistics import Row, results_of, source_of
from dicejax.study.report.changed import Changed
from dicejax.training.logging import FILE as METRICS
from dicejax.training.run_folder import EXPERIMENT, Run

RERUN = "rerun.py"


@dataclasses.dataclass(frozen=True)
class Band:
    """A metric by training step: mean and sample SD of the seeds that have the step."""

    steps: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    seeds: tuple[int, ...]


def band_of(records: Mapping[int, Sequence[Mapping[str, Any]]], name: str) -> Band:
    """Return a metric of runs by seed; values that were not finite are null there.

    >>> runs = {0: [{"step": 10, "f1": 1.0}, {"step": 20, "f1": 4.0}],
    ...         1: [{"step": 10, "f1": 3.0}, {"step": 20, "f1": None}]}
    >>> band = band_of(runs, "f1")
    >>> band.mean.tolist(), band.sd.round(3).tolist()
    ([2.0, 4.0], [1.414, 0.0])
    """
    values: dict[int, list[float]] = {}
    for record in itertools.chain(*records.values()):
        if record.get(name) is not None:
            values.setdefault(record["step"], []).append(record[name])
    by_step = [values[step] for step in sorted(values)]
    return Band(
        np.array(sorted(values), int),
        np.array([statistics.fmean(x) for x in by_step]),
        np.array([statistics.stdev(x) if len(x) > 1 else 0.0 for x in by_step]),
        tuple(records),
    )


@dataclasses.dataclass(frozen=True)
class Probabilities:
    """Predicted probabilities of one output on the test set.

    Counts, int `[C, 2, BINS]`, are without the negative class, bins without empty ones.
    """

    by_seed: Mapping[int, np.ndarray]
    counts: np.ndarray
    curve: ThresholdCurve
    bins: Sequence[ReliabilityBin]


@dataclasses.dataclass(frozen=True)
class LossFacts:
    """Measurements of the runs of one loss; the experiment is that of its first run."""

    experiment: Experiment
    dev: Band
    training: Band
    probabilities: Mapping[str, Probabilities]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Facts:
    """All that a report shows.

    The experiment has all losses and the first seed; None for scores from elsewhere.
    """

    name: str
    rows: Sequence[Row]
    baseline: str
    metric: str
    margin: float
    losses: Mapping[str, LossFacts]  # that share no runs with an earlier one
    # By loss and class: its scores in each run that has the class.
    classes: Mapping[str, Mapping[str, Sequence[Mapping[str, float]]]]
    changed: Changed | None
    tuning: Mapping[str, Any] | None
    experiment: Experiment | None
    command: str
    provenance: Mapping[str, str]
    differences: Sequence[str]
    folders: Sequence[str]


def facts_of(
    rows: Sequence[Row],
    *,
    margin: float,
    name: str = "",
    command: str = "",
    tuning: Mapping[str, Any] | None = None,
    changed: Changed | None = None,
    folders: Sequence[str] = (),
) -> Facts:
    """Read the folders of the runs, and return the facts of a report."""
    losses, results = measure_losses(rows), results_of(rows)
    seeds = sorted({outcome.seed for row in rows for outcome in row.outcomes})
    classes: dict[str, dict[str, list[Mapping[str, float]]]] = {}
    for row in rows:
        by_name = classes.setdefault(row.loss, {})
        for result in results_of([row]):
            for name, scores in result["test"].get("per_type", {}).items():
                if scores.get("support"):
                    by_name.setdefault(name, []).append(scores)
    experiment, differences = None, []
    if source_of(rows) == "run":
        experiment, differences = experiment_of(losses, seeds[0])
        name = experiment.name
        resample = "--resample " * jobs.is_resampled(experiment)
        count = seeds[-1] - seeds[0] + 1
        command = f"dicejax compare {RERUN} --seeds {count} {resample}--out FOLDER"
    versions = [result["versions"] for result in results if "versions" in result]
    names = dict.fromkeys(name for by_name in versions for name in by_name)
    checksums = [x["checksums"] for x in results if x.get("checksums")]
    parts = dict.fromkeys(name for sums in checksums for name in sums) or ["test"]
    columns: list[tuple[str, Sequence[Any], str]] = [
        *((f"checksum of {name}", checksums, name) for name in parts),
        ("devices", results, "devices"),
        ("hardware", results, "device_kind"),
        *((f"version of {name}", versions, name) for name in names),
        *(() if versions else [("versions", (), "")]),
    ]
    provenance = {"data set": name, "seeds": ", ".join(map(str, seeds))}
    if experiment is None:
        provenance["scores"] = rows[0].outcomes[0].folder
    for title, records, key in columns if experiment else ():
        texts = dict.fromkeys(str(record[key]) for record in records if key in record)
        provenance[title] = ", ".join(texts) or "not recorded by these runs"
    return Facts(
        name=name,
        rows=rows,
        baseline=rows[0].loss,
        metric=results[0]["primary_metric"],
        margin=margin,
        losses=losses,
        classes=classes,
        changed=changed,
        tuning=tuning,
        experiment=experiment,
        command=command,
        provenance=provenance,
        differences=differences,
        folders=folders,
    )


def experiment_of(
    losses: Mapping[str, LossFacts], seed: int
) -> tuple[Experiment, list[str]]:
    """Return the experiment of all losses, and the settings that only one has."""
    experiments = [loss.experiment for loss in losses.values()]
    candidates = jobs.candidates_of(experiments)
    # The others follow from one that does not begin at the class frequencies.
    plain = [each for each in experiments if each.training.head_bias == "zeros"]
    first = (plain or experiments)[0]
    seeded = jobs.with_seed(first, seed, jobs.is_resampled(first))
    experiment = dataclasses.replace(seeded, compared=tuple(candidates))
    differences = []
    for loss, candidate, each in zip(losses, candidates, experiments, strict=True):
        same = jobs.with_candidate(experiment, candidate)
        if settings := changed_settings(same, each):
            differences.append(f"{loss} has its own settings: {'; '.join(settings)}")
    return experiment, differences


def measure_losses(rows: Sequence[Row]) -> dict[str, LossFacts]:
    """Read the curves and the counted probabilities of each loss.

    A row that shares its runs with an earlier one, as a tuned threshold does, and a
    loss of which no run has begun, are left out.
    """
    losses: dict[str, LossFacts] = {}
    read: set[str] = set()
    for row in rows:
        outcomes = [outcome for outcome in row.outcomes if outcome.folder not in read]
        read |= {outcome.folder for outcome in outcomes}
        runs = [(outcome, Run(epath.Path(outcome.folder))) for outcome in outcomes]
        begun = [pair for pair in runs if (pair[1].path / EXPERIMENT).exists()]
        if not begun:
            continue
        experiment, records, counts = begun[0][0].experiment, {}, {}
        for outcome, run in begun:
            if not outcome.result:
                continue
            records[outcome.seed] = run.records(METRICS)
            targets = experiment.task.targets(run.labels())
            for output, count in run.score_counts().items():
                positive = count[int(targets[output].has_negative) :]
                counts.setdefault(output, {})[outcome.seed] = positive
        probabilities = {}
        for output, by_seed in counts.items():
            total = np.sum(list(by_seed.values()), axis=0)
            bins = [b for b in score_counts.reliability(total).bins if b.count]
            curve = score_counts.curve(total)
            probabilities[output] = Probabilities(by_seed, total, curve, bins)
        losses[row.loss] = LossFacts(
            experiment,
            dev=band_of(records, f"dev/{experiment.task.primary_metric}"),
            training=band_of(records, "loss"),
            probabilities=probabilities,
        )
    return losses
