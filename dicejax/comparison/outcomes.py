"""What became of the runs of a comparison, read from their folders."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from etils import epath

from dicejax.comparison.jobs import Job
from dicejax.errors import InputError
from dicejax.training.run_folder import Run


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of one run.

    Attributes:
      loss: its name.
      seed: of the run.
      folder: of the run.
      status: "missing" where it has not been finished.
      result: as `result.json` has it; None unless finished.
      shares: float `[N, C, 2]`, what each test example adds to the primary metric; None
        unless finished.
    """

    loss: str
    seed: int
    folder: str
    status: Literal["finished", "diverged", "missing"]
    result: Mapping[str, Any] | None = None
    example_statistics: np.ndarray | None = None

    @property
    def score(self) -> float:
        """The primary metric on test, of a finished run."""
        return self.result["test"][self.result["primary_metric"]]


def outcome_of(job: Job) -> Outcome:
    """Read what became of a run.

    Raises:
      InputError: a file of the run is missing or damaged.
    """
    run = Run(epath.Path(job.folder))
    found = (job.loss, job.seed, job.folder)
    if run.is_finished:
        return Outcome(*found, "finished", run.result(), run.example_statistics())
    if run.diverged() is not None:
        return Outcome(*found, "diverged")
    return Outcome(*found, "missing")


def unfinished(jobs: Sequence[Job]) -> int:
    """Return how many runs have neither been finished nor given up."""
    runs = [Run(epath.Path(job.folder)) for job in jobs]
    return sum(not run.is_finished and run.diverged() is None for run in runs)


def require_one_test_set(outcomes: Sequence[Outcome]) -> None:
    """Check that all finished runs were scored alike on the same examples.

    Raises:
      InputError: they were not.
    """
    finished = [one for one in outcomes if one.status == "finished"]
    for one in finished[1:]:
        first = finished[0]
        for what in ("test_data", "primary_metric"):
            if one.result.get(what) != first.result.get(what):
                raise InputError(
                    f"{one.folder}: another {what.replace('_', ' ')} than "
                    f"{first.folder}: their scores cannot be compared"
                )
