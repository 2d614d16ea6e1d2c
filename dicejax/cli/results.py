"""Files of results: their names, and writing them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import NoReturn

from dicejax.errors import InputError


def write_lines(out: str, lines: Iterable[str]) -> None:
    """Write lines as they come to a file that appears whole at the end."""
    from etils import epath

    from dicejax.io import files, signals

    def stop(number: int, frame: object) -> NoReturn:
        sys.exit(128 + number)

    path = epath.Path(out)
    with signals.handled(stop):  # so that the lines are removed
        files.write_lines(path.parent, path.name, lines)


def check_target(out: str) -> None:
    """Refuse a name that cannot be written, before anything is read or computed."""
    from etils import epath

    from dicejax.formats import tables

    path = epath.Path(out)
    folder = path.parent
    if path.is_dir():
        fault = ("is a folder", "name a file in it")
    elif os.path.exists(out) and not os.path.isfile(out):
        fault = ("is not a regular file", "name another, or leave out --out to print")
    elif folder.is_dir() and not os.access(folder, os.W_OK):
        fault = (f"{folder} cannot be written to", "name a file elsewhere")
    elif tables.is_table(path):
        fault = ("results are not tables", "name a .jsonl file")
    elif path.name.endswith(".gz"):
        fault = ("results are written uncompressed", "name it without .gz")
    else:
        return
    raise InputError.at(out, None, *fault)
