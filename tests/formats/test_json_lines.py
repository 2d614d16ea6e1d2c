"""JSON lines, as pandas, datasets and annotation tools write them."""

import functools
import json

import pytest

from dicejax.errors import InputError
from dicejax.formats import JsonSentences, TextFiles

read_sentences = JsonSentences.read_file
read_texts = functools.partial(TextFiles.read_file, layout="json")
read_multi_label = functools.partial(read_texts, multi_label=True, label="labels")


@pytest.fixture
def write(write):
    def write_lines(*records):
        lines = (r if isinstance(r, str) else json.dumps(r) for r in records)
        return write("".join(f"{line}\n" for line in lines), "data.jsonl")

    return write_lines


def spans(sentence):
    return [(s.type, " ".join(sentence.words[s.start : s.end])) for s in sentence.spans]


def test_texts_with_classes_by_name_and_by_number(write):
    path = write(
        {"text": " a fine\nfilm ", "label": "good", "stars": 4.5},
        "",
        {"id": 12, "text": "dull", "label": None},
    )
    x, other = read_texts(path)
    assert (x.first, x.second, x.label) == ("a fine\nfilm", None, "good")
    assert (x.id, x.line, other.id, other.line) == ("0", 1, "12", 3)
    assert other.label is None
    # As to_json of datasets and of pandas writes classes.
    path = write(
        {"review": "x", "title": "t", "y": 0}, {"review": "z", "title": "u", "y": 1}
    )
    fields = {"first": "title", "second": "review", "label": "y"}
    result = read_texts(path, **fields, names=["bad", "good"])
    assert [(e.first, e.second, e.label) for e in result] == [
        ("t", "x", "bad"),
        ("u", "z", "good"),
    ]
    assert [e.label for e in read_texts(path, **fields)] == ["0", "1"]


def test_texts_with_labels_by_name_and_by_number(write):
    path = write(
        {"text": " fine ", "labels": ["b", "a"]},
        {"id": "x", "text": "plain", "labels": []},
        {"text": "new", "labels": None},
        {"text": "new"},
    )
    result = read_multi_label(path)
    assert [e.labels for e in result] == [("b", "a"), (), None, None]
    assert [e.id for e in result] == ["0", "x", "2", "3"]
    assert (result[0].first, result[0].second, result[0].line) == ("fine", None, 1)
    path = write({"q": "x", "r": "y", "genres": [2, 0]})
    fields = {"first": "q", "second": "r", "label": "genres"}
    (pair,) = read_multi_label(path, **fields, names=["crime", "war", "love"])
    assert (pair.second, pair.labels) == ("y", ("love", "crime"))
    assert read_multi_label(path, **fields)[0].labels == ("2", "0")


def test_words_with_tags_by_name_and_by_number(write):
    words = ["Anna", "Berg", "met", "Bo"]
    path = write({"tokens": words, "ner_tags": ["B-PER", "I-PER", "O", "B-PER"]})
    (sentence,) = read_sentences(path)
    assert sentence.words == tuple(words)
    assert spans(sentence) == [("PER", "Anna Berg"), ("PER", "Bo")]
    path = write({"tokens": words, "tags": [1, 2, 0, 1]})
    (numbered,) = read_sentences(path, names=["O", "B-PER", "I-PER"])
    assert numbered.spans == sentence.spans
    # The scheme is that of the whole file.
    bmes = write(
        {"tokens": words, "tags": ["B-PER", "E-PER", "O", "S-PER"]},
        {"tokens": words, "tags": ["B-PER", "M-PER", "E-PER", "O"]},
    )
    assert [spans(e) for e in read_sentences(bmes)] == [
        [("PER", "Anna Berg"), ("PER", "Bo")],
        [("PER", "Anna Berg met")],
    ]


def test_texts_with_entities_by_characters(write):
    text = "Zoë’s firm (𝒳 Ltd.) left New York, N.Y."

    def entity(part, label):
        start = text.index(part)
        return {"start": start, "end": start + len(part), "label": label}

    path = write(
        {"text": text, "entities": [entity("New York", "LOC"), entity("Zoë", "PER")]},
        {"text": text, "entities": [entity("left ", "V"), entity("𝒳 Ltd", "ORG")]},
        {"text": text, "entities": []},
    )
    first, other, none = read_sentences(path)
    assert first.words[:8] == ("Zoë", "’", "s", "firm", "(", "𝒳", "Ltd", ".")
    assert spans(first) == [("PER", "Zoë"), ("LOC", "New York")]
    assert (spans(other), spans(none)) == ([("ORG", "𝒳 Ltd"), ("V", "left")], [])


SPANS = [
    {"start": 0, "end": 4, "label": "PER"},
    {"start": 10, "end": 14, "label": "LOC"},
]
TRIPLES = [[0, 4, "PER"], [10, 14, "LOC"]]
REGIONS = [
    {"start": 0, "end": 4, "text": "Anna", "labels": ["PER"]},
    {"start": 10, "end": 14, "text": "Rome", "labels": ["LOC"]},
]
OFFSETS = [
    {"id": 0, "label": "PER", "start_offset": 0, "end_offset": 4},
    {"id": 1, "label": "LOC", "start_offset": 10, "end_offset": 14},
]
RESULT = {"id": "x", "from_name": "label", "to_name": "text", "type": "labels"}
TEXT = {"text": "Anna left Rome"}
TOOLS = {  # each as its tool publishes it
    "prodigy": TEXT
    | {
        "_input_hash": -1,
        "tokens": [{"text": "Anna", "start": 0, "end": 4, "id": 0, "ws": True}],
        "spans": [span | {"token_start": 0, "token_end": 0} for span in SPANS],
        "answer": "accept",
    },
    "spacy to_json": TEXT | {"ents": SPANS, "sents": [{"start": 0, "end": 14}]},
    "spacy 2": ["Anna left Rome", {"entities": TRIPLES}],
    "doccano": TEXT | {"id": 1, "label": TRIPLES},
    "doccano relations": TEXT | {"id": 1, "entities": OFFSETS, "relations": []},
    "label studio min": TEXT | {"id": 1, "label": REGIONS, "annotator": 1},
    "label studio": {
        "id": 1,
        "data": TEXT,
        "annotations": [
            {"was_cancelled": True, "result": []},
            {
                "was_cancelled": False,
                "result": [
                    *(RESULT | {"value": region} for region in REGIONS),
                    {"type": "relation", "from_id": "x", "to_id": "x"},
                ],
            },
        ],
    },
}


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("form", ["lines", "list", "indented list"])
def test_entities_as_annotation_tools_export_them(tmp_path, tool, form):
    path = tmp_path / "export.json"
    records = [TOOLS[tool]] * 2
    text = json.dumps(records, indent=2 if form == "indented list" else None)
    if form == "lines":
        text = "".join(f"{json.dumps(first)}\n" for first in records)
    path.write_text(text)
    first, other = read_sentences(path)
    assert spans(first) == spans(other) == [("PER", "Anna"), ("LOC", "Rome")]


def test_spans_of_words_that_overlap_are_named_or_the_longer_is_read(write):
    words = ["Bank", "of", "New", "York", "fell"]
    spans_of_words = [[2, 3, "LOC"], [0, 3, "ORG"], [0, 3, "ORG"]]
    path = write({"tokenized_text": words, "ner": spans_of_words})
    message = r":1: entities 'ORG' \('Bank of New York'\) and 'LOC' \('New York'\) over"
    with pytest.raises(InputError, match=message):
        read_sentences(path)
    (sentence,) = read_sentences(path, align="expand")
    assert spans(sentence) == [("ORG", "Bank of New York")]
