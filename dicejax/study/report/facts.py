"""All that a report shows, computed once from the runs."""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath

from dicejax.config import Experiment
from dicejax.metrics import score_counts
from dicejax.metrics.calibration import ReliabilityBin
from dicejax.metrics.score_counts import ThresholdCurve
from dicejax.study.compare.finding import changed_settings
from dicejax.study.compare.jobs import candidates_of, is_resampled, with_candidate
from dicejax.study.compare.statistics import Row, results_of, rivals_of
from dicejax.tasks.described import text_and_gold
from dicejax.training.logging import FILE as METRICS
from dicejax.training.run_folder import EXPERIMENT, Run

RERUN = "rerun.py"
MOST_CHANGED = 10


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

    Counts are those of `metrics.score_counts`, int `[C, 2, BINS]`, without the negative
    class. The bins are those that are not empty.
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


@dataclasses.dataclass(frozen=True)
class Changed:
    """Test examples whose answers the best rival changes, with a table of the most.

    The texts are text and gold answer of each, by number; empty without the data.
    """

    summary: str
    lines: Sequence[Mapping[str, str]]
    texts: Mapping[str, Sequence[str]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Facts:
    """All that a report shows."""

    rows: Sequence[Row]
    baseline: str
    metric: str
    margin: float
    losses: Mapping[str, LossFacts]  # that share no runs with an earlier one
    # By loss and class: its scores in each run that has the class.
    classes: Mapping[str, Mapping[str, Sequence[Mapping[str, float]]]]
    changed: Changed | None
    tuning: Mapping[str, Any] | None
    experiment: Experiment  # with all losses and the first seed
    command: str
    provenance: Mapping[str, str]
    differences: Sequence[str]
    folders: Sequence[str]


def facts_of(
    rows: Sequence[Row],
    *,
    margin: float,
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
    experiments = [loss.experiment for loss in losses.values()]
    candidates = candidates_of(experiments)
    # The others follow from one that does not begin at the class frequencies.
    plain = [each for each in experiments if each.training.head_bias == "zeros"]
    first = (plain or experiments)[0]
    experiment = dataclasses.replace(
        first,
        compared=tuple(candidates),
        training=dataclasses.replace(first.training, seed=seeds[0]),
    )
    changes = {
        loss: changed_settings(with_candidate(experiment, candidate), each)
        for loss, candidate, each in zip(losses, candidates, experiments, strict=True)
    }
    versions = [result["versions"] for result in results if "versions" in result]
    names = dict.fromkeys(name for by_name in versions for name in by_name)
    columns = [
        ("checksum of the encoded test set", results, "test_data"),
        ("devices", results, "devices"),
        ("hardware", results, "device_kind"),
        *((f"version of {name}", versions, name) for name in names),
        *(() if versions else [("versions", (), "")]),
    ]
    provenance = {
        "data set": experiment.name,
        "seeds": ", ".join(map(str, seeds)),
    }
    for title, records, key in columns:
        texts = dict.fromkeys(str(record[key]) for record in records if key in record)
        provenance[title] = ", ".join(texts) or "not recorded by these runs"
    return Facts(
        rows=rows,
        baseline=rows[0].loss,
        metric=results[0]["primary_metric"],
        margin=margin,
        losses=losses,
        classes=classes,
        changed=changed,
        tuning=tuning,
        experiment=experiment,
        command=f"dicejax compare {RERUN} --seeds {seeds[-1] - seeds[0] + 1} "
        f"{'--resample ' * is_resampled(first)}--out FOLDER",
        provenance=provenance,
        differences=[
            f"{loss} has settings of its own: {'; '.join(settings)}"
            for loss, settings in changes.items()
            if settings
        ],
        folders=folders,
    )


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


def changed_answers(
    rows: Sequence[Row],
    read_examples: Callable[[], Sequence[Any] | None],
    earlier: Mapping[str, Sequence[str]] = {},
) -> Changed | None:
    """Return the test examples whose answers the best rival changes; None without any.

    Their texts are those of the test set, or where it cannot be read (None), of an
    earlier report, by number.
    """
    pair = [rows[0], *rivals_of(rows)[:1]]
    right, runs = [], []  # of each loss: runs in which an example is wholly right
    for row in pair:
        counts = [outcome.example_statistics for outcome in row.outcomes]
        counts = [count for count in counts if count is not None]
        right.append(sum((n[..., 0] == n[..., 1]).all(-1) for n in counts))
        runs.append(len(counts))
    if len(pair) < 2 or 0 in runs or len(right[0]) != len(right[1]):
        return None
    gain = right[1] / runs[1] - right[0] / runs[0]
    order = sorted(np.flatnonzero(gain), key=lambda n: (-abs(gain[n]), n))
    if not order:
        return None
    numbers = {f"{n + 1}": int(n) for n in order[:MOST_CHANGED]}
    # Where parts of examples are scored, their numbers are not those of examples.
    examples = read_examples()
    if examples is not None and len(examples) == len(gain):
        earlier = {name: text_and_gold(examples[n]) for name, n in numbers.items()}
    has_texts = all(name in earlier for name in numbers)
    texts = {name: earlier[name] for name in numbers} if has_texts else {}
    lines = []
    for name, n in numbers.items():
        line = {"test example": name}
        for row, count, total in zip(pair, right, runs, strict=True):
            line[row.loss] = f"{count[n]} of {total}"
        cells = zip(("text", "gold"), texts.get(name, ()), strict=False)
        lines.append(line | dict(cells))
    summary = (
        f"{pair[1].loss} is right in more seeds than {pair[0].loss} on "
        f"{(gain > 0).sum()} test examples, and in fewer on {(gain < 0).sum()}; "
        "those that change in most seeds come first."
    )
    summary += "" if texts else " Numbers count from 1 in the test set."
    return Changed(summary, lines, texts)
