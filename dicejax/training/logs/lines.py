"""Files of one JSON object a line, which survive being killed and are gone on with."""

from __future__ import annotations

import json
import math
import os
from typing import Any

from etils import epath

from dicejax.training.logs.boards import is_local


def lines_of(file: epath.Path, after_step: int) -> AppendedLines | RewrittenLines:
    """Open a file of records, each with its "step", to go on with it.

    Args:
      file: in a local folder or an object store; may be missing.
      after_step: the step of the checkpoint that the run continues from. Records of
        later steps are dropped, and a last line that is torn; the others are kept byte
        for byte. 0 for a new run.
    """
    kind = AppendedLines if is_local(file.parent) else RewrittenLines
    return kind(file, after_step)


def json_line(step: int, values: dict[str, Any]) -> bytes:
    r"""Write a record; numbers that are not finite become null.

    >>> json_line(3, {"loss": float("inf")})
    b'{"step": 3, "loss": null}\n'
    """
    record = {"step": step} | _finite(values)
    return (json.dumps(record, allow_nan=False) + "\n").encode()


class AppendedLines:
    """Lines of a local file."""

    durable = True
    """A line that was appended outlives the process without a flush."""

    def __init__(self, file: epath.Path, after_step: int):
        path = os.fspath(file)
        content = file.read_bytes() if file.exists() else b""
        kept = _kept(content, after_step)
        if kept != content:
            _replace(path, kept)
        self._file = open(path, "ab")  # noqa: SIM115

    def append(self, line: bytes) -> None:
        """Add a line, its end included."""
        self._file.write(line)
        self._file.flush()

    def flush(self) -> None:
        """Bring the lines to where they outlive the machine."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Flush, and let the file go."""
        self.flush()
        self._file.close()


class RewrittenLines:
    """Lines of an object in a store, where a write replaces the whole of it."""

    durable = False

    def __init__(self, file: epath.Path, after_step: int):
        content = file.read_bytes() if file.exists() else b""
        self._file = file
        self._content = bytearray(_kept(content, after_step))
        self._changed = self._content != content

    def append(self, line: bytes) -> None:
        """Add a line, its end included."""
        self._content += line
        self._changed = True

    def flush(self) -> None:
        """Bring the lines to where they outlive the machine."""
        if self._changed:
            self._file.write_bytes(bytes(self._content))
            self._changed = False

    def close(self) -> None:
        """Flush, and let the file go."""
        self.flush()


def _kept(content: bytes, after_step: int) -> bytes:
    r"""Return the lines that a run which continues after `after_step` keeps.

    >>> _kept(b'{"step": 1}\n{"step": 2}\n{"st', after_step=1)
    b'{"step": 1}\n'
    """
    *lines, _ = content.split(b"\n")  # what follows the last newline is torn
    if lines and _record(lines[-1]) is None:
        lines.pop()
    return b"".join(line + b"\n" for line in lines if not _is_after(line, after_step))


def _record(line: bytes) -> Any:
    """Return what a line holds, or None where it is not JSON."""
    try:
        return json.loads(line)
    except ValueError:
        return None


def _is_after(line: bytes, after_step: int) -> bool:
    """Whether a line is the record of a later step; what has no step is kept."""
    record = _record(line)
    step = record.get("step") if isinstance(record, dict) else None
    return isinstance(step, int | float) and step > after_step


def _replace(path: str, content: bytes) -> None:
    """Put a new content in the place of a file, which is there at every moment."""
    partial = path + ".partial"
    with open(partial, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def _finite(value: Any) -> Any:
    """Put None in the place of each number that JSON cannot write."""
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
