"""One process per run folder."""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator

from etils import epath

from dicejax.errors import InputError
from dicejax.training.boards import is_local
from dicejax.training.processes import is_main_process

_WITHOUT_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
_HELD: dict[str, int] = {}
"""The locks of this process, each with the thread that took it."""


@contextlib.contextmanager
def locked(folder: epath.Path) -> Iterator[None]:
    """Keep other processes from writing a run while this one does.

    The lock is on the file `.NAME.lock` beside the folder, which may be replaced. The
    kernel frees it when the process ends, however it ends. Of the processes of one run
    the main one takes it; a thread that has it may take it again.

    Object stores (gs://, s3://) and some network file systems have no locks. There
    nothing is locked: start one command per folder.

    Raises:
      InputError: another process has the lock, or the file cannot be written.
    """
    place = os.path.realpath(folder) if is_local(folder) else ""
    path = os.path.join(os.path.dirname(place), f".{os.path.basename(place)}.lock")
    own = _HELD.get(path) == threading.get_ident()
    if not place or own or not is_main_process():
        yield
        return
    with contextlib.ExitStack() as stack:
        try:
            _remove_what_is_made(os.path.dirname(path), stack)
            taken = _take(path, folder, stack)
        except OSError as error:
            raise InputError(
                f"{folder}: cannot be written: {error.strerror or error}; name "
                "another folder with --out"
            ) from error
        if taken:
            _HELD[path] = threading.get_ident()
            stack.callback(_HELD.pop, path)
        yield


def _remove_what_is_made(folder: str, stack: contextlib.ExitStack) -> None:
    """Remove at the end, where still empty, the folders that are missing now."""
    missing = []
    while not os.path.isdir(folder) and folder not in missing:
        missing.append(folder)
        folder = os.path.dirname(folder)
    for one in reversed(missing):
        stack.callback(_ignoring_errors, os.rmdir, one)


def _take(path: str, folder: epath.Path, stack: contextlib.ExitStack) -> bool:
    """Lock a file until the end; return False where the file system has no locks."""
    while True:
        file = _open(path)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(file)
            os.close(file)
            raise InputError(
                f"{folder}: {holder} trains here; wait for it or stop it, or name "
                "another folder with --out"
            ) from None
        except OSError as error:
            os.close(file)
            if error.errno not in _WITHOUT_LOCKS:
                raise
            os.unlink(path)
            return False
        if _is_at(file, path):
            break
        os.close(file)  # deleted by the holder before
    stack.callback(os.close, file)
    stack.callback(_ignoring_errors, os.unlink, path)
    now = datetime.datetime.now().astimezone().isoformat(" ", "seconds")
    holder = f"process {os.getpid()} on {socket.gethostname()}, since {now},"
    os.ftruncate(file, 0)
    os.write(file, holder.encode())
    return True


def _open(path: str) -> int:
    tries = 100
    while True:
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:  # the holder before has just removed the folder
            tries -= 1
            if not tries:
                raise


def _holder(file: int) -> str:
    """Return the process that has locked a file, as it has written there."""
    for _ in range(20):  # it writes just after it has locked
        if found := os.pread(file, 200, 0).decode("utf-8", "replace"):
            return found
        time.sleep(0.05)
    return "another process"


def _is_at(file: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


def _ignoring_errors(remove: Callable[[str], None], path: str) -> None:
    with contextlib.suppress(OSError):
        remove(path)
