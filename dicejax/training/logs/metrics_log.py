"""The record of a run, one JSON object a line, which survives being killed."""

from __future__ import annotations

import contextlib
import operator
import time
from collections.abc import Callable, Sequence
from typing import Any

from etils import epath

from dicejax.training.logs.boards import Board, TensorBoard
from dicejax.training.logs.lines import json_line, lines_of

FILE = "metrics.jsonl"
REWRITE_EVERY_S = 30.0
"""How often a file that cannot be appended to is written anew, in seconds."""


class MetricsLog:
    """Writes a record for each reported step to metrics.jsonl and to the boards.

    In a local folder each record is handed to the system before `write` returns, so
    that a killed process loses none. Object stores (gs://, s3://) cannot append: there
    the lines are kept in memory too, and the whole object is written again every 30
    seconds, at each `flush` and at the end.

    >>> import tempfile
    >>> folder = epath.Path(tempfile.mkdtemp())
    >>> with MetricsLog(folder) as log:
    ...     log.write(10, loss=0.5)
    ...     log.write(20, loss=float("nan"))
    >>> with MetricsLog(folder, after_step=10) as log:  # the rest was not saved
    ...     log.write(20, loss=0.25)
    >>> print((folder / "metrics.jsonl").read_text(), end="")
    {"step": 10, "loss": 0.5}
    {"step": 20, "loss": 0.25}

    Args:
      folder: the run's; made where it is missing.
      after_step: the step of the checkpoint that the run continues from. Records of
        later steps are dropped, and a last line that is torn; the others are kept byte
        for byte. 0 for a new run.
      boards: where the records go besides TensorBoard. They are closed with the log.
      clock: seconds, for the tests.
    """

    def __init__(
        self,
        folder: epath.Path,
        *,
        after_step: int = 0,
        boards: Sequence[Board] = (),
        clock: Callable[[], float] = time.monotonic,
    ):
        folder.mkdir(parents=True, exist_ok=True)
        self._lines = lines_of(folder / FILE, after_step)
        self._boards = (TensorBoard(folder / "tensorboard", after_step), *boards)
        self._last_step = after_step
        self._clock = clock
        self._flushed = clock()

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self.close(failed=kind is not None)

    def write(self, step: int, **values: Any) -> None:
        """Write the record of a step.

        Numbers that are not finite become null, since JSON has no word for them.

        Args:
          step: number of updates so far.
          **values: numbers, also NumPy's and JAX's, texts, or lists and dicts of them.
            A name with a slash is a group on the boards.

        Raises:
          ValueError: the step is not after the last one.
        """
        step = operator.index(step)
        if step <= self._last_step:
            raise ValueError(
                f"step {step} is not after step {self._last_step}, the last one written"
            )
        values = {name: _plain(value) for name, value in values.items()}
        self._lines.append(json_line(step, values))
        self._last_step = step
        for board in self._boards:
            board.write(step, values)
        waited = self._clock() - self._flushed
        if not self._lines.durable and waited >= REWRITE_EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Bring everything to where it outlives the machine.

        Before a checkpoint is written this makes sure that the records of the steps
        behind it are there when the run continues from it.
        """
        self._lines.flush()
        for board in self._boards:
            board.flush()
        self._flushed = self._clock()

    def close(self, *, failed: bool = False) -> None:
        """Flush and close; `failed` tells the boards that the run broke off."""
        with contextlib.ExitStack() as stack:
            for board in self._boards:
                stack.callback(board.close, failed=failed)
            self._lines.close()


class NoLog:
    """Takes the place of a `MetricsLog` in all processes but the first."""

    def __enter__(self) -> NoLog:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def write(self, step: int, **values: Any) -> None:
        """Do nothing."""

    def flush(self) -> None:
        """Do nothing."""

    def close(self, *, failed: bool = False) -> None:
        """Do nothing."""


def _plain(value: Any) -> Any:
    """Turn scalars of NumPy and JAX into Python's, also inside lists and dicts."""
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value.item() if hasattr(value, "item") else value
