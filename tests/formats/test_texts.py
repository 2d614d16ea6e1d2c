"""Files of examples to predict, and of predictions."""

import json

import pytest

from dicejax.formats import texts

COLUMNS = "-DOCSTART- -X- O\n\nAnna NNP x\nsings VBZ y\n\n\nNo\tDT\tz\n"
WITHIN = "\x0b\x0c\x1c\x85\u2028"  # `str.splitlines` ends lines there


def read(tmp_path, content, form):
    path = tmp_path / "file"
    path.write_bytes(content.encode())
    return [*texts.read(path, form)]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_each_line_is_an_example_and_blank_ones_stay(tmp_path, end):
    lines = ["one" + WITHIN + "two", "", " ", "three"]
    result = read(tmp_path, end.join(lines), "text")
    assert [e.text for e in result] == ["one" + WITHIN + "two", "", " ", "three"]
    assert [e.is_blank for e in result] == [False, True, True, False]
    assert [e.line for e in result] == [1, 2, 3, 4]


def test_json_keeps_its_fields_and_the_id_of_the_file(tmp_path):
    content = '{"id": "a", "tokens": ["New York", "!"], "year": 3}\n\n{"text": "hm"}\n'
    first, blank, other = read(tmp_path, content, "jsonl")
    assert first.words == ("New York", "!") and other.words is None
    assert blank.is_blank and other.text == "hm" and other.line == 3
    record = json.loads(texts.jsonl(first, {"id": "1", "label": "x"}))
    assert record == {"id": "a", "tokens": ["New York", "!"], "year": 3, "label": "x"}


def test_json_of_questions(tmp_path):
    (e,) = read(tmp_path, '{"question": "Who?", "context": "She.\\tNo"}\n', "jsonl")
    assert e.text == "Who?\tShe.\tNo"


def test_columns_and_breaks_come_back_with_a_tag_in_a_new_column(tmp_path):
    first, second = result = read(tmp_path, COLUMNS, "conll")
    assert first.words == ("Anna", "sings") and (first.line, second.line) == (3, 7)
    entity = {"type": "PER", "start": 0, "end": 1}
    records = [
        {"words": list(first.words), "entities": [entity]},
        {"words": ["No"], "labels": [""]},
    ]
    pairs = zip(result, records, strict=True)
    written = "".join(texts.conll(e, record) + "\n" for e, record in pairs)
    assert written == COLUMNS.replace("x\n", "x B-PER\n").replace(
        "y\n", "y O\n"
    ).replace("z\n", "z\t_\n")
