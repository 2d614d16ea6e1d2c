"""Functions of tests, called in new processes with several CPU devices.

usage: worker.py ADDRESS PROCESSES INDEX MODULE FUNCTION ARGUMENTS.json OUT.npz
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

from .commands import environment, free_port

ROOT = Path(__file__).parents[2]


def call(
    function: Callable[..., dict[str, np.ndarray]],
    *arguments,
    folder: Path,
    processes: int = 1,
    devices: int = 1,
) -> dict[str, np.ndarray]:
    """Return the arrays of a function of a test module; its arguments are JSON.

    Each of the processes has as many devices; the first one's arrays are returned.
    """
    out, address = folder / f"{processes}x{devices}.npz", f"127.0.0.1:{free_port()}"
    words = [function.__module__, function.__name__, json.dumps(arguments), out]
    path = os.pathsep.join([str(ROOT), *sys.path])
    settings = {"PYTHONPATH": path, "JAX_NUM_CPU_DEVICES": str(devices)}
    usual = environment() if processes > 1 else os.environ
    begun = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.training.worker"]
            + [str(word) for word in (address, processes, index, *words)],
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=usual | settings,
            text=True,
        )
        for index in range(processes)
    ]
    errors = [process.communicate(timeout=3000)[1] for process in begun]
    assert all(process.returncode == 0 for process in begun), errors[0][-3000:]
    with np.load(out) as results:
        return dict(results)


def main():
    address, processes, index, module, name, arguments, out = sys.argv[1:]
    if int(processes) > 1:
        jax.distributed.initialize(address, int(processes), int(index))
    results = getattr(importlib.import_module(module), name)(*json.loads(arguments))
    if int(index) == 0:
        np.savez(out, **results)


if __name__ == "__main__":
    main()
