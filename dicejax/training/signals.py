"""Being asked to stop: by a launcher with SIGTERM, by a user with Ctrl-C."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType

import jax
from jax.experimental import multihost_utils


class Stopped(Exception):
    """The run was asked to stop, has saved its state, and can be continued.

    Attributes:
      step: the last step it took.
      status: the exit status that launchers know: 128 plus the signal's number.
    """

    def __init__(self, step: int, number: int):
        super().__init__(f"stopped by {signal.Signals(number).name} after step {step}")
        self.step = step
        self.status = 128 + number


class StopRequest:
    """Notes that a stop is asked for, so that the loop can stop where it is safe.

    Use as a context manager round the loop. A second Ctrl-C stops at once. With several
    processes JAX hands a SIGTERM that one of them gets to all, and they agree on the
    step after which they stop.
    """

    def __init__(self):
        self.number: int | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> StopRequest:
        in_main = threading.current_thread() is threading.main_thread()
        if jax.process_count() == 1 and in_main:
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def after(self, step: int) -> bool:
        """Whether to stop after this step; called once at every step."""
        if jax.process_count() > 1 and multihost_utils.reached_preemption_sync_point(
            step
        ):
            self.number = signal.SIGTERM
        return self.number is not None

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.number == signal.SIGINT == number:
            raise KeyboardInterrupt
        self.number = number
