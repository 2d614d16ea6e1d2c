"""CoNLL files: valid forms, and errors with their messages."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dicejax.data import tags
from dicejax.data.examples import Sentence, TaggedWords, by_character
from dicejax.data.tags import Span
from dicejax.formats.conll import read, read_words

ROWS = "EU NNP I-NP I-ORG\nrejects VBZ I-VP O\n\nPeter NNP I-NP I-PER\n"
SENTENCES = [
    Sentence(("EU", "rejects"), (Span("ORG", 0, 1),), 1),
    Sentence(("Peter",), (Span("PER", 0, 1),), 4),
]


@pytest.mark.parametrize(
    "content",
    [
        ROWS,
        ROWS.replace(" ", "\t"),
        ROWS.replace(" ", "  \t"),
        ROWS.replace("\n\n", "\n \t\n"),
        ROWS.replace("\n", " \n"),
        ROWS.replace("\n\n", "\n-DOCSTART- -X- O O\n"),
        ROWS.replace("\n\n", "\n-DOCSTART-\n"),
    ],
)
def test_the_same_sentences_in_other_dress(write, content):
    assert read(write(content)) == SENTENCES


def test_docstart_rows_belong_to_no_sentence_and_set_no_column_count(write):
    content = "-DOCSTART- -X-\n\n" + ROWS + "-DOCSTART- O\n\n" + "Rome NNP I-NP I-LOC"
    sentences = read(write(content))
    assert [s.words for s in sentences] == [("EU", "rejects"), ("Peter",), ("Rome",)]
    assert [s.line for s in sentences] == [3, 6, 9]
    assert len(read(write("-DOCSTART- -X-\n\na\tO"), separator="\t")) == 1


@pytest.mark.parametrize("word", [*"\u00a0\u3000\u2028\u0085\x1c\f#"])
def test_a_hash_and_white_space_beyond_ascii_space_and_tab_are_words(write, word):
    sentences = read(write(f"{word} B-LOC\n{word} I-LOC\n京 I-LOC\n"))
    assert sentences == [Sentence((word, word, "京"), (Span("LOC", 0, 3),), 1)]


def test_other_columns(write):
    rows = "1\tEU\tI-ORG\tx\n2\tPeter\tI-PER\ty\n"
    for tag_column in (2, -2):
        (sentence,) = read(write(rows), word_column=1, tag_column=tag_column)
        assert sentence.words == ("EU", "Peter")
        assert [span.type for span in sentence.spans] == ["ORG", "PER"]
    (example,) = read_words(write(rows), word_column=1)
    assert (example.words, example.labels) == (("EU", "Peter"), ("x", "y"))


def test_a_named_separator_lets_words_hold_spaces(write, refusal):
    path = write("New York\tB-LOC\n \tI-LOC\nx\tO\n")
    (sentence,) = read(path, separator="\t")
    assert sentence.words == ("New York", " ", "x")
    assert sentence.spans == (Span("LOC", 0, 2),)
    assert refusal(read, path).startswith(":2: 1 column where 3 are expected")


@pytest.mark.parametrize("scheme", tags.PREFIXES)
def test_every_scheme_is_detected_or_may_be_named(write, scheme):
    spans = (Span("A", 0, 3), Span("A", 3, 4), Span("B", 5, 7))
    rows = [f"w{i} {tag}" for i, tag in enumerate(tags.encode(spans, 7, scheme))]
    path = write("\n".join(rows))
    for named in (scheme, None):
        (sentence,) = read(path, scheme=named)
        assert sentence.spans == spans


def test_broken_sequences_are_decoded_not_refused(write):
    path = write("a I-A\nb I-B\nc O\nd I-B\ne B-B\n\nf I-A")
    expected = [("A", 0, 1), ("B", 1, 2), ("B", 3, 4), ("B", 4, 5)]
    for scheme in ("BIO", "IOB1", "IOBES", None):
        first, second = read(path, scheme=scheme)
        assert list(first.spans) == expected
        assert second.spans == (Span("A", 0, 1),)


# In the form of a data set whose licence keeps it out of reach.
CTB = """上\tB-NR
海\tM-NR
市\tE-NR
的\tS-DEG
经\tB-NN
济\tE-NN
。\tS-PU

好\tS-VA
"""


def test_ctb_words_as_spans_of_characters(write):
    first, second = read(write(CTB), scheme="BMES")
    assert first.words == tuple("上海市的经济。")
    expected = [("NR", 0, 3), ("DEG", 3, 4), ("NN", 4, 6), ("PU", 6, 7)]
    assert list(first.spans) == expected
    assert second.spans == (Span("VA", 0, 1),)
    assert read(write(CTB)) == [first, second]


def test_words_written_by_character_are_the_same_spans(write):
    (sentence,) = read(write(CTB.split("\n\n")[0]))
    example = TaggedWords(("上海市", "的", "经济", "。"), ("NR", "DEG", "NN", "PU"), 1)
    assert by_character(example) == sentence


def test_labels_that_look_like_tags_or_markers_are_kept(write):
    content = "# #\n! .\n's POS\n-- :\n$ $\nO O\n"
    (example,) = read_words(write(content))
    assert example.labels == ("#", ".", "POS", ":", "$", "O")


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
    examples = read_words(path)
    assert [list(zip(e.words, e.labels, strict=True)) for e in examples] == corpus
