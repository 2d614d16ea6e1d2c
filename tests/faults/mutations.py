"""Seeded damage to files: bytes, JSON, and what stands at their place."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

HUGE = "9" * 5000
DEEP = "[" * 100_000 + "]" * 100_000
# Texts that `json.dumps` cannot write, by the text they take the place of.
_WRITTEN = {'"%huge%"': HUGE, '"%deep%"': DEEP, '"%surrogate%"': r'"\ud800"'}
VALUES = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**19, 0.5, 1e308),
    *(float("nan"), float("inf"), "", "x", "é\u2028", "x" * 100_000, "../../x"),
    *("\x1b[31m\x07", "\0", "<script>alert(1)</script>", "line\nline", "%surrogate%"),
    *([], {}, [[]], {"x": None}, ["x"], [1], "%huge%", "%deep%"),
)


def mutate(file: Path, rng: random.Random) -> str:
    """Damage a file, or put something else at its place; return what was done."""
    content = file.read_bytes()
    kinds = [_bytes] * 3 + [_place]
    if _values_of(content) is not None:
        kinds += [_json] * 5
    return rng.choice(kinds)(file, content, rng)


def _values_of(content: bytes) -> list[Any] | None:
    """Return the JSON value, or those of all lines; None for others."""
    for parts in ([content], content.splitlines()):
        with contextlib.suppress(ValueError, RecursionError):
            return [json.loads(part) for part in parts if part]
    return None


def _bytes(file: Path, content: bytes, rng: random.Random) -> str:
    name, change = rng.choice(list(BYTES.items()))
    file.write_bytes(change(content, rng))
    return name


def _spot(content: bytes, rng: random.Random) -> tuple[int, int]:
    """Return the bounds of a short piece of the content."""
    start = rng.randrange(len(content) + 1)
    return start, min(len(content), start + rng.choice((1, 2, 16, 4096)))


def _flip(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content or b"\0")
    for _ in range(rng.choice((1, 1, 8))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _delete(content: bytes, rng: random.Random) -> bytes:
    start, stop = _spot(content, rng)
    return content[:start] + content[stop:]


def _double(content: bytes, rng: random.Random) -> bytes:
    start, stop = _spot(content, rng)
    return content[:stop] + content[start:]


def _insert(content: bytes, rng: random.Random) -> bytes:
    inserted = rng.choice(
        (
            *(b"\0", b"\x1b[31m", b"\xff\xfe", b"\r", b"\n", b"\t", b" ", b'"', b"\\"),
            *("\u2028".encode(), "\x85".encode(), "\ufeff".encode(), b"\xed\xa0\x80"),
            *(b"<script>", b"[" * 100_000, HUGE.encode(), rng.randbytes(64)),
            "".join(rng.choices(string.printable, k=8)).encode(),
        )
    )
    start, _ = _spot(content, rng)
    return content[:start] + inserted + content[start:]


BYTES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "flip": _flip,
    "delete": _delete,
    "cut": lambda content, rng: content[: rng.randrange(len(content) + 1)],
    "double": _double,
    "insert": _insert,
    "empty": lambda content, rng: b"",
    "random": lambda content, rng: rng.randbytes(len(content)),
}


def _place(file: Path, content: bytes, rng: random.Random) -> str:
    name = rng.choice(list(PLACES))
    damage(file, name)
    return name


PLACES: dict[str, Callable[[Path], None]] = {
    "missing": lambda file: None,
    "folder": lambda file: file.mkdir(),
    "pipe": lambda file: os.mkfifo(file),
    "link to itself": lambda file: file.symlink_to(file.name),
    "link to nothing": lambda file: file.symlink_to("nothing"),
    "link to a device": lambda file: file.symlink_to("/dev/zero"),
}


def damage(file: Path, change: str | Callable[[bytes], bytes]) -> None:
    """Change a file's content, or put at its place what PLACES has of that name."""
    if callable(change):
        file.write_bytes(change(file.read_bytes()))
    else:
        file.unlink()
        PLACES[change](file)


def _json(file: Path, content: bytes, rng: random.Random) -> str:
    values = _values_of(content)
    lines = len(values) != 1
    value = {"root": values if lines else values[0]}
    holder, key = rng.choice(list(_nodes(value)))
    match rng.choice(("replace", "replace", "replace", "remove", "add", "swap")):
        case "remove" if holder is not value:
            del holder[key]
            done = f"without {key!r}"
        case "add" if isinstance(holder, dict) and holder is not value:
            holder[rng.choice(("x", "\x1b[31m", "__class__", ""))] = _value(rng)
            done = "a key added"
        case "swap" if isinstance(holder, dict) and len(holder) > 1:
            other = rng.choice(list(holder))
            holder[key], holder[other] = holder[other], holder[key]
            done = f"{key!r} and {other!r} exchanged"
        case _:
            holder[key] = _value(rng)
            done = f"{key!r} is {str(holder[key])[:20]!r}"
    parts = value["root"] if lines and isinstance(value["root"], list) else None
    texts = map(json.dumps, [value["root"]] if parts is None else parts)
    text = "\n".join(texts) + "\n"
    for old, new in _WRITTEN.items():
        text = text.replace(old, new)
    file.write_text(text, encoding="utf-8")
    return f"JSON: {done}"


def _value(rng: random.Random) -> Any:
    return rng.choice((*VALUES, rng.randrange(1000), rng.random()))


def _nodes(value: Any):
    """Yield each value as its holder and its key, those far down too."""
    keys = value if isinstance(value, dict) else range(len(value))
    for key in list(keys):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _nodes(value[key])


def restore(source: Path, target: Path) -> None:
    """Make a folder a copy of another, whatever it holds now."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
