"""What a run tells while it goes on: metrics.jsonl, TensorBoard, a progress bar."""

from __future__ import annotations

import json
from typing import Any

from etils import epath
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
from tensorboardX import SummaryWriter

from dicejax.metrics.scores import heading


class MetricsLog:
    """Appends records to metrics.jsonl and their numbers to TensorBoard."""

    def __init__(self, folder: epath.Path):
        self._file = (folder / "metrics.jsonl").open("a")
        self._board = SummaryWriter(str(folder / "tensorboard"), flush_secs=10)

    def write(self, step: int, **values: Any) -> None:
        """Write one record; a name with a slash is a group in TensorBoard."""
        self._file.write(json.dumps({"step": step, **values}) + "\n")
        self._file.flush()
        for name, value in values.items():
            if isinstance(value, int | float):
                self._board.add_scalar(name, value, step)

    def close(self) -> None:
        """Write out what is buffered."""
        self._file.close()
        self._board.close()


class TrainingProgress:
    """A progress bar with loss, dev score, tokens per second and time left.

    Use as a context manager; several runs may share one, each with its own line.
    """

    def __init__(self, console: Console | None = None):
        self.console = console or Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[status]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
        )

    def __enter__(self) -> TrainingProgress:
        self._progress.start()
        return self

    def __exit__(self, *exception) -> None:
        self._progress.stop()

    def begin(self, name: str, steps: int, status: str = "compiling") -> TaskID:
        """Add a line for a run of `steps` updates."""
        return self._progress.add_task(name, total=steps, status=status)

    def advance(self, task: TaskID) -> None:
        """Move a line on by one."""
        self._progress.advance(task)

    def update(
        self,
        task: TaskID,
        step: int,
        *,
        loss: float,
        score: float | None,
        headline: str,
        tokens_per_s: float,
    ) -> None:
        """Show where a run stands."""
        percent = "   -  " if score is None else f"{100 * score:6.2f}"
        status = (
            f"loss {loss:.4f}  dev {heading(headline)} {percent}  "
            f"{tokens_per_s:,.0f} tokens/s"
        )
        self._progress.update(task, completed=step, status=status)

    def end(self, task: TaskID) -> None:
        """Take a run's line away; its epochs stay in the text above."""
        self._progress.remove_task(task)

    def say(self, text: str) -> None:
        """Print a line above the bars."""
        # Names from the data may look like markup; wrapping is the terminal's.
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)
