"""Folders of checkpoints: the record of each with its fingerprints, and deletion.

checkpoints/20/record    notes, dev score and the fingerprint of each file of arrays,
                         below the fingerprint of itself
checkpoints/20/params    weights, written by orbax
checkpoints/20/rest      everything else of the state, likewise

A folder gets its name when it is complete, and loses it before it is deleted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from etils import epath

from dicejax.errors import InputError
from dicejax.io.files import check_regular, input_errors, write_whole
from dicejax.io.parts import temporary_folder
from dicejax.training.logging import is_local

RECORD = "record"
ITEMS = ("params", "rest")
# etils and tensorstore read these otherwise than the file system does.
_MISREAD = re.compile(r"[\[\]*?\\\ud800-\udfff]|\.__lock(/|$)")


class Damaged(Exception):
    """A checkpoint does not match its fingerprints."""


@dataclasses.dataclass(frozen=True)
class Record:
    """The loop's state, dev score if any, and each file's fingerprint by its path."""

    notes: dict[str, Any]
    score: float | None
    files: dict[str, str]

    @classmethod
    def create(
        cls, place: epath.Path, notes: dict[str, Any], score: float | None
    ) -> Record:
        """Return the record of the arrays in a folder."""
        files = [pair for item in ITEMS for pair in _files(place / item, item)]
        return cls(notes, score, {name: _fingerprint(file) for name, file in files})

    @classmethod
    def read(cls, place: epath.Path) -> Record:
        """Read the record of a checkpoint.

        Raises:
          Damaged: it is missing or does not match its fingerprint.
          InputError: it cannot be read.
        """
        with _read_errors(place):
            _check_regular(place / RECORD, RECORD)
            content = (place / RECORD).read_bytes()
        fingerprint, _, text = content.partition(b"\n")
        if fingerprint != _digest(text):
            raise Damaged(f"{RECORD} does not match its fingerprint")
        try:
            return cls(**json.loads(text))
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(
                f"{place}: written by another version of dicejax; train again with "
                "--overwrite"
            ) from error

    def write(self, place: epath.Path) -> None:
        """Write the record of a checkpoint, atomically."""
        text = json.dumps(dataclasses.asdict(self))
        write_whole(place, RECORD, f"{_digest(text.encode()).decode()}\n{text}")

    def verify(self, place: epath.Path, *items: str) -> None:
        """Compare the files of some items with their fingerprints.

        Raises:
          Damaged: one is missing or differs.
          InputError: one cannot be read.
        """
        for item in items:
            with _read_errors(place):
                present = dict(_files(place / item, item))
                for name, fingerprint in self.files.items():
                    if name.partition("/")[0] != item:
                        continue
                    if name not in present:
                        raise Damaged(f"{name} is missing")
                    _check_regular(present[name], name)
                    if _fingerprint(present[name]) != fingerprint:
                        raise Damaged(f"{name} does not match its fingerprint")


def steps(folder: epath.Path) -> list[int]:
    """Return the steps of the checkpoints in a folder, in order.

    Raises:
      InputError: the folder cannot be read.
    """
    numbers = [
        int(place.name)
        for place in _entries(folder)
        if re.fullmatch("[0-9]+", place.name)
        # In an object store a folder grows under its name, the record last.
        and (is_local(folder) or (place / RECORD).exists())
    ]
    return sorted(numbers)


def by_score(scores: dict[int, float | None]) -> list[int]:
    """Return the steps with a dev score, the best last; of equal ones the later.

    >>> by_score({1: 0.7, 2: 0.9, 3: None, 4: 0.7})
    [1, 4, 2]
    """
    ranked = [(score, step) for step, score in scores.items() if score is not None]
    return [step for _, step in sorted(ranked)]


def delete(place: epath.Path) -> None:
    """Delete a checkpoint; a part of one never keeps its name.

    Raises:
      InputError: it cannot be deleted.
    """
    with input_errors(place, "deleted"):
        if is_local(place):
            gone = place.with_name(f"{place.name}.deleted")
            os.rename(place, gone)
            gone.rmtree()
        else:
            (place / RECORD).unlink(missing_ok=True)
            place.rmtree()


def delete_leftovers(folder: epath.Path) -> None:
    """Delete what killed processes left: checkpoints half written or half deleted."""
    complete = {str(step) for step in steps(folder)}
    for place in _entries(folder):
        if re.match(r"[0-9]+(\.|$)", place.name) and place.name not in complete:
            with input_errors(place, "deleted"):
                place.rmtree()


def require_orbax(folder: str) -> None:
    """Raise an InputError for an address that orbax cannot write checkpoints to."""
    if not is_local(epath.Path(folder)) and not folder.startswith("gs://"):
        raise InputError(
            f"{folder}: orbax writes checkpoints to folders and gs:// alone; name one "
            "with --out, for instance a folder that the bucket is mounted as"
        )


@contextlib.contextmanager
def path_for_orbax(folder: epath.Path) -> Iterator[epath.Path]:
    """Yield a path to a folder that orbax and tensorstore read as it is written.

    They take brackets, asterisks and question marks for patterns and a backslash for a
    slash. A link without such characters leads to such a folder.

    Raises:
      InputError: there can be no such link.
    """
    # Orbax refuses relative paths, and epath takes addresses of buckets for them.
    absolute = folder.resolve() if is_local(folder) else folder
    if not _MISREAD.search(os.fspath(absolute)):
        yield absolute
        return
    with temporary_folder() as made:
        if not is_local(folder) or _MISREAD.search(os.fspath(made)):
            raise InputError(
                f"{folder}: checkpoints cannot be written to a path with one of []*?\\;"
                " name another folder with --out"
            )
        link = made / "checkpoints"
        link.symlink_to(absolute)
        yield epath.Path(link)


@contextlib.contextmanager
def _read_errors(place: epath.Path) -> Iterator[None]:
    """Tell files that are missing, which is damage, from errors of the file system."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        name = Path(os.fsdecode(error.filename or RECORD)).name
        raise Damaged(f"{name} is missing") from error
    except OSError as error:
        raise InputError(
            f"{place}: cannot be read: {error.strerror or error}; nothing was deleted; "
            "repair the disk or the folder and run the same command again"
        ) from error


def _entries(folder: epath.Path) -> list[epath.Path]:
    if not folder.exists():
        return []
    try:
        with _read_errors(folder):
            return sorted(folder.iterdir())
    except Damaged as error:
        raise InputError(f"{folder}: is not a folder") from error


def _files(folder: epath.Path, name: str) -> Iterator[tuple[str, epath.Path]]:
    """Yield the files below a folder by name; epath's `rglob` would take brackets."""
    for place in sorted(folder.iterdir()):
        inner = f"{name}/{place.name}"
        if place.is_dir():
            yield from _files(place, inner)
        elif place.is_file():
            yield inner, place


def _check_regular(file: epath.Path, name: str) -> None:
    """Raise Damaged for a pipe or a device, which a reader would wait on forever."""
    try:
        check_regular(file)
    except InputError as error:
        raise Damaged(f"{name} is not a regular file") from error


def _fingerprint(file: epath.Path) -> str:
    with file.open("rb") as content:
        stored = cast(io.BufferedReader, content)
        return hashlib.file_digest(stored, "sha256").hexdigest()


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest().encode()
