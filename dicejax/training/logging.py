"""Metrics of a run: crash-safe, resumable JSONL files, and dashboards."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import math
import operator
import os
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from etils import epath

from dicejax.config import Experiment, to_json
from dicejax.errors import InputError
from dicejax.io.files import input_errors, read_bytes, read_text

FILE = "metrics.jsonl"
WANDB_ID = "wandb_id.txt"
"""The file in a run's folder that holds the run's id at Weights & Biases."""


class MetricsLog(contextlib.AbstractContextManager["MetricsLog"]):
    """Writer of a record per reported step to a JSONL file and to boards.

    A local file is appended to: a killed process loses no record. Object stores (gs://)
    cannot append: there the file is written whole at each flush and at the end.

    The folder is made where it is missing; None writes nothing, for processes other
    than the first. Records behind `after_step`, the checkpoint that the run continues
    from, and an incomplete last line are dropped. Boards are closed with the log.

    Raises:
      InputError: the file cannot be written; so do all methods.
    """

    def __init__(
        self,
        folder: epath.Path | None,
        name: str = FILE,
        *,
        after_step: int = 0,
        boards: Iterable[TensorBoard | WeightsAndBiases] = (),
    ):
        self._path, self._boards = None, [*boards]
        self._last_step = after_step
        if folder is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        self._path = file = folder / name
        before = content = b""
        if file.exists():
            before = read_bytes(file)
            content = b"".join(lines_up_to(after_step, before))
        self._hash = hashlib.sha256(content)
        self._content = None if is_local(file) else bytearray(content)
        if self._content is None:
            path = os.fspath(file)
            with input_errors(file):
                if content != before:  # replaced whole, so that no kill loses a line
                    with open(f"{path}.partial", "wb") as partial:
                        partial.write(content)
                        partial.flush()
                        os.fsync(partial.fileno())
                    os.replace(f"{path}.partial", path)
                self._file = open(path, "ab")  # noqa: SIM115

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self.close(failed=kind is not None)

    @property
    def sha256(self) -> str:
        """SHA-256 of the file; empty where this process writes none."""
        return self._hash.hexdigest() if self._path else ""

    def write(self, step: int, **values: Any) -> None:
        """Write the record of a step, by number of updates.

        Values are numbers, also NumPy's and JAX's, texts, or lists and dicts of them.
        Those that are not finite become null.

        Raises:
          ValueError: the step is not after the last one.
        """
        if self._path is None:
            return
        step = operator.index(step)
        if step <= self._last_step:
            raise ValueError(
                f"step {step} is not after step {self._last_step}, the last one written"
            )
        record = finite(values)
        line = (json.dumps({"step": step} | record, allow_nan=False) + "\n").encode()
        if self._content is not None:
            self._content += line
        else:
            with input_errors(self._path):
                self._check(self._path)
                self._file.write(line)
                self._file.flush()
        self._hash.update(line)
        self._last_step = step
        for board in self._boards:
            board.write(step, record)

    def flush(self) -> None:
        """Flush to durable storage, as before each checkpoint."""
        if self._path is not None:
            with input_errors(self._path):
                if self._content is not None:
                    self._path.write_bytes(bytes(self._content))
                else:
                    self._check(self._path)
                    os.fsync(self._file.fileno())
        for board in self._boards:
            board.flush()

    def close(self, *, failed: bool = False) -> None:
        """Flush and close; `failed` marks the run as failed on the boards."""
        with contextlib.ExitStack() as stack:
            for board in self._boards:
                stack.callback(board.close, failed=failed)
            if self._path is not None:
                stack.enter_context(input_errors(self._path))
                if self._content is None:
                    stack.enter_context(self._file)  # closing writes what is left
            self.flush()

    def _check(self, path: epath.Path) -> None:
        """Raise if the path leads elsewhere: what is written would be lost."""
        file = os.fstat(self._file.fileno())
        if not path.exists() or not os.path.samestat(file, os.stat(path)):
            raise InputError(
                f"{path}: was deleted or replaced while the run wrote to it; run the "
                "same command again"
            )


def lines_up_to(step: int, content: bytes) -> list[bytes]:
    r"""Return the lines of a JSONL file that a run which continues after a step keeps.

    >>> lines_up_to(1, b'{"step": 1}\n{"step": 2}\n{"st')
    [b'{"step": 1}\n']
    """
    *lines, _ = content.split(b"\n")  # an incomplete last line is dropped
    if lines and record_of(lines[-1]) is None:
        lines.pop()
    numbers = [(record_of(line) or {}).get("step") for line in lines]
    return [
        line + b"\n"
        for line, number in zip(lines, numbers, strict=True)
        if not (isinstance(number, int | float) and number > step)
    ]


def record_of(line: bytes) -> dict[str, Any] | None:
    """Return the record of a line, or None where there is none."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def finite(value: Any) -> Any:
    """Return a value as JSON: scalars as Python's, None where they are not finite."""
    if isinstance(value, Mapping):
        return {str(name): finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    value = value.item() if hasattr(value, "item") else value  # of NumPy or JAX
    return None if isinstance(value, float) and not math.isfinite(value) else value


class TensorBoard:
    """Event files for TensorBoard; events behind `after_step` are hidden.

    Where the folder lies in an object store, the files are written to a temporary
    folder and copied at each flush.

    Raises:
      InputError: a file cannot be written; all methods raise it too.
    """

    def __init__(self, folder: epath.Path, after_step: int = 0):
        # Where PyTorch is installed tensorboardX imports it, which takes seconds.
        import tensorboardX

        self._folder = folder
        with input_errors(folder):
            local = is_local(folder)
            self._copied_from = None if local else tempfile.TemporaryDirectory()
            self._writer = tensorboardX.SummaryWriter(
                self._copied_from.name if self._copied_from else os.fspath(folder),
                purge_step=after_step + 1,
                flush_secs=10,
                # By name alone, files of one second would replace each other.
                filename_suffix=f".after-{after_step}",
            )

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """Write the numbers; where a value is None the curve has a gap."""
        with input_errors(self._folder):
            for name, value in values.items():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    self._writer.add_scalar(name, value, step)

    def flush(self) -> None:
        """Flush, and copy where the folder is not local."""
        with input_errors(self._folder):
            self._writer.flush()
            if self._copied_from:
                self._folder.mkdir(parents=True, exist_ok=True)
                for file in Path(self._copied_from.name).iterdir():
                    (self._folder / file.name).write_bytes(file.read_bytes())

    def close(self, *, failed: bool = False) -> None:
        """Flush and close."""
        with input_errors(self._folder):
            self._writer.close()
            self.flush()
            if self._copied_from:
                self._copied_from.cleanup()


class WeightsAndBiases:
    """Dashboard at Weights & Biases (https://wandb.ai).

    A resumed run keeps its id, which is in the run's folder. Records that a killed run
    sent after its last checkpoint are identical when repeated, and ignored.

    Raises:
      InputError: wandb is not installed, or refuses to begin.
    """

    def __init__(
        self, project: str, folder: epath.Path, *, name: str, config: Mapping[str, Any]
    ):
        wandb, file = require_wandb(), folder / WANDB_ID
        if not file.exists():
            file.write_text(uuid.uuid4().hex[:16] + "\n")
        try:
            self._run = wandb.init(
                project=project,
                name=name,
                id=read_text(file).strip(),
                resume="allow",
                config=dict(config),
                dir=os.fspath(folder) if is_local(folder) else None,
            )
        except wandb.Error as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise InputError(
                f"Weights & Biases refuses: {reason}; run `wandb login`, or set "
                "WANDB_MODE=offline"
            ) from error

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """Send a record."""
        self._run.log(dict(values), step=step)

    def flush(self) -> None:
        """Do nothing: wandb sends from its own process."""

    def close(self, *, failed: bool = False) -> None:
        """Send the rest, and mark how the run ended."""
        self._run.finish(exit_code=int(failed))


def require_wandb() -> ModuleType:
    """Return the module wandb.

    Raises:
      InputError: wandb is not installed.
    """
    with contextlib.suppress(ImportError):
        wandb = importlib.import_module("wandb")
        # wandb leaves folders of its own name, which Python imports as empty packages.
        if hasattr(wandb, "init"):
            return wandb
    raise InputError(
        "wandb_project is set, but wandb is not installed; pip install wandb"
    )


def is_local(folder: epath.Path) -> bool:
    """Return whether a folder is in the file system, not an object store.

    >>> is_local(epath.Path("runs/conll03")), is_local(epath.Path("gs://bucket/runs"))
    (True, False)
    """
    return "://" not in os.fspath(folder)


def boards_of(
    experiment: Experiment, folder: epath.Path, after_step: int
) -> Iterator[TensorBoard | WeightsAndBiases]:
    """Open the boards that an experiment names, of the run in a folder."""
    if experiment.recording.tensorboard:
        yield TensorBoard(folder / "tensorboard", after_step)
    if (project := experiment.recording.wandb_project) is not None:
        name, config = f"{experiment.name}/{folder.name}", to_json(experiment)
        more = {"name": name, "config": json.loads(config)}
        yield WeightsAndBiases(project, folder, **more)
