"""Progress bars of runs, with lines above them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column

from dicejax.errors import visible
from dicejax.io.terminal import literal
from dicejax.metrics.scores import heading

NARROW = 112
"""In a window of fewer columns the bar is short, and of the times only the one left is
shown: all of a line fits 80 columns."""

NAME_WIDTH = {False: 24, True: 14}
"""Longer names of runs are shortened, more so where it is narrow; lines above the bars
have them whole."""

WAITS_WORTH_TELLING = 0.05
"""From this share on, the status shows the share of time spent waiting for data."""


class TrainingProgress(Progress):
    """A progress bar with loss, dev score, tokens per second and time left.

    Use as a context manager; several runs may share one, each with its own line.

    Args:
      console: output; standard error by default.
      quiet: print nothing, for processes other than the first.
    """

    def __init__(self, console: Console | None = None, *, quiet: bool = False):
        console = Console(quiet=True) if quiet else console or Console(stderr=True)
        self._narrow = narrow = console.width < NARROW
        more = [] if narrow else [TimeElapsedColumn(), TextColumn("left")]
        super().__init__(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=7 if narrow else 12),
            MofNCompleteColumn(),
            # Wraps where there is no room for all of it.
            TextColumn("{task.fields[status]}", table_column=Column(no_wrap=False)),
            *more,
            TimeRemainingColumn(),
            console=console,
            disable=quiet,
        )
        self._noted: set[str] = set()

    def begin(
        self, name: str, steps: int, status: str = "compiling", step: int = 0
    ) -> TaskID:
        """Add a line for a run of `steps` updates that begins or resumes at a step."""
        name = visible(_within(name, NAME_WIDTH[self._narrow]))
        return self.add_task(name, total=steps, completed=step, status=status)

    def show(
        self,
        task: TaskID,
        step: int,
        record: Mapping[str, Any],
        score: float | None,
        primary_metric: str,
    ) -> None:
        """Show the record of a run's step.

        Args:
          task: line of the run, as returned by `begin`.
          step: number of updates so far.
          record: record of the step in metrics.jsonl. Skipped steps are shown if there
            are any, the share of time spent waiting for batches above 5 %.
          score: last dev score, in [0, 1]; None before the first.
          primary_metric: name of that score.
        """
        percent = "   -  " if score is None else f"{100 * score:6.2f}"
        dev = "" if self._narrow else "dev "
        status = (
            f"loss {record['loss']:.4f}  {dev}{heading(primary_metric)} {percent}  "
            f"{record['tokens_per_s']:,.0f} tokens/s"
        )
        if record["wait_share"] > WAITS_WORTH_TELLING:
            status += f"  waits {100 * record['wait_share']:.0f} %"
        if record["skipped"]:
            status += f"  {record['skipped']} skipped"
        self.update(task, completed=step, status=status)

    def end(self, task: TaskID) -> None:
        """Remove a run's bar; its epochs stay in the text above."""
        self.remove_task(task)

    def say(self, text: str) -> None:
        """Print a line above the bars."""
        self.console.print(literal(text), soft_wrap=True)  # the terminal wraps

    def say_once(self, text: str) -> None:
        """Print a line that several runs may share."""
        if text not in self._noted:
            self._noted.add(text)
            self.say(text)

    def note(self, text: str) -> None:
        """Print a remark once."""
        self.say_once(f"note: {text}")


def _within(name: str, width: int) -> str:
    """Shorten a run's name in the middle, keeping the seed at its end.

    >>> _within("dsc-alpha=1.0-smooth=0.01-stop_gradient_weight=True seed 0", 24)
    'dsc-alpha=1…=True seed 0'
    """
    if len(name) <= width:
        return name
    half = (width - 1) // 2
    return f"{name[:half]}…{name[half + 1 - width :]}"
