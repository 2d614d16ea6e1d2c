"""A WordPiece tokenizer learned from the training words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def learn_wordpiece(words: Iterable[str], vocab_size: int) -> Tokenizer:
    """Learn a cased WordPiece tokenizer of the most frequent words and all characters.

    The same words always give the same vocabulary; the tokenizers library's own trainer
    breaks ties by chance.

    >>> tokenizer = learn_wordpiece(["low", "lower", "lowest"] * 9, vocab_size=40)
    >>> tokenizer.encode(["lower", "lot"], is_pretokenized=True).tokens
    ['[CLS]', 'lower', 'l', '##o', '##t', '[SEP]']
    """
    normalizer = normalizers.BertNormalizer(lowercase=False)
    splitter = pre_tokenizers.BertPreTokenizer()
    counts: Counter[str] = Counter()
    for word, count in Counter(words).items():
        for piece, _ in splitter.pre_tokenize_str(normalizer.normalize_str(word)):
            counts[piece] += count
    characters = sorted({character for piece in counts for character in piece})
    entries: dict[str, None] = dict.fromkeys(SPECIAL)
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
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer
