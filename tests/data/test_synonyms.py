"""Synonyms of three sources; a bad word list or no WordNet ends in one line."""

import sys
import types

import pytest

from dicejax.data import synonym_groups
from dicejax.data.synonyms import BuiltIn, WordList, WordNet
from dicejax.errors import InputError

NO_WORDNET = "pip install wn, then python -m wn download"


@pytest.fixture
def word_list(tmp_path):
    """Write a word list; give its synonyms, or the message that refuses it."""

    def load(content):
        path = tmp_path / "words.txt"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return WordList(path=str(path)).load()

    return load


def groups() -> list[list[str]]:
    lines = synonym_groups.GROUPS.splitlines()
    kept = [line for line in lines if line and not line.startswith("#")]
    return [line.split(", ") for line in kept]


def test_the_built_in_list_is_clean():
    words = [word for group in groups() for word in group]
    assert len(words) > 600
    assert len(set(words)) == len(words), "a word stands in two groups"
    assert all(len(group) >= 2 for group in groups())
    assert all(word.replace("-", "").replace(" ", "").isalpha() for word in words)
    assert all(word == word.lower() for word in words)
    assert not set(words) & synonym_groups.STOP_WORDS


def test_built_in_synonyms_are_the_other_words_of_the_group():
    synonyms = BuiltIn().load()
    for group in groups():
        for word in group:
            assert list(synonyms(word)) == [other for other in group if other != word]
    assert synonyms("zebra") == ()


def test_a_word_of_several_groups_has_the_synonyms_of_all(word_list):
    synonyms = word_list("\ufeff# mine\r\nFast,quick\r\n\r\n  fast , quick,firm\r\n")
    assert synonyms("fast") == ("quick", "firm")
    assert synonyms("quick") == ("Fast", "fast", "firm")
    assert synonyms("mine") == ()


def test_stop_words_of_a_list_are_passed_over(word_list):
    synonyms = word_list("about, roughly, circa\nthe, this\n")
    assert synonyms("roughly") == ("circa",)
    assert synonyms("about") == synonyms("the") == ()


def test_both_apostrophes_find_a_word(word_list):
    synonyms = word_list("o’clock, hour\n")
    assert synonyms("o'clock") == ("hour",)
    assert synonyms("hour") == ("o’clock",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\n", ":1: 'a' stands alone in its group; separate synonyms by commas"),
        ("# x\nbig large\n", ":2: 'big large' stands alone in its group"),
        ("big, large,\n", ":1: a comma with no word beside it; remove it"),
        ("big,, large\n", ":1: a comma with no word beside it"),
        ("big, large\nbig, 4x4\n", ":2: '4x4' is not a word; write letters only"),
        ("big; large, huge\n", ":1: 'big; large' is not a word"),
        ("big, Big\n", ":1: 'big' stands twice in its group; remove one"),
        ("", ": is empty"),
        ("# nothing\n\n", ": holds no synonyms; put a group on each line"),
        ("the, this\n", ": holds no synonyms"),
        (b"big, la\xffrge\n", ":1: byte 7 (0xff) is not UTF-8"),
        (b"big, large\nx\0y, z\n", ":2: a NUL byte"),
    ],
)
def test_a_bad_list_is_refused_by_file_and_line(word_list, tmp_path, content, message):
    with pytest.raises(InputError) as caught:
        word_list(content)
    assert str(caught.value).startswith(f"{tmp_path / 'words.txt'}{message}")
    assert "\n" not in str(caught.value)


def test_a_list_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        WordList(path=str(tmp_path / "none.txt")).load()


# WordNet through stand-ins for the packages.


@pytest.fixture
def nothing_installed(monkeypatch):
    for name in ("wn", "nltk", "nltk.corpus"):
        monkeypatch.setitem(sys.modules, name, None)


def stand_in_wn(senses, installed=True):
    module = types.ModuleType("wn")
    module.Error = type("Error", (Exception,), {})

    class Wordnet:
        def __init__(self, lexicon=None, *, lang=None):
            if not installed:
                raise module.Error("no lexicon found")
            assert (lexicon, lang) in [(None, "en"), ("oewn:2024", None)]

        def synsets(self, word):
            found = senses.get(word, [])
            return [types.SimpleNamespace(lemmas=lambda s=s: s) for s in found]

    module.Wordnet = Wordnet
    return module


CAR = [["car", "auto", "motorcar", "motor car"], ["car", "railcar"], ["Car", "R2"]]


def test_without_a_package_wordnet_is_refused_in_one_line(nothing_installed):
    with pytest.raises(InputError) as caught:
        WordNet().load()
    message = str(caught.value)
    assert message.startswith(
        "WordNet cannot be used (wn: not installed; nltk: not installed); " + NO_WORDNET
    )
    assert "\n" not in message
    with pytest.raises(InputError, match=r"used \(nltk: not installed\); "):
        WordNet(package="nltk").load()


def test_a_package_without_data_is_refused_in_one_line(nothing_installed, monkeypatch):
    monkeypatch.setitem(sys.modules, "wn", stand_in_wn({}, installed=False))
    with pytest.raises(InputError, match=r"\(wn: no data \(no lexicon found\); nltk: "):
        WordNet().load()


@pytest.mark.parametrize(
    ("senses", "wanted"),
    [
        (1, ("auto", "motorcar", "motor car")),
        (2, ("auto", "motorcar", "motor car", "railcar")),
    ],
)
def test_so_many_senses_count(nothing_installed, monkeypatch, senses, wanted):
    monkeypatch.setitem(sys.modules, "wn", stand_in_wn({"car": CAR}))
    assert WordNet(senses=senses).load()("car") == wanted
    named = WordNet(package="wn", lexicon="oewn:2024", senses=senses)
    assert named.load()("car") == wanted
    assert named.load()("bus") == ()


def test_of_an_inflected_form_wordnet_gives_nothing(nothing_installed, monkeypatch):
    found = {"cars": CAR, "bill": [["Bill"], ["bill", "the", "Act", "note", "no."]]}
    monkeypatch.setitem(sys.modules, "wn", stand_in_wn(found))
    assert WordNet(senses=3).load()("cars") == ()
    assert WordNet().load()("bill") == ("note",)


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="senses is 0"):
        WordNet(senses=0)
    with pytest.raises(ValueError, match="is for wn, not nltk"):
        WordNet(package="nltk", lexicon="oewn:2024")


# The packages themselves, each with a WordNet of a few words, where installed.

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


@pytest.fixture
def wn(tmp_path, monkeypatch):
    package = pytest.importorskip("wn")
    monkeypatch.setattr(package.config, "data_directory", tmp_path / "wn")
    return package


def test_wn_itself_without_data_is_refused(wn):
    with pytest.raises(InputError, match=r"\(wn: no data \(no lexicon found"):
        WordNet(package="wn").load()


def test_wn_itself_gives_synonyms(wn, tmp_path):
    lemmas = {"car": (1, 2), "auto": (1,), "motor car": (1,), "railcar": (2,)}
    entries = "\n".join(
        ENTRY.format(
            n=n,
            lemma=lemma,
            senses="".join(
                f'<Sense id="few-s{n}{s}" synset="few-{s}-n"/>' for s in senses
            ),
        )
        for n, (lemma, senses) in enumerate(lemmas.items())
    )
    path = tmp_path / "few.xml"
    path.write_text(LMF.format(entries=entries))
    wn.add(path, progress_handler=None)
    assert WordNet(package="wn").load()("car") == ("auto", "motor car")
    both = WordNet(lexicon="few:1", senses=2).load()
    assert both("car") == ("auto", "motor car", "railcar")
    assert both("cars") == ()


def write_nltk_wordnet(folder):
    """Write the files of Princeton's WordNet with two senses of car."""
    folder.mkdir(parents=True)
    names = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
    for name in names:
        (folder / f"data.{name}").write_text("")
        (folder / f"index.{name}").write_text("")
        (folder / f"{name}.exc").write_text("")
    (folder / "index.sense").write_text("")
    lexnames = [f"{i:02d}\tnoun.x{i}\t1" for i in range(45)]
    (folder / "lexnames").write_text("\n".join(lexnames) + "\n")
    first = "00000000 06 n 03 car 0 auto 0 motor_car 0 000 | a vehicle  \n"
    second = f"{len(first):08d} 06 n 02 car 0 railcar 0 000 | on rails  \n"
    (folder / "data.noun").write_text(first + second)
    places = {"auto": [0], "car": [0, len(first)], "motor_car": [0]}
    places["railcar"] = [len(first)]
    index = [
        f"{lemma} n {len(at)} 0 {len(at)} 0 {' '.join(f'{a:08d}' for a in at)}  \n"
        for lemma, at in places.items()
    ]
    (folder / "index.noun").write_text("".join(index))


@pytest.fixture
def nltk(tmp_path, monkeypatch):
    package = pytest.importorskip("nltk")
    monkeypatch.setattr(package.data, "path", [str(tmp_path)])
    for name in [name for name in sys.modules if name.startswith("nltk.corpus")]:
        monkeypatch.delitem(sys.modules, name)  # it keeps what it has loaded
    return package


def test_nltk_itself_without_data_is_refused(nltk):
    with pytest.raises(InputError, match=r"\(nltk: no data \(corpora/wordnet\)\)"):
        WordNet(package="nltk").load()


def test_half_a_wordnet_is_refused(nltk, tmp_path):
    write_nltk_wordnet(tmp_path / "corpora" / "wordnet")
    (tmp_path / "corpora" / "wordnet" / "index.sense").unlink()
    with pytest.raises(InputError, match=r"\(nltk: no data \(corpora/wordnet\)\)"):
        WordNet(package="nltk").load()


def test_nltk_itself_gives_synonyms(nltk, tmp_path):
    write_nltk_wordnet(tmp_path / "corpora" / "wordnet")
    assert WordNet(package="nltk").load()("car") == ("auto", "motor car")
    both = WordNet(package="nltk", senses=2).load()
    assert both("car") == ("auto", "motor car", "railcar")
    assert both("cars") == ()
