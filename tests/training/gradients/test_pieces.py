"""Kinds of pieces by vocabulary."""

import pytest
from tokenizers import Tokenizer, models

from dicejax.data import tokenize
from dicejax.training.gradients.probe import KINDS, kinds_of


def kinds(tokenizer, pieces):
    found = kinds_of(tokenizer)
    return [KINDS[found[tokenizer.token_to_id(piece)]] for piece in pieces]


def test_wordpiece_marks_what_continues(minilm):
    tokenizer = tokenize.read(minilm)
    pieces = ["[CLS]", "[PAD]", "run", "##ning", "##s", "#", "1"]
    assert kinds(tokenizer, pieces) == [
        "special",
        "special",
        "word start",
        "continuation",
        "continuation",
        "word start",
        "word start",
    ]
    found = kinds_of(tokenizer)
    assert len(found) == tokenizer.get_vocab_size()


@pytest.mark.parametrize("mark", ["▁", "Ġ"])
def test_other_vocabularies_mark_what_begins_a_word(mark):
    words = [f"{mark}the", f"{mark}a", "ing", "s", mark]
    vocabulary = {"<s>": 0} | {word: n for n, word in enumerate(words, start=1)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<s>"))
    tokenizer.add_special_tokens(["<s>"])
    begins, continues = "word start", "continuation"
    wanted = ["special", begins, begins, continues, continues]
    assert kinds(tokenizer, ["<s>", *words[:4]]) == wanted


def test_a_vocabulary_without_marks_has_starts_alone():
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    assert kinds(tokenizer, ["a", "b"]) == ["word start"] * 2
