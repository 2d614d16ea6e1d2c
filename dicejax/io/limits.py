"""Limits of what is read: more than real data has, less than fills the memory.

They are listed in docs/security.md. Whatever is beyond one of them ends in an error of
one line that names the limit.
"""

from __future__ import annotations

import dataclasses

from dicejax.errors import Flaw, InputError


@dataclasses.dataclass(frozen=True)
class Limit:
    """The largest count of something, and what mends an input that has more.

    >>> Limit(2, "words in a text", "divide it").check(3)
    Traceback (most recent call last):
    dicejax.errors.Flaw: ('more than 2 words in a text', 'divide it')
    """

    most: int
    noun: str
    remedy: str

    def check(self, count: int) -> None:
        """Raise a Flaw for a count beyond the limit."""
        if count > self.most:
            raise Flaw(f"more than {self.most:,} {self.noun}", self.remedy)

    def require(self, count: int, where: str) -> None:
        """Raise an InputError that says where for a count beyond the limit."""
        if count > self.most:
            fault = f"more than {self.most:,} {self.noun}"
            raise InputError(f"{where}: {fault}; {self.remedy}")


LINE = Limit(512 << 20, "bytes in a line", "break it, or name another file")
FIELD = Limit(64 << 20, "characters in a field", "is a quote missing at its end?")
COLUMNS = Limit(20_000, "columns", "name the separator, or another file")
NODES = Limit(50_000_000, "commas in a JSON document", "write one object per line")
ROWS = Limit(5000, "words in a sentence", "is a blank line missing between sentences?")
WORDS = Limit(30_000, "words in a text", "divide it")
WORD = Limit(100_000, "characters in a word", "divide it, or leave it out")
TEXT = Limit(4_000_000, "characters in a text", "divide it")
CONTEXT = Limit(
    20_000_000,
    "characters of context, which each of its questions reads anew",
    "divide it, or ask fewer",
)
LABELS = Limit(1_000_000, "labels", "is it the right column?")
_OTHER = "take another folder's tokenizer"
STEPS = Limit(100, "steps", _OTHER)
GROWTH = Limit(50, "characters in the place of one", _OTHER)
SPECIAL = Limit(200, "special pieces round a text", _OTHER)
PIECE = Limit(1000, "characters in a piece", _OTHER)
PIECES = Limit(5_000_000, "characters in all pieces", _OTHER)
MADE_UP = Limit(3_000_000, "made-up texts or words", "lower its numbers")

ITEM = 300  # bytes of memory that a line or a row takes besides its text
VALUE = 30  # and a value of a table
_SMALL, _TIMES = 1 << 30, 200


def unpacked(packed: int) -> Limit:
    """Return the limit on the memory of what an archive of a size in bytes holds.

    Lines, rows and commas count as `ITEM` bytes each, values of tables as `VALUE`.
    """
    most, remedy = max(_SMALL, _TIMES * packed), "unpack it, or write it as JSON lines"
    return Limit(most, f"bytes of memory in {packed:,} of the file", remedy)
