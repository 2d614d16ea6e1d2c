"""The command that says which labels to check first."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal

from rich.console import Console
from tyro.conf import Positional, arg

from dicejax.cli.help import option
from dicejax.cli.printing import note_printer
from dicejax.cli.runs import ExperimentOfRun
from dicejax.io.terminal import show


@dataclasses.dataclass(frozen=True, kw_only=True)
class Review:
    """List the labels to check first: those that held-out models contradict.

    Gold of dev and test is ranked by how consistently the runs contradict it, and gold
    of train by runs that were not trained on it: of a comparison with --resample, or of
    --folds. Nothing is changed in your files: the folder gets a page, review.html, the
    corrections in the format of the data, and a list to mark, to_mark.csv. With the
    marks it says how many labels are wrong in all, and what that costs on test.

    Args:
      runs: run folders, or folders that contain runs at any depth.
      out: output directory.
      splits: splits whose labels are ranked.
      folds: train so many models more, each without another part of train, which judges
        it.
      first: examples to mark: half are the first ones, half are drawn behind them.
      marked: list of an earlier review in which each line has a mark.
    """

    runs: Annotated[Positional[tuple[str, ...]], arg(metavar="RUNS")]
    out: Annotated[str, arg(metavar="FOLDER")]
    splits: Annotated[
        tuple[Literal["train", "dev", "test"], ...],
        option("SPLIT ...", "those with held-out models"),
    ] = ()
    folds: Annotated[int | None, option("K", "none")] = None
    first: int = 50
    marked: Annotated[str | None, arg(metavar="FILE")] = None
    experiment: ExperimentOfRun = None

    def __call__(self, console: Console) -> None:
        """Rank, and say what was found."""
        from dicejax.study.review import review
        from dicejax.training.progress import TrainingProgress

        lines = review(
            self.runs,
            self.out,
            splits=self.splits,
            folds=self.folds,
            first=self.first,
            marked=self.marked,
            progress=TrainingProgress(console),
            warn=note_printer(console),
        )
        for line in lines:
            show(line)
