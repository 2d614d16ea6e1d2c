"""Small tokenizers of every kind, and texts that are hard to split."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers.convert_slow_tokenizer import import_protobuf

from dicejax.data import tokenize

KINDS = ("wordpiece", "wordpiece_uncased", "xlnet", "deberta", "byte_level", "mpnet")
REAL = ("bert-base-cased", "bert-base-uncased", "bert-base-chinese", "xlnet-base-cased")

SENTENCE = """the café in Zürich costs 1,000 francs 2024 a cat said ''no'' ``yes''
東京 tower 全角 １２３ fine e\u0301clair hello world New York U.S. unbelievable"""
WORDS = SENTENCE.split()

# Two characters for a sign, signs of several characters, what normalisation changes
# in length, what tokenizers drop, and white space of every kind.
TEXTS = (
    "",
    "   ",
    "Hello,  wörld!",
    "cafe\u0301 e\u0301clair Zu\u0308rich",
    "\u0301 \u0301x x\u0301\u0302y",
    "１２３ ＡＢＣ ½ Ⅷ …",
    "ﬁne eﬃcient ﷺ ㍿",
    "👩\u200d👩\u200d👧 ok 👍🏽 🇩🇪x",
    "a\u200db\u200cc\u200bd \u00ad\ufeffe",
    "a\x00b\x07c \x1fd\x7f\ufffd",
    "東京 tower　全角abc",
    "a\r\nb\tc\u2028d\u0085e",
    "\u00a0x\u00a0y\u3000",
    "İstanbul ǆ ß ſ",
    "he said ''b'' ``c`` '''d''' ''",
    "▁ a▁b ▁▁ Ġ Ċ",
    "1,000, 5, 3.14",
    "한국어 क्षि ｶﾞ ไทย",
    "[SEP] x <sep> </s> <mask> y [MASK]z",
    "x" * 150 + " y",
    "##a ##",
)


def pieces(kind: str, folder: Path) -> Path:
    """Write the files of a small tokenizer that a model folder would hold."""
    folder.mkdir(parents=True, exist_ok=True)
    if kind.startswith(("wordpiece", "mpnet")):
        words = WORDS
        if kind != "wordpiece":
            words = [word.lower() for word in words]
        learnt = tokenize.learn_wordpiece(words, 200).get_vocab()
        lines = sorted(learnt, key=learnt.__getitem__)
        if kind == "mpnet":  # BERT's entries between MPNet's
            lines = ["<s>", "<pad>", "</s>", "<unk>", *lines, "<mask>"]
            settings = json.dumps({"tokenizer_class": "MPNetTokenizer"})
            (folder / "tokenizer_config.json").write_text(settings)
        (folder / "vocab.txt").write_text("\n".join(lines) + "\n", "utf-8")
    elif kind == "byte_level":
        learnt = Tokenizer(models.BPE())
        learnt.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        trainer = trainers.BpeTrainer(
            vocab_size=320,
            special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        learnt.train_from_iterator([" ".join(WORDS)], trainer)
        learnt.model.save(str(folder))
    elif kind == "deberta":
        (folder / "spm.model").write_bytes(trained_sentencepiece(WORDS * 3, 130))
    else:
        (folder / "spiece.model").write_bytes(sentencepiece_model().SerializeToString())
    return folder


def sentencepiece_model():
    """Build a SentencePiece model with protobuf's own writer."""
    model = import_protobuf().ModelProto()  # a process can have one of its modules
    special = ["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>"]
    for text in [*special, "<eod>", "<eop>"]:
        kind = 2 if text == "<unk>" else 4 if text == "<eop>" else 3
        model.pieces.add(piece=text, score=0.0, type=kind)
    plain = ["▁", *(c for c in map(chr, range(33, 127))), "⁄", "東", "京", "全"]
    whole = ["▁the", "▁Zurich", "▁fine", "▁York", "ll", "wor", "1,", "00", "▁cafe"]
    for place, text in enumerate(plain + whole):
        score = -4.0 if text in whole else -8.0 - place / 100
        model.pieces.add(piece=text, score=score)
    model.trainer_spec.model_type = 1
    model.trainer_spec.unk_id = 0
    model.normalizer_spec.name = "identity"
    return model


def trained_sentencepiece(texts: Iterable[str], vocab_size: int) -> bytes:
    """Train a SentencePiece model with DeBERTa's special pieces."""
    package = pytest.importorskip("sentencepiece")
    written = io.BytesIO()
    package.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=written,
        vocab_size=vocab_size,
        hard_vocab_limit=False,
        pad_id=0,
        bos_id=1,
        eos_id=2,
        unk_id=3,
        pad_piece="[PAD]",
        bos_piece="[CLS]",
        eos_piece="[SEP]",
        unk_piece="[UNK]",
        minloglevel=2,
    )
    return written.getvalue()


def read(kind: str, folder: Path, *, words: bool) -> Tokenizer:
    """Make a small tokenizer."""
    return tokenize.read(pieces(kind, folder / kind), words=words)


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a piece's place without the white space around it."""
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    return start, max(start, end - (len(piece) - len(piece.rstrip())))
