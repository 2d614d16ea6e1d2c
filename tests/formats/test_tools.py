"""Layouts of annotation tools that are nearly alike, read and written again."""

import csv
import io
import json

import pytest

from dicejax.errors import InputError
from dicejax.formats import JsonSentences, TextFiles, recognise, texts
from dicejax.formats.records import Columns

from .writers import json_lines

read_sentences = JsonSentences.read_file


def task(text, *values, **data):
    kinds = ("choices", "rating", "number", "labels")
    regions = [
        {"type": next(kind for kind in kinds if kind in value), "value": value}
        for value in values
    ]
    return {"data": {"text": text, **data}, "annotations": [{"result": regions}]}


def choice(text, *names):
    return task(text, {"choices": [*names]}) if names else task(text)


def entity(text, part, kind):
    start = text.index(part)
    return {"start_char": start, "end_char": start + len(part), "type": kind}


@pytest.mark.parametrize(
    "beside", [{"source": "wiki"}, {"input": "x"}, {"text": "A b"}]
)
@pytest.mark.parametrize("names", [(), ("O", "S-PER")])
def test_words_are_predicted_on_where_words_were_trained_on(write, beside, names):
    record = {"tokens": ["Ada", "left"], "ner_tags": ["S-PER", "O"], **beside}
    path = write(json_lines([record] * 2), "train.jsonl")
    source = JsonSentences(dir="", names=names)
    text = next(iter(source.texts(path)))
    assert text.words == ("Ada", "left") == read_sentences(path, names=names)[0].words
    predicted = {"entities": [{"start": 1, "end": 2, "type": "PER"}]}
    again = write(source.write(text, predicted), "again.jsonl")
    assert [tuple(span) for span in read_sentences(again, names=names)[0].spans] == [
        ("PER", 1, 2)
    ]


def test_tags_of_a_document_are_not_those_of_prodigys_words(write):
    words = [{"text": "Ada", "start": 0, "end": 3, "id": 0}]
    spans = [{"start": 0, "end": 3, "label": "PER"}]
    record = {"text": "Ada", "tokens": words, "spans": spans, "tags": ["news"]}
    (sentence,) = read_sentences(write(record, "train.jsonl"))
    assert [tuple(span) for span in sentence.spans] == [("PER", 0, 1)]


def test_tasks_with_one_choice_and_with_several_are_several_labels(write):
    rows = [choice(f"text {n}", *["a", "b"][: 1 + (n == 2)]) for n in range(8)]
    path = write(rows, "train.json")
    source = recognise.source_of("classification", str(path))
    assert source.layout == "json" and source.multi_label
    labels = [example.labels for example in source.read(path, None)]
    assert labels == [("a", "b") if n == 2 else ("a",) for n in range(8)]


def test_a_task_without_a_choice_is_left_out_and_counted(write):
    rows = [choice(f"text {n}", *["ab"[n % 2]][: n != 3]) for n in range(8)]
    path = write(rows, "train.json")
    source = recognise.source_of("classification", str(path))
    assert source.layout == "json"
    examples, notes = source.read_with_notes(path, None)
    assert [e.label for e in examples] == [*"aba", *"abab"]
    assert notes == ["1 without a choice left out"]


def test_numbers_of_tasks_are_refused_as_those_of_columns_are(write):
    path = write([task(f"text {n}", {"number": n / 2}) for n in range(8)], "train.json")
    with pytest.raises(InputError, match="regression is not supported"):
        recognise.source_of("classification", str(path))


def test_a_text_of_several_is_named_and_relations_are_passed_over(write):
    choices = ({"choices": ["ab"[n % 2]]} for n in range(8))
    rows = [task("a title", x, body=f"b {n}") for n, x in enumerate(choices)]
    for row in rows:
        row["data"]["title"] = row["data"].pop("text")
        row["annotations"][0]["result"] += [{"type": "relation", "from_id": "x"}]
    path = write(rows, "train.json")
    source = recognise.source_of("classification", str(path), Columns(text="body"))
    assert [e.first for e in source.read(path, None)] == [f"b {n}" for n in range(8)]


def test_choices_are_written_as_predictions(write):
    source = TextFiles(layout="json", dir="")
    rows = [choice("so fine", "good"), {"data": {"text": "not annotated"}}]
    for row, text in zip(rows, source.texts(write(rows, "new.json")), strict=True):
        written = json.loads(source.write(text, {"label": "bad", "probabilities": {}}))
        (region,) = written.pop("predictions")[0]["result"]
        assert region["value"] == {"choices": ["bad"]}
        assert written == {"annotations": [], **row}


@pytest.mark.parametrize("shift", [0, 2])
def test_predictions_for_label_studio_count_as_it_does(write, shift):
    """Two emoji take four UTF-16 units; a script may have counted characters."""
    text = "😀😀 Ada"
    value = {"start": 3 + shift, "end": 6 + shift, "text": "Ada", "labels": ["PER"]}
    source = JsonSentences(dir="")
    (read,) = source.texts(write([task(text, value)], "new.json"))
    written = json.loads(source.write(read, {"entities": [entity(text, "Ada", "PER")]}))
    assert written["predictions"][0]["result"][0]["value"] == value
    (read,) = source.texts(write([{"data": {"text": text}}], "new.json"))
    written = json.loads(source.write(read, {"entities": [entity(text, "Ada", "PER")]}))
    assert written["predictions"][0]["result"][0]["value"]["start"] == 5


def test_several_choices_of_json_min_stand_beside_single_ones(write):
    rows = [{"text": f"text {n}", "mood": "a"} for n in range(8)]
    rows[2]["mood"] = {"choices": ["a", "b"]}
    path = write(rows, "train.json")
    source = recognise.source_of("classification", str(path), Columns(label="mood"))
    examples = source.read(path, None)
    assert [e.labels for e in examples[:3]] == [("a",), ("a",), ("a", "b")]


def test_what_is_left_out_is_said_where_nothing_is_left(write, refusal):
    path = write([{"data": {"text": "a"}, "predictions": []}] * 3, "train.json")
    for source in (JsonSentences(dir=""), TextFiles(layout="json", dir="")):
        message = refusal(source.read_with_notes, path, None)
        assert ", 3 not annotated left out;" in message


def test_records_of_argilla_1_without_annotation_are_left_out(write):
    entity = {"start": 0, "end": 3, "label": "PER"}
    rows = [{"annotation": [entity], "status": "Validated"}] * 4
    rows += [{"annotation": None, "status": "Default"}] * 2
    rows += [{"annotation": None, "status": "Discarded"}]
    path = write(json_lines({"text": "Ada left", **row} for row in rows), "train.jsonl")
    source = recognise.source_of("ner", str(path))
    assert source.spans == "annotation"
    sentences, notes = source.read_with_notes(path, None)
    assert [s.spans for s in sentences] == [(("PER", 0, 1),)] * 4
    assert notes == ["2 not annotated, 1 discarded left out"]


@pytest.mark.parametrize(
    ("places", "advice"),
    [
        ([(3, 6), (11, 15)], "all offsets look like UTF-16 units: count characters"),
        ([(2, 4), (10, 13)], "all ends look inclusive: add 1 to each"),
        ([(3, 6), (10, 14)], "correct its offsets"),
    ],
)
def test_advice_on_offsets_is_that_of_all(write, refusal, places, advice):
    """An emoji has two units; the second entity is the last word, from 10 to 14."""
    entities = [{"start": s, "end": e, "label": "X"} for s, e in places]
    rows = [{"text": "😀 Ada saw Rome", "entities": entities}]
    path = write(json_lines(rows), "a.jsonl")
    message = refusal(read_sentences, path)
    assert "which cuts a word; " + advice in message
    for entity in entities:
        entity["text"] = "Ada" if entity is entities[0] else "Rome"
    path = write(json_lines(rows), "a.jsonl")
    if "UTF-16" in advice:  # the advice is right
        (sentence,) = read_sentences(path)
        assert [tuple(span) for span in sentence.spans] == [("X", 1, 2), ("X", 3, 4)]


def test_a_list_is_read_from_a_stream_as_from_a_file(write):
    content = json.dumps([{"text": "a"}, {"text": "b"}], indent=1).encode()
    path = write(content, "new.json")
    for stream in (io.BytesIO(content), io.BytesIO(b"\xef\xbb\xbf" + content)):
        read = [*TextFiles(layout="json", dir="").texts("-", stream)]
        assert read == [*TextFiles(layout="json", dir="").texts(path)]


@pytest.mark.parametrize(
    ("before", "label", "after"),
    [(0, "good", "good"), (0, "1", 1), (True, "false", False), (True, "good", "good")],
)
def test_a_class_is_written_as_it_can_be(before, label, after):
    source = TextFiles(layout="json", dir="")
    assert source.predicted({"label": before}, {"label": label}) == {"label": after}


def test_a_table_of_words_that_was_trained_on_is_predicted_on(write):
    content = "Sentence #,Word,POS,Tag\n1,Ada,NN,B-PER\n,left,VB,O\n2,Bo,NN,B-PER\n"
    path = write(content, "ner_dataset.csv")
    source = recognise.source_of("ner", str(path))
    assert texts.format_of(str(path), source) == "conll"
    assert [t.words for t in source.texts(path)] == [("Ada", "left"), ("Bo",)]
    for form in ("text", "csv"):
        message = "-:1: is the header of a table of words; read it with --format conll"
        with pytest.raises(InputError, match=message):
            texts.same_format("-", form, source, io.BytesIO(content.encode()))
        for plain in (b"Ada left\nBo", b'"Ada left\nBo'):
            stream = io.BytesIO(plain)
            assert texts.same_format("-", form, source, stream) is None
            assert stream.read() == plain


NEW = {"texts": ["fine"], "label": "new", "probabilities": {"new": 0.5}}


@pytest.mark.parametrize(
    ("content", "header", "row"),
    [
        ("text,prediction,probability\nfine,old,1\n", "text", "fine"),
        ("text,prediction\nfine,old\n", "text,prediction.1", "fine,old"),
        ("text,a,a.1,a\nfine,1,2,3\n", "text,a,a.1,a.2", "fine,1,2,3"),
    ],
)
def test_names_of_columns_differ_and_an_earlier_prediction_goes(
    write, content, header, row
):
    read = [*texts.read(write(content, "new.csv"), "csv")]
    assert [*texts.table(read, [(read[0], NEW)])] == [
        f"{header},prediction,probability",
        f"{row},new,0.5",
    ]


CELLS = ("=1+1", "@SUM(A1)", "+x", "- no", "'=quoted", "-0.5", "+1e-3", "'tis", "a=b")


def test_cells_that_spreadsheets_execute_are_quoted_and_read_back_the_same(write):
    rows = [("text", "=more"), *zip(CELLS, CELLS[::-1], strict=True)]
    path = write("".join(f"{text},{more}\n" for text, more in rows), "x.csv")
    read = [*texts.read(path, "csv")]
    assert [text.text for text in read] == list(CELLS)
    record = NEW | {"label": "=cmd", "probabilities": {"=cmd": 0.5}}
    lines = [*texts.table(read, [(text, record) for text in read])]
    cells = [cell for row in csv.reader(lines) for cell in row]
    dangerous = {cell for cell in cells if cell[:1] in tuple("=+-@\t\r")}
    assert dangerous == {"-0.5", "+1e-3"}  # which are numbers
    again = [*texts.read(write("\n".join(lines), "again.csv"), "csv")]
    assert [text.text for text in again] == list(CELLS)
    assert [text.fields["=more"] for text in again] == list(CELLS[::-1])
    assert {text.fields["prediction"] for text in again} == {"=cmd"}
    # What others wrote is read as it is.
    (other,) = texts.read(write("text\n'=1+1\n", "other.csv"), "csv")
    assert other.text == "'=1+1"


def test_splits_of_different_formats_are_refused(write):
    write("Ada B-PER\nleft O\n\nBo B-PER\n", "train.conll")
    folder = write({"text": "Ada", "entities": []}, "dev.jsonl").parent
    with pytest.raises(
        InputError, match=r"dev\.jsonl: is JSON, but train\.conll is text"
    ):
        recognise.source_of("ner", str(folder))


FOREIGN = {
    "#FORMAT=WebAnno TSV 3.3\n\n#Text=Ada\n1-1\t0-3\tAda\tPER\n": "WebAnno TSV",
    "12|t|Ada met Bo\n12|a|So.\n12\t0\t3\tAda\tPER\t7\n": "PubTator",
    "#begin document (a); part 000\na 0 0 Ada NNP\n": "CoNLL-2012",
    '<?xml version="1.0"?>\n<collection>\n</collection>\n': "XML",
    "<sentences>\n  <s id='1'>Ada</s>\n</sentences>\n": "XML",
    '{"train": [{"text": "a"}]}\n': "one JSON object with records in 'train'",
    "@RELATION films\n@DATA\n1,2\n": "ARFF",
    '// films\n{"text": "a"}\n': "JSON with comments",
    "---\n- text: a\n": "YAML",
    '{\n"projectFileVersion": "2022",\n"assets": {}}\n': "a project of Azure",
    '{"documents": [{"passages": []}]}\n': "BioC",
}


@pytest.mark.parametrize("kind", ["ner", "classification"])
@pytest.mark.parametrize("content", FOREIGN)
def test_formats_that_no_source_reads_are_named(write, content, kind):
    path = write(content, "data.txt")
    with pytest.raises(InputError, match=f"is {FOREIGN[content]}; "):
        recognise.source_of(kind, str(path))


def test_columns_of_hipe_are_read(write):
    rows = "TOKEN\tNE-COARSE-LIT\tNE-FINE\tMISC\n# document_id = a\n"
    rows += "Ada\tB-pers\tB-pers.ind\t_\nleft\tO\tO\t_\n\nBo\tB-pers\tO\t_\n\n" * 9
    source = recognise.source_of("ner", str(write(rows, "data.tsv")))
    corpus = source.load()
    assert {span.type for e in corpus.train for span in e.spans} == {"pers"}
