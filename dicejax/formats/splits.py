"""The files of train, dev and test in a folder, recognised by name."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from etils import epath

from dicejax.errors import InputError
from dicejax.formats import brat, tables
from dicejax.io import files

SPLITS = {
    "train": ("train", "training"),
    "dev": ("dev", "valid", "validation", "val", "development", "eval"),
    "test": ("test", "testing"),
}
_PART = re.compile(r"-\d+-of-\d+")  # as the hub numbers the parts of a file


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
    below = {}
    for folder in (entry for entry in there if entry.is_dir()):
        inside = filter(tables.is_table, files.entries(folder))
        splits = _splits([f"{folder.name}/{table.name}" for table in inside])
        if splits["train"] is not None:
            below[folder.name] = splits
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


def _splits(names: Sequence[str]) -> dict[str, str | None]:
    return {split: _find(names, words) for split, words in SPLITS.items()}


def _find(names: Sequence[str], words: Sequence[str]) -> str | None:
    """Return the file whose name begins with one of the words, or holds it."""
    stems = {name: name.rpartition("/")[2].lower().split(".")[0] for name in names}
    pairs = list(itertools.product(words, names))
    for word, name in pairs:
        if stems[name] == word or stems[name].startswith((f"{word}-", f"{word}_")):
            return _whole(name, names)
    for word, name in pairs:
        if word in stems[name].replace("-", "_").split("_"):
            return _whole(name, names)
    return None


def _whole(name: str, names: Sequence[str]) -> str:
    """Return all parts of a file, if it is one of several."""
    parts = [name]
    if _PART.search(name):
        parts = [part for part in names if _PART.sub("", part) == _PART.sub("", name)]
    return "+".join(part.removesuffix(".gz") for part in parts)
