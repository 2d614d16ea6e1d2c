"""Text files: opening, decoding, and errors with file, line and reason."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import re
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from etils import epath

from dicejax.data.readers.skipping import OnError, report, suggestion
from dicejax.errors import InputError

# A byte that is not UTF-8 is decoded to a lone surrogate, which UTF-8 never gives.
_FLAWED = re.compile("[\0\udc80-\udcff]")
_BLOCK = 1 << 16  # characters
_LINE_OF_BYTES = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")


def lines(
    path: str | os.PathLike[str], on_error: OnError | None = None
) -> Iterator[tuple[int, str]]:
    r"""Yield the number and text of each line of a UTF-8 file.

    Line ends (`\n`, `\r\n`, `\r`) and byte order mark are removed; `.gz` is
    decompressed.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "dev.txt"
    >>> _ = path.write_bytes(b"\xef\xbb\xbfone\r\ntwo")
    >>> list(lines(path))
    [(1, 'one'), (2, 'two')]

    Args:
      path: local, or anything etils.epath opens (gs://, s3://).
      on_error: called with the error of each line that holds a NUL byte or is not
        UTF-8, which is then skipped; None raises the first.

    Raises:
      InputError: the file is missing, empty, a folder, or cannot be read; or a line is
        not text and there is no `on_error`.
    """
    number = 0
    wrong_bytes: dict[int, tuple[int, int]] | None = None
    for block in _decoded(path):
        found = block.removesuffix("\n").split("\n")
        numbered = enumerate(found, start=number + 1)
        number += len(found)
        if (block.isascii() and "\0" not in block) or not _FLAWED.search(block):
            yield from numbered
            continue
        for place, line in numbered:
            if not _FLAWED.search(line):
                yield place, line
                continue
            if wrong_bytes is None:
                wrong_bytes = _wrong_bytes(path)
            report(_not_text(path, place, wrong_bytes.get(place)), on_error)
    if number == 0:
        raise InputError.at(path, None, "is empty", "name a file that holds examples")


def whole(path: str | os.PathLike[str]) -> str:
    """Return all text of a UTF-8 file, line ends as newlines; see `lines`."""
    return "\n".join(line for _, line in lines(path))


def _decoded(path) -> Iterator[str]:
    """Yield the text in blocks of whole lines, which is faster than line by line."""
    file = epath.Path(path)
    try:
        if file.is_dir():
            raise InputError.at(path, None, "is a folder", "name a file in it")
        if not file.exists():
            raise InputError.at(path, None, "no such file", _what_is_there(file))
        with (
            _open(path) as raw,
            io.TextIOWrapper(raw, "utf-8-sig", errors="surrogateescape") as text,
        ):
            while block := text.read(_BLOCK):
                yield block + text.readline()
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError.at(
            path,
            None,
            f"cannot be read: {reason}",
            "check the file and its permissions",
        ) from error


@contextlib.contextmanager
def _open(path) -> Iterator[BinaryIO]:
    with epath.Path(path).open("rb") as file:
        if not os.fspath(path).endswith(".gz"):
            yield file
            return
        with gzip.open(file) as unpacked:
            yield unpacked


def _what_is_there(path: epath.Path) -> str:
    if not path.parent.is_dir():
        return f"there is no folder {path.parent} either"
    names = sorted(entry.name for entry in path.parent.iterdir())
    return suggestion(path.name, names) or "check the name"


def _not_text(path, number: int, wrong: tuple[int, int] | None) -> InputError:
    if wrong is None:
        what, do = "a NUL byte: not text, or UTF-16", "save it as UTF-8"
    else:
        offset, byte = wrong
        what = f"byte {offset} (0x{byte:02x}) is not UTF-8"
        do = "convert the file to UTF-8"
    return InputError.at(path, number, what, do)


def _wrong_bytes(path) -> dict[int, tuple[int, int]]:
    """Yield the offset and value of each line's first byte that is not UTF-8."""
    with _open(path) as file:
        content = file.read()
    found = {}
    for number, line in enumerate(_LINE_OF_BYTES.finditer(content), start=1):
        try:
            line[0].decode("utf-8")
        except UnicodeDecodeError as error:
            offset = line.start() + error.start
            found[number] = offset, content[offset]
    return found
