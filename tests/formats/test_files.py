"""Properties of every reader: encodings, line ends and invalid files."""

from __future__ import annotations

import dataclasses
import functools
import json

import bert_mrc_files as bert_mrc
import cluener_files as cluener
import pytest
from etils import epath

from dicejax.errors import InputError
from dicejax.formats import ConllFiles, SquadFiles, TextFiles
from dicejax.formats.labelled import LEAVE_OUT
from dicejax.formats.records import Skipped

from ..data import glue

CONLLU = (
    "1\tZürich\t_\tPROPN\t_\t_\t0\troot\t_\t_\n\n1\tja\t_\tINTJ\t_\t_\t0\troot\t_\t_\n"
)
CLUENER = """{"text": "在台湾", "label": {"address": {"台湾": [[1, 2]]}}}
{"text": "Zürich", "label": {}}
"""
ITEM = {"context": "Zürich schläft", "query": "where", "entity_label": "LOC"}
ITEM |= {"impossible": False, "start_position": [0], "end_position": [0]}
ITEM |= {"span_position": ["0;0"]}
ITEMS = [ITEM | {"qas_id": f"{number}.1"} for number in range(2)]
MRC = json.dumps(ITEMS, ensure_ascii=False, indent=1)
ASKED = {"question": "Wer?", "answers": [{"text": "Zürich", "answer_start": 0}]}
QUESTIONS = [{"id": f"q{number}"} | ASKED for number in range(2)]
PARAGRAPHS = [{"context": "Zürich schläft.", "qas": QUESTIONS}]
SQUAD = {"data": [{"paragraphs": PARAGRAPHS}]}
SQUAD = json.dumps(SQUAD, ensure_ascii=False, indent=1)

label_first = functools.partial(TextFiles.read_file, layout="label-first")
words = functools.partial(ConllFiles.read_file, layout="labels")
READERS = {
    "conll": (ConllFiles.read_file, "Zürich B-LOC\n\nja O\n"),
    "words": (
        functools.partial(ConllFiles.read_file, layout="labels"),
        "Zürich NE\n\nja ITJ\n",
    ),
    "conllu": (functools.partial(ConllFiles.read_file, layout="conllu"), CONLLU),
    "cluener": (cluener.read, CLUENER),
    "bert_mrc": (bert_mrc.read, MRC),
    "squad": (SquadFiles.read_file, SQUAD),
    "mrpc": (
        functools.partial(TextFiles.read_file, **glue.MRPC),
        "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
        "1\t2\t3\tZürich\tja\n0\t4\t5\ta\tb\n",
    ),
    "qqp": (
        functools.partial(TextFiles.read_file, **glue.QQP),
        "1\tWo?\tZürich?\t7\n0\tWer?\tWas?\t8\n",
    ),
    "label_first": (label_first, "1 Zürich !\n0 ja\n"),
}
BY_LINE = sorted(set(READERS) - {"bert_mrc", "squad"})

every_reader = pytest.mark.parametrize("reader", READERS)


@every_reader
@pytest.mark.parametrize("name", ["file", "file.gz"])
def test_the_same_examples_in_other_dress(write, reader, name):
    read, content = READERS[reader]
    expected = read(write(content))
    assert len(expected) == 2
    for dressed in (
        "\ufeff" + content,
        content.replace("\n", "\r\n"),
        content.rstrip("\n"),
        content + "\n\n",
    ):
        path = write(dressed, name)
        assert read(path) == expected
        assert read(str(path)) == expected
        assert read(epath.Path(path)) == expected


@every_reader
def test_examples_are_values(write, reader):
    read, content = READERS[reader]
    first, again = read(write(content))[0], read(write(content))[0]
    assert first == again
    assert hash(first) == hash(again)
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.line = 3


@every_reader
def test_files_that_are_not_there(write, tmp_path, reader, refusal):
    read, content = READERS[reader]
    write(content, "train.txt.gz")
    missing = refusal(read, tmp_path / "train.txt")
    assert missing == ": no such file; did you mean train.txt.gz?"
    assert refusal(read, tmp_path / "unlike") == ": no such file; check the name"
    nowhere = tmp_path / "no" / "train.txt"
    assert refusal(read, nowhere).endswith(f"no folder {nowhere.parent} either")


@every_reader
@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf"])
def test_empty_files(write, reader, refusal, content):
    read, _ = READERS[reader]
    for on_error in (None, Skipped()):
        message = refusal(read, write(content), on_error=on_error)
        assert message == ": is empty; name another file"


@pytest.mark.parametrize("reader", BY_LINE)
def test_files_of_blank_lines(write, reader, refusal):
    read, _ = READERS[reader]
    assert refusal(read, write("\n \n\n")).startswith(": holds no ")


@every_reader
def test_other_encodings(write, reader, refusal):
    read, content = READERS[reader]
    line = content[: content.index("Z")].count("\n") + 1
    message = refusal(read, write(content.encode("latin-1", "replace")))
    assert message.startswith((f":{line}: byte ", ":1: byte "))
    assert message.endswith("is not UTF-8; convert the file to UTF-8")
    message = refusal(read, write(content.encode("utf-16")))
    assert message == ": is UTF-16; save it as UTF-8"
    message = refusal(read, write(content.replace("ü", "u").encode("utf-16-le")))
    assert message.startswith((":1: a NUL byte: not text, or UTF-16; save", ":1: byte"))
    message = refusal(read, write(content.replace("Z", "\0")))
    assert message == f":{line}: a NUL byte: not text, or UTF-16; save it as UTF-8"


@pytest.mark.parametrize("reader", BY_LINE)
@pytest.mark.parametrize("wrong", [b"\xfc", b"\0"])
def test_bad_bytes_cost_one_example_where_someone_listens(write, reader, wrong):
    read, content = READERS[reader]
    content = content.encode().replace("ü".encode(), wrong)
    skipped = Skipped()
    assert len(read(write(content), on_error=skipped)) == 1
    assert skipped.count == 1
    what = "a NUL byte" if wrong == b"\0" else "(0xfc) is not UTF-8"
    assert what in skipped.messages[0]


@pytest.mark.parametrize("reader", ["bert_mrc", "squad", "cluener"])
def test_broken_json_names_its_line(write, reader, refusal):
    read, content = READERS[reader]
    lines = content.split("\n")
    broken = write("\n".join([lines[0], lines[1].rstrip(",]}") + "?", *lines[2:]]))
    assert refusal(read, broken).startswith((":2: not JSON: ", ":3: not JSON: "))


@pytest.mark.parametrize("reader", ["bert_mrc", "squad"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[\n{"a": }\n]', ":2: not JSON: Expecting value (column 7); correct it"),
        ('{"a": 1, "a": 2}', ": an object has 'a' twice; merge the two"),
        ("[" * 100_000, ": not JSON of data: nested too deeply; "),
        ("1" * 5000, ":1: number 11111"),
    ],
)
def test_a_broken_document_is_refused_even_where_someone_listens(
    write, reader, refusal, content, message
):
    read, _ = READERS[reader]
    assert refusal(read, write(content), on_error=Skipped()).startswith(message)


def test_skipped_counts_all_and_keeps_some(write):
    skipped = Skipped(keep=2)
    assert str(skipped) == "0 left out"
    path = write("1 a\n2\n3\n4\n1 b\n")
    assert len(label_first(path, on_error=skipped)) == 2
    assert skipped.count == 3
    assert str(skipped).splitlines() == [
        "3 left out:",
        f"  {path}:2: no text behind the label; {LEAVE_OUT}",
        f"  {path}:3: no text behind the label; {LEAVE_OUT}",
        "  and 1 more",
    ]


def test_nothing_left_is_an_error(write, refusal):
    message = refusal(label_first, write("1\n2\n"), on_error=Skipped())
    assert message.startswith(": holds no texts")


def test_a_listener_may_stop_the_reading(write):
    def stop(error):
        raise InputError("enough")

    with pytest.raises(InputError, match="enough"):
        label_first(write("1\n2\n"), on_error=stop)
