"""Faults of one of several processes: the others end too."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ..training.commands import free_port

QUICKSTART = Path(__file__).parents[2] / "experiments" / "quickstart.py"

# The command, with a training that meets the other processes again and again.
PROGRAM = """
import pathlib, sys, time
import jax
from dicejax.cli import experiments, main
from dicejax.errors import InputError
from dicejax.training import processes, train

experiments.HEARTBEAT_S = 4

def meeting(*settings, **more):
    me = jax.process_index()
    for step in range(10**6):
        processes.barrier(f"step {step}")
        pathlib.Path(f"ready-{me}").touch()
        for kind in (InputError, KeyError):
            if pathlib.Path(f"{kind.__name__}-{me}").exists():
                raise kind("this one cannot read its data")
        time.sleep(0.05)

train.train = meeting
sys.argv[0] = "dicejax"
main()
"""


def lost_in(folder, count, index, fault):
    """Return exit statuses and outputs of processes, one of which has a fault."""
    port, started = free_port(), []
    for number in range(count):
        words = ["train", QUICKSTART, "--out", "run", "--processes.count", count]
        words += ["--processes.coordinator", f"127.0.0.1:{port}"]
        words += ["--processes.index", number]
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", PROGRAM, *map(str, words)],
                cwd=folder,
                env=os.environ | {"DICEJAX_HUGE_PAGES": "0"},  # it would start anew
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    deadline = time.monotonic() + 120
    while len(list(folder.glob("ready-*"))) < count and time.monotonic() < deadline:
        time.sleep(0.1)
    if fault == "SIGKILL":
        started[index].kill()
    else:
        (folder / f"{fault}-{index}").touch()
    ends = [process.communicate(timeout=120) for process in started]
    return [process.returncode for process in started], ends


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "index", "fault"),
    [
        (2, 0, "SIGKILL"),
        pytest.param(3, 1, "SIGKILL", marks=pytest.mark.exhaustive),
        pytest.param(3, 0, "SIGKILL", marks=pytest.mark.exhaustive),
        pytest.param(2, 1, "SIGKILL", marks=pytest.mark.exhaustive),
        pytest.param(2, 0, "InputError", marks=pytest.mark.exhaustive),
        pytest.param(2, 1, "InputError", marks=pytest.mark.exhaustive),
        pytest.param(2, 1, "KeyError", marks=pytest.mark.exhaustive),
    ],
)
def test_where_one_process_ends_the_others_end_with_an_error(
    tmp_path, count, index, fault
):
    statuses, ends = lost_in(tmp_path, count, index, fault)
    assert 0 not in statuses, ends
    _, errors = ends[index]
    if fault == "InputError":
        assert statuses[index] == 2
        assert "dicejax: this one cannot read its data" in errors.splitlines()
    elif fault == "KeyError":
        assert statuses[index] == 1
        assert "\nKeyError" in errors
