"""A text, or a pair of texts, as pieces with their source offsets."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedText:
    """A text, or a pair of texts, as pieces. All arrays are `[n]`, one entry a piece.

    Attributes:
      ids: numbers of the pieces.
      token_types: type by the tokenizer's template: 0 for the first text, mostly 1 for
        the second, 2 for XLNet's `<cls>`.
      texts: 0 or 1, text of a piece; -1 for the template's special pieces.
      words: word of a piece, -1 for special pieces. As the words were given; those of a
        raw text are numbered as the tokenizer splits it.
      offsets: `[n, 2]`, where a piece's characters begin and end in the original text,
        or in its word if words were given. They never begin or end with white space,
        nor between a character and the marks that combine with it. Pieces that share a
        character overlap; a piece of no character, as "▁", begins where it ends.
    """

    ids: np.ndarray
    token_types: np.ndarray
    texts: np.ndarray
    words: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def special(self) -> np.ndarray:
        """Whether a piece comes from the template, bool `[n]`."""
        return self.texts < 0

    @property
    def summary(self) -> int:
        """Place of the special piece of the text, as [CLS]; the last for XLNet."""
        return 0 if self.texts[0] < 0 else len(self) - 1

    def first_pieces(self, words: int, *, text: int = 0) -> np.ndarray:
        """Return the place of each word's first piece, -1 where a word has none."""
        first = np.full(words, -1, np.int32)
        places = np.flatnonzero(self.texts == text)[::-1]
        first[self.words[places]] = places  # of several, the last written stays
        return first

    def truncate(self, max_length: int, *, longer_first: bool = False) -> EncodedText:
        """Return at most `max_length` pieces, special ones included.

        Of a pair the second is cut, at its end; or with `longer_first` the longer one
        until both are equally long, then both, the second first.

        Raises:
          ValueError: the texts are too short to cut that much.
        """
        excess = len(self) - max_length
        if excess <= 0:
            return self
        keep = np.ones(len(self), bool)
        texts = [np.flatnonzero(self.texts == text) for text in (0, 1)]
        first, second = map(len, texts)
        left = first + second - excess
        if longer_first:
            first = min(first, max(left - second, (left + 1) // 2))
        elif second == 0:
            first = left
        if not 0 <= first <= left:
            special = len(self) - len(texts[0]) - second
            raise ValueError(
                f"{max_length} pieces leave no room: {special} are special and "
                f"{len(texts[0])} of the first text"
            )
        keep[texts[0][first:]] = False
        keep[texts[1][left - first :]] = False
        return self.select(keep)

    def select(self, keep: np.ndarray) -> EncodedText:
        """Return some of the pieces, by a mask or by their places."""
        arrays = (getattr(self, field.name) for field in dataclasses.fields(self))
        return EncodedText(*(array[keep] for array in arrays))

    def window(
        self, first: int, last: int, *, ahead: int | None = None, text: int = 1
    ) -> EncodedText:
        """Return the pieces `first` to `last`, included, of one text of a pair.

        The other text stays; `ahead` keeps so many pieces of the first. Special pieces
        stay where the template puts them.

        >>> from dicejax.data.tokenize import encode_texts, learn_wordpiece
        >>> tokenizer = learn_wordpiece(["a", "b", "c"], 40)
        >>> (pair,) = encode_texts(tokenizer, ["a b"], ["a b c"])
        >>> [tokenizer.id_to_token(i) for i in pair.window(5, 6, ahead=1).ids]
        ['[CLS]', 'a', '[SEP]', 'b', 'c', '[SEP]']
        """
        places = np.arange(len(self))
        keep = (self.texts != text) | (places >= first) & (places <= last)
        if ahead is not None:
            keep[np.flatnonzero(self.texts == 0)[ahead:]] = False
        return self.select(keep)

    def around(
        self, first: int, end: int, max_length: int, *, text: int = 0
    ) -> EncodedText:
        """Return words from `first` up to `end`, with pieces around if room is left.

        The words are of one text; of a pair the other stays whole. Both sides get as
        many pieces; what one does not need, the other has. Words that alone have more
        than `max_length` pieces, special ones included, come alone.

        >>> from dicejax.data.tokenize import encode, learn_wordpiece
        >>> (encoded,) = encode(learn_wordpiece(list("abcde"), 40), [list("abcde")])
        >>> encoded.around(3, 4, 5).words
        array([-1,  2,  3,  4, -1], dtype=int32)
        """
        places = np.flatnonzero(self.texts == text)
        words = self.words[places]
        ahead, behind = int((words < first).sum()), int((words >= end).sum())
        inside = len(places) - ahead - behind
        room = max(max_length - len(self) + ahead + behind, 0)
        left = min(ahead, max(room // 2, room - behind))
        right = min(behind, room - left)
        in_reach = places[ahead - left : ahead + inside + right]
        bounds = (int(in_reach[0]), int(in_reach[-1])) if len(in_reach) else (0, -1)
        return self.window(*bounds, text=text)

    def span(self, first: int, last: int) -> tuple[int, int] | None:
        """Return the characters `[start, end)` of pieces, `last` included, if any.

        Raises:
          ValueError: the pieces are of two texts.
        """
        covered = slice(first, last + 1)
        starts, ends = self.offsets[covered].T
        solid = (starts < ends) & (self.texts[covered] >= 0)
        if not solid.any():
            return None
        if len(set(self.texts[covered][solid].tolist())) > 1:
            raise ValueError(f"pieces {first} to {last} are of two texts")
        return int(starts[solid].min()), int(ends[solid].max())

    def pieces(self, start: int, end: int, *, text: int = 0) -> tuple[int, int] | None:
        """Return the first and the last piece with a character of `[start, end)`.

        None for characters that were dropped or truncated.
        """
        starts, ends = self.offsets.T
        solid = (starts < ends) & (self.texts == text) & (start < end)
        pieces = np.flatnonzero(solid & (starts < end) & (ends > start))
        return (int(pieces[0]), int(pieces[-1])) if len(pieces) else None


def with_every_word(
    encoded: EncodedText, counts: Sequence[int], unknown: int | None
) -> EncodedText:
    """Give each word without a piece the unknown piece, so that it can be labelled.

    `counts` are the words of each text; None for the piece changes nothing.
    """
    for text, count in enumerate(counts):
        places = np.flatnonzero(encoded.texts == text)
        present = encoded.words[places]
        distinct = np.count_nonzero(present[1:] != present[:-1]) + 1
        if unknown is None or not len(places) or distinct == count:
            continue
        missing = np.setdiff1d(np.arange(count), present)
        where = np.append(places, places[-1] + 1)[np.searchsorted(present, missing)]
        kind = encoded.token_types[places[0]]
        encoded = EncodedText(
            np.insert(encoded.ids, where, unknown),
            np.insert(encoded.token_types, where, kind),
            np.insert(encoded.texts, where, text),
            np.insert(encoded.words, where, missing),
            np.insert(encoded.offsets, where, 0, axis=0),
        )
    return encoded
