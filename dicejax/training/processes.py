"""Processes that train one network, and signals that stop them safely."""

from __future__ import annotations

import contextlib
import signal
import threading
from types import FrameType
from typing import Any

import jax
from jax.experimental import multihost_utils

from dicejax.errors import Stopped
from dicejax.io import signals


def is_main_process() -> bool:
    """Return whether this process writes for all."""
    return jax.process_index() == 0


def barrier(name: str) -> None:
    """Wait until every process has reached this point."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(name)


class StopRequest:
    """Handler of SIGTERM, SIGHUP and Ctrl-C that raises `Stopped` at safe points.

    Use as a context manager round the loop. A second Ctrl-C stops at once. With several
    processes JAX's preemption service passes a SIGTERM to all, and they stop after the
    same step; where it is off (`jax_enable_preemption_service`) a SIGTERM ends them at
    once, and the run resumes from its last checkpoint.
    """

    def __init__(self, step: int):
        self._step = step
        self._number: int | None = None
        self._handled = contextlib.ExitStack()

    def __enter__(self) -> StopRequest:
        in_main = threading.current_thread() is threading.main_thread()
        if jax.process_count() == 1 and in_main:
            numbers = (*signals.ENDING, signal.SIGINT)
            self._handled.enter_context(signals.handled(self._note, numbers))
        return self

    def __exit__(self, *exception: object) -> None:
        self._handled.close()

    def after(self, step: int) -> None:
        """Raise `Stopped` if a signal came; called by all processes at every step."""
        self._step = step
        settings: Any = jax.config  # its attributes are made as options are declared
        service = jax.process_count() > 1 and settings.jax_enable_preemption_service
        if service and multihost_utils.reached_preemption_sync_point(step):
            self._number = signal.SIGTERM
        self.check()

    def check(self) -> None:
        """Raise `Stopped` if a signal came."""
        if self._number is not None:
            raise Stopped(self._step, self._number)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._number == signal.SIGINT == number:
            raise KeyboardInterrupt
        self._number = number
