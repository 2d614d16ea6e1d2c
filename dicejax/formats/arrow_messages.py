"""The sizes that the messages of an Arrow stream declare, before they are unpacked.

A message of 50 KB can hold 500 MB, and one of 200 bytes any number of nulls. Layouts
are those of Message.fbs and Schema.fbs of Arrow's format, version 5.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from dicejax.io import limits

_DICTIONARY, _RECORDS = 2, 3  # kinds of a message's header


def memory(stream: bytes) -> int:
    """Return an estimate of the memory that the rows of a stream take, in bytes.

    Raises:
      pyarrow.ArrowException: the stream is damaged.
    """
    import pyarrow

    total = 0
    for message in pyarrow.ipc.MessageReader.open_stream(stream):
        try:
            total += _memory_of(message.metadata.to_pybytes(), message.body)
        except (struct.error, IndexError):
            raise pyarrow.ArrowInvalid("a message is damaged") from None
    return total


def _memory_of(content: bytes, body) -> int:
    table = _Table(content, struct.unpack_from("<I", content)[0])
    kind = table.number(1, "<B")
    if kind not in (_DICTIONARY, _RECORDS):
        return 0
    batch = table.table(2)
    if kind == _DICTIONARY:
        batch = batch.table(1)
    # A damaged length may be negative, and would make up for another.
    total = limits.ITEM * abs(batch.number(0, "<q"))
    total += limits.VALUE * sum(abs(length) for length, _ in batch.pairs(1))
    is_packed = batch.field(3) != 0
    for offset, length in batch.pairs(2):
        if is_packed and length:  # the size comes first, -1 for what is not packed
            (size,) = struct.unpack("<q", body.slice(offset, 8).to_pybytes())
            length = size if size >= 0 else length
        total += abs(length)
    return total


class _Table:
    """A table of a flat buffer: its fields by their numbers in the schema."""

    def __init__(self, content: bytes, start: int):
        self._content, self._start = content, start
        self._fields = start - struct.unpack_from("<i", content, start)[0]

    def field(self, number: int) -> int:
        """Return where a field is, 0 where it is absent."""
        at = 4 + 2 * number
        if at >= struct.unpack_from("<H", self._content, self._fields)[0]:
            return 0
        (offset,) = struct.unpack_from("<H", self._content, self._fields + at)
        return offset and self._start + offset

    def number(self, number: int, form: str) -> int:
        """Return a whole number, 0 where it is absent."""
        at = self.field(number)
        return struct.unpack_from(form, self._content, at)[0] if at else 0

    def table(self, number: int) -> _Table:
        """Return an inner table."""
        at = self.field(number)
        (offset,) = struct.unpack_from("<I", self._content, at)
        return _Table(self._content, at + offset)

    def pairs(self, number: int) -> Iterator[tuple[int, int]]:
        """Yield the pairs of 64 bits of a vector."""
        if not (at := self.field(number)):
            return
        at += struct.unpack_from("<I", self._content, at)[0]
        (count,) = struct.unpack_from("<I", self._content, at)
        for place in range(count):
            yield struct.unpack_from("<qq", self._content, at + 4 + 16 * place)
