"""Atomic file writes, safe with concurrent writers."""

from __future__ import annotations

import uuid

from etils import epath

from dicejax.errors import InputError


def write_whole(folder: epath.Path, name: str, text: str) -> None:
    """Write a file atomically; the jobs of an array may write it at the same time.

    Args:
      folder: folder, created if missing.
      name: name of the file.
      text: content, written in UTF-8.

    Raises:
      InputError: the folder cannot be made or written to.
    """
    partial = folder / f".{name}.{uuid.uuid4().hex}.partial"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        partial.replace(folder / name)
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be written to: {error.strerror or error}"
        ) from error
