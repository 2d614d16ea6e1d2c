"""Tokenizers: learnt ones are the same each time, read ones neither pad nor cut."""

import pytest

from dicejax.data import tokenize
from dicejax.data.synthetic import SyntheticNER
from dicejax.errors import InputError


def test_learning_is_deterministic():
    corpus = SyntheticNER(train=300, dev=1, test=1).load()
    words = [word for s in corpus.train for word in s.words]
    learnt = {tokenize.learn_wordpiece(words, 400).to_str() for _ in range(3)}
    assert len(learnt) == 1


def test_a_learnt_tokenizer_frames_a_sentence_and_maps_pieces_to_words():
    tokenizer = tokenize.learn_wordpiece(["ab", "abc", "x"] * 5, 30)
    (encoding,) = tokenize.encode(tokenizer, [["abc", "x", "q"]])
    assert encoding.tokens[0] == "[CLS]" and encoding.tokens[-1] == "[SEP]"
    assert encoding.word_ids[0] is None and encoding.word_ids[-1] is None
    assert [w for w in encoding.word_ids if w is not None] == [0, 1, 2]
    assert "[UNK]" in encoding.tokens
    assert tokenizer.token_to_id("[PAD]") == 0


def test_real_tokenizer_files_ask_for_padding_which_is_switched_off(minilm):
    tokenizer = tokenize.read(minilm)
    short, long = tokenize.encode(tokenizer, [["Hello"], ["word"] * 300])
    assert short.tokens == ["[CLS]", "hello", "[SEP]"]
    assert len(long.ids) == 302


def test_vocab_txt_alone_gives_the_same_pieces(minilm, tmp_path):
    for name in ("vocab.txt", "config.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((minilm / name).read_bytes())
    words = [["Zürich", "isn't", "unbelievably", "东京", "far"]]
    (a,) = tokenize.encode(tokenize.read(minilm), words)
    (b,) = tokenize.encode(tokenize.read(tmp_path), words)
    assert a.tokens == b.tokens and a.word_ids == b.word_ids


def test_a_folder_without_tokenizer_is_refused(tmp_path):
    with pytest.raises(InputError, match="no usable tokenizer"):
        tokenize.read(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(InputError, match="no usable tokenizer"):
        tokenize.read(tmp_path)
