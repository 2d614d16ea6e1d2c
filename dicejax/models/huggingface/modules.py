"""The modules of a sentence-transformers folder: how states are pooled, dense layers.

`modules.json` lists them: a Transformer, the folder itself; Pooling; perhaps Dense.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from dicejax.errors import InputError, quote
from dicejax.io import json_text
from dicejax.models.encoder import EncoderConfig, Pooling
from dicejax.models.huggingface.names import DENSE

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
FILE_NAME = re.compile(r"[^/\\\0]*[^/\\\0.][^/\\\0]*")
_MODULES, _POOLING = "modules.json", "1_Pooling"
_PACKAGE = "sentence_transformers"
_IDENTITY = "torch.nn.modules.linear.Identity"
_LAYER = {
    "activation_function": "torch.nn.modules.activation.Tanh",
    "bias": True,
    "use_residual": False,
    "module_input_name": "sentence_embedding",
}
"""What a Dense module does if its file says nothing else."""
_CLASSIFIER = _LAYER | {"activation_function": _IDENTITY}
_MODE = "pooling_mode_"
_POOLED: Mapping[str, Pooling] = {
    "cls": "first",
    "lasttoken": "last",
    "mean": "mean",
    "max": "max",
}
_CHOOSE = f"choose with --encoder.pooling: {', '.join(_POOLED.values())}"
_ENDS = {"cls": "_token", "mean": "_tokens", "max": "_tokens"}


def read_pooling(folder: Path, width: int) -> Pooling:
    """Return how a sentence-transformers folder pools; "auto" where nothing says so.

    Raises:
      InputError: otherwise than by one state, the mean or the maximum of those of the
        last layer, or the files are damaged.
    """
    modules = _modules(folder)
    names = [name for name, _ in modules]
    if "Pooling" not in names:
        return "auto"
    if names[:2] != ["Transformer", "Pooling"] or names.count("Pooling") > 1:
        raise InputError(
            f"{folder / _MODULES}: has {quote(names)}; supported: a Transformer whose "
            f"states one Pooling takes; {_CHOOSE}"
        )
    file = modules[1][1] / CONFIG
    content = read_json(file)
    modes = content.get("pooling_mode")
    if modes is None:
        flags = {key: x for key, x in content.items() if key.startswith(_MODE)}
        for key, value in flags.items():
            if not isinstance(value, bool):
                raise InputError(
                    f"{file}: {key} is {quote(value)}, not true or false; {_CHOOSE}"
                )
        modes = [
            re.sub(r"_tokens?$", "", key.removeprefix(_MODE))
            for key, value in flags.items()
            if value
        ]
    modes = [modes] if isinstance(modes, str) else modes
    mode = modes[0] if isinstance(modes, list) and len(modes) == 1 else modes
    if not isinstance(mode, str) or mode not in _POOLED:
        raise InputError(
            f"{file}: pools by {quote(mode)}; supported: one of "
            f"{', '.join(map(repr, _POOLED))}; {_CHOOSE}"
        )
    wide = content.get("embedding_dimension", content.get("word_embedding_dimension"))
    if wide is not None and wide != width:
        raise InputError(
            f"{file}: pools states {quote(wide)} wide, but those of {CONFIG} are "
            f"{width}; take both from one model, or {_CHOOSE}"
        )
    return _POOLED[mode]


def dense_of(folder: Path) -> Path | None:
    """Return the folder of a Dense module that takes what is pooled."""
    with contextlib.suppress(InputError):  # of no weight where `pooling` is set
        modules = _modules(folder)[:3]
        if [name for name, _ in modules] == ["Transformer", "Pooling", "Dense"]:
            return modules[2][1]
    return None


def classifier_of(folder: Path, encoder: EncoderConfig) -> Path | None:
    """Return the folder of the Dense module that `write_modules` has written, if any.

    One that computes otherwise, or on texts that are pooled otherwise, is none.
    """
    dense = dense_of(folder)
    if dense is None:
        return None
    with contextlib.suppress(InputError):
        settings = _LAYER | read_json(dense / CONFIG)
        if (
            read_pooling(folder, encoder.width) == encoder.pooling
            and read_json(folder / CONFIG).get("problem_type") is not None
            and (dense / WEIGHTS).exists()
            and all(settings[key] == x for key, x in _CLASSIFIER.items())
        ):
            return dense
    return None


def _modules(folder: Path) -> list[tuple[str, Path]]:
    """Return the modules of a sentence-transformers folder: classes and folders."""
    file, pooling = folder / _MODULES, folder / _POOLING
    if not file.exists():
        stated = (pooling / CONFIG).exists()
        return [("Transformer", folder), ("Pooling", pooling)] if stated else []
    modules = []
    content = json_text.read(file)
    for module in content if isinstance(content, list) else [content]:
        kind, path = (
            module.get(key) if isinstance(module, dict) else None
            for key in ("type", "path")
        )
        is_name = isinstance(path, str) and FILE_NAME.fullmatch(path or "_")
        if not isinstance(kind, str) or not is_name:
            raise InputError(
                f"{file}: has {quote(module)}, which names no class and no folder in "
                f"this one; {_CHOOSE}"
            )
        modules.append((kind.rpartition(".")[2], folder / str(path)))
    return modules


def write_modules(
    folder: Path, encoder: EncoderConfig, tensors: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Write the modules of sentence-transformers, and return the tensors of the first.

    In the words of earlier versions, which the later ones read.
    """
    of_dense = {
        name.removeprefix(f"{DENSE}."): tensor
        for name, tensor in tensors.items()
        if name.startswith(f"{DENSE}.")
    }
    parts = [("Transformer", ""), ("Pooling", _POOLING)]
    parts += [("Dense", DENSE)] if of_dense else []
    modules = [
        {"idx": n, "name": str(n), "path": path, "type": f"{_PACKAGE}.models.{kind}"}
        for n, (kind, path) in enumerate(parts)
    ]
    write_json(folder / _MODULES, modules)
    (folder / _POOLING).mkdir()
    flags = {
        f"{_MODE}{mode}{_ENDS.get(mode, '')}": pooling == encoder.pooling
        for mode, pooling in _POOLED.items()
    }
    content = {"word_embedding_dimension": encoder.width, **flags}
    write_json(folder / _POOLING / CONFIG, content)
    settings = {"max_seq_length": encoder.max_length, "do_lower_case": False}
    write_json(folder / "sentence_bert_config.json", settings)
    if of_dense:
        (folder / DENSE).mkdir()
        classes, width = of_dense["linear.weight"].shape
        sizes = {"in_features": width, "out_features": classes, "bias": True}
        write_json(folder / DENSE / CONFIG, sizes | {"activation_function": _IDENTITY})
        save(of_dense, folder / DENSE)
    return {name: x for name, x in tensors.items() if not name.startswith(DENSE)}


def save(tensors: dict[str, np.ndarray], folder: Path) -> None:
    """Write `model.safetensors` beside `config.json`."""
    # transformers refuses a file without the format.
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    # It is written with mode 0600, whatever the umask.
    shutil.copymode(folder / CONFIG, folder / WEIGHTS)


def read_json(file: Path) -> dict[str, Any]:
    """Read a JSON object; an `InputError` if the file is missing or holds another."""
    content = json_text.read(file)
    if not isinstance(content, dict):
        raise InputError(f"{file}: holds no JSON object; fetch it again")
    return content


def write_json(file: Path, content: Any) -> None:
    """Write JSON."""
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    file.write_text(text, encoding="utf-8")
