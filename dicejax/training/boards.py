"""Dashboards of a run's metrics: TensorBoard, Weights & Biases."""

from __future__ import annotations

import importlib
import os
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from etils import epath

from dicejax.errors import InputError
from dicejax.io.files import read_text, reported

WANDB_ID = "wandb_id.txt"
"""The file in a run's folder that holds the run's id at Weights & Biases."""


class TensorBoard:
    """Event files for TensorBoard.

    Where the folder lies in an object store, the files are written to a temporary
    folder and copied at each flush.

    Args:
      folder: for the event files.
      after_step: later events, left by a killed run, are hidden.

    Raises:
      InputError: they cannot be written; so do all its methods.
    """

    def __init__(self, folder: epath.Path, after_step: int = 0):
        # Where PyTorch is installed tensorboardX imports it, which takes seconds.
        import tensorboardX

        self._folder = folder
        with reported(folder):
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
        with reported(self._folder):
            for name, value in values.items():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    self._writer.add_scalar(name, value, step)

    def flush(self) -> None:
        """Flush, and copy where the folder is not local."""
        with reported(self._folder):
            self._writer.flush()
            self._copy()

    def close(self, *, failed: bool = False) -> None:
        """Flush and close."""
        with reported(self._folder):
            self._writer.close()
            self._copy()
            if self._copied_from:
                self._copied_from.cleanup()

    def _copy(self) -> None:
        if self._copied_from is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        for file in Path(self._copied_from.name).iterdir():
            (self._folder / file.name).write_bytes(file.read_bytes())


class WeightsAndBiases:
    """Dashboard at Weights & Biases (https://wandb.ai).

    A resumed run keeps its id, which is in the run's folder. Records that a killed run
    sent after its last checkpoint are identical when repeated, and ignored.

    Args:
      project: project of the run.
      folder: existing folder of the run.
      name: display name of the run.
      config: settings to show.

    Raises:
      InputError: wandb is not installed, or refuses to begin.
    """

    def __init__(
        self, project: str, folder: epath.Path, *, name: str, config: Mapping[str, Any]
    ):
        wandb = require_wandb()
        try:
            self._run = wandb.init(
                project=project,
                name=name,
                id=_wandb_id(folder),
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
      InputError: it is not installed.
    """
    try:
        wandb = importlib.import_module("wandb")
    except ImportError:
        wandb = None
    # wandb leaves folders of its own name, which Python imports as empty packages.
    if not hasattr(wandb, "init"):
        raise InputError(
            "wandb_project is set, but wandb is not installed; pip install wandb"
        )
    return wandb


def is_local(folder: epath.Path) -> bool:
    """Return whether a folder is in the file system, not an object store.

    >>> is_local(epath.Path("runs/conll03")), is_local(epath.Path("gs://bucket/runs"))
    (True, False)
    """
    return "://" not in os.fspath(folder)


def _wandb_id(folder: epath.Path) -> str:
    """Return the id in the run's folder, or create one."""
    file = folder / WANDB_ID
    if not file.exists():
        file.write_text(uuid.uuid4().hex[:16] + "\n")
    return read_text(file).strip()
