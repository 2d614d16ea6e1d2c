"""Tab-separated texts, and sentences behind their label."""

from __future__ import annotations

import dataclasses

import pytest

from dicejax.data.examples import LabelledText
from dicejax.data.readers.classification import read, read_label_first
from dicejax.data.readers.skipping import Skipped

from ..glue import GLUE_QQP, MRPC, QQP, SST2

MRPC_FILE = (
    "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    '1\t7\t8\tHe said "no\tHe " refused .\n'
    "0\t9\t10\tOne\tTwo\n"
)


def test_mrpc(write):
    first, second = read(write(MRPC_FILE), **MRPC)
    assert first == LabelledText('He said "no', 'He " refused .', "1", "0", 2)
    assert second == LabelledText("One", "Two", "0", "1", 3)


def test_qqp_with_and_without_header(write):
    plain = read(write("1\tWho?\tWhat?\t18\n"), **QQP)
    assert plain == [LabelledText("Who?", "What?", "1", "18", 1)]
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    glue = read(write(header + "18\t1\t2\tWho?\tWhat?\t1\n"), **GLUE_QQP)
    assert glue == [dataclasses.replace(plain[0], line=2)]


def test_sst2(write):
    (example,) = read(write("sentence\tlabel\na fine film \t1\n"), **SST2)
    assert example == LabelledText("a fine film", None, "1", "0", 2)


def test_rows_left_out_keep_their_numbers(write):
    skipped = Skipped()
    content = b"sentence\tlabel\na\t1\nb\t2\nc\n\n\xff\t0\n\t\nd\t0\n"
    examples = read(write(content), **SST2, on_error=skipped)
    assert [(e.first, e.id, e.line) for e in examples] == [("a", "0", 2), ("d", "5", 8)]
    assert skipped.count == 4
    examples = read_label_first(write(b"1 a\n\xff\n1\n0 b\n"), on_error=skipped)
    assert [(e.first, e.id) for e in examples] == [("a", "0"), ("b", "3")]


@pytest.mark.parametrize(
    ("content", "layout", "message"),
    [
        ("1\ta\n", QQP, ":1: 2 columns, but the second is asked from column 2; column"),
        ("1 a b 3\n", QQP, ":1: 1 column, but the first is asked from column 1;"),
        ("1\ta\tb\t3\n1\ta\tb\n", QQP, ":2: 3 columns where 4 are expected, as in lin"),
        ("1\ta\tb\t3\n1\ta\tb\tc\t4\n", QQP, ":2: 5 columns where 4 are expected,"),
        ("2\ta\tb\t3\n", QQP, ":1: label '2' is unknown; name one of 0, 1"),
        ("\ta\tb\t3\n", QQP, ":1: label '' is unknown;"),
        ("1\t \tb\t3\n", QQP, ":1: the first text is empty; add it or remove the line"),
        ("1\ta\t\t3\n", QQP, ":1: the second text is empty;"),
        ("sentence\tlabel\n\t1\n", SST2, ":2: the text is empty;"),
        ("sentences\tlabel\na\t1\n", SST2, ":1: the header has no column 'sentence';"),
        ("sentence\tlabel\n", SST2, ": holds no examples;"),
        ("sentence label\na 1\n", SST2, ":1: the header has no column 'sentence'; did"),
    ],
)
def test_what_cannot_be_read_is_refused(write, refusal, content, layout, message):
    assert refusal(read, write(content), **layout).startswith(message)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"first": "text", "label": 0}, "name all columns or number all"),
        ({"first": 1, "second": 1, "label": 0}, "a column is used twice"),
        ({"first": 0, "label": 1, "separator": ", "}, "separator is ', '; want one ch"),
    ],
)
def test_layouts_that_cannot_be(write, columns, message):
    with pytest.raises(ValueError, match=message):
        read(write("a\tb\n"), **columns)


def test_labels_behind_and_before(write):
    path = write("0 dull .\n4\tfine , witty \n\n2 so  so\n")
    examples = read_label_first(path)
    assert [(e.label, e.first, e.id, e.line) for e in examples] == [
        ("0", "dull .", "0", 1),
        ("4", "fine , witty", "1", 2),
        ("2", "so  so", "2", 4),
    ]


@pytest.mark.parametrize("line", ["fine", "3", "3 "])
def test_lines_without_label_or_text(write, refusal, line):
    path = write(f"0 dull\n{line}\n")
    refused = refusal(read_label_first, path)
    assert refused.startswith(":2: no text behind the label;")


QUOTED = {"first": "text", "label": "label", "separator": ",", "quoted": True}


def test_quotes_hold_separators_line_breaks_and_quotes(write):
    path = write(
        'id,text,label\r\n7,"a ""fine"",\r\nlong film",1\r\n\r\n8,5" disks,0\r\n'
    )
    first, second = read(path, **QUOTED)
    assert first == LabelledText('a "fine",\nlong film', None, "1", "0", 2)
    assert second == LabelledText('5" disks', None, "0", "1", 5)


def test_after_a_flawed_quote_reading_goes_on_with_the_next_line(write, refusal):
    path = write('text,label\n"one" two,1\nso,1\n"open,1\nfine,0\n"last",0\n')
    assert refusal(read, path, **QUOTED).startswith(
        ":2: text follows the quote that ends"
    )
    skipped = Skipped()
    result = read(path, **QUOTED, on_error=skipped)
    assert [(e.first, e.id, e.line) for e in result] == [
        ("so", "1", 3),
        ("fine", "3", 5),
        ("last", "4", 6),
    ]
    assert [message.split(";")[0] for message in skipped.messages] == [
        f"{path}:2: text follows the quote that ends a field",
        f"{path}:4: text follows the quote that ends a field",
    ]
