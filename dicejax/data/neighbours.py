"""Context of a sentence: the words of its neighbours in the document."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from dicejax.errors import InputError

Words = tuple[str, ...]


def neighbours(
    sentences: Sequence[Sequence[str]], documents: Sequence[int], count: int
) -> list[tuple[Words, Words]]:
    """Return the words before and after each sentence, in its document.

    >>> neighbours([["a", "b"], ["c"], ["d"], ["e"]], [1, 1, 1, 2], 2)[1]
    (('a', 'b'), ('d',))

    Raises:
      InputError: `count` is negative.
    """
    if count < 0:
        raise InputError(f"context is {count}; want 0 words or more (--data.context)")
    words = tuple(chain.from_iterable(sentences))
    bounds: dict[int, tuple[int, int]] = {}
    places, end = [], 0
    for sentence, document in zip(sentences, documents, strict=True):
        start, end = end, end + len(sentence)
        places.append((start, end))
        bounds[document] = (bounds.get(document, (start, end))[0], end)
    return [
        (
            words[max(start - count, bounds[document][0]) : start],
            words[end : min(end + count, bounds[document][1])],
        )
        for (start, end), document in zip(places, documents, strict=True)
    ]
