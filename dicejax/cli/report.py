"""The command that writes the report of finished runs: report."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from rich.console import Console
from tyro.conf import Positional, arg

from dicejax.cli.printing import print_table
from dicejax.cli.runs import ExperimentOfRun
from dicejax.errors import InputError
from dicejax.io.terminal import show


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """Write the comparison report of finished runs, or of scores from elsewhere.

    The runs must belong to one experiment and differ only in loss and seed. Unfinished
    runs, and seeds that only some losses have, are reported as missing.

    Args:
      runs: run folders, or folders that contain runs at any depth.
      scores: CSV file instead of runs, with columns data, loss, seed, score (points)
        and optionally example: the same verdicts for anybody's runs.
      across: combine finished comparisons of several data sets, named by their folders,
        in one statement on each loss.
      out: output directory of report.html, report.md, comparison.json and rerun.py.
      baseline: loss that the others are compared with.
      margin: differences within this many points count as practically equal.
    """

    runs: Annotated[
        Positional[tuple[str, ...]],
        arg(metavar="RUNS", help_behavior_hint="(required without --scores)"),
    ] = ()
    scores: Annotated[str | None, arg(metavar="CSV")] = None
    across: bool = False
    out: Annotated[
        str | None,
        arg(metavar="FOLDER", help_behavior_hint="(default: the runs' common folder)"),
    ] = None
    baseline: Annotated[str, arg(metavar="NAME")] = "ce"
    margin: float = 0.5
    experiment: ExperimentOfRun = None

    def __call__(self, console: Console) -> None:
        """Read the runs and write the report."""
        from dicejax.study.compare import compare_runs, compare_scores

        if self.scores is not None:
            if self.runs or self.out is None:
                raise InputError("--scores goes with --out FOLDER and without runs")
            for one in compare_scores(
                self.scores, out=self.out, baseline=self.baseline, margin=self.margin
            ):
                print_table(one)
                for line in one.lines():
                    show(line)
                show(f"comparison.json, methods.txt and table.tex in {one.folder}")
            return
        if self.across:
            from dicejax.study.compare.several import lines, several

            baseline, made = several(self.runs, self.out)
            for line in lines(baseline, made, len(self.runs)):
                show(line)
            return
        found = compare_runs(
            self.runs, out=self.out, baseline=self.baseline, margin=self.margin
        )
        for line in found.lines():
            show(line)
        show(f"report in {found.report}")
