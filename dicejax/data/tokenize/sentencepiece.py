"""SentencePiece model files, read without the sentencepiece package.

The file is one protocol buffer message, `ModelProto` of
https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto. A
field is a key, `number << 3 | kind`, and its value; five of the fields matter here.
"""

from __future__ import annotations

import dataclasses
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
    pieces, control = [], []
    trainer, normalizer = {}, {}
    for number, value in _fields(data):
        if number == 1:
            piece = dict(_fields(value))
            text = piece[1].decode("utf-8")
            (score,) = struct.unpack("<f", piece.get(2, bytes(4)))
            pieces.append((text, score))
            if piece.get(3) == CONTROL:
                control.append(text)
        elif number == 2:
            trainer = dict(_fields(value))
        elif number == 3:
            normalizer = dict(_fields(value))
    unknown = trainer.get(40, 0)
    if not pieces or unknown >= len(pieces):
        raise ValueError("holds no pieces")
    return SentencePieceModel(
        pieces, control, unknown, trainer.get(3, UNIGRAM), normalizer.get(2, b"")
    )


def _fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
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
    while place < len(data):
        byte = data[place]
        number |= (byte & 127) << shift
        place += 1
        if byte < 128:
            return number, place
        shift += 7
    raise ValueError("ends in the middle of a number")
