"""Reading a Hugging Face folder without PyTorch."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError, safe_open

from dicejax.errors import InputError
from dicejax.models import bert, xlnet  # noqa: F401 - define their architectures
from dicejax.models.encoder import EncoderConfig, encoder_configs
from dicejax.models.huggingface.names import UNUSED, Tensor, family_of, tensors
from dicejax.models.network import Network, Params

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


def _stored(folder: Path) -> Iterator[tuple[str, np.ndarray]]:
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


def config_from(content: Mapping[str, Any], origin: str = "config") -> EncoderConfig:
    """Return the architecture in the content of a `config.json`.

    Raises:
      InputError: the architecture or a setting is not supported.
    """
    kind, classes = content.get("model_type"), encoder_configs()
    if kind not in classes:
        raise InputError(
            f"{origin}: model_type is {kind!r}; supported: "
            f"{', '.join(map(repr, sorted(classes)))}"
        )
    fields = {field.name for field in dataclasses.fields(classes[kind])}
    try:
        return classes[kind](**{k: v for k, v in content.items() if k in fields})
    except (TypeError, ValueError) as error:
        raise InputError(f"{origin}: {error}") from error


def read_config(folder: Path) -> EncoderConfig:
    """Read `config.json`.

    Raises:
      InputError: the file is missing, is not JSON, or describes another architecture.
    """
    file = folder / CONFIG
    return config_from(read_json(file), str(file))


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of a folder for a network.

    Attributes:
      params: the nested dict of the encoder under "encoder", and of each head found in
        the folder under "heads"; float32 NumPy arrays, layers stacked.
      new_heads: names of the heads not found.
    """

    params: Params
    new_heads: tuple[str, ...]

    def over(self, params: Params) -> Params:
        """Return initial parameters with these in their place."""
        heads = params["heads"] | self.params["heads"]
        return params | {"encoder": self.params["encoder"], "heads": heads}


def read_weights(folder: Path, network: Network) -> Weights:
    """Read the weights of an encoder, and of its heads where they fit.

    Args:
      folder: holds `model.safetensors`, or its shards with
        `model.safetensors.index.json`; with or without the prefix of a task model, with
        today's names or old ones.
      network: its encoder must be that of the folder.

    Raises:
      InputError: pickle-only folder, unreadable file, or tensors that are missing,
        unexpected or of the wrong shape; these are all listed in one message.
    """
    family = family_of(network.encoder)
    shapes = jax.eval_shape(network.init, jax.random.key(0))
    wanted = list(tensors(family.encoder, shapes["encoder"]))
    heads = {
        name: list(tensors(family.heads[type(head)][0], shapes["heads"][name]))
        for name, head in network.heads
        if family.task_class(head) is not None
    }
    found = {_canonical(n, family.prefix): t for n, t in _stored(folder)}
    of_heads = {tensor.name for every in heads.values() for tensor in every}
    problems = list(_misfits(wanted, found)) + [
        f"unexpected {name} {tensor.shape}"
        for name, tensor in found.items()
        if name not in {tensor.name for tensor in wanted} | of_heads
        and not UNUSED.search(name)
    ]
    if problems:
        raise InputError(
            f"{folder}: weights do not fit config.json: " + "; ".join(sorted(problems))
        )
    fitting = {
        name: _assemble(every, found)
        for name, every in heads.items()
        if not any(_misfits(every, found))
    }
    new = tuple(name for name, _ in network.heads if name not in fitting)
    return Weights({"encoder": _assemble(wanted, found), "heads": fitting}, new)


def _misfits(wanted: Iterable[Tensor], found: Mapping[str, np.ndarray]):
    for tensor in wanted:
        if tensor.name not in found:
            yield f"missing {tensor.name} {tensor.shape}"
        elif found[tensor.name].shape != tensor.shape:
            shape = found[tensor.name].shape
            yield f"{tensor.name} is {shape}, config.json wants {tensor.shape}"


def _canonical(name: str, prefix: str) -> str:
    """Drop the task model's prefix and rename old tensors."""
    name = name.removeprefix(prefix)
    name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name)
    return re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)


def _assemble(wanted: Iterable[Tensor], found: Mapping[str, np.ndarray]) -> Params:
    """Put tensors in place: kernels transposed to [in, out], layers stacked."""
    layers: dict[tuple[str, ...], dict[int | None, np.ndarray]] = {}
    for tensor in wanted:
        array = np.asarray(found[tensor.name], np.float32)
        array = array.T if tensor.transposed else array
        layers.setdefault(tensor.path, {})[tensor.layer] = array
    params: Params = {}
    for path, parts in layers.items():
        branch = params
        for key in path[:-1]:
            branch = branch.setdefault(key, {})
        if None in parts:
            branch[path[-1]] = np.ascontiguousarray(parts[None])
        else:
            branch[path[-1]] = np.stack([parts[n] for n in range(len(parts))])
    return params
