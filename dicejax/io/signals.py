"""Signals that ask a process to end: SIGTERM, and SIGHUP where a terminal closes."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def handled(
    handler: Callable[[int, FrameType | None], None],
    numbers: tuple[int, ...] = ENDING,
) -> Iterator[None]:
    """Handle signals meanwhile; what `nohup` has made ignored stays so."""
    before = {number: signal.getsignal(number) for number in numbers}
    before = {x: old for x, old in before.items() if old is not signal.SIG_IGN}
    try:
        for number in before:
            signal.signal(number, handler)
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
