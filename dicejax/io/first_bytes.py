"""Files that are not text, recognised by their first bytes."""

from __future__ import annotations

import os

from dicejax.errors import InputError

_UNPACK = "unpack it first"
_WRITE = "write JSON lines, CSV or text from it"
_NO_TEXT = {
    b"\x1f\x8b": ("is packed with gzip", "let its name end in .gz"),
    b"BZh": ("is packed with bzip2", _UNPACK),
    b"\xfd7zXZ": ("is packed with xz", _UNPACK),
    b"\x28\xb5\x2f\xfd": ("is packed with zstd", _UNPACK),
    b"PK\x03\x04": (
        "is a zip archive or a spreadsheet",
        "unpack it, or save the sheet as CSV",
    ),
    b"\xd0\xcf\x11\xe0": ("is a spreadsheet or document", "save it as CSV or text"),
    b"%PDF": ("is a PDF", "save its text"),
    b"version https://git-lfs": ("is a pointer of Git LFS", "get it: git lfs pull"),
    b"7z\xbc\xaf": ("is packed with 7-Zip", _UNPACK),
    b"Rar!": ("is packed with RAR", _UNPACK),
    b"\x78\x9c": ("is packed with zlib, as spaCy's files are", _WRITE),
    b"SQLite format 3": ("is a database of SQLite", _WRITE),
    b"\x93NUMPY": ("is an array of NumPy", _WRITE),
    b"\x89HDF": ("is HDF5", _WRITE),
    b"\x89PNG": ("is an image", "name a file of text"),
    b"\xff\xd8\xff": ("is an image", "name a file of text"),
    **{
        b"\x80" + version: ("is a pickle, which may run code", _WRITE)
        for version in (b"\2", b"\3", b"\4", b"\5")
    },
    b"\xff\xfe\0\0": ("is UTF-32", "save it as UTF-8"),
    b"\xff\xfe": ("is UTF-16", "save it as UTF-8"),
    b"\xfe\xff": ("is UTF-16", "save it as UTF-8"),
}


def check(path: str | os.PathLike[str], begin: bytes) -> None:
    """Raise where a file is not text; the error names its format and the remedy.

    Raises:
      InputError: it begins as an archive, a spreadsheet, UTF-16 or a pointer does.
    """
    for first, (fault, remedy) in _NO_TEXT.items():
        if begin.startswith(first):
            raise InputError.at(path, None, fault, remedy)
