"""CoNLL files: valid forms, and errors with their messages."""

from __future__ import annotations

import functools

import pytest
from etils import epath
from hypothesis import given, settings
from hypothesis import strategies as st

from dicejax.data import tags
from dicejax.data.examples import Sentence, TaggedWords, by_character
from dicejax.data.tags import Span
from dicejax.errors import InputError
from dicejax.formats import ConllFiles, kinds
from dicejax.formats.sample import FileSample

read = ConllFiles.read_file
word_files = functools.partial(ConllFiles, layout="labels")
read_words = functools.partial(ConllFiles.read_file, layout="labels")

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
    for label_column in (2, -2):
        (sentence,) = read(write(rows), word_column=1, label_column=label_column)
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


# Settings of a source, a file for training, one to predict with labels X, Y, ...
PREDICTED = [
    ({}, "a O\n", "-DOCSTART- x\n\na q\nb q\n \n\nc q\n", "- a X\nb Y\n \n\nc X"),
    ({}, "a O\n", "a\nb", "a X\nb Y"),
    ({}, "a N O\n", "a N\n\nb V\n", "a N X\n\nb V X"),
    ({}, "a N O\n", "a\t N\tO\t\nb N  O\n", "a\t N\tX\t\nb N  Y"),
    ({}, "a N O\n", "word pos tag\na N O\n", "word pos tag\na N X"),
    ({}, "a N O\n", "word pos tag\n\na N O\n", "word pos tag\n\na N X"),
    ({}, None, "a O\n", "a O X"),
    ({"label_column": 1}, None, "a O -\n", "a X -"),
    ({"comment": "# "}, "a O\n", "# b\n# 1\n#\n\n# 2\nc", "# b\n# 1\n# X\n\n# 2\nc X"),
    ({"comment": "#\t", "word_column": 1}, "1 a O O\n", "#\tx\n1 a\n", "#\tx\n1 a X"),
    ({"word_column": -2}, "N a O\n", "N a\n", "N a X"),
    ({"word_column": 1, "label_column": 2}, None, "1 a O -\n", "1 a X -"),
    ({"separator": "\t"}, "a\tO\n", "New York\tO\nb\tO\n", "New York\tX\nb\tY"),
    ({"separator": "\t"}, "a\tO\n", "New York\n", "New York\tX"),
    (
        {"word_column": 1, "label_column": 3, "separator": ",", "sentence_column": 0},
        *(None, 'S,Word,POS,Tag\n1,a,N,O\n,"x,y",N,O\n2,"""",N,O\n2,b,N,O\n'),
        'S,Word,POS,Tag\n1,a,N,X\n,"x,y",N,Y\n2,"""",N,X\n2,b,N,Y',
    ),
    (
        {"word_column": 1, "label_column": 2, "separator": ";", "sentence_column": 0},
        *(None, "S;Word\n1;a\n;b\n1;c\n", "S;Word;tag\n1;a;X\n;b;Y\n1;c;X"),
    ),
]


@pytest.mark.parametrize(("fields", "train", "content", "expected"), PREDICTED)
def test_a_file_to_predict_is_read_as_in_training_and_comes_back(
    write, fields, train, content, expected
):
    if train is not None:
        write(train)
    path = write(content, "new.conll")
    source = ConllFiles(dir=str(path.parent), **fields)
    texts, labels = [*source.texts(path)], ["X", "Y", "Z"]
    records = [{"words": t.words, "labels": labels[: len(t.words)]} for t in texts]
    written = map(source.write, texts, records)
    expected = expected.replace("- a", "-DOCSTART- x\n\na")
    assert "\n".join(written).rstrip("\n") == expected


def test_words_at_the_end_of_rows_need_the_training_file(write):
    source = ConllFiles(dir="/gone", word_column=-2)
    message = r"train\.txt: .*; restore the file, or name the column from 0"
    with pytest.raises(InputError, match=message):
        list(source.texts(write("N a O\n")))


def test_spans_are_written_in_the_scheme_and_characters_are_not(write):
    path = write("a O\nb O\n")
    entities = [
        {"type": "P", "start": 0, "end": 2},
        {"type": "Q", "start": 1, "end": 2},
    ]
    for scheme, expected in ((None, "a B-P\nb I-P"), ("BILOU", "a B-P\nb L-P")):
        source = ConllFiles(dir=str(path.parent), scheme=scheme)
        (text,) = source.texts(path)
        record = {"words": ["a", "b"], "entities": entities}
        assert source.write(text, record) == expected
    source = ConllFiles(layout="labels", dir=".", characters=True)
    (text,) = source.texts(write("ab X\nc X\n"))
    assert (text.words, text.text) == (("a", "b", "c"), "ab c")
    (single,) = source.texts(write("a X\nb X\n"))  # as many characters as rows
    entity = {"type": "X", "start": 0, "end": 2}
    records = [(single, {"words": list("ab"), "entities": [entity]})]
    records += [(text, {"words": list("abc"), "entities": []}), (text, {"words": []})]
    for example, record in records:
        with pytest.raises(InputError, match="no label for each row"):
            source.write(example, record)


@pytest.mark.parametrize("style", ["{1}-{0}", "{1}_{0}", "{0}_{1}"])
def test_prefixes_may_be_behind_or_before_another_sign(write, style):
    rows = [style.format(p, k) for p, k in (("B", "A-B"), ("I", "A-B"), ("B", "C"))]
    path = write("".join(f"w {tag}\n" for tag in [*rows, "O"]))
    spans = (Span("A-B", 0, 2), Span("C", 2, 3))
    for scheme in (None, "BIO"):
        assert read(path, scheme=scheme)[0].spans == spans


TABLE = "Sentence #,Word,POS,Tag\n"
SETTINGS = [  # the file, the fields with tags and with labels, words, types
    ("a N O\nb N B-X\n\n", {}, {}, "a b"),
    ("a I-NP O\nb I-NP B-X\n\n", {}, {}, "a b"),
    ("1 a O\n2 b B-X\n\n", {"word_column": 1}, {"word_column": 1}, "a b"),
    (
        "#\tu\n1\ta\tO\tO\n2\tb\tB-X\tB-Y\n\n",
        {"word_column": 1, "label_column": 2, "comment": "#\t"},
        *({"word_column": 1, "comment": "#\t"}, "a b"),
    ),
    (
        TABLE + "Sentence: 1,a,N,O\n,b,V,B-X\n",
        {"word_column": 1, "label_column": 3, "separator": ",", "sentence_column": 0},
        {"word_column": 1, "label_column": 2, "separator": ",", "sentence_column": 0},
        "a b",
    ),
    ("token label\na O\nb B-X\n\n", {}, {}, "a b"),
    ("token label\n\na O\nb B-X\n\n", {}, {}, "a b"),
]


@pytest.mark.parametrize(("content", "tagged", "labelled", "words"), SETTINGS)
def test_columns_are_recognised_and_gold_is_written_as_it_was(
    write, content, tagged, labelled, words
):
    path = write(content)
    sample = FileSample(epath.Path(path))
    names = {"dir": str(path.parent), "dev": path.name, "test": path.name}
    for source, fields in ((ConllFiles, tagged), (word_files, labelled)):
        form = kinds.format_of(source(dir=""))
        assert form.fits(sample)
        assert source(dir="", **form.fields(sample)) == source(dir="", **fields)
        corpus = source(**names, **fields).load()
        assert [" ".join(e.words) for e in corpus.train] == [words]
        notes = [note for note in corpus.notes if "passed over" in note]
        assert len(notes) == content.startswith("token")
        (text,) = source(**names, **fields).texts(path)
        assert (text.words, text.line) == (corpus.train[0].words, corpus.train[0].line)
    source = ConllFiles(**names, **tagged)
    (sentence,) = source.load().train
    assert sentence.spans == (Span("X", 1, 2),)
    entity = {"type": "X", "start": 1, "end": 2}
    record = {"words": list(sentence.words), "entities": [entity]}
    assert source.write(text, record) == content.removesuffix("\n")


@pytest.mark.parametrize(
    ("file", "scheme"),
    [
        ("conll2003/dev.txt", "IOB1"),
        ("conll2000/test.txt", "BIO"),
        ("msra/test.txt", "BIO"),
    ],
)
def test_published_files_come_back_as_they_are(data_folder, file, scheme):
    """Exact tags, so schemes are read as the corpora mean them."""
    path = data_folder / file
    source = ConllFiles(dir=str(data_folder), train=file, scheme=scheme)
    texts, sentences = [*source.texts(path)], read(path)
    assert [(t.words, t.line) for t in texts] == [(s.words, s.line) for s in sentences]
    records = [
        {"words": s.words, "entities": [x._asdict() for x in s.spans]}
        for s in sentences
    ]
    written = "\n".join(map(source.write, texts, records))
    assert written.rstrip("\n") == path.read_text("utf-8").rstrip("\n")
    rows = [tags.encode(s.spans, len(s.words), scheme) for s in sentences]
    assert tags.detect_scheme(rows) == scheme


def test_words_with_tags_behind_a_slash_are_named(write):
    sample = FileSample(epath.Path(write("Ada/N met/V\n" * 3)))
    with pytest.raises(InputError, match="'Ada/N' looks like word/TAG; put each word"):
        kinds.format_of(ConllFiles(layout="labels", dir="")).settings(sample)
