"""Archive runs of a comparison: scores of each test example, without its text.

    python docs/evidence/archive.py runs/curve/250-2 ...

writes docs/evidence/scores/curve/250-2.npz, which `read` reads again. Runs that the
archive already has stay in it, so that the seeds of a long comparison may be trained
one after another, and on several machines. Results are those of the last look of the
protocol that all losses have the seeds of. Trials of tuning are archived with the runs.

The data have to be where the runs found them: labelled elements are counted there.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import io
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from etils import epath

from dicejax.io.files import write_whole
from dicejax.objectives import name_of
from dicejax.study.compare import tuning
from dicejax.study.compare.baselines import score_baselines, scored_runs
from dicejax.study.compare.failures import learnt_nothing
from dicejax.study.compare.finding import jobs_from, tuning_of
from dicejax.study.compare.jobs import (
    BASELINE,
    Job,
    ScoredRun,
    scored,
    share_groups,
)
from dicejax.study.compare.same_data import require_one_data
from dicejax.study.compare.statistics import Row, rows_of
from dicejax.training.identity import with_checksums
from dicejax.training.setup import prepare

SCORES = Path(__file__).parent / "scores"
LOOKS = (5, 10)
"""Seeds, from 0 on, of the looks of the protocol."""
WITHOUT_MOVED = ("mechanism", "mpnet", "third")
"""Parts of the second and third protocol, all arms of which are trained."""
DEVICES = {"cpu": "CPUs", "NVIDIA H200": "an NVIDIA H200"}
KEPT = (
    "primary_metric",
    "checksums",
    "test",
    "test_with_tuned_threshold",
    "steps",
    "seconds",
    "device_kind",
    "versions",
    "settings",
    "losses",
    "control",
)


def main(folders: Sequence[str]) -> None:
    """Write an archive for each folder, or add to it."""
    for folder in folders:
        name = "/".join(Path(folder).parts[-2:])
        file, archive = file_of(name), merged(read(name), _of_folder(folder))
        file.parent.mkdir(parents=True, exist_ok=True)
        write(archive, file)
        print(f"{file}: {len(archive.runs)} runs, {file.stat().st_size:,} bytes")


def file_of(name: str) -> Path:
    """Return the file of an archive, such as "curve/250-2"."""
    return SCORES / f"{name}.npz"


@dataclasses.dataclass(frozen=True)
class Archived:
    """Runs of a comparison.

    Attributes:
      runs: outcomes, also of cross-entropy with moved decisions.
      controls: names of the losses that are controls.
      positives: labelled elements of the training sample, by seed.
      tuning: record of the trials, with the `seconds` of all; empty without tuning.
    """

    runs: tuple[ScoredRun, ...]
    controls: tuple[str, ...]
    positives: Mapping[int, int]
    tuning: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def seeds(self) -> int:
        """Seeds, from 0 on, of the last look that the runs are complete for, or 0.

        Losses that learn nothing in any of their runs may have fewer.
        """
        baseline = name_of(BASELINE)
        by_loss: dict[str, list[ScoredRun]] = {baseline: []}
        for run in self.runs:
            by_loss.setdefault(run.loss, []).append(run)
        complete = [
            {run.seed for run in runs}
            for loss, runs in by_loss.items()
            if loss == baseline or not all(map(learnt_nothing, runs))
        ]
        common = set.intersection(*complete)
        return max((n for n in LOOKS if {*range(n)} <= common), default=0)

    @property
    def outcomes(self) -> list[ScoredRun]:
        """Outcomes of the seeds of the last look."""
        return [run for run in self.runs if run.seed < self.seeds]

    @property
    def updates(self) -> float:
        """Updates per run, mean over seeds."""
        return float(np.mean([run["steps"] for run in _trained(self.outcomes)]))

    @property
    def mean_positives(self) -> float:
        """Labelled elements of the training sample, mean over seeds."""
        return float(np.mean([self.positives[seed] for seed in range(self.seeds)]))

    @property
    def hours(self) -> float:
        """Hours of training of the runs of the last look."""
        return hours_of(self.outcomes)

    def rows(self, baseline: str = "ce", without: Sequence[str] = ()) -> list[Row]:
        """Return the statistics of each loss vs. the baseline.

        Args:
          baseline: name of a loss or control.
          without: names of losses and controls that are not compared.
        """
        compared = [run for run in self.outcomes if run.loss not in without]
        losses = {run.loss for run in compared} - {baseline}
        earlier = [
            {
                loss: [o.seed for o in compared if o.loss == loss and o.seed < seeds]
                for loss in losses
            }
            for seeds in LOOKS
            if seeds < self.seeds
        ]
        return rows_of(compared, baseline, controls=self.controls, looks=earlier)


@functools.cache
def read(name: str) -> Archived:
    """Read an archive, such as "curve/250-2"; without a file there are no runs."""
    if not file_of(name).exists():
        return Archived((), (), {})
    return read_file(file_of(name))


def read_file(file: Path) -> Archived:
    """Read the file of an archive, of this machine or another."""
    with np.load(file) as arrays:
        counts, content = iter(arrays["counts"]), json.loads(arrays["content"].item())
        groups = arrays.get("groups")
    outcomes = [
        ScoredRun(
            run["loss"],
            run["seed"],
            folder=f"{file.parent.name}/{file.stem}",
            status=run["status"],
            result=with_checksums(run["result"]) if run["result"] else {},
            example_statistics=next(counts).astype(float) if run["result"] else None,
            groups=groups if run["result"] else None,
        )
        for run in content["runs"]
    ]
    return Archived(
        tuple(outcomes),
        tuple(content["controls"]),
        {int(seed): number for seed, number in content["positives"].items()},
        content.get("tuning", {}),
    )


def merged(old: Archived, new: Archived) -> Archived:
    """Return the runs of both; those that both have must be the same."""
    by_run = {(run.loss, run.seed): run for run in old.runs}
    for run in new.runs:
        other = by_run.setdefault((run.loss, run.seed), run)
        same = np.array_equal(run.example_statistics, other.example_statistics)
        if _record(run) != _record(other) or not same:
            raise SystemExit(
                f"{run.folder}: is not the run of {run.loss} with seed {run.seed} that "
                f"{other.folder} has; move one of them away"
            )
    runs = share_groups([by_run[key] for key in sorted(by_run)])
    require_one_data(runs)
    if old.runs and old.tuning != new.tuning:
        raise SystemExit("the runs to add have other trials than those of the archive")
    controls = sorted({*old.controls, *new.controls})
    positives = {**old.positives, **new.positives}
    return Archived(tuple(runs), tuple(controls), positives, new.tuning)


def write(archive: Archived, file: Path) -> None:
    """Write an archive."""
    content = {
        "controls": archive.controls,
        "positives": archive.positives,
        "runs": [_record(run) for run in archive.runs],
        **({"tuning": archive.tuning} if archive.tuning else {}),
    }
    shares = [run.example_statistics for run in archive.runs if run.result]
    counts = np.stack(shares).astype(np.uint8)
    if not np.array_equal(counts, shares):  # as F1 of answers
        counts = np.stack(shares).astype(np.float64)
    arrays = {"counts": counts, "content": np.array(json.dumps(content))}
    groups = [run.groups for run in archive.runs if run.groups is not None]
    if groups:
        arrays["groups"] = groups[0].astype(np.int32)
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)
    write_whole(epath.Path(file.parent), file.name, packed.getvalue())
    read.cache_clear()  # the next folder may add to the same archive


def runs_of(part: str) -> list[ScoredRun]:
    """Return all trained runs of a part, such as "curve", looked at or not."""
    names = sorted(f"{part}/{file.stem}" for file in (SCORES / part).glob("*.npz"))
    return [run for name in names for run in read(name).runs if _is_trained(run)]


def devices_of(outcomes: Sequence[ScoredRun]) -> str:
    """Return trained runs and their minutes of training on each kind of device."""
    by_kind: dict[str, list[float]] = collections.defaultdict(list)
    for run in _trained(outcomes):
        by_kind[run.get("device_kind", "cpu")].append(run["seconds"])
    return "; ".join(
        f"{len(seconds)} runs on {DEVICES.get(kind, kind)}, "
        f"{sum(seconds) / 60:.1f} minutes of training"
        for kind, seconds in sorted(by_kind.items())
    )


def hours_of(outcomes: Sequence[ScoredRun]) -> float:
    """Return the hours of training of runs."""
    return sum(run["seconds"] for run in _trained(outcomes)) / 3600


def _trained(outcomes: Sequence[ScoredRun]) -> list[Mapping[str, Any]]:
    return [
        outcome.result
        for outcome in outcomes
        if outcome.result and _is_trained(outcome)
    ]


def _is_trained(outcome: ScoredRun) -> bool:
    """Return whether an outcome is that of a run, not of moved decisions."""
    return "control" not in outcome.result


def _of_folder(folder: str) -> Archived:
    """Return the runs of a folder that have ended, with moved decisions."""
    jobs = jobs_from([folder])
    if Path(folder).parts[-2] in WITHOUT_MOVED:
        outcomes, controls = [scored(job) for job in jobs], []
    else:
        # Of other losses the archive holds decisions as they are.
        score_baselines([job for job in jobs if job.loss == name_of(BASELINE)], print)
        outcomes, controls = scored_runs(jobs)
    ended = [
        dataclasses.replace(outcome, groups=None)  # `documents` has them
        for outcome in outcomes
        if outcome.status != "missing"
    ]
    baselines = [job for job in jobs if job.experiment.objective == BASELINE]
    positives = {job.seed: _positives(job) for job in baselines}
    return Archived(tuple(ended), tuple(controls), positives, _trials(folder, jobs))


def _trials(folder: str, jobs: Sequence[Job]) -> dict[str, Any]:
    """Return the record of a comparison's tuning; empty without it."""
    record = tuning_of(jobs)
    if record is None:
        return {}
    results = Path(folder, tuning.TRIALS).rglob("result.json")
    seconds = [json.loads(file.read_text())["seconds"] for file in results]
    return {**record, "seconds": sum(seconds)}


def _record(outcome: ScoredRun) -> dict[str, Any]:
    result = {k: v for k, v in outcome.result.items() if k in KEPT} or None
    return {
        "loss": outcome.loss,
        "seed": outcome.seed,
        "status": outcome.status,
        "result": result,
    }


def _positives(job: Job) -> int:
    """Return the number of labelled elements of a run's training sample.

    Of outputs of its task the first: the starts of answers in machine reading.
    """
    setup = prepare(job.experiment, lambda text: None, weights=False)
    task, labels = job.experiment.task, setup.data.labels
    counts = task.class_counts(setup.data.items["train"], labels)
    number = next(iter(counts.values()))
    return int(number[..., 1:].sum())  # the negative class is the first


if __name__ == "__main__":
    main(sys.argv[1:])
