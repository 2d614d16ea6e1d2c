"""Folders of models, from this machine or the Hugging Face hub."""

from __future__ import annotations

import os
import re
from pathlib import Path

from dicejax.errors import InputError, first_line
from dicejax.io import paths

# Names of the hub: one file name, or an owner's and one of a model.
_HUB_ID = re.compile(r"(?:[A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][\w.-]*", re.ASCII)


def locate(path: str, revision: str | None = None, *, fetch: bool = True) -> Path:
    """Return the folder that `path` names, fetching it first if it is a hub id.

    Args:
      path: a local folder, or a model id of the Hugging Face hub: NAME or OWNER/NAME.
      revision: branch, tag or commit of a hub id; None is the main branch.
      fetch: whether a hub id that is not in the local cache may be fetched.

    Raises:
      InputError: there is no such folder and the hub cannot give it either.
    """
    folder = os.path.expanduser(path)
    if os.path.isdir(folder):
        if revision is not None:
            raise InputError(
                f"{path}: a local folder has no revision {revision}; leave it out"
            )
        return Path(folder)
    if os.path.lexists(folder) or not _HUB_ID.fullmatch(path):
        raise InputError(
            f"{path}: not a folder{paths.tried(path)}; name a model folder or a hub id"
        )
    owner = path.rpartition("/")[0]
    if owner and os.path.isdir(owner):
        raise InputError(
            f"{path}: not a folder, though {owner} is one; name a folder in it, or "
            f"fetch the hub's model with: hf download {path} --local-dir FOLDER"
        )
    from huggingface_hub import snapshot_download

    try:
        folder = snapshot_download(
            path,
            revision=revision,
            allow_patterns=["*.json", "*.safetensors", "*.txt", "*.model"],
            local_files_only=not fetch,
        )
    except Exception as error:  # the hub raises many kinds, all meaning "not to be had"
        raise InputError(
            f"{path}: no such folder{paths.tried(path)}, and the hub did not give it "
            f"({type(error).__name__}: {first_line(error)}); check the name or the "
            "network, name a folder with --encoder.path, or begin with --scratch"
        ) from error
    return Path(folder)
