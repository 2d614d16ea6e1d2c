"""From texts to pieces, and from pieces back to the exact characters."""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
from tokenizers import Encoding, Tokenizer

from dicejax.errors import InputError

_CHUNK = 4096  # texts at a time, which bounds the memory
_UNKNOWN = ("[UNK]", "<unk>")
_PREFIX = "▁"  # SentencePiece's beginning of a word, which is no character of the text
_SPACES = [code for code in range(0x3001) if chr(code).isspace()]
# Beside combining marks, what belongs to the character in front of it (Unicode's annex
# 29): joiners, half-width Japanese sound marks, skin tones, the letters of flags.
_JOINED = {0x200C, 0x200D, 0xFF9E, 0xFF9F, *range(0x1F3FB, 0x1F400)}
_JOINED |= {*range(0xE0020, 0xE0080)}


@dataclasses.dataclass(frozen=True, eq=False)
class Encoded:
    """A text, or a pair of texts, as pieces. All arrays are `[n]`, one entry a piece.

    Attributes:
      ids: numbers of the pieces.
      token_types: what the tokenizer's template says: 0 for the first text, for the
        second mostly 1, for XLNet's `<cls>` 2.
      texts: 0 or 1, the text that a piece is of; -1 for the template's special pieces.
      words: the word that a piece is of, -1 for special pieces. As the words were
        given; those of a raw text are numbered as the tokenizer splits it.
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
        """The place of the special piece that stands for the whole, such as [CLS].

        It is the first piece, or where the template begins with text, as XLNet's does,
        the last.
        """
        return 0 if self.texts[0] < 0 else len(self) - 1

    def first_pieces(self, words: int, *, text: int = 0) -> np.ndarray:
        """Return the place of each word's first piece, -1 where a word has none.

        Args:
          words: how many words the text has.
          text: which text of a pair.
        """
        first = np.full(words, -1, np.int32)
        places = np.flatnonzero(self.texts == text)[::-1]
        first[self.words[places]] = places  # of several, the last written stays
        return first

    def shortened(self, max_length: int, *, longer_first: bool = False) -> Encoded:
        """Return at most `max_length` pieces: what is cut are ends of texts.

        Special pieces stay where the template puts them.

        Args:
          max_length: the pieces wanted, the special ones included.
          longer_first: cut the longer text of a pair until both are equally long, then
            both, the second first. Else the last text alone is cut.

        Raises:
          ValueError: so many pieces would be cut that the text has not got them.
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
        arrays = (getattr(self, field.name) for field in dataclasses.fields(self))
        return Encoded(*(array[keep] for array in arrays))

    def window(self, first: int, last: int, *, ahead: int | None = None) -> Encoded:
        """Return a pair with a part of its second text.

        Special pieces stay where the template puts them.

        >>> from dicejax.data.tokenize import encode_texts, learn_wordpiece
        >>> tokenizer = learn_wordpiece(["a", "b", "c"], 40)
        >>> (pair,) = encode_texts(tokenizer, ["a b"], ["a b c"])
        >>> [tokenizer.id_to_token(i) for i in pair.window(5, 6, ahead=1).ids]
        ['[CLS]', 'a', '[SEP]', 'b', 'c', '[SEP]']

        Args:
          first: place of the first piece that is kept of the second text.
          last: place of the last, which is included; before `first`, none is kept.
          ahead: pieces kept of the first text, from its first on; None keeps all.
        """
        places = np.arange(len(self))
        keep = (self.texts != 1) | (places >= first) & (places <= last)
        if ahead is not None:
            keep[np.flatnonzero(self.texts == 0)[ahead:]] = False
        arrays = (getattr(self, field.name) for field in dataclasses.fields(self))
        return Encoded(*(array[keep] for array in arrays))

    def span(self, first: int, last: int) -> tuple[int, int] | None:
        """Return the characters `[start, end)` that pieces `first` to `last` come from.

        >>> from dicejax.data.tokenize import encode_texts, learn_wordpiece
        >>> text = "Zu\u0308rich  wins"  # the u and its dots are two characters
        >>> (encoded,) = encode_texts(learn_wordpiece(["Zu", "rich"], 40), [text])
        >>> start, end = encoded.span(*encoded.pieces(0, 7))
        >>> text[start:end] == "Zu\u0308rich"
        True

        Args:
          first: place of the first piece.
          last: place of the last, which is included.

        Returns:
          None if there is no character.

        Raises:
          ValueError: the pieces are of two texts.
        """
        here = slice(first, last + 1)
        starts, ends = self.offsets[here].T
        solid = (starts < ends) & (self.texts[here] >= 0)
        if not solid.any():
            return None
        if len(set(self.texts[here][solid].tolist())) > 1:
            raise ValueError(f"pieces {first} to {last} are of two texts")
        return int(starts[solid].min()), int(ends[solid].max())

    def pieces(self, start: int, end: int, *, text: int = 0) -> tuple[int, int] | None:
        """Return the first and the last piece with a character of `[start, end)`.

        Args:
          start: the first character.
          end: the character behind the last.
          text: which text of a pair.

        Returns:
          None if no piece has one: characters that the tokenizer drops, or that were
          cut off.
        """
        starts, ends = self.offsets.T
        solid = (starts < ends) & (self.texts == text) & (start < end)
        found = np.flatnonzero(solid & (starts < end) & (ends > start))
        return (int(found[0]), int(found[-1])) if len(found) else None


def encode(
    tokenizer: Tokenizer,
    sentences: Sequence[Sequence[str]],
    pairs: Sequence[Sequence[str]] | None = None,
    *,
    every_word: bool = False,
) -> list[Encoded]:
    """Encode sentences that are split into words, or pairs of them.

    >>> from dicejax.data.tokenize import learn_wordpiece
    >>> (encoded,) = encode(learn_wordpiece(["ab", "c"], 40), [["ab", "cab"]])
    >>> encoded.words
    array([-1,  0,  1,  1,  1, -1], dtype=int32)
    >>> encoded.first_pieces(2)
    array([1, 2], dtype=int32)

    Args:
      tokenizer: as `read` returns it, for words.
      sentences: words may be anything; one of nothing but characters that the
        tokenizer drops gets no piece.
      pairs: the second of each pair; its words count from 0 again.
      every_word: give such a word the unknown piece, unless its text is nothing else.

    Raises:
      InputError: a word holds half of a surrogate pair, which is no text.
    """
    inputs = [list(words) for words in sentences]
    counts = [(len(words),) for words in inputs]
    if pairs is None:
        found = _encoded(tokenizer, inputs, inputs, words=True)
    else:
        both = list(zip(inputs, map(list, pairs), strict=True))
        units = [first + second for first, second in both]
        counts = [(len(first), len(second)) for first, second in both]
        firsts = [first for first, _ in counts]
        found = _encoded(tokenizer, both, units, words=True, firsts=firsts)
    if not every_word:
        return list(found)
    numbers = map(tokenizer.token_to_id, _UNKNOWN)
    unknown = next((number for number in numbers if number is not None), None)
    return [
        with_every_word(encoded, words, unknown)
        for encoded, words in zip(found, counts, strict=True)
    ]


def with_every_word(
    encoded: Encoded, counts: Sequence[int], unknown: int | None
) -> Encoded:
    """Give each word that has no piece the unknown piece, so that it can be labelled.

    Args:
      encoded: the pieces.
      counts: words of each text.
      unknown: number of that piece; None changes nothing.
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
        encoded = Encoded(
            np.insert(encoded.ids, where, unknown),
            np.insert(encoded.token_types, where, kind),
            np.insert(encoded.texts, where, text),
            np.insert(encoded.words, where, missing),
            np.insert(encoded.offsets, where, 0, axis=0),
        )
    return encoded


def encode_texts(
    tokenizer: Tokenizer, texts: Sequence[str], pairs: Sequence[str] | None = None
) -> list[Encoded]:
    """Encode raw texts, or pairs of them.

    Args:
      tokenizer: as `read(folder, words=False)` returns it.
      texts: the texts, or the first of each pair.
      pairs: the second of each pair.

    Raises:
      InputError: a text holds half of a surrogate pair, which is no text.
    """
    if pairs is None:
        units = [(text,) for text in texts]
        return list(_encoded(tokenizer, list(texts), units, words=False))
    both = list(zip(texts, pairs, strict=True))
    return list(_encoded(tokenizer, both, both, words=False))


def _encoded(
    tokenizer: Tokenizer,
    inputs: Sequence,
    units: Sequence[Sequence[str]],
    *,
    words: bool,
    firsts: Sequence[int] = (),
) -> Iterator[Encoded]:
    """Encode, and fit the offsets of a whole chunk of texts at once.

    Args:
      tokenizer: the library's.
      inputs: as the library takes them.
      units: for each input the strings that offsets count in: its words, or texts.
      words: whether the units are words.
      firsts: how many units are of the first text, if there are pairs of words.
    """
    prefix = tokenizer.token_to_id(_PREFIX)
    for start in range(0, len(inputs), _CHUNK):
        here = slice(start, start + _CHUNK)
        try:
            found = tokenizer.encode_batch(inputs[here], is_pretokenized=words)
        except TypeError as error:  # says neither where nor why
            _refuse_surrogates(units[here], start, error)
            raise
        arrays = _arrays(found)
        offsets = arrays[-1]
        counts = [len(parts) for parts in units[here]]
        lengths = [len(encoding) for encoding in found]
        unit = np.repeat(np.cumsum([0, *counts])[:-1], lengths)
        unit += arrays[3] if words else arrays[2]
        if firsts:
            unit += (arrays[2] == 1) * np.repeat(firsts[here], lengths)
        solid = arrays[2] >= 0
        offsets[solid] = _fitted(
            list(chain.from_iterable(units[here])),
            unit[solid],
            offsets[solid],
            arrays[0][solid] == prefix,
        )
        ends = np.cumsum(lengths)
        for begin, end in zip(ends - lengths, ends, strict=True):
            yield Encoded(*(array[begin:end] for array in arrays))


def _arrays(encodings: list[Encoding]) -> tuple[np.ndarray, ...]:
    """The fields of `Encoded`, of all encodings in a row."""

    def joined(lists) -> np.ndarray:
        return np.fromiter(chain.from_iterable(lists), np.int32)

    return (
        joined(e.ids for e in encodings),
        joined(e.type_ids for e in encodings),
        joined([-1 if t is None else t for t in e.sequence_ids] for e in encodings),
        joined([-1 if w is None else w for w in e.word_ids] for e in encodings),
        joined(chain.from_iterable(e.offsets) for e in encodings).reshape(-1, 2),
    )


def _fitted(
    units: list[str], unit: np.ndarray, offsets: np.ndarray, prefixes: np.ndarray
) -> np.ndarray:
    """Fit the library's offsets to what a reader would mark in the text.

    Args:
      units: all words, or texts.
      unit: for each piece the unit it is of.
      offsets: `[n, 2]`, where each begins and ends in its unit.
      prefixes: whether a piece is "▁".
    """
    # All units as one text: the line ends between them keep them apart.
    codes = np.frombuffer("\n".join([*units, ""]).encode("utf-32-le"), "<u4")
    size = np.fromiter(map(len, units), np.int64, len(units))
    begin = (np.cumsum(size + 1) - size - 1)[unit]
    starts, ends = (offsets + begin[:, None]).T
    starts = _with_paired_quotes(codes, starts, ends)
    space = np.isin(codes, _SPACES)
    earlier = np.maximum.accumulate(np.concatenate([[0], ends]))[:-1]
    empty = prefixes & (starts >= earlier) & (codes[starts] != ord(_PREFIX))
    starts, ends = _next(~space)[starts], _previous(~space)[ends]
    empty |= starts >= ends
    mark = np.isin(codes, _marks(codes))
    if mark.any():
        base = _previous(~mark)[np.minimum(starts + 1, len(codes))] - 1
        base += space[base]
        starts, ends = np.where(empty, starts, base), _next(~mark)[ends]
    ends = np.where(empty, starts, ends)
    fitted = np.stack([starts, ends], axis=1) - begin[:, None]
    return np.minimum(fitted, size[unit][:, None])


def _with_paired_quotes(codes, starts, ends) -> np.ndarray:
    """XLNet makes one quote of two; the library charges it to the second alone."""
    twice = np.isin(codes, [ord("'"), ord("`")])
    twice[1:] &= codes[1:] == codes[:-1]
    twice[:1] = False
    if not twice.any():
        return starts
    depth = np.bincount(starts, minlength=len(codes) + 1)
    depth -= np.bincount(ends, minlength=len(codes) + 1)
    uncovered = np.cumsum(depth) == 0
    return starts - (twice[starts] & (starts < ends) & uncovered[starts - 1])


def _next(wanted: np.ndarray) -> np.ndarray:
    """For each place and the end: the first place from there on that is wanted."""
    places = np.where(wanted, np.arange(len(wanted)), len(wanted))
    places = np.append(places, len(wanted))
    return np.minimum.accumulate(places[::-1])[::-1]


def _previous(wanted: np.ndarray) -> np.ndarray:
    """For each place and the end: the place behind the last before it that is wanted.

    0 where there is none.
    """
    places = np.where(wanted, np.arange(1, len(wanted) + 1), 0)
    return np.maximum.accumulate(np.concatenate([[0], places]))


def _marks(codes: np.ndarray) -> list[int]:
    """Those of the characters that belong to the one in front of them."""
    beyond_latin = np.unique(codes[codes >= 0x300]).tolist()
    return [
        code
        for code in beyond_latin
        if code in _JOINED or unicodedata.category(chr(code))[0] == "M"
    ]


def _refuse_surrogates(units, start: int, cause: Exception) -> None:
    for number, parts in enumerate(units, start + 1):
        for part in parts:
            half = isinstance(part, str) and re.search("[\ud800-\udfff]", part)
            if half:
                raise InputError(
                    f"text {number}: {part!a} holds U+{ord(half[0]):04X}, half of "
                    "a surrogate pair, which is no character; mend the text"
                ) from cause
