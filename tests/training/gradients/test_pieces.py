"""Kinds of pieces by vocabulary."""

import pytest
from tokenizers import Tokenizer, models

from dicejax.data import tokenize
from dicejax.training.gradients.probe import KINDS, kinds_of

SPECIAL, START, CONTINUATION = "special", "word start", "continuation"


def kinds(tokenizer, pieces):
    numbers = kinds_of(tokenizer)
    assert len(numbers) == tokenizer.get_vocab_size()
    return [KINDS[numbers[tokenizer.token_to_id(piece)]] for piece in pieces]


def test_wordpiece_marks_continuations(minilm):
    pieces = ["[CLS]", "[PAD]", "run", "##ning", "##s", "#", "1"]
    expected = [SPECIAL] * 2 + [START] + [CONTINUATION] * 2 + [START] * 2
    assert kinds(tokenize.read(minilm), pieces) == expected


@pytest.mark.parametrize("mark", ["▁", "Ġ"])
def test_other_vocabularies_mark_starts_of_words(mark):
    words = [f"{mark}the", f"{mark}a", "ing", "s", mark]
    vocabulary = {"<s>": 0} | {word: n for n, word in enumerate(words, start=1)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<s>"))
    tokenizer.add_special_tokens(["<s>"])
    expected = [SPECIAL] + [START] * 2 + [CONTINUATION] * 2
    assert kinds(tokenizer, ["<s>", *words[:4]]) == expected


def test_a_vocabulary_without_marks_has_starts_alone():
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    assert kinds(tokenizer, ["a", "b"]) == [START] * 2
