"""Names of files and folders that are being written, and removal of abandoned ones.

A part is written under a hidden name that says which process writes it, and takes its
own name when it is whole. A process that is killed leaves the part; the next one that
writes to the folder removes it. Temporary folders have such names too. Parts of
versions whose names say no process go when nothing was written to them for a day.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import socket
import tempfile
import time
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from etils import epath

P = TypeVar("P", Path, epath.Path)
_PART = re.compile(r"\..*\.([0-9a-f]{8})-([0-9]+)-([0-9]+)-[0-9a-f]{8}\.partial")
_OLD_FILE = re.compile(r"\..+\.[0-9a-f]{32}\.partial")
_OLD_FOLDER = re.compile(r"\.writing-[a-z0-9_]{8}")
_FORGOTTEN = 24 * 60 * 60  # seconds after the last write to a part without a process


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
    Files and model folders that earlier versions began, under names that say no
    process, are removed a day after the last write to them.
    """
    if "://" in os.fspath(folder):
        return
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if not (_is_abandoned(entry.name) or _is_forgotten(entry)):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                else:
                    os.unlink(entry.path)


def _is_abandoned(name: str) -> bool:
    match = _PART.fullmatch(name)
    if match is None or match[1] != _machine():
        return False
    return _start_of(int(match[2])) != int(match[3])


def _is_forgotten(entry: os.DirEntry[str]) -> bool:
    """Return whether an earlier version began this, and nothing has gone on for a day.

    A folder has to look like a model folder that was being written, besides its name:
    nothing in it, or one folder that is empty or begins with `config.json`.
    """
    paths = [Path(entry.path)]
    if _OLD_FOLDER.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
        inside = list(paths[0].iterdir())
        drafts = [x for x in inside if x.is_dir() and not x.is_symlink()]
        if len(inside) > 1 or drafts != inside:
            return False
        names = [x.name for draft in drafts for x in draft.iterdir()]
        if names and "config.json" not in names:
            return False
        paths += paths[0].rglob("*")
    elif not (_OLD_FILE.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)):
        return False
    return max(x.lstat().st_mtime for x in paths) < time.time() - _FORGOTTEN


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
    except OSError as error:
        return None if isinstance(error, ProcessLookupError) else 0
    return 0
