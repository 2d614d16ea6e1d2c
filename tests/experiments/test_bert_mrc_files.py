"""BERT-MRC JSON: redundant spans, and contradictions between them."""

import pytest
from bert_mrc_files import SpanQuery, merged, read

from dicejax.data.tags import Span
from dicejax.errors import InputError
from dicejax.formats.records import Skipped

ITEM = {
    "context": "University of Oxford , Oxford",
    "query": "where",
    "entity_label": "LOC",
    "qas_id": "0.1",
    "impossible": False,
    "start_position": [0, 2, 4],
    "end_position": [2, 2, 4],
    "span_position": ["2;2", "0;2", "4;4"],
}
NONE = ITEM | {"qas_id": "0.2", "impossible": True}
NONE |= {f"{part}_position": [] for part in ("start", "end", "span")}


def test_flat_and_nested_spans(write):
    first, second = read(write([ITEM, NONE]), labels=["LOC"])
    assert first == SpanQuery(
        id="0.1",
        query="where",
        words=("University", "of", "Oxford", ",", "Oxford"),
        label="LOC",
        spans=(Span("LOC", 0, 3), Span("LOC", 2, 3), Span("LOC", 4, 5)),
    )
    assert second.spans == ()
    # Positions need not be aligned or distinct.
    item = ITEM | {"start_position": [4, 0, 2, 2], "end_position": [4, 2]}
    assert read(write([item])) == [first]


def test_other_white_space_can_be_a_word(write):
    (example,) = read(write([NONE | {"context": "东 \u3000 京"}]))
    assert example.words == ("东", "\u3000", "京")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"span_position": ["2;0"]}, "span '2;0' ends before it starts; correct it"),
        ({"span_position": ["2;5"]}, "span '2;5' is outside the sentence of 5 words;"),
        ({"span_position": ["2-3"]}, "'span_position' holds '2-3'; write \"start;end"),
        ({"span_position": [[2, 3]]}, "'span_position' holds [2, 3]; write"),
        ({"span_position": "2;3"}, "'span_position' is a string, not a list;"),
        (
            {"start_position": [0, 2]},
            "'start_position' is [0, 2] but 'span_position' says [0, 2, 4]; correct",
        ),
        (
            {"end_position": [2, 3, 4]},
            "'end_position' is [2, 3, 4] but 'span_position' says [2, 4];",
        ),
        ({"start_position": ["0"]}, "is a string, not a whole number;"),
        ({"impossible": True}, "is impossible but has spans;"),
        ({"impossible": 0}, "'impossible' is a whole number, not true or false;"),
        (NONE | {"impossible": False}, "has no span but is not impossible;"),
        ({"context": "a  b"}, "'context' is empty or has two spaces in a row"),
        ({"context": ""}, "'context' is empty or has"),
        ({"entity_label": "LOK"}, "label 'LOK' is unknown; did you mean LOC?"),
        ({"query": None}, "'query' is null, not a string;"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_item(write, refusal, change, message):
    path = write([NONE | {"qas_id": "1.1"}, ITEM | {"qas_id": "7.2"} | change, NONE])
    id_ = change.get("qas_id", "7.2")
    expected = f": item 1 (qas_id '{id_}'): {message}"
    assert refusal(read, path, labels=["LOC"]).startswith(expected)
    skipped = Skipped()
    assert read(path, labels=["LOC"], on_error=skipped)[0].id == "1.1"
    assert skipped.count >= 1


def test_missing_fields_and_repeated_ids(write, refusal):
    for name in ITEM:
        item = {key: value for key, value in ITEM.items() if key != name}
        assert f"has no '{name}'; " in refusal(read, write([item]))
    message = refusal(read, write([ITEM | {"entity_label": ""}]))
    assert message.endswith("the label is empty; name one")
    message = refusal(read, write([ITEM, ITEM]))
    assert message.startswith(": item 1 (qas_id '0.1'): the id comes a second time;")


def test_other_documents(write, refusal):
    assert refusal(read, write({"data": []})).startswith(": is not a JSON list;")
    assert refusal(read, write("[]")).startswith(": holds no items;")
    assert refusal(read, write("[3]")) == (
        ": item 0: is a whole number, not an object; correct it"
    )


def test_items_of_a_sentence_must_have_its_words():
    items = [
        SpanQuery("0.1", "?", ("a", "b"), "PER", (Span("PER", 0, 1),)),
        SpanQuery("0.2", "?", ("a", "c"), "LOC", ()),
    ]
    with pytest.raises(InputError, match=r"items of sentence '0' have different words"):
        merged("f.json", items)
