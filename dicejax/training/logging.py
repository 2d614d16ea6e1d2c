"""Metrics of a run: crash-safe, resumable JSONL files, and boards."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import operator
import os
from collections.abc import Iterable, Mapping
from typing import Any

from etils import epath

from dicejax.errors import InputError
from dicejax.io.files import read_bytes, reported
from dicejax.training.boards import TensorBoard, WeightsAndBiases, is_local

FILE = "metrics.jsonl"


class LineFile:
    """JSONL file of records with a "step", which a resumed run continues.

    A local file is appended to: a killed process loses no record. Object stores (gs://,
    s3://) cannot append: there the file is written whole at each flush and at the end.

    Args:
      file: in an existing folder; may be missing.
      after_step: the step of the checkpoint that the run continues from. Records of
        later steps and an incomplete last line are dropped. 0 for a new run.
    """

    def __init__(self, file: epath.Path, after_step: int):
        content = read_bytes(file) if file.exists() else b""
        lines = _up_to(after_step, content)
        self._path, self._hash = file, hashlib.sha256(lines)
        self._content = None if is_local(file) else bytearray(lines)
        if self._content is None:
            with reported(file):
                if lines != content:
                    _replace(os.fspath(file), lines)
                self._file = open(file, "ab")  # noqa: SIM115

    @property
    def sha256(self) -> str:
        """SHA-256 of the content."""
        return self._hash.hexdigest()

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """Write the record of a step."""
        line = (json.dumps({"step": step} | values, allow_nan=False) + "\n").encode()
        if self._content is not None:
            self._content += line
        else:
            with reported(self._path):
                self._check()
                self._file.write(line)
                self._file.flush()
        self._hash.update(line)

    def flush(self) -> None:
        """Flush to durable storage."""
        with reported(self._path):
            if self._content is not None:
                self._path.write_bytes(bytes(self._content))
            else:
                self._check()
                os.fsync(self._file.fileno())

    def close(self, *, failed: bool = False) -> None:
        """Flush and close."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(reported(self._path))
            if self._content is None:
                stack.enter_context(self._file)  # closing writes what is left
            self.flush()

    def _check(self) -> None:
        """Raise if the path leads elsewhere: what is written would be lost."""
        file = os.fstat(self._file.fileno())
        if not self._path.exists() or not os.path.samestat(file, os.stat(self._path)):
            raise InputError(
                f"{self._path}: was deleted or replaced while the run wrote to it; run "
                "the same command again"
            )


def _up_to(step: int, content: bytes) -> bytes:
    r"""Return the lines that a run which continues after a step keeps.

    >>> _up_to(1, b'{"step": 1}\n{"step": 2}\n{"st')
    b'{"step": 1}\n'
    """
    *lines, _ = content.split(b"\n")  # an incomplete last line is dropped
    if lines and record_of(lines[-1]) is None:
        lines.pop()
    return b"".join(
        line + b"\n" for line in lines if not is_after(record_of(line), step)
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
    last = None if record is None else record.get("step")
    return isinstance(last, int | float) and last > step


def _replace(path: str, content: bytes) -> None:
    """Replace the content of a file atomically."""
    partial = path + ".partial"
    with open(partial, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def finite(value: Any) -> Any:
    """Return a value as JSON: scalars as Python's, None where they are not finite."""
    if isinstance(value, Mapping):
        return {str(name): finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    value = value.item() if hasattr(value, "item") else value  # of NumPy or JAX
    return None if isinstance(value, float) and not math.isfinite(value) else value


class MetricsLog:
    """Writer of a record per reported step to metrics.jsonl and to the boards.

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
      folder: the run's, made where it is missing. None writes nothing, for processes
        other than the first.
      after_step: see `LineFile`.
      boards: where the records go besides TensorBoard. They are closed with the log.
    """

    def __init__(
        self,
        folder: epath.Path | None,
        *,
        after_step: int = 0,
        boards: Iterable[WeightsAndBiases] = (),
    ):
        self._last_step, self._file = after_step, None
        self._sinks: list[LineFile | TensorBoard | WeightsAndBiases] = [*boards]
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = LineFile(folder / FILE, after_step)
            board = TensorBoard(folder / "tensorboard", after_step)
            self._sinks[:0] = (self._file, board)

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
        record = finite(values)
        for sink in self._sinks:
            sink.write(step, record)
        self._last_step = step

    @property
    def sha256(self) -> str:
        """SHA-256 of metrics.jsonl; empty where this process writes none."""
        return self._file.sha256 if self._file else ""

    def flush(self) -> None:
        """Flush to durable storage, as before each checkpoint."""
        for sink in self._sinks:
            sink.flush()

    def close(self, *, failed: bool = False) -> None:
        """Flush and close; `failed` marks the run as failed on the boards."""
        with contextlib.ExitStack() as stack:
            for sink in reversed(self._sinks):
                stack.callback(sink.close, failed=failed)
