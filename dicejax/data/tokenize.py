"""Tokenizers: read from a model folder, or learnt from the training words."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import (
    Encoding,
    Tokenizer,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
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


def train_wordpiece(words: Iterable[str], vocab_size: int) -> Tokenizer:
    """Learn a cased WordPiece vocabulary from words; the same words give the same one.

    Args:
      words: the training words, repeated as often as they occur.
      vocab_size: upper bound on the number of entries.

    >>> tokenizer = train_wordpiece(["low", "lower", "lowest"] * 9, vocab_size=40)
    >>> encode(tokenizer, [["lower", "low"]])[0].tokens
    ['[CLS]', 'lower', 'low', '[SEP]']
    """
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size, special_tokens=list(SPECIAL), show_progress=False
    )
    tokenizer.train_from_iterator(words, trainer)
    ends = [(token, tokenizer.token_to_id(token)) for token in ("[SEP]", "[CLS]")]
    tokenizer.post_processor = processors.BertProcessing(*ends)
    return tokenizer


def encode(tokenizer: Tokenizer, sentences: Sequence[Sequence[str]]) -> list[Encoding]:
    """Split sentences of words into pieces; `Encoding.word_ids` leads back to words."""
    return tokenizer.encode_batch([list(words) for words in sentences], is_pretokenized=True)
