"""Encoding of texts as pieces with exact character offsets."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from dicejax.data.tokenize.encoded import EncodedText, with_every_word
from dicejax.errors import InputError, quote
from dicejax.io import limits

# Texts and characters at a time, which bound the memory.
_CHUNK, _CHARACTERS = 4096, 1_000_000
_UNKNOWN = ("[UNK]", "<unk>")
_PREFIX = "▁"  # SentencePiece's beginning of a word, which is no character of the text
_SPACES = [code for code in range(0x3001) if chr(code).isspace()]
# Beside combining marks, what belongs to the character in front of it (Unicode's annex
# 29): joiners, half-width Japanese sound marks, skin tones, the letters of flags.
_JOINED = {0x200C, 0x200D, 0xFF9E, 0xFF9F, *range(0x1F3FB, 0x1F400)}
_JOINED |= {*range(0xE0020, 0xE0080)}


def encode(
    tokenizer: Tokenizer,
    sentences: Sequence[Sequence[str]],
    pairs: Sequence[Sequence[str]] | None = None,
    *,
    every_word: bool = False,
) -> list[EncodedText]:
    """Encode sentences that are split into words, or pairs of them.

    >>> from dicejax.data.tokenize import learn_wordpiece
    >>> (encoded,) = encode(learn_wordpiece(["ab", "c"], 40), [["ab", "cab"]])
    >>> encoded.words
    array([-1,  0,  1,  1,  1, -1], dtype=int32)
    >>> encoded.first_pieces(2)
    array([1, 2], dtype=int32)

    A word of only characters that the tokenizer drops gets no piece; with `every_word`
    it gets the unknown one, unless its text is nothing else. Words of the second of a
    pair count from 0 again.

    Raises:
      InputError: a word holds half of a surrogate pair, which is no text, or a sentence
        has more words than are read.
    """
    inputs = [list(words) for words in sentences]
    _check_sizes(limits.WORDS, inputs)
    for words in inputs:
        _check_sizes(limits.WORD, words)
    sides = [inputs] if pairs is None else [inputs, list(map(list, pairs))]
    both = list(zip(*sides, strict=True))
    encodings = _encode_chunks(tokenizer, both, words=True)
    if not every_word:
        return list(encodings)
    numbers = map(tokenizer.token_to_id, _UNKNOWN)
    unknown = next((number for number in numbers if number is not None), None)
    return [
        with_every_word(encoded, [*map(len, parts)], unknown)
        for encoded, parts in zip(encodings, both, strict=True)
    ]


def encode_texts(
    tokenizer: Tokenizer, texts: Sequence[str], pairs: Sequence[str] | None = None
) -> list[EncodedText]:
    """Encode raw texts, or pairs of them, by a tokenizer of `read(..., words=False)`.

    Raises:
      InputError: a text holds half of a surrogate pair, which is no text, or is longer
        than what is read.
    """
    sides = [texts] if pairs is None else [texts, pairs]
    for side in sides:
        _check_sizes(limits.TEXT, side)
    return list(_encode_chunks(tokenizer, list(zip(*sides, strict=True)), words=False))


def _check_sizes(limit: limits.Limit, texts: Sequence[Sequence[str]]) -> None:
    for number, text in enumerate(texts, 1):
        if len(text) > limit.most:
            begin = quote(text if isinstance(text, str) else " ".join(text[:9]))
            where = "word" if limit is limits.WORD else "text"
            limit.require(len(text), f"{where} {number}, {begin}")


def _encode_chunks(
    tokenizer: Tokenizer, texts: Sequence[Sequence[Any]], *, words: bool
) -> Iterator[EncodedText]:
    """Encode texts or pairs, and correct the offsets of a whole chunk at once."""
    prefix = tokenizer.token_to_id(_PREFIX)
    units = [list(chain(*parts)) if words else parts for parts in texts]
    for chunk in _chunks(units):
        inputs = [tuple(x) if len(x) > 1 else x[0] for x in texts[chunk]]
        try:
            encodings = tokenizer.encode_batch(inputs, is_pretokenized=words)
        except TypeError as error:  # says neither where nor why
            _refuse_surrogates(units[chunk], chunk.start, error)
            raise
        columns = (
            (e.ids for e in encodings),
            (e.type_ids for e in encodings),
            ([-1 if t is None else t for t in e.sequence_ids] for e in encodings),
            ([-1 if w is None else w for w in e.word_ids] for e in encodings),
            (chain.from_iterable(e.offsets) for e in encodings),
        )  # the fields of `EncodedText`
        arrays = [np.fromiter(chain.from_iterable(x), np.int32) for x in columns]
        arrays[-1] = arrays[-1].reshape(-1, 2)
        offsets = arrays[-1]
        counts = [len(parts) for parts in units[chunk]]
        lengths = [len(encoding) for encoding in encodings]
        unit = np.repeat(np.cumsum([0, *counts])[:-1], lengths)
        unit += arrays[3] if words else arrays[2]
        if words:
            firsts = [len(parts[0]) for parts in texts[chunk]]
            unit += (arrays[2] == 1) * np.repeat(firsts, lengths)
        solid = arrays[2] >= 0
        offsets[solid] = _fit_offsets(
            list(chain.from_iterable(units[chunk])),
            unit[solid],
            offsets[solid],
            arrays[0][solid] == prefix,
        )
        ends = np.cumsum(lengths)
        for begin, end in zip(ends - lengths, ends, strict=True):
            yield EncodedText(*(array[begin:end] for array in arrays))


def _chunks(units: Sequence[Sequence[str]]) -> Iterator[slice]:
    """Yield neighbours to encode at once, or one text that is long."""
    start = characters = 0
    for number, parts in enumerate(units):
        size = sum(map(len, parts))
        is_full = number - start == _CHUNK or characters + size > _CHARACTERS
        if is_full and number > start:
            yield slice(start, number)
            start, characters = number, 0
        characters += size
    if len(units) > start:
        yield slice(start, len(units))


def _fit_offsets(
    units: list[str], unit: np.ndarray, offsets: np.ndarray, prefixes: np.ndarray
) -> np.ndarray:
    """Correct the library's offsets to those a reader would mark."""
    # All units as one text: the line ends between them keep them apart.
    codes = np.frombuffer("\n".join([*units, ""]).encode("utf-32-le"), "<u4")
    size = np.fromiter(map(len, units), np.int64, len(units))
    begin = (np.cumsum(size + 1) - size - 1)[unit]
    starts, ends = (offsets + begin[:, None]).T
    # XLNet's normalization merges two quotes, of which one alone is covered.
    twice = np.isin(codes, [ord("'"), ord("`")])
    twice[1:] &= codes[1:] == codes[:-1]
    twice[:1] = False
    if twice.any():
        depth = np.bincount(starts, minlength=len(codes) + 1)
        depth -= np.bincount(ends, minlength=len(codes) + 1)
        uncovered = np.cumsum(depth) == 0
        starts = starts - (twice[starts] & (starts < ends) & uncovered[starts - 1])
    space = np.isin(codes, _SPACES)
    earlier = np.maximum.accumulate(np.concatenate([[0], ends]))[:-1]
    empty = prefixes & (starts >= earlier) & (codes[starts] != ord(_PREFIX))
    after, before = _neighbours(~space)
    starts, ends = after[starts], before[ends]
    empty |= starts >= ends
    beyond_latin = np.unique(codes[codes >= 0x300]).tolist()
    combining = (c for c in beyond_latin if unicodedata.category(chr(c))[0] == "M")
    mark = np.isin(codes, [*combining, *_JOINED])
    if mark.any():
        after, before = _neighbours(~mark)
        base = before[np.minimum(starts + 1, len(codes))] - 1
        base += space[base]
        starts, ends = np.where(empty, starts, base), after[ends]
    ends = np.where(empty, starts, ends)
    fitted = np.stack([starts, ends], axis=1) - begin[:, None]
    return np.minimum(fitted, size[unit][:, None])


def _neighbours(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first marked place from each place on, and the end of the last before.

    Both have an entry for the end too; where nothing is marked they are the end and 0.
    """
    size = len(mask)
    after = np.append(np.where(mask, np.arange(size), size), size)
    before = np.append(0, np.where(mask, np.arange(1, size + 1), 0))
    return np.minimum.accumulate(after[::-1])[::-1], np.maximum.accumulate(before)


def _refuse_surrogates(units: Iterable[Any], start: int, cause: Exception) -> None:
    for number, parts in enumerate(units, start + 1):
        for part in parts:
            half = isinstance(part, str) and re.search("[\ud800-\udfff]", part)
            if half:
                raise InputError(
                    f"text {number}: {part!a} holds U+{ord(half[0]):04X}, half of "
                    "a surrogate pair, which is not a character; fix the text"
                ) from cause
