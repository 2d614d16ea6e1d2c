"""Archive finished comparisons: scores of each test example, without its text.

    python docs/evidence/archive.py runs/curve/250-2 ...

writes docs/evidence/scores/curve/250-2.npz, which `read` reads again.
The data have to be where the runs found them: labelled elements are counted there.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dicejax.comparison import FILE
from dicejax.comparison.baselines import outcomes_of
from dicejax.comparison.finding import jobs_from
from dicejax.comparison.jobs import BASELINE, Job, Outcome
from dicejax.comparison.statistics import Look, Row, rows_of
from dicejax.training.setup import describe

SCORES = Path(__file__).parent / "scores"
KEPT = (
    "primary_metric",
    "test_data",
    "test",
    "test_with_tuned_threshold",
    "steps",
    "seconds",
    "control",
)


def main(folders: list[str]) -> None:
    """Write an archive for each folder."""
    for folder in folders:
        jobs = jobs_from([folder])
        found, controls = outcomes_of(jobs)
        positives = {job.seed: _positives(job) for job in jobs if _is_baseline(job)}
        content = {
            "controls": controls,
            "looks": json.loads((Path(folder) / FILE).read_text())["looks"],
            "positives": positives,
            "runs": [_record(one) for one in found],
        }
        shares = [one.example_statistics for one in found if one.result]
        counts = np.stack(shares).astype(np.uint8)
        if not np.array_equal(counts, shares):
            raise SystemExit(f"{folder}: counts of examples do not fit into 8 bits")
        file = file_of("/".join(Path(folder).parts[-2:]))
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(file, counts=counts, content=json.dumps(content))
        print(f"{file}: {len(found)} runs, {file.stat().st_size:,} bytes")


def file_of(name: str) -> Path:
    """Return the file of an archive, such as "curve/250-2"."""
    return SCORES / f"{name}.npz"


@dataclasses.dataclass(frozen=True)
class Archived:
    """A finished comparison.

    Attributes:
      outcomes: of its runs and of cross-entropy with moved decisions.
      controls: names of the losses that are controls.
      looks: seeds by loss, of each look.
      positives: labelled elements of the training sample, by seed.
    """

    outcomes: tuple[Outcome, ...]
    controls: tuple[str, ...]
    looks: tuple[Look, ...]
    positives: dict[int, int]

    @property
    def updates(self) -> float:
        """Updates per run, mean over seeds."""
        return float(np.mean([run["steps"] for run in self._runs]))

    @property
    def mean_positives(self) -> float:
        """Labelled elements of the training sample, mean over seeds."""
        return float(np.mean([*self.positives.values()]))

    @property
    def hours(self) -> float:
        """Hours of training of all runs."""
        return sum(run["seconds"] for run in self._runs) / 3600

    @property
    def _runs(self) -> list[dict[str, Any]]:
        results = [one.result for one in self.outcomes if one.result]
        return [result for result in results if "steps" in result]

    def rows(self, baseline: str = "ce", without: Sequence[str] = ()) -> list[Row]:
        """Return the statistics of each loss vs. the baseline.

        Args:
          baseline: name of a loss or control.
          without: names of losses and controls that are not compared.
        """
        return rows_of(
            [one for one in self.outcomes if one.loss not in without],
            baseline,
            controls=self.controls,
            looks=[
                {loss: seeds for loss, seeds in look.items() if loss not in without}
                for look in self.looks[:-1]
            ],
        )


def read(name: str) -> Archived:
    """Read an archive, such as "curve/250-2"."""
    with np.load(file_of(name)) as file:
        counts, content = iter(file["counts"]), json.loads(file["content"].item())
    outcomes = [
        Outcome(
            run["loss"],
            run["seed"],
            folder=name,
            status=run["status"],
            result=run["result"],
            example_statistics=next(counts).astype(float) if run["result"] else None,
        )
        for run in content["runs"]
    ]
    return Archived(
        tuple(outcomes),
        tuple(content["controls"]),
        tuple(content["looks"]),
        {int(seed): number for seed, number in content["positives"].items()},
    )


def _record(one: Outcome) -> dict[str, Any]:
    result = one.result and {k: v for k, v in one.result.items() if k in KEPT}
    return {"loss": one.loss, "seed": one.seed, "status": one.status, "result": result}


def _is_baseline(job: Job) -> bool:
    return job.experiment.objective == BASELINE


def _positives(job: Job) -> int:
    """Return the number of labelled elements of a run's training sample.

    Of outputs of its task the first: the starts of answers in machine reading.
    """
    setup = describe(job.experiment, warn=lambda text: None)
    task, labels = job.experiment.task, setup.data.labels
    counts = task.class_counts(setup.data.items["train"], labels)
    number = next(iter(counts.values()))
    return int(number[..., 1:].sum())  # the negative class is the first


if __name__ == "__main__":
    main(sys.argv[1:])
