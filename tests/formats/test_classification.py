"""Tab-separated texts, and sentences behind their label."""

from __future__ import annotations

import dataclasses
import functools

import pytest

from dicejax.data.examples import LabelledText
from dicejax.formats import TextFiles

from ..data.glue import GLUE_QQP, MRPC, QQP, TSV

read = functools.partial(TextFiles.read_file, **TSV)

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
    examples = TextFiles.read_file(path, layout="label-first")
    assert [(e.label, e.first, e.id, e.line) for e in examples] == [
        ("0", "dull .", "0", 1),
        ("4", "fine , witty", "1", 2),
        ("2", "so  so", "2", 4),
    ]


QUOTED = {"first": "text", "label": "label", "separator": ",", "quoted": True}


def test_quotes_hold_separators_line_breaks_and_quotes(write):
    path = write(
        'id,text,label\r\n7,"a ""fine"",\r\nlong film",1\r\n\r\n8,5" disks,0\r\n'
    )
    first, second = read(path, **QUOTED)
    assert first == LabelledText('a "fine",\nlong film', None, "1", "0", 2)
    assert second == LabelledText('5" disks', None, "0", "1", 5)
