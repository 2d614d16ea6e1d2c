"""Paths of an experiment file: relative to the working folder, or to the file."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

ABOVE = 2
"""Folders above that of the file in which a path is looked for."""

_looked_in: dict[str, list[str]] = {}  # of paths found nowhere, for `tried`


def resolved(name: str, folder: Path, holds: Callable[[str], bool]) -> str:
    """Return a path of an experiment file, such that it can be opened from here.

    It is taken as it is where the working folder has it. Else it is looked for in the
    folder of the file, then in the two above. Where none has it, it stays as it is.

    Args:
      name: a relative path; others are returned.
      folder: folder of the experiment file.
      holds: whether a path is what is meant.
    """
    if "://" in name or os.path.isabs(os.path.expanduser(name)) or holds(name):
        return name
    places = [os.path.join(folder, *[".."] * above) for above in range(ABOVE + 1)]
    for place in places:
        if holds(path := os.path.normpath(os.path.join(place, name))):
            return path
    _looked_in[name] = list(map(os.path.abspath, dict.fromkeys([".", *places])))
    return name


def from_here(experiment: Any, folder: Path) -> Any:
    """Return an experiment with the paths of its data and its encoder `resolved`.

    Args:
      experiment: its `data` may have a `dir`, and a method `is_in` that says whether a
        folder holds them; its `encoder` may have a `path`.
      folder: folder of the experiment file.
    """
    changed = {}
    for name, field in (("data", "dir"), ("encoder", "path")):
        part = getattr(experiment, name)
        holds = getattr(part, "is_in", os.path.isdir)
        path = getattr(part, field, None)
        if path is not None and (place := resolved(path, folder, holds)) != path:
            changed[name] = dataclasses.replace(part, **{field: place})
    return dataclasses.replace(experiment, **changed) if changed else experiment


def tried(name: str) -> str:
    """Return in words where a missing path was looked for; empty for an absolute one.

    >>> tried("/data/reviews")
    ''
    """
    if "://" in name or os.path.isabs(os.path.expanduser(name)):
        return ""
    return f" in {', '.join(dict.fromkeys(_looked_in.get(name, [os.getcwd()])))}"
