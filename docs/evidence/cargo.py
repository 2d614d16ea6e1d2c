r"""Data and encoders in small files, for a machine that nothing can be fetched from.

    python docs/evidence/cargo.py pack CARGO --data DATA conll2003 sst2_held_out \
        --encoders minilm MODEL
    python docs/evidence/cargo.py unpack CARGO FOLDER

The first writes CARGO.00, CARGO.01 and so on, each of at most 64 MiB, the second the
folders FOLDER/data and FOLDER/minilm from them. Embeddings of word pieces that the data
lack are left out; they become zeros. The bytes of the numbers are sorted by
significance, which xz compresses a sixth better.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer

PART = 64 * 2**20
"""Bytes of a file at most."""
WEIGHTS, TABLE = "model.safetensors", "embeddings.word_embeddings.weight"
HEADER, PLANES = "numbers.json", "numbers.planes"


def main(argv: Sequence[str] | None = None) -> None:
    """Pack or unpack."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack")
    packing.add_argument("cargo", type=Path)
    packing.add_argument("--data", nargs="+", metavar=("DATA", "FOLDER"), required=True)
    packing.add_argument("--encoders", nargs="+", metavar="NAME FOLDER", required=True)
    unpacking = commands.add_parser("unpack")
    unpacking.add_argument("cargo", type=Path)
    unpacking.add_argument("folder", type=Path)
    given = parser.parse_args(argv)
    if given.command == "unpack":
        unpack(given.cargo, given.folder)
        return
    root, *folders = given.data
    pairs = iter(given.encoders)
    encoders = {name: Path(next(pairs)) for name in pairs}
    for file in pack(given.cargo, Path(root), folders, encoders):
        print(f"{file}: {file.stat().st_size / 2**20:.2f} MiB")


def pack(
    cargo: Path, data: Path, folders: Sequence[str], encoders: dict[str, Path]
) -> list[Path]:
    """Write data folders and encoders to files; return them.

    Args:
      cargo: the beginning of their names.
      data: folder of all data.
      folders: those of the data sets in it.
      encoders: folder of each by its name.
    """
    files = [
        file
        for folder in folders
        for file in sorted((data / folder).rglob("*"))
        if file.is_file()
    ]
    packed = io.BytesIO()
    with (
        lzma.open(packed, "wb", preset=6) as stream,
        tarfile.open(fileobj=stream, mode="w|") as tar,
    ):
        for file in files:
            tar.add(file.resolve(), Path("data", file.relative_to(data)))
        for name, folder in encoders.items():
            for file in sorted(folder.rglob("*")):
                if file.is_file() and file.suffix != ".safetensors":
                    tar.add(file, Path(name, file.relative_to(folder)))
            weights = load_file(folder / WEIGHTS)
            for member, content in _numbers(weights, folder, files).items():
                entry = tarfile.TarInfo(f"{name}/{member}")
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    content, parts = packed.getvalue(), []
    cargo.parent.mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(range(0, len(content), PART)):
        parts.append(cargo.with_name(f"{cargo.name}.{number:02}"))
        parts[-1].write_bytes(content[start : start + PART])
    return parts


def unpack(cargo: Path, folder: Path) -> None:
    """Write data and encoders from the files whose names begin with that of a cargo."""
    parts = sorted(cargo.parent.glob(f"{cargo.name}.[0-9][0-9]"))
    packed = io.BytesIO(b"".join(part.read_bytes() for part in parts))
    with lzma.open(packed) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
        tar.extractall(folder, filter="data")
    for header in folder.glob(f"*/{HEADER}"):
        weights = dict(_weights(header))
        save_file(weights, header.with_name(WEIGHTS), {"format": "pt"})
        header.unlink()
        header.with_name(PLANES).unlink()


def _used(folder: Path, files: Sequence[Path], vocabulary: int) -> np.ndarray:
    """Return which word pieces occur in the lines of files, or are special, bool."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    used = np.zeros(vocabulary, bool)
    used[[*tokenizer.get_added_tokens_decoder()]] = True
    for file in files:
        # Each word alone and in its line: pieces of punctuation differ by tokenizer.
        lines = file.read_text(encoding="utf-8").splitlines()
        words = sorted({word for line in lines for word in line.split()})
        for encoding in tokenizer.encode_batch([*lines, *words]):
            used[encoding.ids] = True
    return used


def _numbers(
    weights: dict[str, np.ndarray], folder: Path, files: Sequence[Path]
) -> dict[str, bytes]:
    """Return a header, and the bytes of all numbers from the most significant on."""
    floats = {k: v for k, v in weights.items() if v.dtype == np.float32}
    (table,) = (name for name in floats if name.endswith(TABLE))
    used = _used(folder, files, len(floats[table]))
    floats[table] = floats[table][used]
    header = {
        "table": table,
        "shapes": {name: array.shape for name, array in floats.items()},
        "used": np.flatnonzero(used).tolist(),
        "rows": len(used),
    }
    line = np.concatenate([array.reshape(-1) for array in floats.values()])
    planes = np.ascontiguousarray(line.view(np.uint8).reshape(-1, 4).T)
    return {HEADER: json.dumps(header).encode(), PLANES: planes.tobytes()}


def _weights(file: Path) -> Iterator[tuple[str, np.ndarray]]:
    header, start = json.loads(file.read_bytes()), 0
    planes = np.fromfile(file.with_name(PLANES), np.uint8).reshape(4, -1)
    line = np.ascontiguousarray(planes.T).view(np.float32).reshape(-1)
    for name, shape in header["shapes"].items():
        size = int(np.prod(shape))
        array = line[start : start + size].reshape(shape)
        if name == header["table"]:
            rows, array = array, np.zeros((header["rows"], shape[1]), np.float32)
            array[header["used"]] = rows
        yield name, array
        start += size


if __name__ == "__main__":
    sys.exit(main())
