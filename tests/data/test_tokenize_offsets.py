"""Pieces have exact character offsets in any text."""

import unicodedata

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from dicejax.data import tokenize
from dicejax.errors import InputError

from . import made


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return tmp_path_factory.mktemp("tokenizers")


class Named:
    """Tokenizer with a short repr for Hypothesis."""

    def __init__(self, name: str, tokenizer: Tokenizer):
        self.name = name
        self.tokenizer = tokenizer

    def __repr__(self):
        return self.name

    def texts(self, texts, pairs=None):
        return tokenize.encode_texts(self.tokenizer, texts, pairs)

    def may_drop(self, character):
        """Return whether it may drop a character, decomposed too for SentencePiece."""
        if self.name in ("xlnet-base-cased", "deberta") and character == "▁":
            return True
        if self.name.startswith(("xlnet", "deberta")):
            character = unicodedata.normalize("NFKD", character)
        return all(
            unicodedata.category(c)[0] in "CZM" or c == "\ufffd" for c in character
        )


def tokenizer_of(request, folders, *, words):
    if request.param in made.KINDS:
        return Named(request.param, made.read(request.param, folders, words=words))
    folder = request.getfixturevalue("data_folder") / "vocab" / request.param
    return Named(request.param, tokenize.read(folder, words=words))


@pytest.fixture(scope="module", params=[*made.KINDS, *made.REAL])
def for_texts(request, folders):
    return tokenizer_of(request, folders, words=False)


@pytest.fixture(scope="module", params=[*made.KINDS, *made.REAL])
def for_words(request, folders):
    return tokenizer_of(request, folders, words=True)


hard = sorted(set("".join(made.TEXTS)))
characters = st.one_of(
    st.sampled_from(hard),
    st.characters(exclude_categories=["Cs"], max_codepoint=0x3FF),
    st.characters(exclude_categories=["Cs"]),
)
texts = st.one_of(
    st.text(characters, max_size=30),
    st.lists(st.sampled_from(made.TEXTS), max_size=3).map("".join),
)
many = settings(deadline=None)


def encoded(tokenizer, text):
    (e,) = tokenizer.texts([text])
    return e


def solid(e, text=0):
    """Return the offsets of pieces with characters."""
    pairs = e.offsets[e.texts == text].tolist()
    return [(start, end) for start, end in pairs if start < end]


@given(text=texts)
@many
def test_pieces_are_in_order_and_cover_whole_characters(for_texts, text):
    """Their marks too, all but what a tokenizer drops, and no white space at ends."""
    first = encoded(for_texts, text)
    offsets = first.offsets[~first.special]
    assert (offsets >= 0).all() and (offsets <= len(text)).all()
    assert (offsets[:, 0] <= offsets[:, 1]).all()
    assert (np.diff(offsets, axis=0) >= 0).all()
    covered = set()
    for start, end in solid(first):
        assert text[start:end] == text[start:end].strip()
        assert not unicodedata.category(text[end : end + 1] or " ").startswith("M")
        if unicodedata.category(text[start])[0] == "M":
            assert start == 0 or text[start - 1].isspace()
        covered.update(range(start, end))
    lost = [c for n, c in enumerate(text) if n not in covered]
    assert all(map(for_texts.may_drop, lost))


@given(text=texts, data=st.data())
@many
def test_a_gold_span_comes_back(for_texts, text, data):
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    first = encoded(for_texts, text)
    spans = solid(first)
    covered = {n for s, e in spans for n in range(s, e)} & set(range(start, end))
    result = first.pieces(start, end)
    assert (result is None) == (not covered)
    if result is None:
        return
    back = first.span(*result)
    assert covered <= set(range(*back))
    astride = [p for p in spans if p[0] < start < p[1] or p[0] < end < p[1]]
    if not astride:  # the gold span begins and ends where pieces do
        assert back == (min(covered), max(covered) + 1)
        if start in covered and end - 1 in covered:
            assert text[slice(*back)] == text[start:end]


@given(words=st.lists(st.text(characters, max_size=6), max_size=8))
@many
@example(words=["", "\u200b", "\u0301", "a", "　", "New York", "''"])
def test_every_word_has_its_pieces_or_minus_one(for_words, words):
    (x,) = tokenize.encode(for_words.tokenizer, [words])
    inner = x.words[~x.special]
    assert (np.diff(inner) >= 0).all() and (x.words[x.special] == -1).all()
    first = x.first_pieces(len(words))
    for place, word in enumerate(words):
        mine = np.flatnonzero(x.words == place)
        assert first[place] == (mine[0] if len(mine) else -1)
        if not len(mine):
            assert all(for_words.may_drop(c) for c in word)
        assert (x.offsets[mine] <= len(word)).all()
        covered = {n for s, e in x.offsets[mine].tolist() for n in range(s, e)}
        lost = [c for n, c in enumerate(word) if n not in covered]
        assert all(map(for_words.may_drop, lost))


def assert_equal(ours, mask, theirs, other, names=("ids", "words", "offsets")):
    """The same pieces, those of two masks or places, in two encodings."""
    for name in names:
        first, second = getattr(ours, name)[mask], getattr(theirs, name)[other]
        np.testing.assert_array_equal(first, second)


@given(first=texts, second=texts)
@many
def test_a_pair_is_two_texts_with_offsets_of_their_own(for_texts, first, second):
    (pair,) = for_texts.texts([first], [second])
    for number, text in enumerate((first, second)):
        alone = encoded(for_texts, text)
        names = ("ids", "offsets")
        assert_equal(pair, pair.texts == number, alone, alone.texts == 0, names)


@given(words=st.lists(st.text(characters, max_size=6), max_size=8))
@many
@example(words=["\u200b", "a", "\u200b", "\u200b", "b", "\u200b"])
def test_every_word_can_have_a_piece(for_words, words):
    (plain,) = tokenize.encode(for_words.tokenizer, [words])
    for first in ([], ["\u200b", "x"]):
        texts = ([first], [words]) if first else ([words],)
        (e,) = tokenize.encode(for_words.tokenizer, *texts, every_word=True)
        places = e.first_pieces(len(words), text=len(texts) - 1)
        present = plain.first_pieces(len(words)) >= 0
        assert (places >= 0).all() or not present.any()
        assert (np.diff(places) > 0).all() or not present.any()
        added = {for_words.tokenizer.id_to_token(n) for n in e.ids[places[~present]]}
        assert added <= {"[UNK]", "<unk>"} or not present.any()
        retained = np.setdiff1d(
            np.flatnonzero(e.texts == len(texts) - 1), places[~present]
        )
        np.testing.assert_array_equal(e.ids[retained], plain.ids[plain.texts == 0])


@given(
    first=st.lists(st.text(characters, max_size=6), max_size=4),
    second=st.lists(st.text(characters, max_size=6), max_size=4),
)
@many
@example(first=["cafe\u0301", "", "''x"], second=["", "Zu\u0308rich", "cafe\u0301"])
@example(first=[], second=["a"])
@example(first=["a"], second=[])
def test_a_pair_of_word_lists_is_each_list_by_itself(for_words, first, second):
    (pair,) = tokenize.encode(for_words.tokenizer, [first], [second])
    for number, words in enumerate((first, second)):
        (alone,) = tokenize.encode(for_words.tokenizer, [words])
        assert_equal(pair, pair.texts == number, alone, alone.texts == 0)
        places = pair.first_pieces(len(words), text=number)
        assert (pair.words[places[places >= 0]] == np.flatnonzero(places >= 0)).all()


@pytest.mark.parametrize("limits", [{"_CHUNK": 3}, {"_CHARACTERS": 60}])
def test_many_at_once_are_encoded_like_one(for_words, monkeypatch, limits):
    for name, value in limits.items():
        monkeypatch.setattr(tokenize.encoding, name, value)
    queries = [text.split()[:n] for n, text in enumerate(made.TEXTS)]
    sentences = [made.TEXTS[n:] for n in range(len(made.TEXTS))]
    pairs = tokenize.encode(for_words.tokenizer, queries, sentences)
    together = for_words.texts(made.TEXTS)
    for n, text in enumerate(made.TEXTS):
        (pair,) = tokenize.encode(for_words.tokenizer, [queries[n]], [sentences[n]])
        alone = encoded(for_words, text)
        for result, single in ((pairs[n], pair), (together[n], alone)):
            names = ("ids", "texts", "words", "offsets")
            assert_equal(result, slice(None), single, slice(None), names)


CASES = [
    # text, characters of a piece range, and the expected marks
    ("in Zu\u0308rich.", (3, 5), "Zu\u0308rich"),
    ("cafe\u0301 y", (0, 1), "cafe\u0301"),
    ("１２３ x", (0, 3), "１２３"),
    ("a ﬁne day", (2, 3), "ﬁne"),
    ("ok 👩\u200d👩\u200d👧 x", (3, 8), "👩\u200d👩\u200d👧"),
    ("ok 👍🏽 x", (3, 4), "👍🏽"),
    ("a\u3000 東京", (3, 5), "東京"),
    ("x\r\n\tyes\r\n", (4, 7), "yes"),
    ("\ufeffNew\u00a0York", (1, 9), "New\u00a0York"),
    ("\x01\x02go \x7fhome", (8, 10), "home"),
]


@pytest.mark.parametrize(("text", "gold", "marked"), CASES)
def test_hand_made_cases_in_whole_words(for_texts, text, gold, marked):
    e = encoded(for_texts, text)
    word = text.index(marked), text.index(marked) + len(marked)
    assert text[slice(*e.span(*e.pieces(*word)))] == marked
    result = e.span(*e.pieces(*gold))
    assert set(range(*gold)) <= set(range(*result)) <= set(range(*word))


def test_sentencepiece_s_beginning_of_a_word_is_no_character(folders):
    tokenizer = made.read("xlnet", folders, words=False)
    (e,) = tokenize.encode_texts(tokenizer, ["the  in ▁"])
    tokens = [tokenizer.id_to_token(i) for i in e.ids.tolist()]
    assert tokens[:4] == ["▁the", "▁", "i", "n"]
    assert e.offsets[:4].tolist() == [[0, 3], [5, 5], [5, 6], [6, 7]]
    assert e.span(1, 1) is None and e.span(0, 1) == (0, 3)
    assert e.span(*e.pieces(8, 9)) == (8, 9)  # a real ▁ in the text


def test_two_quotes_that_xlnet_makes_one_are_both_of_its_piece(folders):
    tokenizer = made.read("xlnet", folders, words=False)
    text = "say ''x'' or ``y``"
    (x,) = tokenize.encode_texts(tokenizer, [text])
    quotes = x.offsets[x.ids == tokenizer.token_to_id('"')].tolist()
    assert [text[s:e] for s, e in quotes] == ["''", "''", "``", "``"]


def test_a_range_over_two_texts_is_an_error(folders):
    tokenizer = made.read("wordpiece", folders, words=False)
    (pair,) = tokenize.encode_texts(tokenizer, ["the"], ["cat"])
    with pytest.raises(ValueError, match="two texts"):
        pair.span(0, len(pair) - 1)
    assert pair.span(*pair.pieces(0, 3, text=1)) == (0, 3)
    assert pair.span(0, 0) is None  # a special piece is of no text
    assert pair.pieces(0, 0) is None


@given(first=texts, second=texts, data=st.data())
@many
def test_a_window_keeps_the_template_and_the_characters(for_texts, first, second, data):
    (pair,) = for_texts.texts([first], [second])
    context = np.flatnonzero(pair.texts == 1)
    low = data.draw(st.integers(0, len(context)))
    high = data.draw(st.integers(low, len(context)))
    ahead = data.draw(st.one_of(st.none(), st.integers(0, 5)))
    retained = context[low:high]
    ends = (retained[0], retained[-1]) if len(retained) else (1, 0)
    part = pair.window(*ends, ahead=ahead)
    asked = np.flatnonzero(pair.texts == 0)[:ahead]
    places = np.sort(np.concatenate([np.flatnonzero(pair.special), asked, retained]))
    names = ("ids", "token_types", "texts", "words", "offsets")
    assert_equal(part, slice(None), pair, places.astype(int), names)


def test_half_a_surrogate_pair_is_named(folders):
    tokenizer = made.read("wordpiece", folders, words=True)
    with pytest.raises(
        InputError, match=r"text 2: 'x\\ud83d' holds U\+D83D, half"
    ) as e:
        tokenize.encode(tokenizer, [["a"], ["b", "x\ud83d"]])
    assert "\n" not in str(e.value)
    with pytest.raises(InputError, match=r"text 1: '\\udc00'"):
        tokenize.encode_texts(tokenizer, ["a"], ["\udc00"])
    with pytest.raises(TypeError):
        tokenize.encode_texts(tokenizer, [3])


def test_nothing_gives_nothing(folders):
    tokenizer = made.read("wordpiece", folders, words=True)
    assert tokenize.encode(tokenizer, []) == []
    (empty,) = tokenize.encode(tokenizer, [[]])
    assert empty.special.all() and len(empty) == 2
    assert empty.first_pieces(0).shape == (0,)
