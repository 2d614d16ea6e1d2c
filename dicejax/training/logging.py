"""Metrics of a run: crash-safe, resumable JSONL files, and boards."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import operator
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from etils import epath

from dicejax.errors import InputError
from dicejax.io.files import read_bytes, reported
from dicejax.training.boards import Board, TensorBoard, is_local


def lines_of(file: epath.Path, after_step: int) -> AppendedLines | RewrittenLines:
    """Open a JSONL file of records with a "step" for appending.

    Args:
      file: in a local folder or an object store; may be missing.
      after_step: the step of the checkpoint that the run continues from. Records of
        later steps and an incomplete last line are dropped. 0 for a new run.
    """
    kind = AppendedLines if is_local(file.parent) else RewrittenLines
    return kind(file, after_step)


def json_line(step: int, values: dict[str, Any]) -> bytes:
    r"""Write a record; numbers that are not finite become null.

    >>> json_line(3, {"loss": float("inf")})
    b'{"step": 3, "loss": null}\n'
    """
    record = {"step": step} | finite(values)
    return (json.dumps(record, allow_nan=False) + "\n").encode()


class AppendedLines:
    """Lines appended to a local file."""

    durable = True
    """A line that was appended outlives the process without a flush."""

    def __init__(self, file: epath.Path, after_step: int):
        self._path = file
        content = read_bytes(file) if file.exists() else b""
        kept = _kept(content, after_step)
        self._hash = hashlib.sha256(kept)
        with reported(file):
            if kept != content:
                _replace(os.fspath(file), kept)
            self._file = open(file, "ab")  # noqa: SIM115

    def append(self, line: bytes) -> None:
        """Add a line with its end."""
        with reported(self._path):
            self._check()
            self._file.write(line)
            self._file.flush()
        self._hash.update(line)

    @property
    def sha256(self) -> str:
        """SHA-256 of the content."""
        return self._hash.hexdigest()

    def flush(self) -> None:
        """Flush to durable storage."""
        with reported(self._path):
            self._check()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Flush and close."""
        with reported(self._path), self._file:  # closing writes what is left
            self.flush()

    def _check(self) -> None:
        """Raise if the path leads elsewhere: what is written would be lost."""
        file = os.fstat(self._file.fileno())
        if not self._path.exists() or not os.path.samestat(file, os.stat(self._path)):
            raise InputError(
                f"{self._path}: was deleted or replaced while the run wrote to it; run "
                "the same command again"
            )


class RewrittenLines:
    """Lines of an object in a store, which each write replaces."""

    durable = False

    def __init__(self, file: epath.Path, after_step: int):
        content = read_bytes(file) if file.exists() else b""
        self._file = file
        self._content = bytearray(_kept(content, after_step))
        self._changed = self._content != content

    def append(self, line: bytes) -> None:
        """Add a line with its end."""
        self._content += line
        self._changed = True

    @property
    def sha256(self) -> str:
        """SHA-256 of the content."""
        return hashlib.sha256(self._content).hexdigest()

    def flush(self) -> None:
        """Flush to durable storage."""
        if self._changed:
            with reported(self._file):
                self._file.write_bytes(bytes(self._content))
            self._changed = False

    def close(self) -> None:
        """Flush and close."""
        self.flush()


def _kept(content: bytes, after_step: int) -> bytes:
    r"""Return the lines that a run which continues after `after_step` keeps.

    >>> _kept(b'{"step": 1}\n{"step": 2}\n{"st', after_step=1)
    b'{"step": 1}\n'
    """
    *lines, _ = content.split(b"\n")  # an incomplete last line is dropped
    if lines and record_of(lines[-1]) is None:
        lines.pop()
    return b"".join(
        line + b"\n" for line in lines if not is_after(record_of(line), after_step)
    )


def record_of(line: bytes) -> dict[str, Any] | None:
    """Return the record of a line, or None where there is none."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def is_after(record: dict[str, Any] | None, step: int) -> bool:
    """Return whether a record is that of a later step."""
    found = None if record is None else record.get("step")
    return isinstance(found, int | float) and found > step


def _replace(path: str, content: bytes) -> None:
    """Replace the content of a file atomically."""
    partial = path + ".partial"
    with open(partial, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def finite(value: Any) -> Any:
    """Return a value with None in the place of numbers that JSON cannot write."""
    if isinstance(value, dict):
        return {name: finite(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [finite(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


FILE = "metrics.jsonl"
REWRITE_EVERY_S = 30.0
"""How often a file that cannot be appended to is written anew, in seconds."""


class MetricsLog:
    """Writer of a record per reported step to metrics.jsonl and to the boards.

    In a local folder a killed process loses no record. Object stores (gs://, s3://)
    cannot append: there the object is rewritten every 30 seconds, at each `flush` and
    at the end.

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
        later steps and an incomplete last line are dropped. 0 for a new run.
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

        Numbers that are not finite become null.

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

    @property
    def sha256(self) -> str:
        """SHA-256 of metrics.jsonl."""
        return self._lines.sha256

    def flush(self) -> None:
        """Flush to durable storage, as before each checkpoint."""
        self._lines.flush()
        for board in self._boards:
            board.flush()
        self._flushed = self._clock()

    def close(self, *, failed: bool = False) -> None:
        """Flush and close; `failed` marks the run as failed on the boards."""
        with contextlib.ExitStack() as stack:
            for board in self._boards:
                stack.callback(board.close, failed=failed)
            self._lines.close()


class NoLog:
    """A `MetricsLog` that does nothing, for all processes but the first."""

    sha256 = ""

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
    """Convert scalars of NumPy and JAX to Python's, also inside lists and dicts."""
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value.item() if hasattr(value, "item") else value
