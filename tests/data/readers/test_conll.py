"""CoNLL files: valid forms, and errors with their messages."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dicejax.data import tags
from dicejax.data.examples import Sentence, TaggedWords, by_character
from dicejax.data.readers.conll import read, read_words
from dicejax.data.readers.skipping import Skipped
from dicejax.data.tags import Span
from dicejax.errors import InputError

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


def test_a_hash_is_a_word_not_a_comment(write):
    (sentence,) = read(write("# O\n1 O"))
    assert sentence.words == ("#", "1")


@pytest.mark.parametrize(
    "space", ["\u00a0", "\u3000", "\u2028", "\u0085", "\x1c", "\f"]
)
def test_white_space_beyond_ascii_space_and_tab_is_a_word(write, space):
    sentences = read(write(f"东 B-LOC\n{space} I-LOC\n京 I-LOC\n"))
    assert sentences == [Sentence(("东", space, "京"), (Span("LOC", 0, 3),), 1)]


def test_other_columns(write):
    rows = "1\tEU\tI-ORG\tx\n2\tPeter\tI-PER\ty\n"
    for tag_column in (2, -2):
        (sentence,) = read(write(rows), word_column=1, tag_column=tag_column)
        assert sentence.words == ("EU", "Peter")
        assert [span.type for span in sentence.spans] == ["ORG", "PER"]


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


@pytest.mark.parametrize(
    ("content", "settings", "message"),
    [
        ("-DOCSTART- -X- O O\n\n", {}, ": holds no sentences;"),
        ("a b c O\na b O\n", {}, ":2: 3 columns where 4 are expected, as in line 1; m"),
        ("\na O\nb x O\n", {}, ":3: 3 columns where 2 are expected, as in line 2; men"),
        ("a O\n\nb\n", {}, ":3: 1 column where 2 are expected, as in line 1; mend"),
        ("a,O\n", {}, ":1: 1 column, so word and tag would be the same one; name"),
        ("a O\n", {"tag_column": 0}, ":1: 2 columns, so word and tag would be the"),
        ("a O\n", {"tag_column": 3}, ":1: 2 columns, but the tag is asked from column"),
        ("a O\n", {"word_column": -3}, ":1: 2 columns, but the word is asked from col"),
        ("\tO\n", {"separator": "\t"}, ":1: the word is empty;"),
        ("a O\n", {"separator": ""}, ": the separator is empty;"),
        ("a O\n", {"scheme": "BILOU"}, ": scheme 'BILOU' is unknown; name one of IOB1"),
        ("a O\nb NNP\n", {}, ":2: tag 'NNP' does not belong to any scheme (O, B-TYPE"),
        ("a O\nb B\n", {}, ":2: tag 'B' names no type (O, B-TYPE"),
        ("a O\nb I-\n", {"scheme": "BIO"}, ":2: tag 'I-' names no type (O, B-TYPE, I-"),
        ("a O\nb O-X\n", {}, ":2: tag 'O-X' does not belong"),
        (
            "a B-X\n\nb E-X\n",
            {"scheme": "BIO"},
            ":3: tag 'E-X' does not belong to BIO (O, B-TYPE, I-TYPE); correct it, or",
        ),
        (
            "a B-X\nb M-X\nc E-X\n\nd I-X",
            {},
            ":5: tag 'I-X' does not belong to BMES (O, B-TYPE, M-TYPE, E-TYPE, "
            "S-TYPE); the file's other tags look like BMES",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(
    write, refusal, content, settings, message
):
    assert refusal(read, write(content), **settings).startswith(message)


def test_the_place_of_a_bad_byte_is_told(write, refusal):
    zurich = "a O\r\nb O\r\nZürich O\n".encode("latin-1")
    for content, message in (
        (zurich, ":3: byte 11 (0xfc) is not"),
        ("a O\né".encode()[:-1], ":2: byte 4 (0xc3) is not UTF-8"),
        (b"a O\n" * 50_000 + b"\xff O\n", ":50001: byte 200000 (0xff)"),
    ):
        assert refusal(read, write(content)).startswith(message)


@pytest.mark.parametrize(
    ("file", "sentences", "words", "spans"),
    [
        (
            "conll2003/train.txt",
            14_041,
            203_621,
            {"LOC": 7_140, "MISC": 3_438, "ORG": 6_321, "PER": 6_600},
        ),
        ("conll2003/dev.txt", 3_250, 51_362, 5_942),
        ("conll2003/test.txt", 3_453, 46_435, 5_648),
        ("msra/test.txt", 3_442, 172_601, {"LOC": 2_886, "ORG": 1_331, "PER": 1_973}),
        pytest.param(
            "msra/train.txt.gz",
            50_658,
            2_169_879,
            {"LOC": 36_517, "ORG": 20_574, "PER": 17_618},
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_published_counts(data_folder, file, sentences, words, spans):
    corpus = read(data_folder / file)
    assert len(corpus) == sentences
    assert sum(len(sentence.words) for sentence in corpus) == words
    result = Counter(span.type for sentence in corpus for span in sentence.spans)
    assert (result if isinstance(spans, dict) else result.total()) == spans


def test_published_tags_are_written_again(data_folder):
    """Exact tags, so schemes are read as the corpora mean them."""
    for file, scheme in (("conll2003/dev.txt", "IOB1"), ("msra/test.txt", "BIO")):
        lines = (data_folder / file).read_text("utf-8").split("\n")
        rows = [line.split() for line in lines if not line.startswith("-DOCSTART-")]
        tag_column = [row[-1] for row in rows if row]
        corpus = read(data_folder / file)
        written = [tags.encode(s.spans, len(s.words), scheme) for s in corpus]
        assert list(itertools.chain(*written)) == tag_column
        assert tags.detect_scheme(written) == scheme


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
    first, second = read_words(write(WSJ), label_column=1)
    assert first == TaggedWords(
        ("Pierre", "Vinken", ",", "61"), ("NNP", "NNP", ",", "CD"), 1
    )
    assert second.line == 6


def test_ontonotes_names(write):
    first, second = read(write(ONTONOTES))
    assert first.spans == (Span("DATE", 1, 5), Span("GPE", 5, 6))
    assert second.spans == ()


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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a X\n\nb\n", ":3: 1 column where 2 are expected, as in line 1; mend"),
        ("a\n", ":1: 1 column, so word and tag would be the same one; name"),
        ("a b X\nb X\n", ":2: 2 columns where 3 are expected, as in line 1; mend"),
    ],
)
def test_wrong_columns(write, refusal, content, message):
    assert refusal(read_words, write(content)).startswith(message)


def test_a_bad_row_costs_its_sentence_once(write):
    content = (
        "a O\nb B-X\n\nbad\nworse row here\nc O\n\nd O\n\ne WRONG\n\nf O\ng\n"
        "-DOCSTART- -X-\nh S\n\ni B-Y\n"
    )
    skipped = Skipped()
    sentences = read(write(content), on_error=skipped)
    assert [s.words for s in sentences] == [("a", "b"), ("d",), ("i",)]
    assert [s.line for s in sentences] == [1, 8, 17]
    assert skipped.count == 4
    places = [message.split(": ")[0][-3:] for message in skipped.messages]
    assert places == ["t:4", ":10", ":13", ":15"]


def test_a_bad_first_row_does_not_set_the_columns(write):
    skipped = Skipped()
    (example,) = read_words(write("title\n\na X\n"), on_error=skipped)
    assert example.words == ("a",)
    assert skipped.count == 1


def test_bad_bytes_in_the_midst_of_a_sentence(write):
    content = b"a O\n\xff O\nb O\n\nc O\n\n\xff O\n\nd O\nz\xfc O"
    skipped = Skipped()
    (sentence,) = read(write(content), on_error=skipped)
    assert sentence == Sentence(("c",), (), 5)
    assert [m.split(": ", 1)[1] for m in skipped.messages] == [
        f"byte {offset} (0x{byte}) is not UTF-8; convert the file to UTF-8"
        for offset, byte in ((4, "ff"), (18, "ff"), (28, "fc"))
    ]


def test_the_first_flaw_of_a_sentence_speaks_for_it(write):
    content = b"a O\nb\n\xff O\n\nc O\n\xff O\nd\n"
    skipped = Skipped()
    with pytest.raises(InputError, match="holds no sentences"):
        read(write(content), on_error=skipped)
    reason = [message.split(": ", 1)[1] for message in skipped.messages]
    assert reason[0].startswith("1 column where 2 are expected, as in line 1")
    assert reason[1].startswith("byte 15 (0xff) is not UTF-8")


def test_tags_of_another_scheme_cost_their_sentence(write):
    content = "a B-X\nb M-X\nc E-X\n\nd O\ne I-X\n\nf I-X\n\ng S-X\n"
    skipped = Skipped()
    sentences = read(write(content), on_error=skipped)
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
    examples = read_words(path)
    assert [list(zip(e.words, e.labels, strict=True)) for e in examples] == corpus


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
    (sentence,) = read(path, scheme=scheme)
    assert list(sentence.spans) == spans
