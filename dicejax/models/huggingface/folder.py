"""Model folders on disk: where they are, their JSON, their safetensors.

PyTorch is not needed. Files in Python's pickle format are refused, since loading them
can run code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError, safe_open

from dicejax.errors import InputError

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt")


def locate(path: str) -> Path:
    """Return the folder that `path` names, fetching it first if it is a hub id.

    Args:
      path: a local folder, or a model id of the Hugging Face hub.

    Raises:
      InputError: there is no such folder and the hub cannot give it either.
    """
    folder = Path(path).expanduser()
    if folder.is_dir():
        return folder
    if folder.exists() or path.startswith((".", "/", "~")) or path.count("/") > 1:
        raise InputError(f"{path}: not a folder; name a model folder or a hub id")
    from huggingface_hub import snapshot_download

    wanted = ["*.json", "*.safetensors", "*.txt", "*.model"]
    try:
        return Path(snapshot_download(path, allow_patterns=wanted))
    except Exception as error:  # the hub raises many kinds, all meaning "not to be had"
        reason = str(error).strip().splitlines()[0] if str(error).strip() else ""
        raise InputError(
            f"{path}: no such folder, and the Hugging Face hub did not give it "
            f"({type(error).__name__}: {reason}); check the name or the network"
        ) from error


def read_json(file: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
      InputError: the file is missing or holds anything else.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(
            f"{file}: missing; is {file.parent} a model folder?"
        ) from error
    except json.JSONDecodeError as error:
        raise InputError(f"{file}:{error.lineno}: not JSON: {error.msg}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: not UTF-8 text; fetch it again") from error
    if not isinstance(content, dict):
        raise InputError(f"{file}: holds no JSON object; fetch it again")
    return content


def tensors(folder: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name and the values of every tensor, of one file or of all shards.

    Raises:
      InputError: there is none, only pickle, or a file that cannot be read.
    """
    # By way of jax, since NumPy itself has no bfloat16; not to an accelerator.
    host = jax.local_devices(backend="cpu")[0]
    for file in _weight_files(folder):
        try:
            with safe_open(file, framework="flax") as tensors:
                for name in tensors.keys():  # noqa: SIM118 - not a mapping
                    with jax.default_device(host):
                        array = np.asarray(tensors.get_tensor(name))
                    yield name, array
        except (SafetensorError, OSError) as error:
            raise InputError(
                f"{file}: not a readable safetensors file ({error}); fetch it again"
            ) from error


def _weight_files(folder: Path) -> list[Path]:
    index = folder / (WEIGHTS + ".index.json")
    if index.exists():
        shards = read_json(index).get("weight_map")
        if not isinstance(shards, dict):
            raise InputError(f"{index}: has no weight_map; fetch it again")
        return [folder / shard for shard in sorted(set(shards.values()))]
    single = folder / WEIGHTS
    if single.exists():
        return [single]
    pickled = [name for name in PICKLED if (folder / name).exists()]
    if pickled:
        raise InputError(
            f"{folder / pickled[0]}: pickle files are not read, they can run code; "
            'convert it where PyTorch is installed: python -c "from transformers '
            f"import AutoModel; AutoModel.from_pretrained('{folder}')"
            f".save_pretrained('{folder}')\""
        )
    raise InputError(f"{folder}: holds no {WEIGHTS}")
