"""SentencePiece model files, read without the sentencepiece package.

The file is one protocol buffer message, `ModelProto` of
https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto. A
field is a key, `number << 3 | kind`, and its value; five of the fields matter here.
"""

from __future__ import annotations

import dataclasses
import math
import struct
from collections.abc import Iterator

UNIGRAM = 1
CONTROL = 3


@dataclasses.dataclass(frozen=True)
class SentencePieceModel:
    """The content of a model file.

    Attributes:
      pieces: with their scores, which are log probabilities; the place is the id.
      control: the pieces that no text gives, such as "<s>".
      unknown: id of the piece for characters that no other piece covers.
      algorithm: `UNIGRAM`, or 2 for BPE.
      character_map: the compiled normalisation, empty where there is none.
    """

    pieces: list[tuple[str, float]]
    control: list[str]
    unknown: int
    algorithm: int
    character_map: bytes


def parse(data: bytes) -> SentencePieceModel:
    """Read the content of a model file.

    Raises:
      ValueError: it is damaged, or something else.
    """
    pieces: dict[str, float] = {}
    control: list[str] = []
    trainer: dict[int, bytes | int] = {}
    normalizer: dict[int, bytes | int] = {}
    for number, value in _fields(data):
        if number == 1:
            piece = dict(_fields(value))
            text = _bytes(piece, 1).decode("utf-8")
            stored = _bytes(piece, 2, bytes(4))
            score = struct.unpack("<f", stored)[0] if len(stored) == 4 else math.nan
            if text in pieces or not math.isfinite(score):
                raise ValueError(f"piece {len(pieces)} is there twice or has no score")
            pieces[text] = score
            if piece.get(3) == CONTROL:
                control.append(text)
        elif number == 2:
            trainer = dict(_fields(value))
        elif number == 3:
            normalizer = dict(_fields(value))
    unknown, algorithm = _int(trainer, 40, 0), _int(trainer, 3, UNIGRAM)
    if not unknown < len(pieces):
        raise ValueError("holds no pieces")
    character_map = _bytes(normalizer, 2, b"")
    return SentencePieceModel(
        list(pieces.items()), control, unknown, algorithm, character_map
    )


def _bytes(
    message: dict[int, bytes | int], number: int, default: bytes | None = None
) -> bytes:
    value = message.get(number, default)
    if not isinstance(value, bytes):
        raise ValueError(f"field {number} holds no bytes")
    return value


def _int(message: dict[int, bytes | int], number: int, default: int) -> int:
    value = message.get(number, default)
    if not isinstance(value, int):
        raise ValueError(f"field {number} holds no number")
    return value


def _fields(data: bytes | int) -> Iterator[tuple[int, bytes | int]]:
    """Yield the number and the value of each field of a message."""
    if not isinstance(data, bytes):
        raise ValueError("a number where a message should be")
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        kind = key & 7
        if kind == 0:
            value, place = _varint(data, place)
        else:
            if kind == 2:
                size, place = _varint(data, place)
            elif kind in (1, 5):
                size = 8 if kind == 1 else 4
            else:
                raise ValueError(f"a field of kind {kind}, which is not in use")
            value = data[place : place + size]
            place += size
            if place > len(data):
                raise ValueError("ends in the middle of a field")
        yield key >> 3, value


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Decode a varint (7-bit groups, lowest first); return it and the next place."""
    number = shift = 0
    while place < len(data) and shift < 64:
        byte = data[place]
        number |= (byte & 127) << shift
        place += 1
        if byte < 128:
            return number, place
        shift += 7
    raise ValueError("a number without an end")
