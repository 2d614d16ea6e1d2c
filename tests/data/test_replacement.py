"""Words are replaced by synonyms in their case, and all else stays as it is."""

import collections
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dicejax.data.replacement import Replacer


def replacer(synonyms, share=1.0) -> Replacer:
    return Replacer(lambda word: synonyms.get(word, ()), share)


def replaced(text, synonyms, share=1.0, seed=0):
    found = replacer(synonyms, share)((text,), np.random.default_rng(seed))
    return found and found[0]


def differing_words(old: str, new: str) -> list[tuple[str, str]]:
    """The words that differ; what stands between words must not."""
    assert re.sub(r"\w+", "_", old) == re.sub(r"\w+", "_", new)
    both = zip(re.findall(r"\w+", old), re.findall(r"\w+", new), strict=True)
    return [(before, after) for before, after in both if before != after]


BIG = {"big": ("large",), "to": ("unto",), "is": ("be",), "état": ("nation",)}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("big Big BIG", "large Large LARGE"),
        ("bIg biG iBig", None),
        (" big\t,big;\u00a0“big” …big", " large\t,large;\u00a0“large” …large"),
        ("…big… 'big' (big)", "…large… 'large' (large)"),
        ("to is To IS", None),  # stop words, though synonyms are given
        ("big-hearted big's bigger x-big", None),
        ("http://big.com/big www.big.com big@big.com #big @big $big", None),
        ("x[/big] \\big{x} big=2 2big big2 big_ 1.big", None),
        ("Big.", "Large."),
        ("Big.Then", None),
        ("état E\u0301tat", "nation E\u0301tat"),
        ("", None),
    ],
)
def test_which_words_are_replaced(text, wanted):
    assert replaced(text, BIG) == wanted


def test_an_article_is_followed_by_what_fits_it():
    words = {"easy": ("simple", "effortless"), "film": ("image", "movie")}
    for seed in range(10):
        assert replaced("an easy a film", words, seed=seed) == "an effortless a movie"
    assert replaced("AN EASY x", {"easy": ("simple",)}) is None
    found = {replaced("the easy", words, seed=seed) for seed in range(10)}
    assert found == {"the simple", "the effortless"}


def test_synonyms_of_several_words_and_with_capitals_keep_the_case():
    words = {"film": ("motion picture",), "uk": ("United Kingdom",)}
    assert replaced("Film film FILM", words) == (
        "Motion picture motion picture MOTION PICTURE"
    )
    assert replaced("uk Uk UK", words) == "United Kingdom United Kingdom UNITED KINGDOM"


pieces = st.sampled_from(
    ["big", "Big", "the", "x", "é", " ", "  ", ",", "-", "'", "\n"]
)


@settings(deadline=None)
@given(st.lists(pieces).map("".join), st.integers(0, 3))
def test_all_but_the_words_stays_as_it_is(text, seed):
    found = replaced(text, {"big": ("huge",)}, share=0.3, seed=seed)
    if found is None:
        assert not re.search(r"(?<![\w'-])big(?![\w'-])", text, re.IGNORECASE)
    else:
        changes = differing_words(text, found)
        assert changes
        assert set(changes) <= {("big", "huge"), ("Big", "Huge")}


@pytest.mark.parametrize(("share", "count"), [(0.01, 1), (0.3, 3), (0.38, 4), (1.0, 6)])
def test_the_share_is_of_all_words(share, count):
    text = "big big big x x x x big big big"
    found = replaced(text, {"big": ("huge",)}, share=share)
    assert found.split().count("huge") == count


def test_every_word_and_synonym_has_its_chance():
    words = {"one": (), "big": ("large", "huge"), "car": ("auto",)}
    rare = replacer(words, share=0.1)
    random = np.random.default_rng(0)
    found = collections.Counter(rare(("big car",), random) for _ in range(4000))
    # Half of the draws take the noun, a quarter each of the adjective's synonyms.
    for text, chance in (("big auto", 0.5), ("large car", 0.25), ("huge car", 0.25)):
        spread = (chance * (1 - chance) / 4000) ** 0.5
        assert found[(text,)] / 4000 == pytest.approx(chance, abs=4 * spread)
