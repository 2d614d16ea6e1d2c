"""The command that chooses a model within a time."""

from __future__ import annotations

import dataclasses
import shlex
from typing import Annotated

from rich.console import Console

from dicejax.cli.experiments import ExperimentFile, Settings
from dicejax.cli.help import option
from dicejax.cli.printing import duration, print_table
from dicejax.io.terminal import show


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choose:
    """Choose a model within a time, with a statement that holds.

    Models that are no fine-tuned encoders are tried first, then cross-entropy, class
    weights, a better head, other rates and lengths, and other losses: on dev alone. The
    best, and the cheapest that dev does not separate from it, are trained again with
    fresh seeds and scored on test once. The same command goes on where it was
    interrupted; with a longer budget it tries more.

    Args:
      budget: time of all, such as 30m or 2h.
      out: output directory.
      margin: differences within this many points do not matter in practice.
    """

    file: ExperimentFile
    budget: str = "30m"
    out: Annotated[str | None, option("FOLDER", "runs/NAME/choose")] = None
    margin: float = 0.5
    settings: Settings = None

    def __call__(self, console: Console) -> None:
        """Search, confirm, and say what to use."""
        from dicejax.study.choose import choose
        from dicejax.training.progress import TrainingProgress

        choice = choose(
            self.settings,
            self.budget,
            out=self.out,
            margin=self.margin,
            progress=TrainingProgress(console),
        )
        print_table(choice.comparison)
        show(choice.sentence)
        run = shlex.quote(choice.run)
        spent = duration(choice.seconds)
        show(f"{choice.tried} settings tried on dev in {spent}, test scored once")
        show(f"report in {choice.comparison.report}")
        show(f"next: dicejax predict {run} --file FILE")
