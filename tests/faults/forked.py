"""Commands in forks of one process, of which all states of their folder can be kept.

Python tells of each file that it opens for writing, makes, renames or removes before
it does so (audit events); a text that is about to be written counts too. What is on
disk then is what a process killed there leaves. All commands have their own process, as
those of users do, but what one has imported the next ones have.

The program reads requests and writes answers as lines of JSON.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
_CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link")


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a process ended: its status, minus a signal; its changes of files; errors."""

    status: int
    changes: list[str]
    errors: str


class Forks:
    """Commands, each in a process of its own with a folder for temporary files."""

    def __init__(self, process: subprocess.Popen):
        self._process = process

    def __call__(
        self,
        argv: Sequence[object],
        *folders: Path,
        copies: Path | None = None,
        kill_at: int | None = None,
    ) -> Ended:
        """Run a command in folders, one after the other, until it fails in one.

        Args:
          argv: the command.
          folders: where it is run.
          copies: folder for one copy `N` of the only folder before its N-th change.
          kill_at: number of the change that SIGKILL comes before.
        """
        options = copies and str(copies), kill_at
        request = [[*map(str, argv)], [*map(str, folders)], *options]
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return Ended(**json.loads(self._process.stdout.readline()))


@contextlib.contextmanager
def forks() -> Iterator[Forks]:
    """Start the program that commands are forked from."""
    argv = [sys.executable, "-m", "tests.faults.forked"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with tempfile.TemporaryDirectory() as outside:
        own = {"JAX_PLATFORMS": "cpu", "TORCHINDUCTOR_CACHE_DIR": outside}
        with subprocess.Popen(argv, cwd=ROOT, env=os.environ | own, **pipes) as process:
            yield Forks(process)
            process.stdin.close()


def _serve() -> None:
    # Most of what commands import, once and not in each of the first ones.
    from dicejax.study import compare, figures  # noqa: F401
    from dicejax.training import export  # noqa: F401

    with contextlib.suppress(ImportError):
        import torch  # noqa: F401

    # Drawn before anything is written, most of the time of a report.
    figures.rendered = lambda *figure, **options: b"</style>"

    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        with tempfile.TemporaryDirectory() as outside:
            child = os.fork()
            if child == 0:
                _become(Path(outside), *json.loads(line))
            _, status = os.waitpid(child, 0)
            changes = Path(outside, "changes").read_text().splitlines()
            errors = Path(outside, "errors").read_text()[-3000:]
            if (imported := Path(outside, "imported")).exists():
                for name in imported.read_text().splitlines():
                    with contextlib.suppress(Exception):  # of those that are made
                        importlib.import_module(name)
        ended = Ended(os.waitstatus_to_exitcode(status), changes, errors)
        answers.write(json.dumps(dataclasses.asdict(ended)) + "\n")
        answers.flush()


def _become(outside, argv, folders, copies, kill_at) -> None:
    """Run a command in this process, which ends with it."""
    from dicejax.cli import run
    from dicejax.io import files

    status, count, busy = 1, 0, False
    try:
        output = os.open(outside / "errors", os.O_CREAT | os.O_WRONLY)
        log = os.open(outside / "changes", os.O_CREAT | os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(output, stream)
        (folder, *_) = folders

        def change(what: str) -> None:
            nonlocal count, busy
            count += 1
            os.write(log, f"{what}\n".encode())
            if copies:
                busy = True  # the copy is no change
                shutil.copytree(folder, os.path.join(copies, f"{count}"))
                busy = False
            if count == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

        def heard(event: str, arguments: tuple) -> None:
            if busy:
                return
            if event == "open":
                path, _, flags = arguments
                is_change = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
                paths = [path] if is_change else []
            else:
                paths = arguments[:2] if event in _CHANGES else ()
            for path in paths:
                if isinstance(path, str | bytes | os.PathLike):
                    whole = os.path.abspath(os.fsdecode(path))
                    if whole.startswith(f"{folder}/"):
                        return change(f"{event} {whole[len(folder) + 1 :]}")

        encoded = files._encoded

        def encode(content: str | bytes) -> bytes:
            change("text")
            return encoded(content)

        if copies or kill_at:
            files._encoded = encode
            tempfile.tempdir = _temporary(folder)
            sys.addaudithook(heard)
        for folder in folders:
            os.chdir(folder)
            tempfile.tempdir = _temporary(folder)
            status = run(argv)
            if status:
                print(f"in {folder}", file=sys.stderr)
                break
    except BaseException:
        traceback.print_exc()
    finally:
        Path(outside, "imported").write_text("\n".join(sys.modules))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _temporary(folder: str) -> str:
    place = os.path.join(folder, "temporary")
    os.makedirs(place, exist_ok=True)
    return place


if __name__ == "__main__":
    _serve()
