"""One process per run folder; the others say which one has it."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest
from etils import epath

from dicejax import config
from dicejax.errors import InputError
from dicejax.training.lock import run_lock
from dicejax.training.run_folder import Run

from ..small_project import fails
from ..study.made_runs import write_setup

HOLD = """
import sys
from etils import epath
from dicejax.errors import InputError
from dicejax.training.lock import run_lock
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
    said = [process.stdout.readline() for process in pair]
    assert said.count("locked\n") == 1
    holder = pair[said.index("locked\n")]
    who = f"run: process {holder.pid} on {socket.gethostname()}, since 20"
    what = "trains here; wait for it or stop it, or name another folder with --out"
    (refused,) = (one for one in said if one != "locked\n")
    assert who in refused and what in refused
    # The commands say the same, and touch nothing.
    train = ["train", "mine.py", "--out", "run"]
    fails(capsys, train, who, what)
    assert not (project / "run").exists()
    run = epath.Path("run")
    write_setup(Run(run), config.load("mine.py"))
    fails(capsys, train, who, what)
    fails(capsys, [*train, "--overwrite"], who, what)
    assert (project / "run" / "experiment.json").exists()
    # A killed process has no lock any more.
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with run_lock(run):
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
    folder, said = epath.Path(tmp_path / "run"), []

    def other():
        try:
            with run_lock(folder):
                said.append("locked")
        except InputError as error:
            said.append(str(error))

    with run_lock(folder):
        with run_lock(epath.Path(tmp_path / "." / "run")):
            pass
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert f"process {os.getpid()} on" in said[0]


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
