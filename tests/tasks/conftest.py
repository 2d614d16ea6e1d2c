"""The tokenizer of tests of machine reading and of spans."""

import pytest

from dicejax.data import tokenize

from .perfect import WORDS


@pytest.fixture(scope="session")
def tokenizer():
    """Return a tokenizer of the words of the sentence and of the queries."""
    text = [*WORDS, "New", "where", "it", "is", "who", "plays"]
    return tokenize.learn_wordpiece(text * 2 + ["New", "York"], 40)
