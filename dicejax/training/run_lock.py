"""A lock on a run's folder, so that one process alone writes it."""

from __future__ import annotations

import contextlib
import datetime
import errno
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import filelock
from etils import epath

from dicejax.errors import InputError
from dicejax.training.logging import is_local
from dicejax.training.processes import is_main_process

_WITHOUT_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


@contextlib.contextmanager
def run_lock(folder: epath.Path) -> Iterator[None]:
    """Keep other processes from writing a run while this one does.

    The lock is on the file `.NAME.lock` next to the folder, which may be replaced. The
    kernel frees it when the process ends, however it ends. Of the processes of one run
    the main one takes it; a thread that has it may take it again.

    Object stores (gs://) and some network file systems have no locks. There
    nothing is locked: start one command per folder.

    Raises:
      InputError: another process has the lock, or the file cannot be written.
    """
    if not is_local(folder) or not is_main_process():
        yield
        return
    path = Path(os.path.realpath(folder))
    path = path.with_name(f".{path.name}.lock")
    lock = filelock.FileLock(path, is_singleton=True, fallback_to_soft=False)
    if lock.is_locked:  # by this thread
        yield
        return
    missing = [parent for parent in path.parents if not parent.is_dir()]
    try:
        try:
            _take(lock, path, folder)
        except OSError as error:
            raise InputError(
                f"{folder}: cannot be written: {error.strerror or error}; name "
                "another folder with --out"
            ) from error
        yield
    finally:
        with contextlib.suppress(OSError):
            if lock.is_locked:
                path.unlink()
        lock.release()
        with contextlib.suppress(OSError):  # until one is not empty
            for parent in missing:
                parent.rmdir()


def _take(lock: filelock.BaseFileLock, path: Path, folder: epath.Path) -> None:
    """Lock a file where the file system has locks, and write this process there."""
    for tries_left in reversed(range(100)):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # It tries again where the holder before has just deleted the file.
            lock.acquire(timeout=0.1, poll_interval=0.01)
            break
        except FileNotFoundError:  # the holder before has just removed the folder
            if not tries_left:
                raise
        except filelock.Timeout:
            raise InputError(
                f"{folder}: {_holder(path)} trains here; wait for it or stop it, or "
                "name another folder with --out"
            ) from None
        except OSError as error:
            if error.errno not in _WITHOUT_LOCKS:
                raise
            path.unlink(missing_ok=True)
            return
    now = datetime.datetime.now().astimezone().isoformat(" ", "seconds")
    path.write_text(f"process {os.getpid()} on {socket.gethostname()}, since {now},")


def _holder(path: Path) -> str:
    """Return the process that has locked a file, as it has written there."""
    for _ in range(20):  # it writes just after it has locked
        with contextlib.suppress(FileNotFoundError):
            if holder := path.read_text("utf-8", "replace"):
                return holder
        time.sleep(0.05)
    return "another process"
