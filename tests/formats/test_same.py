"""A file that is predicted as it was is the same to the byte."""

import dataclasses
import json

import pytest

from dicejax.data import tags
from dicejax.data.examples import LabelledText, MultiLabelText, Sentence, labels_of
from dicejax.formats import recognise, texts
from dicejax.formats.same import SameFile

from . import test_round_trip as entities
from . import test_round_trip_labels as labels


def record(example, text):
    """Return gold in the form of a prediction."""
    if isinstance(example, Sentence):
        places = texts.offsets(text.text, text.words)
        spans = [
            {
                "type": span.type,
                "start": span.start,
                "end": span.end,
                "start_char": places[span.start][0],
                "end_char": places[span.end - 1][1],
            }
            for span in example.spans
        ]
        return {"words": list(text.words), "entities": spans}
    if isinstance(example, LabelledText):
        return {"label": example.label, "probabilities": {example.label: 1.0}}
    if isinstance(example, MultiLabelText):
        return {"labels": list(example.labels), "probabilities": {}}
    answers = [{"text": a.text, "start": a.start} for a in example.answers[0]]
    return {"answers": answers}


def again(kind, path):
    """Return what is written of a file whose gold is predicted."""
    source = recognise.source_of(kind, str(path))
    examples = source.read(path, None)
    names = {label for e in examples for label in labels_of(e)}
    read = source.without_gold(list(source.texts(path)), names)
    pairs = [(t, record(e, t)) for t, e in zip(read, examples, strict=True)]
    return "".join(f"{x}\n" for x in SameFile(path, source).lines(pairs)).encode()


ENTITIES = [name for name in entities.ENTITIES if name != "label studio"]


@pytest.mark.parametrize("name", ENTITIES)
def test_entities(tmp_path, name):
    write, _ = entities.ENTITIES[name]
    lines = write(entities.sentences())
    records = list(map(json.loads, lines.splitlines()))
    compact = "\r\n".join(json.dumps(x, separators=(",", ":")) for x in records)
    contents = {
        "lines.jsonl": lines,
        "compact.jsonl": f"\ufeff{compact}\r\n",
        "list.json": json.dumps(records) + "\n",
        "indented.json": json.dumps(records, indent=2, ensure_ascii=False) + "\n",
    }
    for file, content in contents.items():
        path = tmp_path / file
        path.write_bytes(content.encode())
        assert again("ner", path) == content.encode()


QUESTION = {
    "id": "7",
    "question": "Where?",
    "answers": [{"text": "Oslo", "answer_start": 13}],
}
SQUAD = {
    "data": [{"paragraphs": [{"context": "Ada lives in Oslo.", "qas": [QUESTION]}]}]
}
TEXTS = {
    **{name: write(labels.reviews()) for name, (write, _) in labels.TEXTS.items()},
    "bom.csv": "\ufefftext,label\r\n" + "fine,good\r\ndull,bad\r\n" * 9,
    "quoted.csv": '"text","label"\n' + '"fine","good"\n"dull","bad"\n' * 9,
    "text quoted.tsv": "text\tlabel\n" + '"fine"\tgood\n"dull"\tbad\n' * 9,
    "lines.csv": 'text,label\n"fine,\nreally",good\n"dull\n\nso",bad\n',
    "lines.tsv": 'text\tlabel\n"fine\nreally"\tgood\ndull\tbad\n',
    "tab.txt": "good\tfine\nbad  dull\n" * 9,
    "several.json": json.dumps([{"text": "x", "labels": ["a", "b"]}] * 9) + "\n",
    "squad.json": json.dumps(SQUAD, indent=1) + "\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(TEXTS[name].encode())
    kind = "qa" if name == "squad.json" else "classification"
    assert again(kind, path).rstrip(b"\n") == TEXTS[name].encode().rstrip(b"\n")


@pytest.mark.parametrize("scheme", tags.PREFIXES)
@pytest.mark.parametrize("form", ["{0}-{1}", "{1}-{0}", "{0}_{1}"])
def test_tags_of_each_scheme_and_form(tmp_path, scheme, form):
    lines = []
    for text, spans in entities.sentences():
        words = entities.words(text)
        gold = tags.spans(entities.tags(text, spans), "BIO")
        for (word, _, _), tag in zip(
            words, tags.encode(gold, len(words), scheme), strict=True
        ):
            prefix, dash, kind = tag.partition("-")
            lines.append(f"{word}\t{form.format(prefix, kind) if dash else tag}")
        lines.append("")
    content = "\ufeff" + "\r\n".join(lines) + "\r\n"
    path = tmp_path / "data.conll"
    path.write_bytes(content.encode())
    assert again("ner", path) == content.encode()


def test_a_tag_that_changes_is_in_the_scheme_of_the_file(tmp_path):
    path = tmp_path / "data.conll"
    path.write_text("Ada S-PER\nleft O\n\nNew B-LOC\nYork E-LOC\n\n" * 3)
    source = recognise.source_of("ner", str(path))
    (text, *_) = source.texts(path)
    entity = {"type": "LOC", "start": 0, "end": 2}
    written = source.write(text, {"words": ["Ada", "left"], "entities": [entity]})
    assert written.splitlines()[:2] == ["Ada B-LOC", "left E-LOC"]


def test_a_new_entity_has_the_fields_that_can_be_told(tmp_path):
    token = [{"text": "Ada", "start": 0, "end": 3}, {"text": "left", "start": 4}]
    token[1]["end"] = 8
    span = {"start": 0, "end": 3, "token_start": 0, "token_end": 0, "label": "PER"}
    fields = {"text": "Ada left", "tokens": token, "spans": [span | {"id": "e1"}]}
    path = tmp_path / "data.jsonl"
    path.write_text(json.dumps(fields) + "\n")
    source = recognise.source_of("ner", str(path))
    (text,) = source.texts(path)
    entity = {"type": "X", "start_char": 4, "end_char": 8, "start": 1, "end": 2}
    (made,) = source.fields_with(text, {"entities": [entity]})["spans"]
    assert made == {
        "start": 4,
        "end": 8,
        "token_start": 1,
        "token_end": 1,
        "label": "X",
    }


@pytest.mark.parametrize("separator", [",", "\t", ";", "|"])
def test_a_changed_row_keeps_its_line_breaks_and_quotes(tmp_path, separator):
    rows = [('"fine\nreally"', "good"), ('"dull"', '"bad"'), ("so so", "good")] * 5
    path = tmp_path / "data.csv"
    lines = (separator.join(row) for row in (("text", "label"), *rows))
    path.write_text("\n".join(lines) + "\n")
    source = recognise.source_of("classification", str(path))
    other = {"good": "bad", "bad": "good"}
    pairs = [(t, {"label": other[t.fields["label"]]}) for t in source.texts(path)]
    again = tmp_path / "again.csv"
    again.write_text("".join(f"{x}\n" for x in SameFile(path, source).lines(pairs)))
    before, after = (source.read(x, None) for x in (path, again))
    assert [e.first for e in after] == [e.first for e in before]
    assert [e.label for e in after] == [other[e.label] for e in before]
    assert f'"dull"{separator}"good"' in again.read_text()


def test_places_in_utf16_units_stay_so(tmp_path):
    text = "\U0001f600 Ada left"
    entity = {"start": 3, "end": 6, "label": "PER", "text": "Ada"}
    content = json.dumps({"text": text, "entities": [entity]}) + "\n"
    path = tmp_path / "data.jsonl"
    path.write_text(content * 9)
    assert again("ner", path) == (content * 9).encode()
    source = recognise.source_of("ner", str(path))
    (first, *_) = source.texts(path)
    new = {"type": "X", "start_char": 6, "end_char": 10, "start": 2, "end": 3}
    (made,) = source.fields_with(first, {"entities": [new]})["entities"]
    units = text.encode("utf-16-le")
    at = units[2 * made["start"] : 2 * made["end"]].decode("utf-16-le")
    assert (at, made["text"], made["label"]) == ("left", "left", "X")


def test_tags_that_are_numbers_stay_numbers(tmp_path):
    path = tmp_path / "data.jsonl"
    rows = [{"tokens": ["Ada", "left"], "ner_tags": [1, 0]}] * 9
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    source = recognise.source_of("ner", str(path))
    source = dataclasses.replace(source, names=("O", "B-PER", "I-PER"))
    (text, *_) = source.texts(path)
    entity = {"type": "PER", "start": 0, "end": 2}
    assert source.fields_with(text, {"entities": [entity]})["ner_tags"] == [1, 2]
