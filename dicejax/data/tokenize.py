"""Tokenizers: read from a model folder, or learnt from the training words."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import (
    Encoding,
    Tokenizer,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from dicejax.errors import InputError

FILE = "tokenizer.json"
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def read(folder: Path) -> Tokenizer:
    """Read the tokenizer of a Hugging Face model folder.

    `tokenizer.json` is read as it stands; a folder that has only `vocab.txt` goes
    through transformers, which knows how to build a fast tokenizer from it.

    Raises:
      InputError: the folder holds no usable tokenizer.
    """
    try:
        if (folder / FILE).exists():
            tokenizer = Tokenizer.from_file(str(folder / FILE))
        else:
            # transformers says at import that PyTorch is missing; nobody asked for it.
            logging.getLogger("transformers").setLevel(logging.ERROR)
            from transformers import AutoTokenizer

            loaded = AutoTokenizer.from_pretrained(folder, use_fast=True)
            tokenizer = loaded.backend_tokenizer
    except Exception as error:  # the libraries raise bare Exception on bad files
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "unknown"
        raise InputError(f"{folder}: no usable tokenizer ({reason})") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def learn_wordpiece(words: Iterable[str], vocab_size: int) -> Tokenizer:
    """Make a cased WordPiece tokenizer of the most frequent words and all characters.

    A word that is not in the vocabulary falls apart into the longest known pieces, at
    worst characters. The same words always give the same vocabulary, which the
    tokenizers library's own trainer does not promise: it breaks ties by chance.

    Args:
      words: the training words, repeated as often as they occur.
      vocab_size: upper bound on the entries, unless the characters alone are more.

    >>> tokenizer = learn_wordpiece(["low", "lower", "lowest"] * 9, vocab_size=40)
    >>> encode(tokenizer, [["lower", "lot"]])[0].tokens
    ['[CLS]', 'lower', 'l', '##o', '##t', '[SEP]']
    """
    normalizer = normalizers.BertNormalizer(lowercase=False)
    splitter = pre_tokenizers.BertPreTokenizer()
    counts: Counter[str] = Counter()
    for word, count in Counter(words).items():
        for piece, _ in splitter.pre_tokenize_str(normalizer.normalize_str(word)):
            counts[piece] += count
    characters = sorted({character for piece in counts for character in piece})
    entries = dict.fromkeys(SPECIAL)
    entries.update(dict.fromkeys(characters))
    entries.update(dict.fromkeys("##" + character for character in characters))
    ranked = sorted(counts, key=lambda piece: (-counts[piece], piece))
    room = max(vocab_size - len(entries), 0)
    entries.update(dict.fromkeys([p for p in ranked if p not in entries][:room]))
    vocabulary = {piece: number for number, piece in enumerate(entries)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = splitter
    ends = [(token, vocabulary[token]) for token in ("[SEP]", "[CLS]")]
    tokenizer.post_processor = processors.BertProcessing(*ends)
    return tokenizer


def encode(tokenizer: Tokenizer, sentences: Sequence[Sequence[str]]) -> list[Encoding]:
    """Split sentences of words into pieces; `Encoding.word_ids` leads back to words."""
    return tokenizer.encode_batch(
        [list(words) for words in sentences], is_pretokenized=True
    )
