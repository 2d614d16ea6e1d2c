"""The smallest training with four checkpoints, and the end of a run."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import re
import resource
import signal
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import jax

from dicejax.cli import run

from ..training.commands import records, result, weights, words

TINY = {
    "--data.train": 60,
    "--data.dev": 10,
    "--data.test": 10,
    "--training.epochs": 2,
    "--training.max_length": 64,
    "--recording.checkpoint_every": 3,
    "--encoder.hidden_size": 8,
    "--encoder.intermediate_size": 8,
    "--encoder.num_attention_heads": 2,
}
_HIDDEN = re.compile(r"[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
CHECKPOINTS = (3, 6, 9, 12)  # 6 and 12 end an epoch


def tiny(out: Path, **more) -> list[str]:
    """Return the arguments of `dicejax` for the training."""
    return words(out, **TINY | more)


def end(out: Path) -> tuple:
    """Return what a finished run must agree in, bit for bit."""
    step, params = weights(out, "last")
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(params):
        digest.update(leaf.tobytes())
    return records(out), step, digest.hexdigest(), result(out)


@dataclasses.dataclass(frozen=True)
class Called:
    """How a command ended: after an exception without status, with its traceback."""

    status: int | None
    output: str
    errors: str

    @property
    def problem(self) -> str:
        """What is wrong with the way it ended; empty if nothing is."""
        lines = [line for line in self.errors.splitlines() if "dicejax: " in line]
        whole = self.output + self.errors
        match self.status:
            case None:
                return self.errors
            case 2 if len(lines) != 1:
                return f"{len(lines)} lines of error: {self.errors[-2000:]}"
            case 2 if len(lines[0]) > 2100:
                return f"{len(lines[0])} characters of error"
            case 0 | 2 if "Traceback" not in whole:
                hidden = set(_HIDDEN.findall(whole))
                return f"control characters: {hidden}" if hidden else ""
        return f"status {self.status}: {whole[-2000:]}"


@contextlib.contextmanager
def limited(seconds: int, memory: int) -> Iterator[None]:
    """Raise TimeoutError or, on Linux, MemoryError where a command takes too much.

    Memory is in bytes of addresses beyond those in use.
    """

    def late(*signaled):
        raise TimeoutError(f"{seconds} s")

    handler, limits = signal.signal(signal.SIGALRM, late), None
    if sys.platform == "linux":
        limits = resource.getrlimit(resource.RLIMIT_AS)
        used = int(Path("/proc/self/statm").read_text().split()[0])
        most = used * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_AS, (most, limits[1]))
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
        if limits is not None:
            resource.setrlimit(resource.RLIMIT_AS, limits)


MOST = (
    3 << 29
)  # bytes beyond the libraries', of files below 10 MB; see docs/security.md


def start_peak() -> int:
    """Forget the peak of memory so far; return it, in bytes, from now on."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak()


def peak() -> int:
    """Return the most bytes that this process has held since `start_peak`."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])


def called(argv: list[str], capsys) -> Called:
    """Run a command in this process; one that takes too much is an exception."""
    capsys.readouterr()
    try:
        with limited(seconds=300, memory=8 << 30):
            status = run(argv)
    except SystemExit as end:
        status = end.code
    except KeyboardInterrupt:
        raise
    except BaseException:  # a panic of Rust is no Exception
        return Called(None, "", "".join(traceback.format_exc().splitlines(True)[-12:]))
    return Called(status, *capsys.readouterr())
