"""Sentences as the network reads them, with a label at the first piece of each word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from tokenizers import Tokenizer

from dicejax.data import tokenize
from dicejax.tasks import windows
from dicejax.tasks.task import IGNORED, Item, Items, Outputs, token_arrays

HEAD = "tags"
"""The name of the head, of its logits and of their labels."""


def encode_words(
    sentences: Sequence[Sequence[str]],
    numbers: Iterable[Sequence[int]],
    tokenizer: Tokenizer,
    max_length: int,
    overlap: int,
    around: Iterable[tuple[Sequence[str], Sequence[str]]] | None = None,
    prompts: Sequence[str] | None = None,
) -> list[Item]:
    """Encode sentences with a label number per word, which its first piece gets.

    `around` has the words before and after each sentence that are read as context,
    `prompts` the text that is read in front of each as the first of a pair.

    Returns:
      An item per sentence, or per window of it. Its detail is, for each word, the place
      of its first piece, -1 where another window decides it or it has no piece.

    Raises:
      InputError: `max_length` leaves no room.
    """
    items = []
    sides = [((), ())] * len(sentences) if around is None else list(around)
    texts = [
        [*before, *words, *after]
        for words, (before, after) in zip(sentences, sides, strict=True)
    ]
    if prompts is None:
        text, encoded = 0, tokenize.encode(tokenizer, texts, every_word=True)
    else:  # whole, since pieces of bytes tell its white space
        firsts = [[prompt] for prompt in prompts]
        text, encoded = 1, tokenize.encode(tokenizer, firsts, texts, every_word=True)
    for example, (words, gold, pieces) in enumerate(
        zip(sentences, numbers, encoded, strict=True)
    ):
        first = len(sides[example][0])
        end = first + len(words)
        if len(texts[example]) > len(words):
            pieces = pieces.around(first, end, max_length, text=text)
        whole = len(pieces)
        if text:  # the end of the prompt is cut to half of a row, or to the room left
            size = int((pieces.texts == 0).sum())
            room = max(max_length // 2, max_length - whole + size)
            pieces = pieces.window(0, whole, ahead=room)
        is_cut = len(pieces) < whole
        first_pieces = pieces.first_pieces(len(texts[example]), text=text)[first:end]
        for part, window in windows.cut(
            pieces, max_length, overlap, text=text, words=first_pieces
        ):
            decided = window.decided_words()
            places = np.where(decided, window.words, -1)
            targets = np.full(len(part), IGNORED, np.int32)
            targets[places[decided]] = np.asarray(gold, np.int32)[decided]
            arrays = token_arrays(part) | {HEAD: targets}
            items.append(Item(arrays, example, places, is_cut))
    return items


def by_word(items: Items, outputs: Outputs, name: str, fill: float) -> np.ndarray:
    """Return an output at each word's first piece, `[W, ...]`, or without it `fill`."""
    values = [output[name] for output in outputs]
    shape = len(items[0].detail), *values[0].shape[1:]
    by_word = np.full(shape, fill, values[0].dtype)
    for item, tokens in zip(items, values, strict=True):
        words = np.flatnonzero(item.detail >= 0)
        by_word[words] = tokens[item.detail[words]]
    return by_word
