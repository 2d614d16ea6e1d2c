"""One process per run folder; the others say which one has it."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from etils import epath

from dicejax import config
from dicejax.cli import run
from dicejax.errors import InputError
from dicejax.training.run_folder import Run
from dicejax.training.run_lock import run_lock

from ..small_project import fails
from ..study.made_runs import write_setup
from ..training.commands import begin
from .commands import TINY, end, tiny

HOLD = """
import sys
from etils import epath
from dicejax.errors import InputError
from dicejax.training.run_lock import run_lock
print("ready", flush=True)
sys.stdin.readline()
try:
    with run_lock(epath.Path(sys.argv[1])):
        print("locked", flush=True)
        sys.stdin.read()
except InputError as error:
    print(error, flush=True)
"""


@pytest.fixture
def pair(tmp_path):
    """Return two processes that lock the folder `run` when they read a line."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "run")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for _ in range(2)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def go(process):
    process.stdin.write("\n")
    process.stdin.flush()


def test_of_two_processes_at_once_one_locks_and_is_named(project, pair, capsys):
    for process in pair:
        go(process)
    lines = [process.stdout.readline() for process in pair]
    assert lines.count("locked\n") == 1
    holder = pair[lines.index("locked\n")]
    who = f"run: process {holder.pid} on {socket.gethostname()}, since 20"
    what = "trains here; wait for it or stop it, or name another folder with --out"
    (refused,) = (line for line in lines if line != "locked\n")
    assert who in refused and what in refused
    # The commands say the same, and touch nothing.
    train = ["train", "mine.py", "--out", "run"]
    fails(capsys, train, who, what)
    assert not (project / "run").exists()
    folder = epath.Path("run")
    write_setup(Run(folder), config.load("mine.py"))
    fails(capsys, train, who, what)
    fails(capsys, [*train, "--overwrite"], who, what)
    assert (project / "run" / "experiment.json").exists()
    # A killed process has no lock any more.
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with run_lock(folder):
        assert str(os.getpid()) in (project / ".run.lock").read_text()
    assert not (project / ".run.lock").exists()


def test_nothing_stays_of_a_lock(tmp_path):
    with run_lock(epath.Path(tmp_path / "a/b/run")):
        assert [file.name for file in (tmp_path / "a/b").iterdir()] == [".run.lock"]
    assert list(tmp_path.iterdir()) == []
    with run_lock(epath.Path(tmp_path / "a/b/run")):
        (tmp_path / "a/b/run").mkdir()
    assert [file.name for file in (tmp_path / "a/b").iterdir()] == ["run"]


def test_a_thread_may_lock_again_and_another_thread_may_not(tmp_path):
    folder, answers = epath.Path(tmp_path / "run"), []

    def other():
        try:
            with run_lock(folder):
                answers.append("locked")
        except InputError as error:
            answers.append(str(error))

    with run_lock(folder):
        with run_lock(epath.Path(tmp_path / "." / "run")):
            pass
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert f"process {os.getpid()} on" in answers[0]


def test_nobody_has_the_lock_of_a_deleted_file(tmp_path):
    """Threads lock and delete the file many times; their turns never overlap."""
    folder, turns = epath.Path(tmp_path / "above" / "run"), []

    def take_turns():
        left = 200
        while left:
            with contextlib.suppress(InputError), run_lock(folder):
                turns.append("(")
                turns.append(")")
                left -= 1

    threads = [threading.Thread(target=take_turns) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "".join(turns) == "()" * 600


def test_a_place_that_cannot_be_written_is_one_line(project, capsys):
    (project / "file").write_text("")
    fails(capsys, ["train", "mine.py", "--out", "file/run"], "file/run")


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Return the end of a run that no other process disturbs."""
    out = tmp_path_factory.mktemp("alone") / "run"
    assert run(tiny(out)) == 0
    return end(out)


@pytest.mark.exhaustive
@pytest.mark.parametrize("trial", range(20))
@pytest.mark.parametrize("count", [2, 4])
def test_one_of_several_processes_trains(alone, tmp_path, count, trial):
    out, rng = tmp_path / "run", random.Random(f"{count} {trial}")
    # The first trials at once, the others up to five seconds apart.
    processes = []
    for _ in range(count):
        processes.append(begin(out, tmp_path / "programs", **TINY))
        time.sleep(rng.random() * min(5, trial))
    ended = [(*process.communicate(), process.returncode) for process in processes]
    trained = [errors for _, errors, _ in ended if "epoch 1" in errors]
    assert len(trained) == 1, ended
    for _, errors, status in ended:
        assert "Traceback" not in errors
        if errors in trained or "already finished" in errors:
            assert status == 0, errors
            continue
        (line,) = [line for line in errors.splitlines() if "dicejax: " in line]
        assert status == 2 and "trains here" in line, errors
        assert any(f"process {process.pid} on" in line for process in processes)
    assert end(out) == alone
