"""JSON lines, as pandas, datasets and annotation tools write them."""

import json

import pytest

from dicejax.data.readers.json_lines import read_multi_label, read_sentences, read_texts
from dicejax.data.readers.skipping import Skipped


@pytest.fixture
def write(tmp_path):
    def write(*records, name="data.jsonl"):
        path = tmp_path / name
        lines = (r if isinstance(r, str) else json.dumps(r) for r in records)
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        return path

    return write


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
    fields = {"first": "q", "second": "r", "labels": "genres"}
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
    assert (
        read_sentences(path, names=["O", "B-PER", "I-PER"])[0].spans == sentence.spans
    )
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
        return {
            "start": text.index(part),
            "end": text.index(part) + len(part),
            "label": label,
        }

    path = write(
        {"text": text, "entities": [entity("New York", "LOC"), entity("Zoë", "PER")]},
        {"text": text, "entities": [entity("left ", "V"), entity("𝒳 Ltd", "ORG")]},
        {"text": text, "entities": []},
    )
    first, other, none = read_sentences(path)
    assert first.words[:8] == ("Zoë", "’", "s", "firm", "(", "𝒳", "Ltd", ".")
    assert spans(first) == [("PER", "Zoë"), ("LOC", "New York")]
    assert (spans(other), spans(none)) == ([("ORG", "𝒳 Ltd"), ("V", "left")], [])


ENTITY = {"start": 0, "end": 4, "label": "PER"}
SENTENCES = [
    ('{"tokens": ["a"], ', "not JSON: "),
    ([1], "is a list, not an object"),
    ({"tokens": ["a"]}, "has 'tokens' and no 'tags' or 'ner_tags'"),
    ({"tokens": ["a", "b"], "tags": ["O"]}, "2 tokens but 1 tags"),
    ({"tokens": ["a"], "tags": [0]}, "tags are whole numbers without names"),
    ({"tokens": ["a", 3], "tags": ["O", "O"]}, "tokens[1] is a whole number"),
    ({"tokens": ["a", " "], "tags": ["O", "O"]}, "tokens[1] is blank"),
    ({"tokens": [], "tags": []}, "'tokens' is empty"),
    ({"tokens": ["a"], "tags": ["PER"]}, "tag 'PER'"),
    ({"tokens": ["a"], "tags": ["B-"]}, "tag 'B-' names no type"),
    ({"text": "Anna"}, "has no 'entities'"),
    ({"text": " ", "entities": []}, "the text has no words"),
    (
        {"text": "Anna", "entities": [{"start": 0, "end": 4}]},
        "entities[0] has no 'label'",
    ),
    (
        {"text": "Anna", "entities": [ENTITY | {"end": 9}]},
        "entities[0] is at 0 to 9 of 4",
    ),
    ({"text": "Annabel", "entities": [ENTITY]}, "entities[0] is 'Anna', which cuts"),
    ({"text": "Anna", "entities": [ENTITY, ENTITY]}, "'PER' and 'PER' overlap"),
    ({"text": "Anna", "entities": [ENTITY | {"start": 0.5}]}, "'start' is a number"),
]
TEXTS = [
    ({"text": "a", "label": 3.5}, "'label' is 3.5, a number and no class"),
    ({"text": "a", "label": True}, "is true or false, not a string"),
    ({"text": "a", "label": 2}, "'label' is 2, but names are given for 0 to 1"),
    ({"text": "a", "label": "god"}, "label 'god' is unknown"),
    ({"text": " ", "label": 1}, "'text' is empty"),
    ({"label": 1}, "has no 'text'"),
]
LABELS = [
    ("good", "'labels' is a string, not a list"),
    (["good", "good"], "'labels' has 'good' twice; remove one"),
    ([1, "good"], "'labels' has 'good' twice"),
    (["good", " "], "'labels[1]' is blank"),
    ([""], "'labels[0]' is blank"),
    ([None], "'labels[0]' is null"),
    ([0.5], "'labels[0]' is 0.5, a number and no class"),
    ([True], "'labels[0]' is true or false, not a string"),
    ([2], "'labels[0]' is 2, but names are given for 0 to 1"),
    (["god"], "label 'god' is unknown"),
    (["a\0b"], "'labels[0]' holds a NUL"),
    ({"good": 1}, "'labels' is an object, not a list"),
]
NAMES = {"names": ["bad", "good"]}
FLAWED = [
    *(
        (read_sentences, {}, {"tokens": ["Anna"], "tags": ["B-PER"]}, *r)
        for r in SENTENCES
    ),
    *((read_texts, NAMES, {"text": "fine", "label": 1}, *row) for row in TEXTS),
    *(
        (
            read_multi_label,
            NAMES,
            {"text": "fine", "labels": [1]},
            {"text": "dull", "labels": labels},
            message,
        )
        for labels, message in LABELS
    ),
]


@pytest.mark.parametrize(("read", "settings", "good", "flawed", "message"), FLAWED)
def test_records_that_cannot_be_read(
    write, refusal, read, settings, good, flawed, message
):
    path = write(good, flawed)
    reason = refusal(read, path, **settings)
    assert reason.startswith(":2: ") and message in reason
    skipped = Skipped()
    assert len(read(path, **settings, on_error=skipped)) == skipped.count == 1
    assert "holds no " in refusal(read, write("", ""))


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


def test_a_flaw_in_a_list_is_named_by_its_place(write, refusal):
    path = write(json.dumps([{"text": "a", "label": 1}, {"text": "b", "label": 0.5}]))
    assert refusal(read_texts, path).startswith(": [1]: 'label' is 0.5, a number")
    skipped = Skipped()
    assert [e.first for e in read_texts(path, on_error=skipped)] == ["a"]
    path = write({"text": "Anna", "label": [[0, 4]]})
    message = ":1: label[0] is a list, but not of start, end and label"
    assert refusal(read_sentences, path).startswith(message)
    path = write({"text": "Anna", "label": [{"start": 0, "end": 4, "labels": []}]})
    assert refusal(read_sentences, path).startswith(":1: label[0] has 0 labels; give")
