"""The JSON file of a section: written anew after each row, so that none is lost."""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from on_device.json_file import write_json

PACKAGES = ("jax", "jaxlib", "flax", "optax", "torch", "transformers", "numpy")


class Report:
    """Rows of measurements, in a file that is complete after each of them.

    Args:
      file: JSON file to write.
      section: name of the section.
      seconds: time that the section may take.
      smallest: whether to use the smallest sizes.
    """

    def __init__(
        self,
        file: Path,
        section: str,
        seconds: float,
        smallest: bool,
    ):
        self.file = file
        self.smallest = smallest
        self._end = time.monotonic() + seconds
        self.content = {
            "section": section,
            "status": "running",
            **machine(),
            "rows": [],
        }
        self.write()

    @property
    def seconds_left(self) -> float:
        """Seconds until the section's time limit."""
        return self._end - time.monotonic()

    def row(self, **fields: Any) -> None:
        """Add a row and write the file."""
        self.content["rows"].append(fields)
        cells = (f"{key} {shortened(value)}" for key, value in fields.items())
        print("  ".join(cells), flush=True)
        self.write()

    def write(self) -> None:
        """Write the file; readers see the old one or the new one."""
        write_json(self.file, self.content)

    def attempt(
        self,
        measure: Callable[[], dict[str, Any] | None],
        *,
        needs: float = 0.0,
        **names: Any,
    ) -> None:
        """Add a row with what is measured, or with the error that it raises.

        Args:
          measure: returns the fields of a row; None where it has added its own.
          needs: seconds that it takes; with fewer left the row says so instead.
          **names: further fields of the row.
        """
        if self.seconds_left < needs:
            self.row(**names, error=f"skipped, {self.seconds_left:.0f} s left")
            return
        try:
            fields = measure()
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            self.row(**names, error=text[:300])
            return
        if fields is not None:
            self.row(**names | fields)


def shortened(value: Any) -> str:
    """Format a number with four digits, anything else as it is."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def machine() -> dict[str, Any]:
    """Return the device, the versions and the date of a measurement."""
    device = jax.devices()[0]
    return {
        "platform": device.platform,
        "card": device.device_kind,
        "driver": driver(),
        "versions": {"python": platform.python_version(), **versions()},
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def versions() -> dict[str, str]:
    """Return the versions of the packages that are installed."""
    installed = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed[name] = importlib.metadata.version(name)
    return installed


def driver() -> str:
    """Return the name and the driver of each GPU by nvidia-smi; empty without it."""
    if shutil.which("nvidia-smi") is None:
        return ""
    query = "--query-gpu=name,driver_version,memory.total"
    command = ["nvidia-smi", query, "--format=csv,noheader"]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
        return " ".join((done.stdout or done.stderr).split())
    return "nvidia-smi does not answer"


def print_machine() -> None:
    """Print the facts of the device as JSON."""
    print(json.dumps(machine()))


def show(folder: str) -> None:
    """Print the JSON files of a folder as tables of Markdown."""
    for file in sorted(Path(folder).glob("*.json")):
        content = json.loads(file.read_text())
        rows = content.get("rows")
        if not rows:
            continue
        head = (content.get(key, "") for key in ("section", "status", "card", "date"))
        print(f"\n{', '.join(head)}; {content.get('versions', {})}\n")
        columns = list(dict.fromkeys(key for row in rows for key in row))
        print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}")
        for row in rows:
            cells = (shortened(row[key]) if key in row else "" for key in columns)
            print(f"| {' | '.join(cells)} |")
