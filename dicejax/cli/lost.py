"""One line in place of JAX's abort when another process of a run is lost.

JAX learns of a loss on a thread of C++, which logs a dozen lines and aborts; Python
cannot catch that. Therefore what C++ writes to standard error passes through a child
process, this file run as a program, which replaces those lines by one.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from typing import TextIO

HEARTBEAT_S = 20
"""Seconds of silence after which a process is lost; JAX's default is 100."""

_FATAL = "Terminating process because the JAX distributed service detected fatal errors"
_LOG = re.compile(r"[IWEF]\d{4} [\d:.]+ +\d+ (\w+)\.(?:cc|h):\d+\] ")
_SERVICE = ("coordination_service", "preemption_sync_manager")
# Words in the errors that a lost process causes in the others.
_OF_OTHERS = re.compile(r"gloo|nccl|coordination|barrier|peer|heartbeat", re.IGNORECASE)
_joined = False


def report_in_one_line() -> None:
    """Pass the logs of C++ through the child, and let an abort be a plain end.

    Called before this process joins the others.
    """
    global _joined
    _joined = True
    reader, writer = os.pipe()
    subprocess.Popen(
        [sys.executable, "-I", "-S", __file__],
        stdin=reader,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # it ends after this process, whatever the signal
    )
    os.close(reader)
    sys.stderr.flush()
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace")
    os.dup2(writer, 2)
    os.close(writer)
    # `_exit` takes a number, as a handler of signals does.
    library = ctypes.CDLL(None)
    library.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    library.signal(signal.SIGABRT, ctypes.cast(library._exit, ctypes.c_void_p))


def wait_for_report(error: BaseException | None) -> None:
    """Wait for JAX to end this process, if an error is due to the loss of another."""
    while _joined and error is not None:
        if _OF_OTHERS.search(str(error)):
            time.sleep(2 * HEARTBEAT_S)
            return
        error = error.__cause__ or error.__context__


def leave(status: int) -> None:
    """End this process after an error without waiting for the others.

    They would wait for it in turn; this way JAX reports it lost.
    """
    if _joined and status not in (0, 128 + signal.SIGTERM):
        sys.stdout.flush()
        time.sleep(1)  # an error that all have in common is reported by each
        os._exit(status)


def _in_one_line(lines: Iterable[str], out: TextIO) -> None:
    """Copy lines, except those of JAX's service; report a lost process in one."""
    of_service, fatal = False, ""
    for line in lines:
        begins = _LOG.match(line)
        if begins:
            of_service = begins[1].startswith(_SERVICE)
        if fatal or (begins and _FATAL in line):
            if line.startswith("*** Check failure"):
                break
            fatal += line
        elif not of_service:
            out.write(line)
            out.flush()
    if fatal:
        out.write(
            f"dicejax: {_lost(fatal)} (see its output); start all processes again with "
            "the same commands: the run resumes from its last checkpoint\n"
        )


def _lost(report: str) -> str:
    """Return which process is lost, from JAX's report."""
    _, silent, tasks = report.partition("(stopped sending heartbeats):")
    numbers = re.findall(r"^(?:/job.*task:)?(\d+)\s*$", tasks, re.MULTILINE)
    if not silent and "Failed to send RPC to coordination service" in report:
        numbers = ["0"]
    match numbers:
        case []:
            return "another process of this run was lost"
        case [number]:
            return f"process {number} of this run was lost"
    return f"processes {', '.join(numbers)} of this run were lost"


if __name__ == "__main__":
    with open(0, errors="replace") as logs:
        _in_one_line(logs, sys.stderr)
