r"""Files of text: reading them, and writing them atomically.

All text that a user or another program has written is read here: UTF-8 with or without
a byte order mark, lines that end in `\n` or `\r\n` and in nothing else, decompressed
where the name ends in `.gz`. Whatever is no such file is an `InputError`.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import functools
import gzip
import hashlib
import io
import itertools
import os
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, cast

from etils import epath

from dicejax.errors import Flaw, InputError, quote, suggestion, truncate
from dicejax.io import first_bytes, limits
from dicejax.io.parts import part_of

Path = str | os.PathLike[str]
Stream = IO[bytes] | None  # read in the place of a path

_BLOCK = 1 << 16  # bytes
_SEPARATORS = (b"\n", b",")  # of lines, and of values in JSON and CSV


def read_bytes(path: Path) -> bytes:
    """Return the content of a file, local or at gs:// or s3://.

    Raises:
      InputError: the file is missing, no regular file, a damaged archive, or cannot be
        read.
    """
    with open_file(path) as file:
        return file.read()


def read_text(path: Path) -> str:
    """Return the text of a file, its lines joined by newlines; see `lines`."""
    return "\n".join(line for _, line in lines(path))


def lines(
    path: Path,
    on_error: Callable[[InputError], None] | None = None,
    stream: Stream = None,
) -> Iterator[tuple[int, str]]:
    r"""Yield the number and text of each line of a file.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "dev.txt"
    >>> _ = path.write_bytes(b"\xef\xbb\xbfone\r\ntwo")
    >>> list(lines(path))
    [(1, 'one'), (2, 'two')]

    `on_error` is called with the error of each line that holds a NUL byte or is not
    UTF-8, which is then skipped; None raises the first. A stream is read instead of the
    path, which is then its name in errors.

    Raises:
      InputError: as `read_bytes`; or the file is empty or has carriage returns instead
        of newlines; or a line is not text and there is no `on_error`.
    """
    number = 0
    with open_file(path, stream) as file:
        for offset, block in _blocks(file):
            if number == 0:
                first_bytes.check(path, block)
            if b"\n" not in block and block.count(b"\r") > 1:
                fault = "its lines end in a carriage return alone"
                raise InputError.at(path, None, fault, "convert them to newlines")
            texts = _split(block)
            if texts is not None:
                yield from enumerate(texts, number + 1)
                number += len(texts)
                continue
            for line in io.BytesIO(block):
                number += 1
                text = _split(line)
                if text is not None:
                    yield number, text[0]
                else:
                    error = _not_text(line, offset).at(path, number)
                    if on_error is None:
                        raise error
                    on_error(error)
                offset += len(line)
    if number == 0:
        raise InputError.at(path, None, "is empty", "name another file")


def entries(folder: epath.Path) -> list[epath.Path]:
    """Return the files and folders in a folder, sorted.

    Raises:
      InputError: it cannot be read.
    """
    with input_errors(folder, "read"):
        return sorted(folder.iterdir())


@contextlib.contextmanager
def input_errors(path: epath.Path, done: str = "written") -> Iterator[None]:
    """Turn errors of the file system into an InputError."""
    try:
        yield
    except OSError as error:
        remedy = "make room or repair the folder, then run the same command again"
        reason = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):  # whatever the path is
            short = truncate(os.fspath(path), 60)
            raise InputError(f"{reason}: {short} cannot be {done}; {remedy}") from error
        fault = f"cannot be {done}: {reason}"
        raise InputError.at(path, None, fault, remedy) from error


def follow_link(path: epath.Path) -> epath.Path:
    """Return the place that a symbolic link names, so that the link is not replaced.

    For paths that the user names: links in a folder of somebody else are not followed.
    """
    return epath.Path(os.path.realpath(path)) if os.path.islink(path) else path


def write_whole(folder: epath.Path, name: str, content: str | bytes) -> None:
    """Write a file atomically, text in UTF-8, to a folder that is made if missing.

    The jobs of an array may write it at the same time.

    Raises:
      InputError: the folder cannot be made or written to.
    """
    with _partial_file(folder, name) as partial, input_errors(folder, "written to"):
        partial.write_bytes(_encoded(content))


def write_lines(folder: epath.Path, name: str, lines: Iterable[str]) -> None:
    """Write lines as they come to a file that appears whole at the end.

    The file and its folder, made if missing, are begun when there is a line.

    Raises:
      InputError: the folder cannot be made or written to.
    """
    target, lines = follow_link(folder / name), iter(lines)
    errors = functools.partial(input_errors, target.parent, "written to")
    begin = list(itertools.islice(lines, 1))
    with _partial_file(target.parent, target.name) as partial:
        with errors():
            file = partial.open("wb")
        with file:
            for line in itertools.chain(begin, lines):
                with errors():
                    file.write(_encoded(f"{line}\n"))
            with errors():
                file.close()


@contextlib.contextmanager
def _partial_file(folder: epath.Path, name: str) -> Iterator[epath.Path]:
    """Give a path that takes its name at the end, or is removed with an error."""
    partial = part_of(folder / name)
    try:
        with input_errors(folder, "written to"):
            folder.mkdir(parents=True, exist_ok=True)
        yield partial
        with input_errors(folder, "written to"):
            partial.replace(folder / name)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def whole_folder(folder: epath.Path) -> Iterator[epath.Path]:
    """Give a folder to fill, which then takes its name, or is removed with an error."""
    made = part_of(folder)
    try:
        made.mkdir(parents=True)
        yield made
        made.rename(folder)
    except BaseException:
        with contextlib.suppress(OSError):
            made.rmtree(missing_ok=True)
        raise


def write_together(folder: epath.Path, contents: Mapping[str, str | bytes]) -> None:
    """Write files so that a kill leaves all of them or none.

    A new folder appears whole. In one that is there the files are renamed, in their
    order, once all are written: the last marks the rest complete. Names may be paths.

    Raises:
      InputError: the folder cannot be made or written to.
    """
    folder = follow_link(folder)
    is_new = not folder.exists()
    place = part_of(folder) if is_new else folder
    targets = {name: place / name for name in contents}
    made: list[epath.Path] = []
    partial: dict[epath.Path, epath.Path] = {}
    try:
        with input_errors(folder, "written to"):
            for each in dict.fromkeys([place, *(x.parent for x in targets.values())]):
                if not each.exists():
                    made.append(each)
                    each.mkdir(parents=True, exist_ok=True)
            for name, target in targets.items():
                partial[target] = target if is_new else part_of(target)
                partial[target].write_bytes(_encoded(contents[name]))
            if is_new:
                place.rename(folder)
            else:
                for target, file in partial.items():
                    file.replace(target)
    except BaseException:
        for file in partial.values():
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)
        for each in reversed(made):
            with contextlib.suppress(OSError):  # what is not empty stays
                each.rmdir()
        raise


def require_writable(folder: epath.Path) -> None:
    """Raise unless a local folder can be written to, or made; nothing is made.

    Raises:
      InputError: a file is in its place, or it may not be written to.
    """
    if "://" in os.fspath(folder):
        return
    there = next(filter(os.path.lexists, (folder, *folder.parents)), folder.parent)
    if not there.is_dir():
        reason = f"{there} is a file"
    elif not os.access(there, os.W_OK | os.X_OK):
        reason = f"{there} may not be written to"
    else:
        return
    raise InputError.at(
        folder, None, f"cannot be made a folder: {reason}", "name another"
    )


def _encoded(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode("utf-8")


SUMS = "SHA256SUMS"
_RESTORE = "restore it, or make it again with --overwrite"


def write_checked(folder: epath.Path, name: str, content: str | bytes) -> None:
    """Write a file atomically, and its SHA-256 to SHA256SUMS in the same folder.

    The sum comes first: after a kill in between the file is absent, or `read_checked`
    refuses it. `sha256sum -c SHA256SUMS` checks a whole folder. Processes that write a
    file at the same time must write the same.

    Raises:
      InputError: the folder cannot be made or written to.
    """
    sign(folder, {name: content})
    write_whole(folder, name, content)


def sign(folder: epath.Path, contents: Mapping[str, str | bytes]) -> None:
    """Write the SHA-256 of files to SHA256SUMS.

    Raises:
      InputError: the folder cannot be made or written to.
    """
    sums = _sums(folder) if (folder / SUMS).exists() else {}
    for name, content in contents.items():
        sums[name] = hashlib.sha256(_encoded(content)).hexdigest()
    listed = "".join(f"{digest}  {name}\n" for name, digest in sums.items())
    write_whole(folder, SUMS, listed)


def read_checked(folder: epath.Path, name: str) -> bytes:
    """Read a file of `write_checked`.

    Raises:
      InputError: it is missing, cannot be read, or is not as it was written.
    """
    file = folder / name
    if not file.exists():
        raise InputError.at(file, None, "missing", _RESTORE)
    content, expected = read_bytes(file), _sums(folder).get(name)
    if hashlib.sha256(content).hexdigest() == expected:
        return content
    fault = f"is not listed in {SUMS}"
    if expected is not None:
        fault = f"has changed since it was written (its SHA-256 is not as in {SUMS})"
    remedy = f"{_RESTORE}; if the change is meant, put the new sum there"
    raise InputError.at(file, None, fault, remedy)


def was_written(folder: epath.Path, name: str) -> bool:
    """Return whether `write_checked` wrote a file, which may be missing since.

    Raises:
      InputError: the sums cannot be read.
    """
    return (folder / name).exists() or name in _sums(folder)


def file_name(text: str, noun: str) -> str:
    """Return a text that names a folder, if that folder stays below its parent.

    >>> file_name("conll03", "name")
    'conll03'

    Raises:
      InputError: it has slashes or control characters, begins with a dot, or is empty.
    """
    if text.isprintable() and not text.startswith(".") and text and "/" not in text:
        return text
    raise InputError(
        f"{noun} is {quote(text)}; which names a folder: want letters, digits "
        "and signs, but no slash, and no dot in front"
    )


def _sums(folder: epath.Path) -> dict[str, str]:
    file = folder / SUMS
    if not file.exists():
        raise InputError.at(file, None, "missing", _RESTORE)
    lines = read_bytes(file).decode("utf-8", "replace").split("\n")
    parts = [line.partition("  ") for line in lines]
    return {name: digest for digest, _, name in parts if name}


@contextlib.contextmanager
def open_file(path: Path, stream: Stream = None) -> Iterator[IO[bytes]]:
    """Open a regular file for reading, decompressed where its name says so."""
    file = epath.Path(path)
    try:
        if stream is not None:
            yield stream
            return
        check_regular(file)
        with file.open("rb") as raw:
            if not file.name.endswith(".gz"):
                yield raw
                return
            packed = raw.seek(0, io.SEEK_END)
            raw.seek(0)
            with gzip.open(raw) as stored:
                unpacked = cast(IO[bytes], stored)  # which it is but for its name
                _check_unpacked(unpacked, packed)
                unpacked.seek(0)
                yield unpacked
    except FileNotFoundError:
        raise InputError.at(path, None, "no such file", _what_is_there(file)) from None
    except Flaw as flaw:
        raise flaw.at(path, flaw.line) from None
    except (OSError, EOFError, zlib.error, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        remedy = "check the file and its permissions"
        raise InputError.at(path, None, f"cannot be read: {reason}", remedy) from error


def _check_unpacked(unpacked: IO[bytes], packed: int) -> None:
    """Read an archive to its end and hold nothing, before anything is made of it."""
    limit, memory = limits.unpacked(packed), 0
    while block := unpacked.read(_BLOCK):
        memory += len(block) + limits.ITEM * sum(map(block.count, _SEPARATORS))
        limit.check(memory)


def check_regular(file: epath.Path) -> None:
    """Raise unless there is a file; to open a pipe would wait for its writer.

    Raises:
      InputError: something else is there.
      OSError: nothing is there, or the file system cannot say.
    """
    name = os.fspath(file)
    if "://" in name:
        mode = stat.S_IFDIR if file.is_dir() else stat.S_IFREG * file.exists()
        if not mode:
            raise FileNotFoundError
    else:
        mode = os.stat(name).st_mode
    if stat.S_ISDIR(mode):
        raise InputError.at(file, None, "is a folder", "name a file in it")
    if not stat.S_ISREG(mode):
        raise InputError.at(file, None, "is a pipe or a device", "name a regular file")


def _what_is_there(path: epath.Path) -> str:
    try:
        names = sorted(entry.name for entry in path.parent.iterdir())
    except OSError:
        return f"there is no folder {path.parent} either"
    return suggestion(path.name, names) or "check the name"


def _blocks(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield whole lines with their offset, many at once, without byte order mark."""
    first = file.read(len(codecs.BOM_UTF8))
    offset = len(first) if first == codecs.BOM_UTF8 else 0
    first = first[offset:]
    while block := first + file.read(_BLOCK):
        rest = file.readline(limits.LINE.most + 1)
        limits.LINE.check(len(rest))
        block += rest
        yield offset, block
        offset += len(block)
        first = b""


def _split(block: bytes) -> list[str] | None:
    """Return the lines of a block; None if it is not text."""
    try:
        text = block.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if "\0" in text:
        return None
    *lines, rest = text.split("\n")
    if "\r" in text:
        lines = [line.removesuffix("\r") for line in lines]
    return [*lines, rest] if rest else lines


def _not_text(line: bytes, offset: int) -> Flaw:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = f"byte {offset + error.start} (0x{line[error.start]:02x})"
        return Flaw(f"{byte} is not UTF-8", "convert the file to UTF-8")
    return Flaw("a NUL byte: not text, or UTF-16", "save it as UTF-8")
