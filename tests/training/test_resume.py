"""Resumed runs end as uninterrupted ones."""

import os
import random
import shutil
import signal
import time

import pytest

import dicejax.training.train as training
from dicejax.cli import run

from ..faults.strace import why_not
from ..subprocesses import python
from .commands import (
    begin,
    command,
    finished,
    finished_here,
    records,
    same_end,
    stop_at,
    wait_for_step,
    words,
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "whole"
    finished_here(out)
    steps = [record["step"] for record in records(out)]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) >= 40
    return out


# tests/faults/test_kills.py kills at system calls, and makes them fail, where it can.
AGAIN = pytest.mark.slow if why_not() else pytest.mark.exhaustive


@pytest.mark.slow
@pytest.mark.parametrize(
    "count",
    [pytest.param(1, marks=AGAIN), pytest.param(20, marks=pytest.mark.exhaustive)],
)
def test_kills_change_nothing(uninterrupted, cache, tmp_path, count):
    out, rng, kills = tmp_path / "killed", random.Random(0), 0
    steps, often = len(records(uninterrupted)), {"--recording.checkpoint_every": 3}
    # Half of them a moment after a step, checkpoints being written; half at any time
    # since the program was started.
    while kills < count:
        process = begin(out, cache, **often)
        if kills % 2 == 0:
            wait_for_step(out, rng.randrange(1, steps), process)
            time.sleep(rng.random() * 0.05)
        else:
            time.sleep(rng.random() * 8)
        process.kill()
        process.communicate()
        kills += 1
        if (out / "result.json").exists():
            # It got to its end between two kills: the others fall on a new run.
            same_end(out, uninterrupted)
            out = tmp_path / f"killed-{kills}"
    finished(out, cache, **often)
    same_end(out, uninterrupted)


# The fourteenth step ends an epoch: its dev score is taken when the run resumes.
@pytest.mark.parametrize(
    ("number", "step"),
    [
        pytest.param(signal.SIGTERM, 5, marks=pytest.mark.exhaustive),
        (signal.SIGINT, 14),
    ],
    ids=["SIGTERM", "SIGINT"],
)
def test_a_signal_loses_no_step(uninterrupted, capsys, tmp_path, number, step):
    out = tmp_path / "stopped"
    stop_at(step, number, words(out, **{"--recording.checkpoint_every": 1000}))
    assert "the same command resumes it" in capsys.readouterr().err
    finished_here(out)
    assert f"resuming from step {step} of" in capsys.readouterr().err
    same_end(out, uninterrupted)


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    """Return a run stopped after twenty steps."""
    out = tmp_path_factory.mktemp("runs") / "half"
    stop_at(20, signal.SIGTERM, words(out))
    return out


def test_a_damaged_checkpoint_falls_back(uninterrupted, half, capsys, tmp_path):
    out = tmp_path / "damaged"
    shutil.copytree(half, out)
    file = max((out / "checkpoints/20").rglob("d/*"), key=lambda p: p.stat().st_size)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    finished_here(out)
    errors = capsys.readouterr().err
    assert "20: damaged" in errors and "going back to the previous" in errors
    same_end(out, uninterrupted)


@pytest.mark.slow
def test_another_number_of_devices_resumes_alike(uninterrupted, half, tmp_path):
    out = tmp_path / "moved"
    shutil.copytree(half, out)
    moved = {"--mesh.fsdp": 2, "--training.micro_batches": 2}
    _, *argv = command(out, **moved, **{"--recording.checkpoint_every": 1000})
    errors = python(*argv, JAX_NUM_CPU_DEVICES="4").stderr
    assert "begun with devices 1 x cpu, now 4 x cpu: the last bits" in errors
    for ours, theirs in zip(records(out), records(uninterrupted), strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-3)


def test_other_cores_are_named(half, capsys, monkeypatch, tmp_path):
    out, real = tmp_path / "moved", training.machine_of
    shutil.copytree(half, out)
    monkeypatch.setattr(training, "machine_of", lambda x: real(x) | {"cores": "999"})
    stop_at(1, signal.SIGTERM, words(out))
    cores = len(os.sched_getaffinity(0))
    text = f"begun with cores {cores}, now 999: the last bits may differ"
    assert text in capsys.readouterr().err
    stop_at(1, signal.SIGTERM, words(out))
    assert "the last bits" not in capsys.readouterr().err


def test_what_has_changed_is_said_and_nothing_lost(uninterrupted, capsys):
    before = sorted(str(p) for p in uninterrupted.rglob("*"))
    assert run(words(uninterrupted, **{"--training.seed": 3})) == 2
    errors = capsys.readouterr().err
    assert "training.seed was 0 and is 3" in errors
    started, error = filter(None, errors.splitlines())
    assert started.startswith("quickstart: ce") and error.startswith("dicejax: ")
    assert sorted(str(p) for p in uninterrupted.rglob("*")) == before
