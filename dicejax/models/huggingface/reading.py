"""From a Hugging Face folder to an architecture and parameters."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from dicejax.errors import InputError
from dicejax.models.encoder import EncoderConfig
from dicejax.models.huggingface import folder as files
from dicejax.models.huggingface.names import CONFIGS, FAMILIES, UNUSED, Tensor, tensors
from dicejax.models.network import Network, Params


def config_from(content: Mapping[str, Any], origin: str = "config") -> EncoderConfig:
    """Return the architecture that the content of a `config.json` describes.

    Raises:
      InputError: another architecture, or a setting that is not followed.
    """
    kind = content.get("model_type")
    classes = {name: each for each in CONFIGS for name in each.model_types}
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
    file = folder / files.CONFIG
    return config_from(files.read_json(file), str(file))


@dataclasses.dataclass(frozen=True)
class Weights:
    """What a folder holds for a network.

    Attributes:
      params: the nested dict of the encoder under "encoder", and of each head that the
        folder has and that fits under "heads"; float32 NumPy arrays, layers stacked.
      new_heads: names of the heads that are not in it.
    """

    params: Params
    new_heads: tuple[str, ...]

    def over(self, params: Params) -> Params:
        """Return freshly drawn parameters with these in their place."""
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
    family = FAMILIES[network.encoder.model_type]
    shapes = jax.eval_shape(network.init, jax.random.key(0))
    wanted = list(tensors(family.encoder, shapes["encoder"]))
    heads = {
        name: list(tensors(family.heads[type(head)][0], shapes["heads"][name]))
        for name, head in network.heads
        if family.task_class(head) is not None
    }
    found = {_canonical(n, family.prefix): t for n, t in files.tensors(folder)}
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
    """Drop the task model's prefix and use today's names for old ones."""
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
