"""Faults of one of several processes: the others end too."""

import sys
import time

import pytest

from ..training.commands import QUICKSTART, begin_together

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
    argv = [sys.executable, "-c", PROGRAM, "train", str(QUICKSTART), "--out", "run"]
    started = begin_together(count, argv, cwd=folder)
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
        *(
            pytest.param(*case, marks=pytest.mark.exhaustive)
            for case in [(3, index, "SIGKILL") for index in (0, 1)]
            + [(2, 1, fault) for fault in ("SIGKILL", "InputError", "KeyError")]
            + [(2, 0, "InputError")]
        ),
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
