"""Tokenizers, read from a model folder or learned, and encoded texts."""

from dicejax.data.tokenize.encoded import EncodedText
from dicejax.data.tokenize.encoding import encode, encode_texts
from dicejax.data.tokenize.learning import learn_wordpiece
from dicejax.data.tokenize.reading import FILE, check_fits, pad_id, parse, read

__all__ = [
    "FILE",
    "EncodedText",
    "check_fits",
    "encode",
    "encode_texts",
    "learn_wordpiece",
    "pad_id",
    "parse",
    "read",
]
