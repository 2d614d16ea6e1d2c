"""Runs that are killed, or fail, at a write resume bit-identical.

A recorded run is replayed on disk up to its n-th write, which is what a process killed
there leaves; the command then resumes it. Without strace, kills at chosen times are in
`tests/training/test_resume.py`.
"""

import gc
import re
import shutil
import threading
from pathlib import Path

import pytest

from dicejax.cli import run

from . import strace
from .commands import CHECKPOINTS, called, end, tiny

WHY_NOT = strace.why_not()
pytestmark = [
    pytest.mark.skipif(bool(WHY_NOT), reason=f"system calls: {WHY_NOT}"),
    # orbax leaves threads behind when a write fails.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
KEEP_LAST = [1, pytest.param(2, marks=pytest.mark.exhaustive)]
ERRORS = {
    "openat": "EACCES",
    "mkdir": "EACCES",
    "write": "ENOSPC",
    "writev": "ENOSPC",
    "fsync": "EIO",
    "rename": "EIO",
    "unlink": "EIO",
    "unlinkat": "EIO",
    "rmdir": "EIO",
    "read": "EIO",
    "pread64": "ESTALE",
}


class Recorded:
    """A run of the training in a folder, the calls that change it, and their faults."""

    def __init__(self, folder: Path, keep_last: int):
        self.flags = {"--recording.keep_last": keep_last}
        assert run(tiny(folder / "compiled", **self.flags)) == 0
        self.folder, log = folder / "recorded", folder / "calls.log"
        self.folder.mkdir()
        with strace.recording(log):
            assert run(self.command(self.folder)) == 0
        self.operations = strace.operations(log, self.folder)
        self.faults = strace.faults(log, self.folder, ERRORS)
        self.end = end(self.folder / "run")

    def command(self, folder: Path) -> list[str]:
        return tiny(folder / "run", **self.flags)


@pytest.fixture(scope="module", params=KEEP_LAST)
def recorded(request, tmp_path_factory):
    return Recorded(tmp_path_factory.mktemp("runs"), request.param)


def writes_to_try(operations, exhaustive: bool) -> list[int]:
    """Return numbers of writes: all, or those around which most could go wrong."""
    if exhaustive:
        return list(range(len(operations)))
    texts = [str(operation) for operation in operations]
    patterns = (
        r"writev.*/6[./].*params.*manifest",
        r'rename\(".*/6\.orbax-checkpoint-tmp", ',
        r"rename.*result\.json",
    )
    return [
        next(n for n, text in enumerate(texts) if re.match(pattern, text))
        for pattern in patterns
    ]


def test_a_replay_of_all_writes_is_the_run(recorded, tmp_path):
    with strace.Replay(recorded.folder, tmp_path) as replay:
        for operation in recorded.operations:
            replay.apply(operation)
    assert files(tmp_path) == files(recorded.folder)


@pytest.mark.slow
def test_killed_at_any_write_a_run_resumes_alike(recorded, tmp_path, request, capsys):
    tried = writes_to_try(recorded.operations, request.config.getoption("exhaustive"))
    request.node.user_properties.append(("kills", len(tried)))
    state, copy, steps = tmp_path / "state", tmp_path / "copy", [0]
    state.mkdir()
    with strace.Replay(recorded.folder, state) as replay:
        for number, operation in enumerate(recorded.operations):
            if number in tried:
                shutil.copytree(state, copy)
                capsys.readouterr()
                assert run(recorded.command(copy)) == 0, operation
                first = re.search(r"resuming from step (\d+)", capsys.readouterr().err)
                if not (state / "run/result.json").exists():
                    steps.append(int(first[1]) if first else 0)
                # No later write makes an earlier checkpoint the last one.
                assert steps == sorted(steps), operation
                assert end(copy / "run") == recorded.end, operation
                shutil.rmtree(copy)
            replay.apply(operation)
    assert steps[-1] >= CHECKPOINTS[-2]


def faults_to_try(faults: list[strace.Fault], exhaustive: bool) -> list[strace.Fault]:
    """Return all, or one of each kind: of records, of arrays, of the result."""
    if exhaustive:
        return faults
    of_6 = "run/checkpoints/6.orbax-checkpoint-tmp"
    return [
        strace.Fault("write", "ENOSPC", "run/metrics.jsonl"),
        strace.Fault("writev", "EIO"),
        strace.Fault("mkdir", "EACCES", of_6),
        strace.Fault("mkdir", "EACCES", f"{of_6}/rest.orbax-checkpoint-tmp"),
        [fault for fault in faults if fault.nth and fault.call == "rename"][-1],
    ]


@pytest.mark.slow
def test_an_error_at_any_call_is_one_line_and_loses_nothing(
    recorded, tmp_path, request, capsys
):
    exhaustive = request.config.getoption("exhaustive")
    argv, log = recorded.command(tmp_path), tmp_path / "injected.log"
    tried = faults_to_try(recorded.faults, exhaustive)
    problems, missed = [], []
    for fault in tried:
        with fault.injected(tmp_path, log):
            first = called(argv, capsys)
        waiting = wait_for_writers()
        if "(INJECTED)" not in log.read_text():
            missed.append(fault)
        again = called(argv, capsys)
        problem = first.problem or again.problem
        if waiting:
            problem = problem or f"its process would not end: {waiting}"
        if not problem and again.status != 0:
            problem = f"not resumed: {again.errors}"
        if not problem and end(tmp_path / "run") != recorded.end:
            problem = "another end"
        if problem:
            problems.append(f"{fault}: {problem}")
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        gc.collect()  # ends the threads of the failed run, which strace attaches to
    assert not problems, "\n".join(problems)
    # Threads share out the work anew each time.
    assert len(missed) <= len(tried) // 10, missed


def wait_for_writers() -> list[str]:
    """Wait until orbax's threads end; return the names of those that do not."""
    waiting = []
    for thread in threading.enumerate():
        is_pool = thread.name.startswith(("grain-prefetch", "metadata_store"))
        if not (thread is threading.main_thread() or thread.daemon or is_pool):
            threading.Thread.join(thread, timeout=60)  # orbax's own raises its error
            if thread.is_alive():
                waiting.append(thread.name)
    return waiting


@pytest.mark.parametrize("call", ["pread64", "openat"])
def test_an_error_of_reading_a_checkpoint_deletes_nothing(
    recorded, tmp_path, capsys, call
):
    with strace.Replay(recorded.folder, tmp_path) as replay:
        for operation in recorded.operations:
            if re.match(r'rename\(".*/12\.orbax-checkpoint-tmp", ', str(operation)):
                break
            replay.apply(operation)
    before = files(tmp_path / "run/checkpoints/9")
    assert before
    fault = strace.Fault(call, "ESTALE", "run/checkpoints/9/params/manifest.ocdbt")
    log = tmp_path / "injected.log"
    with fault.injected(tmp_path, log):
        ended = called(recorded.command(tmp_path), capsys)
    assert "(INJECTED)" in log.read_text()
    assert ended.status == 2 and not ended.problem, ended
    assert "nothing was deleted" in ended.errors
    assert files(tmp_path / "run/checkpoints/9") == before
    assert run(recorded.command(tmp_path)) == 0
    assert end(tmp_path / "run") == recorded.end


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }
