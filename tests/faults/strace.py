"""System calls of this process: recorded, replayed on disk, made to fail.

Checkpoints are written in C++, where a patched Python function sees nothing. `strace`
attaches to the running process, so that a cell of a sweep needs no new process, no
import and no compilation.
"""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import dataclasses
import os
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

_READS = "read,pread64,fsync,fdatasync,flock"
_WRITES = (
    "openat,mkdir,write,writev,pwrite64,ftruncate,fallocate,rename,renameat,"
    "renameat2,unlink,unlinkat,rmdir,link,linkat,symlink,copy_file_range,sendfile"
)
_ANYONE = ctypes.c_ulong(-1)
_PR_SET_PTRACER = 0x59616D61
_CALL = re.compile(rb"(\d+) +(\w+)\((.*)\) += (-?\d+)", re.DOTALL)
_UNFINISHED = re.compile(rb"(\d+) +(.*) <unfinished \.\.\.>\n", re.DOTALL)
_RESUMED = re.compile(rb"(\d+) +<\.\.\. \w+ resumed>(.*)", re.DOTALL)
_TEXT = re.compile(rb'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_FILE = re.compile(rb"(\d+)<([^>]*)>")  # a descriptor, not AT_FDCWD<...>


def why_not() -> str:
    """Return why calls cannot be traced; empty where they can be."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    try:
        with tracing("-e", "trace=rmdir"):
            return ""
    except OSError as error:
        return str(error)


@contextlib.contextmanager
def tracing(*options: str, all_threads: bool = True) -> Iterator[None]:
    """Attach strace to this process for a while; OSError where that is not allowed."""
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _ANYONE, 0, 0, 0)
    follow = ["-f"] if all_threads else []
    words = ["strace", *follow, "-qq", *options, "-p", str(os.getpid())]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        while not _traced("*" if all_threads else str(os.getpid())):
            if process.poll() is not None:
                raise OSError(f"strace cannot attach: {process.stderr.read().strip()}")
            time.sleep(0.01)
        yield
    finally:
        process.terminate()
        process.wait()  # until then this process' own reads may fail
        process.stderr.close()


def _traced(threads: str) -> bool:
    for file in Path("/proc/self/task").glob(f"{threads}/status"):
        try:
            if "TracerPid:\t0\n" in file.read_text():
                return False
        except (FileNotFoundError, ProcessLookupError):
            continue  # the thread has ended
        except OSError:
            return True  # an injected error: strace has attached to all
    return True


@dataclasses.dataclass(frozen=True)
class Fault:
    """A failing system call."""

    call: str
    error: str
    path: str | None = None  # named first, relative to the recorded folder; None: any
    nth: int | None = None  # of the main thread's with it; None: all of all threads

    @contextlib.contextmanager
    def injected(self, folder: Path, log: Path) -> Iterator[None]:
        """Let the calls fail while the context lasts, and write them to a log."""
        limit = () if self.path is None else ("-P", str(folder / self.path))
        when = "1+" if self.nth is None else str(self.nth)
        inject = f"inject={self.call}:error={self.error}:when={when}"
        how = ("-y", "-o", str(log), *limit, "-e", f"trace={self.call}", "-e", inject)
        with tracing(*how, all_threads=self.nth is None):
            yield


@dataclasses.dataclass(frozen=True)
class Operation:
    """A call on files, as strace prints it; where it failed its result is negative."""

    thread: int
    call: str
    arguments: bytes
    result: int

    def __str__(self) -> str:
        """Return the start of the line that strace prints."""
        return f"{self.call}({self.arguments[:400].decode(errors='replace')})"

    def texts(self) -> list[bytes]:
        """Return the quoted arguments."""
        texts = _TEXT.findall(self.arguments)
        return [codecs.escape_decode(text)[0] for text in texts]

    def paths(self) -> list[bytes]:
        """Return the file of its descriptor, or the paths that it changes."""
        if file := _FILE.match(self.arguments):
            return [file[2]]
        return self.texts()[1 if self.call == "symlink" else 0 :]

    def is_in(self, folder: Path) -> bool:
        """Return whether one of its paths is below a folder."""
        return any(path.startswith(os.fsencode(folder)) for path in self.paths())


@contextlib.contextmanager
def recording(log: Path) -> Iterator[None]:
    """Write the calls of this process on files to a log."""
    calls = f"trace={_WRITES},{_READS}"
    with tracing("-y", "-s", "100000000", "-o", str(log), "-e", calls):
        yield


def operations(log: Path, folder: Path) -> list[Operation]:
    """Return the recorded calls that changed files in a folder."""
    return [
        step
        for step in _calls(log)
        if step.is_in(folder)
        and step.call not in _READS.split(",")
        and (step.call != "openat" or b"O_CREAT" in step.arguments)
    ]


def faults(log: Path, folder: Path, errors: dict[str, str]) -> list[Fault]:
    """Return every way in which one of the recorded calls in a folder can fail.

    Those of the main thread, which come in the same order each time, are counted, for
    each path or over all paths where that is drawn at random. Those of other threads
    fail whenever their path is met, or at all paths.
    """
    ways: dict[Fault, None] = {}
    count: Counter[tuple[str, str | None]] = Counter()
    for step in _calls(log, failed=True):
        path = os.path.relpath(os.fsdecode((step.paths() or [b"/"])[0]), folder)
        path = None if re.search(r"[0-9a-f]{32}|\.partial", path) else path
        by_main, nth = step.thread == os.getpid(), None
        if by_main:
            count.update({(step.call, None), (step.call, path)})
            nth = count[step.call, path]
        if step.result < 0 or step.call not in errors or not step.is_in(folder):
            continue
        if path is None and not by_main and step.call in ("openat", "read"):
            continue  # this process would not open or read anything at all
        ways[Fault(step.call, errors[step.call], path, nth)] = None
    return list(ways)


def _calls(log: Path, *, failed: bool = False) -> Iterator[Operation]:
    """Yield the recorded calls, in order of completion; those that failed if asked."""
    begun: dict[bytes, bytes] = {}
    for line in log.read_bytes().splitlines(keepends=True):
        if half := _UNFINISHED.fullmatch(line):
            begun[half[1]] = half[2]
            continue
        if rest := _RESUMED.match(line):
            line = rest[1] + b" " + begun.pop(rest[1], b"") + rest[2]
        if (whole := _CALL.match(line)) and (failed or int(whole[4]) >= 0):
            yield Operation(int(whole[1]), whole[2].decode(), whole[3], int(whole[4]))


class Replay:
    """A folder that recorded operations are applied to, one after the other.

    After n of them it holds what a process killed after n leaves behind.
    """

    def __init__(self, source: Path, target: Path):
        self._source, self._target = os.fsencode(source), os.fsencode(target)
        self._open: dict[bytes, int] = {}

    def __enter__(self) -> Replay:
        return self

    def __exit__(self, *exception: object) -> None:
        for file in self._open.values():
            os.close(file)

    def apply(self, operation: Operation) -> None:
        """Repeat a call in this folder."""
        texts, arguments = operation.texts(), operation.arguments
        number = _FILE.match(arguments)
        match operation.call:
            case "openat":
                names = re.search(rb'", ([A-Z_|]+)', arguments)[1].decode().split("|")
                flags = sum(getattr(os, name) for name in names)
                key = b"%d" % operation.result
                if key in self._open:
                    os.close(self._open[key])
                self._open[key] = os.open(self._here(texts[0]), flags, 0o666)
            case "write" | "writev":
                data = b"".join(texts)
                assert len(data) == operation.result, operation
                assert os.write(self._open[number[1]], data) == len(data)
            case "pwrite64":
                place = int(arguments.rsplit(b",", 1)[1])
                os.pwrite(self._open[number[1]], texts[0], place)
            case "ftruncate":
                os.ftruncate(self._open[number[1]], int(arguments.rsplit(b",", 1)[1]))
            case "mkdir":
                os.mkdir(self._here(texts[0]))
            case "rename" | "renameat" | "renameat2":
                os.rename(*map(self._here, texts))
            case "unlink":
                os.unlink(self._here(texts[0]))
            case "rmdir":
                os.rmdir(self._here(texts[0]))
            case "unlinkat":
                remove = os.rmdir if b"AT_REMOVEDIR" in arguments else os.unlink
                remove(self._here(os.path.join(number[2], texts[0])))
            case "link" | "linkat":
                os.link(*map(self._here, texts))
            case _:
                raise AssertionError(f"a call of another kind: {operation}")

    def _here(self, path: bytes) -> bytes:
        assert path.startswith(self._source), path
        return self._target + path[len(self._source) :]
