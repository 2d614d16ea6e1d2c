"""CLUENER JSON lines: spans of characters, and invalid offsets."""

import json

import pytest
from cluener_files import read
from hypothesis import given, settings
from hypothesis import strategies as st

from dicejax.data.examples import Sentence
from dicejax.data.tags import Span
from dicejax.formats.records import Skipped


def line(text="他去台湾看台湾", **label):
    return json.dumps({"text": text, "label": label}, ensure_ascii=False)


def test_repeated_and_nested_mentions(write):
    path = write(line(address={"台湾": [[5, 6], [2, 3]]}, name={"台": [[2, 2]]}) + "\n")
    (sentence,) = read(path)
    assert sentence == Sentence(
        tuple("他去台湾看台湾"),
        (Span("name", 2, 3), Span("address", 2, 4), Span("address", 5, 7)),
        1,
    )


def place(first, last):
    return line(address={"台湾": [[first, last]]})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (place(1, 2), "'台湾' at 1 to 2 is not there, but '去台';"),
        (place(3, 2), "'台湾' at 3 to 2 ends before it starts; corr"),
        (place(5, 7), "'台湾' at 5 to 7 is outside the text of 7 ch"),
        (line(address={"湾": [[-1, -1]]}), "'湾' at -1 to -1 is outside the text"),
        (line(address={"台湾": [2, 3]}), "place 2 of '台湾' is not [first, last];"),
        (line(address={"台湾": [[2, True]]}), "place [2, True] of '台湾' is not"),
        (line(address={"台湾": 2}), "is a whole number, not a list; correct it"),
        (line(address=[[2, 3]]), "'address' is a list, not an object; correct it"),
        (line(addres={}), "label 'addres' is unknown; did you mean addr"),
        (line(text=""), "the text is empty; remove the line"),
        (line(text=3), "'text' is a whole number, not a string;"),
        ('{"text": "a\\ud800b", "label": {}}', "'text' holds a NUL or half a surr"),
        ('{"text": "a\\u0000b", "label": {}}', "'text' holds a NUL or half"),
        ('{"texts": "a", "label": {}}', "has no 'text'; did you mean texts?"),
        ('{"label": {}}', "has no 'text'; add it"),
        ('["a"]', "is a list, not an object;"),
        ("null", "is null, not an object;"),
        ('{"text": "a", ', "not JSON: Expecting property name enclosed in double"),
        ('{"text": "a", "text": "b"}', "an object has 'text' twice; merge the two"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(write, refusal, content, message):
    path = write(f"{line()}\n{content}\n{line()}\n")
    assert refusal(read, path).startswith(f":2: {message}")
    skipped = Skipped()
    assert [s.line for s in read(path, on_error=skipped)] == [1, 3]
    assert skipped.count == 1


@settings(deadline=None)
@given(st.data())
def test_spans_are_read_as_written(tmp_path_factory, data):
    characters = st.characters(exclude_categories=["Cs", "Cc"])
    text = data.draw(st.text(characters, min_size=1))
    ends = st.tuples(*[st.integers(0, len(text) - 1)] * 2).map(sorted)
    places = data.draw(st.lists(ends, unique_by=tuple))
    names = {}
    for first, last in places:
        names.setdefault(text[first : last + 1], []).append([first, last])
    path = tmp_path_factory.mktemp("cluener") / "file.json"
    path.write_text(line(text, name=names), "utf-8", newline="\n")
    (sentence,) = read(path)
    assert "".join(sentence.words) == text
    assert [(s.start, s.end - 1) for s in sentence.spans] == sorted(map(tuple, places))
