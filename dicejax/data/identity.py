"""What makes two splits the same: their content and its order, not their files."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import operator
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

_PLACES = {"line", "id", "document"}  # fields that say where an example stood


class SplitDigest(NamedTuple):
    """The identity of a split as it was read.

    Attributes:
      checksum: of texts, gold, weights and order, and of which examples share a
        document, hexadecimal.
      examples: a checksum of each example, its document left out, uint32 `[N]`.
    """

    checksum: str
    examples: np.ndarray

    def difference(self, earlier: SplitDigest, noun: str = "examples") -> str | None:
        """Say how a split differs from an earlier one; None where it does not.

        >>> from dicejax.data.examples import LabelledText
        >>> first = [LabelledText(x, None, "a", x, 1) for x in ("fine", "dull", "new")]
        >>> digest(first[:2]).difference(digest(first))
        '1 of 3 examples is gone'
        >>> digest([*first[1:], first[0]]).difference(digest(first), "texts")
        '3 texts are in another order'
        """
        if self.checksum == earlier.checksum:
            return None
        values = np.concatenate([earlier.examples, self.examples])
        _, places = np.unique(values, return_inverse=True)
        count = len(earlier.examples)
        before, now = (
            np.bincount(part, minlength=len(values))
            for part in (places[:count], places[count:])
        )
        gone = int(np.maximum(before - now, 0).sum())
        added = int(np.maximum(now - before, 0).sum())
        many = f"{count:,} {noun}"
        verb = "differs" if gone == 1 else "differ"
        if not gone and not added:
            order = np.array_equal(self.examples, earlier.examples)
            return f"{many} are {'of other documents' if order else 'in another order'}"
        if not gone:
            return f"{added:,} more than the {many}"
        if not added:
            return f"{gone:,} of {many} {'is' if gone == 1 else 'are'} gone"
        if gone == added:
            return f"{gone:,} of {many} {verb}"
        return f"{gone:,} of {many} {verb}, now {len(self.examples):,}"


def digest(examples: Sequence[Any]) -> SplitDigest:
    """Return the identity of examples.

    Lines, identifiers and names of documents have no part in it, so that a file that
    was moved, or saved again with other comments, is the same. A million sentences of
    17 words take 8 s of one core.
    """
    whole, parts = hashlib.sha256(), np.zeros(len(examples), np.uint32)
    documents: dict[str, int] = {}
    contents: dict[type, Callable[[Any], Any]] = {}
    for place, example in enumerate(examples):
        kind = type(example)
        if kind not in contents:
            contents[kind] = _content_of(kind)
        content = _encode(contents[kind](example)).encode()
        parts[place] = zlib.crc32(content)
        name = getattr(example, "document", "")
        number = documents.setdefault(name, len(documents)) if name else -1
        whole.update(b"%d %d " % (number, len(content)) + content)
    return SplitDigest(whole.hexdigest(), parts)


def _plain(value: Any) -> Any:
    """Return plain content of a value that JSON does not know."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    return getattr(value, "__dict__", type(value).__name__)


_encode = json.JSONEncoder(separators=(",", ":"), default=_plain).encode


def _content_of(kind: type) -> Callable[[Any], Any]:
    """Return a function that gives what is read of an example of a kind."""
    if not dataclasses.is_dataclass(kind):
        return lambda example: example
    names = [x.name for x in dataclasses.fields(kind) if x.name not in _PLACES]
    return operator.attrgetter(*names)
