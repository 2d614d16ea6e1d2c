"""Names of files and folders that are being written, and removal of abandoned ones.

A part is written under a hidden name that says which process writes it, and takes its
own name when it is whole. A process that is killed leaves the part; the next one that
writes to the folder removes it. Temporary folders have such names too.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import socket
import tempfile
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from etils import epath

P = TypeVar("P", Path, epath.Path)
_PART = re.compile(r"\..*\.([0-9a-f]{8})-([0-9]+)-([0-9]+)-[0-9a-f]{8}\.partial")


def part_of(path: P) -> P:
    """Return a hidden path beside one, for this process to write to.

    Parts there whose processes on this machine have ended are removed.
    """
    remove_abandoned(path.parent)
    process = f"{_machine()}-{os.getpid()}-{_start_of(os.getpid())}"
    return path.with_name(f".{path.name}.{process}-{uuid.uuid4().hex[:8]}.partial")


def remove_abandoned(folder: os.PathLike[str]) -> None:
    """Remove the parts in a local folder whose processes on this machine have ended.

    Those of another machine that shares the folder, or of another container, are left.
    """
    if "://" in os.fspath(folder):
        return
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = _PART.fullmatch(entry.name)
            if match is None or match[1] != _machine():
                continue
            if _start_of(int(match[2])) == int(match[3]):
                continue  # it is still written
            with contextlib.suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                else:
                    os.unlink(entry.path)


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Give a folder for temporary files, which is removed at the end."""
    place = part_of(Path(tempfile.gettempdir(), "dicejax"))
    place.mkdir(mode=0o700)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


@functools.cache
def _machine() -> str:
    """Return what tells processes of this machine and container from others."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts.append(Path("/etc/machine-id").read_text())
    with contextlib.suppress(OSError):
        parts.append(str(os.stat("/proc/self/ns/pid").st_ino))
    return f"{zlib.crc32(' '.join(parts).encode()):08x}"


def _start_of(process: int) -> int | None:
    """Return when a process began, 0 where that is unknown; None if there is none."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        if process == os.getpid() or os.path.exists("/proc/self/stat"):
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2]
            return int(fields.split()[19])  # in clock ticks after the machine's start
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return None
    except OSError:
        return 0
    return 0
