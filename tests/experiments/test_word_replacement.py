"""Synonyms of WordNet and of files, and their substitution in texts.

WordNet is read by the package wn, from a lexicon of a few words made here.
"""

import collections
import doctest
import importlib
import re
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from word_replacement import Replacer, SynonymPairs, WordNet

from dicejax.errors import InputError


def load(path):
    return SynonymPairs(path=str(path)).load()


def test_each_word_of_a_pair_replaces_the_other(write):
    content = "\ufeffFast\tquick\r\n\r\n fast \t firm\r\no’clock\tof the  clock\n"
    synonyms = load(write(content))
    assert synonyms("fast") == ("quick", "firm")
    assert synonyms("quick") == ("Fast",)
    assert synonyms("o'clock") == ("of the clock",)
    assert synonyms("zebra") == ()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("big\tlarge\nbig large\n", ":2: is not a pair of synonyms; write two words"),
        ("big\tlarge\thuge\n", ":1: is not a pair"),
        ("big\t\n", ":1: is not a pair"),
        ("big\tBig\n", ":1: is not a pair"),
        ("", ": is empty"),
        (b"big\tla\xffrge\n", ":1: byte 6 (0xff) is not UTF-8"),
    ],
)
def test_a_bad_file_is_refused_by_line(write, refusal, tmp_path, content, message):
    assert refusal(load, write(content)).startswith(message)
    assert "no such file" in refusal(load, tmp_path / "none.tsv")


def test_without_the_package_one_line_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "wn", None)
    message = r"^WordNet cannot be used \(the package wn is not installed.*"
    message += r"pip install wn.*SynonymPairs\(path=\.\.\.\).*\Z"
    with pytest.raises(InputError, match=message):
        WordNet().load()


LMF = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE LexicalResource SYSTEM "http://globalwordnet.github.io/schemas/WN-LMF-1.0.dtd">
<LexicalResource xmlns:dc="https://globalwordnet.github.io/schemas/dc/">
<Lexicon id="few" label="Few" language="en" email="x@y.z" license="none" version="1">
{entries}
<Synset id="few-1-n" ili="" partOfSpeech="n"/>
<Synset id="few-2-n" ili="" partOfSpeech="n"/>
</Lexicon>
</LexicalResource>
"""
ENTRY = """<LexicalEntry id="few-e{n}"><Lemma writtenForm="{lemma}" partOfSpeech="n"/>
{senses}</LexicalEntry>"""
LEMMAS = {"car": (1, 2), "auto": (1,), "motor car": (1,), "railcar": (2,)}
LEMMAS |= {"in": (1,), "R2": (1,), "Car": (2,)}


@pytest.fixture
def wn(tmp_path, monkeypatch):
    package = pytest.importorskip("wn")
    monkeypatch.setattr(package.config, "data_directory", tmp_path / "wn")
    return package


def test_without_data_one_line_says_what_to_do(wn):
    with pytest.raises(InputError, match=r"\(no data: no lexicon found.*; pip install"):
        WordNet().load()


def test_wordnet_gives_the_lemmas_of_the_first_senses(wn, tmp_path):
    sense = '<Sense id="few-s{n}{s}" synset="few-{s}-n"/>'
    entries = []
    for n, (lemma, numbers) in enumerate(LEMMAS.items()):
        senses = "".join(sense.format(n=n, s=s) for s in numbers)
        entries.append(ENTRY.format(n=n, lemma=lemma, senses=senses))
    path = tmp_path / "few.xml"
    path.write_text(LMF.format(entries="\n".join(entries)))
    wn.add(path, progress_handler=None)
    assert WordNet().load()("car") == ("auto", "motor car")
    both = WordNet(lexicon="few:1", senses=2).load()
    assert both("car") == ("auto", "motor car", "railcar")
    assert both("cars") == both("in") == ()
    with pytest.raises(ValueError, match="senses is 0"):
        WordNet(senses=0)


def replaced(text, synonyms, share=1.0, seed=0):
    texts = Replacer(synonyms.get, share)((text,), np.random.default_rng(seed))
    return texts and texts[0]


WORDS = {"big": ("large",), "état": ("nation",)}
WORDS |= {"film": ("motion picture",), "uk": ("United Kingdom",)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("big Big BIG", "large Large LARGE"),
        ("bIg biG iBig", None),
        (" big\t,big;\u00a0“big” …big", " large\t,large;\u00a0“large” …large"),
        ("…big… 'big' (big)", "…large… 'large' (large)"),
        ("big-hearted big's bigger x-big", None),
        ("http://big.com/big www.big.com big@big.com #big @big $big", None),
        ("x[/big] \\big{x} big=2 2big big2 big_ 1.big", None),
        ("Big.", "Large."),
        ("Big.Then", None),
        ("état E\u0301tat", "nation E\u0301tat"),
        ("", None),
        # Several words, and capitals of a synonym, keep the case.
        ("Film film FILM", "Motion picture motion picture MOTION PICTURE"),
        ("uk Uk UK", "United Kingdom United Kingdom UNITED KINGDOM"),
    ],
)
def test_which_words_are_replaced(text, expected):
    assert replaced(text, WORDS) == expected


pieces = st.sampled_from(
    ["big", "Big", "the", "x", "é", " ", "  ", ",", "-", "'", "\n"]
)


@settings(deadline=None)
@given(st.lists(pieces).map("".join), st.integers(0, 3))
def test_all_but_the_words_is_kept(text, seed):
    result = replaced(text, {"big": ("huge",)}, share=0.3, seed=seed)
    if result is None:
        assert not re.search(r"(?<![\w'-])big(?![\w'-])", text, re.IGNORECASE)
        return
    assert re.sub(r"\w+", "_", text) == re.sub(r"\w+", "_", result)
    both = zip(re.findall(r"\w+", text), re.findall(r"\w+", result), strict=True)
    changes = {(before, after) for before, after in both if before != after}
    assert changes
    assert changes <= {("big", "huge"), ("Big", "Huge")}


@pytest.mark.parametrize(("share", "count"), [(0.01, 1), (0.3, 3), (0.38, 4), (1.0, 6)])
def test_the_share_is_of_all_words(share, count):
    text = "big big big x x x x big big big"
    result = replaced(text, {"big": ("huge",)}, share=share)
    assert result.split().count("huge") == count


def test_every_word_and_synonym_has_its_chance():
    words = {"big": ("large", "huge"), "car": ("auto",)}
    rare = Replacer(words.get, share=0.1)
    random = np.random.default_rng(0)
    draws = collections.Counter(rare(("big car",), random) for _ in range(4000))
    # Half of the draws take the noun, a quarter each of the adjective's synonyms.
    for text, chance in (("big auto", 0.5), ("large car", 0.25), ("huge car", 0.25)):
        spread = (chance * (1 - chance) / 4000) ** 0.5
        assert draws[(text,)] / 4000 == pytest.approx(chance, abs=4 * spread)


@pytest.mark.parametrize(
    "name", ["bert_mrc_files", "cluener_files", "paper", "word_replacement"]
)
def test_the_examples_of_the_modules_hold(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted and not result.failed
