"""Weights and data in one small file, for a machine that nothing can be fetched from.

A model's embeddings of word pieces that the data lack are left out; they become zeros.
The bytes of the numbers are sorted by significance, which xz compresses a sixth better.
"""

from __future__ import annotations

import io
import json
import lzma
import shutil
import tarfile
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer

from dicejax.formats import ConllFiles

WEIGHTS, TABLE = "model.safetensors", "embeddings.word_embeddings.weight"
MODEL_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt")
SPLITS = ("train.txt", "dev.txt", "test.txt")


def pack(model_folder: str, data_folder: str, file: str) -> None:
    """Write a model folder and a CoNLL folder to a file, and print its size."""
    model, data = Path(model_folder), Path(data_folder)
    weights = load_file(model / WEIGHTS)
    used = np.zeros(len(weights[TABLE]), bool)
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    for split in SPLITS:
        words = [
            list(sentence.words) for sentence in ConllFiles.read_file(str(data / split))
        ]
        for encoding in tokenizer.encode_batch(words, is_pretokenized=True):
            used[encoding.ids] = True
    weights[TABLE] = weights[TABLE][used]
    floats = {k: v for k, v in weights.items() if v.dtype == np.float32}
    shapes = {name: array.shape for name, array in floats.items()}
    header = json.dumps({"shapes": shapes, "used": np.flatnonzero(used).tolist()})
    line = np.concatenate([array.reshape(-1) for array in floats.values()])
    planes = np.ascontiguousarray(line.view(np.uint8).reshape(-1, 4).T)
    with (
        lzma.open(file, "wb", preset=6) as stream,
        tarfile.open(fileobj=stream, mode="w|") as packed,
    ):
        for name in MODEL_FILES:
            if (model / name).exists():
                packed.add(model / name, f"model/{name}")
        for split in SPLITS:
            packed.add(data / split, f"data/{split}")
        for name, content in (
            ("header", header.encode()),
            ("planes", planes.tobytes()),
        ):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))
    print(f"{file}: {Path(file).stat().st_size / 2**20:.2f} MiB")


def unpack(file: Path) -> Path:
    """Write `model/` and `data/` into a folder beside the file, once; return it."""
    folder = Path(f"{file}.unpacked")
    if (folder / "model" / WEIGHTS).exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    with lzma.open(file) as stream, tarfile.open(fileobj=stream, mode="r|") as packed:
        packed.extractall(folder, filter="data")
    header = json.loads((folder / "header").read_bytes())
    planes = np.fromfile(folder / "planes", np.uint8).reshape(4, -1)
    line = np.ascontiguousarray(planes.T).view(np.float32).reshape(-1)
    weights, start = {}, 0
    for name, shape in header["shapes"].items():
        size = int(np.prod(shape))
        weights[name] = line[start : start + size].reshape(shape)
        start += size
    config = json.loads((folder / "model" / "config.json").read_bytes())
    table = np.zeros((config["vocab_size"], weights[TABLE].shape[1]), np.float32)
    table[header["used"]] = weights[TABLE]
    save_file(weights | {TABLE: table}, folder / "model" / WEIGHTS)
    return folder
