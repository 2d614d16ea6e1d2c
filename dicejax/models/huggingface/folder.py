"""Read encoders from Hugging Face folders: `config.json` and `*.safetensors`.

PyTorch is not needed. Files in Python's pickle format are refused, since loading them
can run code.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from dicejax.errors import InputError
from dicejax.models.bert import BertConfig

PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt")

# Tensor names of the checkpoint and where they go: (pattern, path, transposed).
# `{0}` is the pattern's group; a leading "layers/N/" is stacked over N.
_DENSE = {
    "attention.self.query": "query",
    "attention.self.key": "key",
    "attention.self.value": "value",
    "attention.output.dense": "attention_output",
    "intermediate.dense": "intermediate",
    "output.dense": "output",
}
_NORM = {
    "attention.output.LayerNorm": "attention_norm",
    "output.LayerNorm": "output_norm",
}
# Parts of a checkpoint that an encoder has no use for: other tasks' heads, buffers.
_UNUSED = re.compile(
    r"^(pooler|cls|classifier|qa_outputs)\.|\.position_ids$|^position_ids$"
)


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


def read_config(folder: Path) -> BertConfig:
    """Read `config.json`.

    Raises:
      InputError: the file is missing, is not JSON, or describes another architecture.
    """
    file = folder / "config.json"
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{file}: missing; is {folder} a model folder?") from error
    except json.JSONDecodeError as error:
        raise InputError(f"{file}:{error.lineno}: not JSON: {error.msg}") from error
    kind = content.get("model_type")
    if kind != "bert":
        raise InputError(f"{file}: model_type is {kind!r}; supported: 'bert'")
    positions = content.get("position_embedding_type", "absolute")
    if positions != "absolute":
        raise InputError(
            f"{file}: position_embedding_type is {positions!r}; supported: 'absolute'"
        )
    known = {field.name for field in dataclasses.fields(BertConfig)}
    try:
        return BertConfig(**{k: v for k, v in content.items() if k in known})
    except (TypeError, ValueError) as error:
        raise InputError(f"{file}: {error}") from error


def read_encoder(folder: Path, config: BertConfig) -> dict:
    """Read the encoder's weights into the nested dict that `models.bert` uses.

    Args:
      folder: holds `model.safetensors`, or its shards with
        `model.safetensors.index.json`.
      config: what `read_config` gave.

    Returns:
      Parameters as nested dict of float32 NumPy arrays, layers stacked.

    Raises:
      InputError: pickle-only folder, unreadable file, or tensors that are missing,
        unexpected or of the wrong shape; these are all listed in one message.
    """
    expected = dict(_names(config))
    found: dict[str, np.ndarray] = {}
    problems = []
    for name, tensor in _tensors(folder):
        name = _canonical(name)
        if _UNUSED.search(name):
            continue
        if name not in expected:
            problems.append(f"unexpected {name} {tensor.shape}")
            continue
        shape = expected[name][1]
        if tensor.shape != shape:
            problems.append(f"{name} is {tensor.shape}, config.json wants {shape}")
        found[name] = tensor
    problems += [
        f"missing {name} {shape}"
        for name, (_, shape) in expected.items()
        if name not in found
    ]
    if problems:
        raise InputError(
            f"{folder}: weights do not fit config.json: " + "; ".join(sorted(problems))
        )
    return _assemble(found, expected, config.num_hidden_layers)


def _names(config: BertConfig) -> Iterator[tuple[str, tuple[tuple, tuple[int, ...]]]]:
    """Yield each tensor's name, its place in the parameters, and its stored shape."""
    width, inner = config.hidden_size, config.intermediate_size
    for name, entries in config.tables.items():
        place = ("embeddings", name, "table")
        yield f"embeddings.{name}_embeddings.weight", (place, (entries, width))
    yield from _norm("embeddings.LayerNorm", ("embeddings", "norm"), width)
    shapes = {"intermediate": (inner, width), "output": (width, inner)}
    for layer in range(config.num_hidden_layers):
        prefix = f"encoder.layer.{layer}."
        for source, name in _DENSE.items():
            out_in = shapes.get(name, (width, width))
            place = ("layers", layer, name)
            yield f"{prefix}{source}.weight", ((*place, "kernel"), out_in)
            yield f"{prefix}{source}.bias", ((*place, "bias"), out_in[:1])
        for source, name in _NORM.items():
            yield from _norm(prefix + source, ("layers", layer, name), width)


def _norm(source: str, place: tuple, width: int) -> Iterator[tuple[str, tuple]]:
    yield f"{source}.weight", ((*place, "scale"), (width,))
    yield f"{source}.bias", ((*place, "bias"), (width,))


def _canonical(name: str) -> str:
    """Drop the task model's prefix and use today's names for old ones."""
    name = name.removeprefix("bert.")
    name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name)
    return re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)


def _tensors(folder: Path) -> Iterator[tuple[str, np.ndarray]]:
    for file in _weight_files(folder):
        try:
            with safe_open(file, framework="numpy") as tensors:
                for name in tensors.keys():  # noqa: SIM118 - not a mapping
                    yield name, tensors.get_tensor(name)
        except (SafetensorError, OSError) as error:
            raise InputError(
                f"{file}: not a readable safetensors file ({error}); fetch it again"
            ) from error


def _weight_files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.exists():
        shards = set(
            json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
        )
        return [folder / shard for shard in sorted(shards)]
    single = folder / "model.safetensors"
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
    raise InputError(f"{folder}: holds no model.safetensors")


def _assemble(
    found: Mapping[str, np.ndarray], expected: Mapping[str, tuple], depth: int
) -> dict:
    """Put tensors in place: kernels transposed to [in, out], layers stacked."""
    params: dict = {}
    for name, (place, _) in expected.items():
        tensor = np.asarray(found[name], np.float32)
        if place[-1] == "kernel":
            tensor = tensor.T
        if place[0] == "layers":
            _, layer, *rest = place
            shape = (depth, *tensor.shape)
            _branch(params, "layers", rest).setdefault(
                rest[-1], np.empty(shape, np.float32)
            )[layer] = tensor
        else:
            _branch(params, place[0], place[1:])[place[-1]] = np.ascontiguousarray(
                tensor
            )
    return params


def _branch(params: dict, first: str, rest) -> dict:
    branch = params.setdefault(first, {})
    for name in rest[:-1]:
        branch = branch.setdefault(name, {})
    return branch
