"""The files of train, dev and test in a folder, recognised by name."""

from __future__ import annotations

import re
from collections.abc import Sequence

from etils import epath

from dicejax.data.readers import brat, tables
from dicejax.errors import InputError
from dicejax.io import files

SPLITS = {
    "train": ("train", "training"),
    "dev": ("dev", "valid", "validation", "val", "development", "eval"),
    "test": ("test", "testing"),
}
_PART = re.compile(r"-\d+-of-\d+")
"""The number of a part in the name of a file, as the hub writes it."""


def of_folder(path: epath.Path) -> dict[str, str | None]:
    """Return the file or folder of each split; the parts of one are joined by "+".

    Tables may also be in the only folder below that has some, such as `data`.

    Raises:
      InputError: the folder cannot be read, or has no train file.
    """
    there = files.entries(path)
    names = [entry.name for entry in there if entry.is_file() or is_split(entry)]
    splits = _splits(names)
    if splits["train"] is not None:
        return splits
    below = {entry.name: _splits(_tables(entry)) for entry in there if entry.is_dir()}
    below = {name: some for name, some in below.items() if some["train"] is not None}
    if len(below) > 1:
        do = "name one of these folders with --data"
        raise InputError.at(path, None, f"holds {' and '.join(below)}", do)
    if not below:
        raise InputError(
            f"{path}: holds no train file (of {len(names)} files none has a name "
            "that begins with train); name the file itself with --data"
        )
    return next(iter(below.values()))


def is_split(folder: epath.Path) -> bool:
    """Return whether a folder is read as one file: saved by datasets, or brat's."""
    return tables.is_table(folder) or brat.is_folder(folder)


def _tables(folder: epath.Path) -> list[str]:
    names = (f"{folder.name}/{entry.name}" for entry in files.entries(folder))
    return [name for name in names if tables.is_table(folder.parent / name)]


def _splits(names: Sequence[str]) -> dict[str, str | None]:
    return {split: _find(names, words) for split, words in SPLITS.items()}


def _find(names: Sequence[str], words: Sequence[str]) -> str | None:
    for word in words:
        for name in names:
            stem = _stem(name)
            if stem == word or stem.startswith((f"{word}-", f"{word}_")):
                return _whole(name, names)
    for word in words:
        for name in names:
            if word in _stem(name).replace("-", "_").split("_"):
                return _whole(name, names)
    return None


def _stem(name: str) -> str:
    return name.rpartition("/")[2].lower().split(".")[0]


def _whole(name: str, names: Sequence[str]) -> str:
    """Return all parts of a file, if it is one of several."""
    parts = [name]
    if _PART.search(name):
        parts = [part for part in names if _PART.sub("", part) == _PART.sub("", name)]
    return "+".join(part.removesuffix(".gz") for part in parts)
