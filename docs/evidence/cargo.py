r"""Data and encoders in small files, for a machine that nothing can be fetched from.

    python docs/evidence/cargo.py pack CARGO --data DATA conll2003 sst2_held_out \
        --encoders minilm MODEL
    python docs/evidence/cargo.py unpack CARGO FOLDER

The first writes CARGO.00, CARGO.01 and so on, each of at most 48 MiB, the second the
folders FOLDER/data and FOLDER/minilm from them, with the same bytes, so that runs of
both machines are of the same data and weights.
"""

from __future__ import annotations

import argparse
import io
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

PART = 48 * 2**20
"""Bytes of a file at most."""


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
    places = {f"data/{name}": Path(root, name) for name in folders}
    pairs = iter(given.encoders)
    places |= {name: Path(next(pairs)) for name in pairs}
    for file in pack(given.cargo, places):
        print(f"{file}: {file.stat().st_size / 2**20:.2f} MiB")


def pack(cargo: Path, folders: Mapping[str, Path]) -> list[Path]:
    """Write folders to files; return them.

    Args:
      cargo: the beginning of the files' names.
      folders: each by the path that it is to have.
    """
    packed, parts = io.BytesIO(), []
    with tarfile.open(fileobj=packed, mode="w:gz", dereference=True) as tar:
        for name, folder in folders.items():
            tar.add(folder, name)
    content = packed.getbuffer()
    cargo.parent.mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(range(0, len(content), PART)):
        parts.append(cargo.with_name(f"{cargo.name}.{number:02}"))
        parts[-1].write_bytes(content[start : start + PART])
    return parts


def unpack(cargo: Path, folder: Path) -> None:
    """Write folders from the files whose names begin with that of a cargo."""
    parts = sorted(cargo.parent.glob(f"{cargo.name}.[0-9][0-9]"))
    packed = io.BytesIO(b"".join(part.read_bytes() for part in parts))
    with tarfile.open(fileobj=packed, mode="r:gz") as tar:
        tar.extractall(folder, filter="data")


if __name__ == "__main__":
    sys.exit(main())
