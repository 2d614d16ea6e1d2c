"""The command that writes the report of finished runs: report."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from rich.console import Console
from tyro.conf import Positional, arg

from dicejax.cli.runs import ExperimentOfRun
from dicejax.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """Write the report of runs that are there already, as compare does at its end.

    The runs must be of one experiment and differ in loss and seed alone. Those that are
    not finished, and seeds that only some losses have, are told as missing.

    Args:
      runs: run folders, or folders that hold runs at any depth, as a comparison's.
      out: folder of report.html, report.md, comparison.json and rerun.py; the one that
        holds all the runs unless given.
      baseline: the loss that the others are compared with.
    """

    runs: Annotated[
        Positional[tuple[str, ...]],
        arg(metavar="RUNS", help_behavior_hint="(required)"),
    ]
    out: Annotated[str | None, arg(metavar="FOLDER")] = None
    baseline: Annotated[str, arg(metavar="NAME")] = "ce"
    experiment: ExperimentOfRun = None

    def __call__(self, console: Console) -> None:
        """Read the runs and write the report."""
        from dicejax import comparison
        from dicejax.comparison import report
        from dicejax.comparison.report.finding import (
            common_folder,
            jobs_from,
            tuning_of,
        )

        if not self.runs:
            raise InputError("report wants folders of runs: none is named")
        jobs = jobs_from(self.runs)
        losses = dict.fromkeys(job.loss for job in jobs)
        if self.baseline not in losses:
            raise InputError(
                f"no run of {self.baseline} among these, to compare with; --baseline "
                f"takes another: {', '.join(losses)}"
            )
        out = self.out or common_folder(self.runs)
        rows = comparison.evaluated(jobs, out, tuning_of(jobs), baseline=self.baseline)
        for line in comparison.remarks(rows):
            print(line)
        print(f"report in {report.write(rows, out)}")
