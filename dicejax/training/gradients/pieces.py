"""What kind of piece a token is, as far as the vocabulary tells."""

from __future__ import annotations

import json

import numpy as np
from tokenizers import Tokenizer

KINDS = ("padding", "special", "word start", "continuation")
"""The kinds of places in a packed row; the first is told by the row."""

_MARKS = ("▁", "Ġ")  # of a word's start, in SentencePiece and in byte-level BPE


def kinds_of(tokenizer: Tokenizer) -> np.ndarray:
    """Return the kind of each piece of the vocabulary, int32 `[V]` into `KINDS`.

    WordPiece marks continuations ("##ing"), SentencePiece and byte-level BPE the starts
    of words ("▁the", "Ġthe"): the first word of a text without a space before it has no
    mark there. Vocabularies that mark neither have starts alone.

    >>> from dicejax.data.tokenize import learn_wordpiece
    >>> tokenizer = learn_wordpiece(["ab"], 40)
    >>> kinds = kinds_of(tokenizer)
    >>> [KINDS[kinds[number]] for number in tokenizer.encode("ab bb").ids]
    ['special', 'word start', 'word start', 'continuation', 'special']
    """
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    model = json.loads(tokenizer.to_str())["model"]
    prefix = model.get("continuing_subword_prefix")
    marked = [piece.startswith(_MARKS) for piece in vocabulary]
    marks_starts = not prefix and np.mean(marked) > 0.05
    kinds = np.full(max(vocabulary.values()) + 1, KINDS.index("word start"), np.int32)
    for piece, number in vocabulary.items():
        if prefix:
            continues = piece.startswith(prefix)
        else:
            continues = marks_starts and not piece.startswith(_MARKS)
        if continues:
            kinds[number] = KINDS.index("continuation")
    for number, token in tokenizer.get_added_tokens_decoder().items():
        if token.special:
            kinds[number] = KINDS.index("special")
    return kinds
