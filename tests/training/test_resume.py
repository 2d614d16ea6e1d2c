"""A run that is killed at any moment ends with what it would have ended with."""

import os
import random
import signal
import subprocess
import time

import pytest

from .commands import (
    begin,
    command,
    finished,
    records,
    same_end,
    wait_for_step,
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory, cache):
    out = tmp_path_factory.mktemp("runs") / "whole"
    finished(out, cache)
    steps = [record["step"] for record in records(out)]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) >= 40
    return out


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [6, pytest.param(20, marks=pytest.mark.exhaustive)])
def test_kills_change_nothing(uninterrupted, cache, tmp_path, wanted):
    out, rng, kills = tmp_path / "killed", random.Random(0), 0
    steps = len(records(uninterrupted))
    # Half of them a moment after a step, checkpoints being written; half at any time
    # since the program was started.
    while kills < wanted:
        process = begin(out, cache)
        if kills % 2:
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
    finished(out, cache)
    same_end(out, uninterrupted)


@pytest.mark.slow
@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.exhaustive)],
)
def test_a_signal_loses_no_step(uninterrupted, cache, tmp_path, number):
    out = tmp_path / "stopped"
    process = begin(out, cache, **{"--recording.checkpoint_every": 1000})
    wait_for_step(out, 5, process)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 128 + number, errors
    assert "the same command resumes it" in errors
    done = max(record["step"] for record in records(out))
    told = finished(out, cache)
    assert f"resuming from step {done} of" in told
    same_end(out, uninterrupted)


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [
        "flip",
        pytest.param("cut", marks=pytest.mark.exhaustive),
        pytest.param("remove", marks=pytest.mark.exhaustive),
    ],
)
def test_a_damaged_checkpoint_falls_back(uninterrupted, cache, tmp_path, damage):
    out = tmp_path / "damaged"
    process = begin(out, cache)
    wait_for_step(out, 20, process)
    process.terminate()
    process.communicate(timeout=120)
    folder = out / "checkpoints"
    last = max(int(p.name) for p in folder.iterdir() if p.name.isdigit())
    file = max((folder / str(last)).rglob("d/*"), key=lambda p: p.stat().st_size)
    content = bytearray(file.read_bytes())
    match damage:
        case "flip":
            content[len(content) // 2] ^= 1
            file.write_bytes(content)
        case "cut":
            file.write_bytes(content[: len(content) // 2])
        case "remove":
            file.unlink()
    told = finished(out, cache)
    assert f"{last}: damaged" in told
    assert "going back to the one before" in told
    same_end(out, uninterrupted)


@pytest.mark.slow
def test_another_number_of_devices_goes_on_alike(uninterrupted, cache, tmp_path):
    out = tmp_path / "moved"
    process = begin(out, cache)
    wait_for_step(out, 20, process)
    process.terminate()
    process.communicate(timeout=120)
    environment = os.environ | {"JAX_NUM_CPU_DEVICES": "4"}
    words = command(out, **{"--mesh.fsdp": 2, "--training.micro_batches": 2})
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    for ours, theirs in zip(records(out), records(uninterrupted), strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-3)


@pytest.mark.slow
def test_what_has_changed_is_said_and_nothing_lost(uninterrupted, cache):
    before = sorted(str(p) for p in uninterrupted.rglob("*"))
    process = begin(uninterrupted, cache, **{"--training.seed": 3})
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "training.seed was 0 and is 3" in errors
    assert len(errors.strip().splitlines()) == 1
    assert sorted(str(p) for p in uninterrupted.rglob("*")) == before


@pytest.mark.slow
def test_no_room_for_a_checkpoint_is_one_line(cache, tmp_path):
    limit = "ulimit -f 400; exec " + " ".join(
        f"'{word}'" for word in command(tmp_path / "full")
    )
    environment = os.environ | {"DICEJAX_HUGE_PAGES": "0"}
    done = subprocess.run(
        ["bash", "-c", limit], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 2, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    (line,) = [text for text in done.stderr.splitlines() if "dicejax: " in text]
    assert "cannot write a checkpoint" in line
    assert "run the same command again" in line
    finished(tmp_path / "full", cache)
