"""Words with one label each, tags of spans, and skipping on request."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dicejax.data import tags
from dicejax.data.examples import Sentence, TaggedWords, by_character
from dicejax.data.readers import conll
from dicejax.data.readers.skipping import Skipped
from dicejax.data.tags import Span
from dicejax.errors import InputError

# Tiny files in the form of data sets whose licence keeps them out of reach.
WSJ = """Pierre NNP B-NP
Vinken NNP I-NP
, , O
61 CD B-NP

Mr. NNP B-NP
Vinken NNP I-NP
"""
ONTONOTES = """In IN O
the DT B-DATE
summer NN I-DATE
of IN I-DATE
2005 CD E-DATE
Beijing NNP S-GPE

Yes UH O
"""
CTB = """上\tB-NR
海\tM-NR
市\tE-NR
的\tS-DEG
经\tB-NN
济\tE-NN
。\tS-PU

好\tS-VA
"""


def test_wsj_parts_of_speech(write):
    first, second = conll.read_words(write(WSJ), label_column=1)
    assert first == TaggedWords(
        ("Pierre", "Vinken", ",", "61"), ("NNP", "NNP", ",", "CD"), 1
    )
    assert second.line == 6


def test_ontonotes_names(write):
    first, second = conll.read(write(ONTONOTES))
    assert first.spans == (Span("DATE", 1, 5), Span("GPE", 5, 6))
    assert second.spans == ()


def test_ctb_words_as_spans_of_characters(write):
    first, second = conll.read(write(CTB), scheme="BMES")
    assert first.words == tuple("上海市的经济。")
    expected = [("NR", 0, 3), ("DEG", 3, 4), ("NN", 4, 6), ("PU", 6, 7)]
    assert list(first.spans) == expected
    assert second.spans == (Span("VA", 0, 1),)
    assert conll.read(write(CTB)) == [first, second]


def test_words_written_by_character_are_the_same_spans(write):
    (sentence,) = conll.read(write(CTB.split("\n\n")[0]))
    example = TaggedWords(("上海市", "的", "经济", "。"), ("NR", "DEG", "NN", "PU"), 1)
    assert by_character(example) == sentence


def test_labels_that_look_like_tags_or_markers_are_kept(write):
    content = "# #\n! .\n's POS\n-- :\n$ $\nO O\n"
    (example,) = conll.read_words(write(content))
    assert example.labels == ("#", ".", "POS", ":", "$", "O")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a X\n\nb\n", ":3: 1 column where 2 are expected, as in line 1; mend"),
        ("a\n", ":1: 1 column, so word and tag would be the same one; name"),
        ("a b X\nb X\n", ":2: 2 columns where 3 are expected, as in line 1; mend"),
    ],
)
def test_wrong_columns(write, refusal, content, message):
    assert refusal(conll.read_words, write(content)).startswith(message)


def test_a_bad_row_costs_its_sentence_once(write):
    content = (
        "a O\nb B-X\n\nbad\nworse row here\nc O\n\nd O\n\ne WRONG\n\nf O\ng\n"
        "-DOCSTART- -X-\nh S\n\ni B-Y\n"
    )
    skipped = Skipped()
    sentences = conll.read(write(content), on_error=skipped)
    assert [s.words for s in sentences] == [("a", "b"), ("d",), ("i",)]
    assert [s.line for s in sentences] == [1, 8, 17]
    assert skipped.count == 4
    places = [message.split(": ")[0][-3:] for message in skipped.messages]
    assert places == ["t:4", ":10", ":13", ":15"]


def test_a_bad_first_row_does_not_set_the_columns(write):
    skipped = Skipped()
    (example,) = conll.read_words(write("title\n\na X\n"), on_error=skipped)
    assert example.words == ("a",)
    assert skipped.count == 1


def test_bad_bytes_in_the_midst_of_a_sentence(write):
    content = b"a O\n\xff O\nb O\n\nc O\n\n\xff O\n\nd O\nz\xfc O"
    skipped = Skipped()
    (sentence,) = conll.read(write(content), on_error=skipped)
    assert sentence == Sentence(("c",), (), 5)
    assert [m.split(": ", 1)[1] for m in skipped.messages] == [
        f"byte {offset} (0x{byte}) is not UTF-8; convert the file to UTF-8"
        for offset, byte in ((4, "ff"), (18, "ff"), (28, "fc"))
    ]


def test_the_first_flaw_of_a_sentence_speaks_for_it(write):
    content = b"a O\nb\n\xff O\n\nc O\n\xff O\nd\n"
    skipped = Skipped()
    with pytest.raises(InputError, match="holds no sentences"):
        conll.read(write(content), on_error=skipped)
    told = [message.split(": ", 1)[1] for message in skipped.messages]
    assert told[0].startswith("1 column where 2 are expected, as in line 1")
    assert told[1].startswith("byte 15 (0xff) is not UTF-8")


def test_tags_of_another_scheme_cost_their_sentence(write):
    content = "a B-X\nb M-X\nc E-X\n\nd O\ne I-X\n\nf I-X\n\ng S-X\n"
    skipped = Skipped()
    sentences = conll.read(write(content), on_error=skipped)
    assert [s.words for s in sentences] == [("a", "b", "c"), ("g",)]
    assert [m.split(": ")[0][-2:] for m in skipped.messages] == [":6", ":8"]
    assert "look like BMES" in skipped.messages[0]


TOKEN = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters=" \t\r\n\0\ufeff"),
    min_size=1,
    max_size=5,
).filter(lambda token: token.strip() != "-DOCSTART-")


@settings(deadline=None)
@given(st.lists(st.lists(st.tuples(TOKEN, TOKEN), min_size=1), min_size=1))
def test_words_are_read_as_written(tmp_path_factory, corpus):
    path = tmp_path_factory.mktemp("words") / "file.txt"
    rows = ["".join(f"{w}\t{t}\n" for w, t in sentence) for sentence in corpus]
    path.write_text("\n".join(rows), "utf-8", newline="\n")
    read = conll.read_words(path)
    assert [list(zip(e.words, e.labels, strict=True)) for e in read] == corpus


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=8),
    st.sampled_from(["BIO", "IOBES", "BMES"]),
)
def test_segmentations_are_read_as_written(tmp_path_factory, lengths, scheme):
    spans, start = [], 0
    for length in lengths:
        spans.append(Span("NN", start, start + length))
        start += length
    written = tags.encode(spans, start, scheme)
    path = tmp_path_factory.mktemp("ctb") / "file.txt"
    path.write_text("".join(f"字\t{tag}\n" for tag in written), "utf-8")
    (sentence,) = conll.read(path, scheme=scheme)
    assert list(sentence.spans) == spans
