"""What whole samples and all splits show: no line alone tells a format."""

import json
import random

import pytest

from dicejax.cli import run
from dicejax.data.examples import TaggedWords
from dicejax.errors import InputError
from dicejax.formats import audit, recognise
from dicejax.formats.records import Columns

from .writers import csv_text, json_lines

TEXTS = [
    (f"a {('warm', 'dull')[n % 2]} film {n}", ("pos", "neg")[n % 2]) for n in range(40)
]


def table(rows, separator=",", names=("text", "label")):
    return csv_text([names, *rows], separator)


def objects(rows, label="label"):
    return json_lines({"text": text, label: name} for text, name in rows)


def folder(tmp_path, **contents):
    for name, content in contents.items():
        (tmp_path / name.replace("_", ".")).write_text(content)
    return str(tmp_path)


TESTS = {
    "test_csv semicolons": (table(TEXTS, ";"), "between ';', not ','"),
    "test_csv tabs": (table(TEXTS, "\t"), r"between '\\t', not ','"),
    "test_csv capitals": (table(TEXTS, names=("Text", "Label")), "but 'Label'; call"),
    "test_csv gold": (table(TEXTS, names=("text", "gold")), "but 'gold'; call"),
    "test_jsonl of lines": (objects(TEXTS), "is JSON, but train.csv is text"),
}


@pytest.mark.parametrize("case", TESTS)
def test_a_split_that_reads_otherwise_is_named(tmp_path, case):
    content, what = TESTS[case]
    data = folder(tmp_path, train_csv=table(TEXTS), **{case.split()[0]: content})
    with pytest.raises(InputError, match=rf"test\.\w+:.*{what}"):
        recognise.source_of("classification", data)


def test_every_file_of_a_folder_is_accounted_for(tmp_path):
    alone = "text\n" + "".join(f"{text}\n" for text, _ in TEXTS[:9])
    data = folder(tmp_path, train_csv=table(TEXTS), test_csv=alone, notes_txt="x\n")
    source = recognise.source_of("classification", data)
    assert source.test is None
    what = "test.csv has no labels: test is held out of train.csv"
    assert recognise.unlabelled(data, source) == what
    assert f"not read of {data}: 'notes.txt', 'test.csv'" in source.load().notes


SENTENCES = [["Ada B-PER", "lives O", "in O", "Oslo B-LOC"], ["Bo B-PER", "left O"]] * 9
IN_FRONT = {
    "from 0": lambda sentence, word, row: f"{word}",
    "through the file": lambda sentence, word, row: f"{row}",
    "sentence": lambda sentence, word, row: f"s{sentence}",
    "sentence and word": lambda sentence, word, row: f"s{sentence} {word}",
    "document": lambda sentence, word, row: f"d{sentence // 4} l{sentence} {word}",
    "offsets": lambda sentence, word, row: f"{7 * row} {7 * row + 3}",
    "places": lambda sentence, word, row: f"{sentence}-{word}",
    "named places": lambda sentence, word, row: f"t{row}",
}


@pytest.mark.parametrize("name", IN_FRONT)
@pytest.mark.parametrize("kind", ["ner", "pos"])
def test_what_counts_or_names_sentences_is_no_word(tmp_path, name, kind):
    lines, row = [], 0
    for number, sentence in enumerate(SENTENCES):
        for place, line in enumerate(sentence):
            lines.append(f"{IN_FRONT[name](number, place, row)} {line}")
            row += 1
        lines.append("")
    path = tmp_path / "data.conll"
    path.write_text("\n".join(lines) + "\n")
    source = recognise.source_of(kind, str(path))
    assert source.read(path, None)[0].words == ("Ada", "lives", "in", "Oslo")


@pytest.mark.parametrize("first", range(0, 30, 5))
def test_quotes_between_tabs_swallow_no_rows(tmp_path, first):
    lines = [f"{text}\t{label}" for text, label in TEXTS]
    lines[first] = f'"{lines[first]}'
    lines[first + 4] = lines[first + 4].replace("\t", '"\t')
    path = tmp_path / "data.tsv"
    path.write_text("\n".join(["text\tlabel", *lines]) + "\n")
    source = recognise.source_of("classification", str(path))
    assert len(source.read(path, None)) == len(TEXTS)


@pytest.mark.parametrize("seed", range(5))
def test_questions_of_ten_words_are_no_treebank(tmp_path, seed):
    draw = random.Random(seed)
    contents = {
        name: "".join(
            f"{draw.randrange(6)} {'who saw it ' * draw.choice([1, 2, 3])}\n"
            for _ in range(count)
        )
        for name, count in (("train_txt", 60), ("test_txt", 9))
    }
    source = recognise.source_of("classification", folder(tmp_path, **contents))
    assert len(source.load().test) == 9


@pytest.mark.parametrize("first", "0123")
def test_numbers_of_columns_are_no_names(tmp_path, first):
    rows = [(f"{(n + int(first)) % 4}", text) for n, (text, _) in enumerate(TEXTS)]
    path = tmp_path / "data.csv"
    path.write_text(csv_text(rows))
    named = Columns(text="1", label="0")
    source = recognise.source_of("classification", str(path), named)
    assert [e.label for e in source.read(path, None)] == [row[0] for row in rows]


ALIKE = [
    ("café", "cafe\u0301"),
    ("pos", "pos\u200b"),
    ("very good", "very\u00a0good"),
    ("pos", "рos"),
    ("x-y", "x\u2011y"),
]


@pytest.mark.parametrize("pair", ALIKE)
def test_labels_that_look_alike_are_noted(tmp_path, pair):
    path = tmp_path / "data.jsonl"
    labels = (*pair, "other")
    path.write_text(objects((text, labels[n % 3]) for n, (text, _) in enumerate(TEXTS)))
    source = recognise.source_of("classification", str(path))
    notes = audit.remarks({"train": source.read(path, None)})
    assert any("differ by Unicode form, invisible signs or spaces" in x for x in notes)


def test_a_column_of_one_label_is_no_part_of_speech(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text("1\tAda\t_\n2\tleft\t_\n\n" * 9)
    with pytest.raises(InputError, match=r"all 18 words have the label '_'; .*--label"):
        recognise.source_of("pos", str(path))


BEHIND = {
    "one label": ("_", "_"),
    "lemmas": ("ada", "left"),
    "tags": ("B-PER", "O"),
    "numbers": ("2", "0"),
    "scores": ("0.91", "0.4"),
}


@pytest.mark.parametrize("name", BEHIND)
def test_parts_of_speech_are_the_last_column_that_may_hold_them(tmp_path, name):
    first, second = BEHIND[name]
    path = tmp_path / "data.txt"
    path.write_text(f"1\tAda\tPROPN\t{first}\n2\tleft\tVERB\t{second}\n\n" * 9)
    source = recognise.source_of("pos", str(path))
    examples, notes = source.read_with_notes(path, None)
    assert examples[0].labels == ("PROPN", "VERB")
    assert notes == ["not read of each row: column 0, column 3"]
    named = recognise.source_of("pos", str(path), Columns(label="3"))
    assert named.read(path, None)[0].labels == (first, second)


LABELS_OF_WORDS = {
    "numbers": ("Ada\t1\nleft\t0\n\n" * 9, "labels of words are numbers ('1', '0')"),
    "tags": ("Ada\tB-PER\nleft\tO\n\n" * 9, "labels look like tags of spans"),
    "words": (
        "".join(f"N\tAda{n}\nV\tleft{n}\n\n" for n in range(20)),
        "40 labels of 2 different words ('Ada0', 'left0', 'Ada1')",
    ),
}


@pytest.mark.parametrize("name", LABELS_OF_WORDS)
def test_labels_that_are_no_parts_of_speech_are_noted(tmp_path, name):
    content, note = LABELS_OF_WORDS[name]
    path = tmp_path / "data.txt"
    path.write_text(content)
    examples = recognise.source_of("pos", str(path)).read(path, None)
    assert any(x.startswith(note) for x in audit.remarks({"train": examples}))


WORDS = {
    "a header with an index": "id\ttoken\ttag\n" + "0\tAda\tB-PER\n1\tleft\tO\n\n" * 9,
    "tags in front": "B-PER\tAda\nO\tleft\n\n" * 9,
    "small letters in front": "ada\tAda\tB-PER\nleft\tleft\tO\n\n" * 9,
}


@pytest.mark.parametrize("name", WORDS)
def test_words_are_in_the_column_that_may_hold_them(tmp_path, name):
    path = tmp_path / "data.tsv"
    path.write_text(WORDS[name])
    (sentence, *_) = recognise.source_of("ner", str(path)).read(path, None)
    assert sentence.words == ("Ada", "left") and sentence.spans == (("PER", 0, 1),)


def test_a_split_with_its_words_elsewhere_is_named(tmp_path):
    plain = "Ada\tB-PER\nleft\tO\n\n" * 9
    counted = "0\tAda\tB-PER\n1\tleft\tO\n\n" * 9
    data = folder(tmp_path, train_txt=plain, test_txt=counted)
    with pytest.raises(
        InputError, match=r"test\.txt: has its words in column 1, but tr"
    ):
        recognise.source_of("ner", data)


PAIRS = [("good", x) for x in ("good.", "good:", "'good'", "-good")]
FORMS = ("very_good", "Very-good", "verygood", "very good!")
PAIRS += [("very good", x) for x in FORMS]


@pytest.mark.parametrize("pair", PAIRS)
def test_labels_that_differ_by_punctuation_are_noted(tmp_path, pair):
    path = tmp_path / "data.csv"
    path.write_text(table([(text, pair[n % 2]) for n, (text, _) in enumerate(TEXTS)]))
    examples = recognise.source_of("classification", str(path)).read(path, None)
    (note,) = audit.remarks({"train": examples})
    assert note.startswith("labels that differ by punctuation or spaces alone")
    assert all(repr(name)[1:-1] in note for name in pair)


@pytest.mark.parametrize(
    "names", ["PRP PRP$", ". :", "$. $,", "C C++", "3.5 35", "-1 1"]
)
def test_labels_that_punctuation_makes_are_none_of_these(names):
    words = tuple(names.split())
    tagged = TaggedWords(("a", "b"), words, 1)
    notes = audit.remarks({"train": [tagged]})
    assert not any("differ" in note for note in notes)


def test_training_says_of_changed_files_what_init_would(tmp_path, capsys):
    texts = [*TEXTS, *((f"so so {n}", "fair") for n in range(9))]
    data = folder(tmp_path, train_jsonl=objects(texts))
    made = tmp_path / "e"
    argv = ["init", "classification", str(made), "--data", data, "--encoder", "scratch"]
    assert run(argv) == 0
    assert "not read of" not in capsys.readouterr().err
    rows = [
        {"text": t, "label": n, "url": t[:3]} for t, n in [*texts, (TEXTS[0][0], "neg")]
    ]
    rows[5]["label"] = "Neg"
    (tmp_path / "train.jsonl").write_text(json_lines(rows))
    (tmp_path / "test.jsonl").write_text(objects(TEXTS[:9]))
    assert run(["profile", str(made / "experiment.py")]) == 0
    notes = capsys.readouterr().err
    for note in (
        "not read of each text: 'url'",
        f"not read of {data}: 'e', 'test.jsonl'",
        "labels that differ by case alone",
        "1 text with two classes or more",
    ):
        assert note in notes


def test_rows_that_quotes_swallow_are_noted(tmp_path):
    rows = [f"{text};{label}" for text, label in TEXTS]
    rows[3], rows[7] = f'"{rows[3]}', rows[7].replace(";", '";')
    path = tmp_path / "data.csv"
    path.write_text("\n".join(["text;label", *rows]) + "\n")
    source = recognise.source_of("classification", str(path))
    (note,) = audit.remarks({"train": source.read(path, None)})
    assert note.startswith("texts of several lines hold rows with classes (line 5)")


OBJECTS = {
    "splits": (
        {"train": [{"text": "a"}], "test": [{"text": "a"}]},
        "'train' and 'test'",
    ),
    "a list": (
        {"version": 1, "data": [{"text": "a", "label": "b"}]},
        "in 'data'; write",
    ),
    "below": ({"nlu": {"examples": [{"text": "a"}]}}, "in 'nlu.examples'"),
    "pandas": (
        {"text": {"0": "a"}, "label": {"0": "b"}},
        "is one JSON object of columns",
    ),
    "columns": ({"text": ["a"], "label": ["b"]}, "is one JSON object of columns"),
}


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("kind", ["classification", "ner"])
def test_one_object_of_records_is_named(tmp_path, name, indent, kind):
    content, what = OBJECTS[name]
    path = tmp_path / "data.json"
    path.write_text(json.dumps(content, indent=indent))
    with pytest.raises(InputError, match=what):
        recognise.source_of(kind, str(path))


FOREIGN = {
    "a.7z": (b"7z\xbc\xaf\x27\x1c", "7-Zip"),
    "a.pkl": (b"\x80\x04\x95", "pickle"),
    "a.db": (b"SQLite format 3\0" + bytes(40), "SQLite"),
    "a.spacy": (b"\x78\x9c\x9d", "zlib"),
    "a.csv": ("text,label\n".encode("utf-32"), "UTF-32"),
    "a.html": (b"<!DOCTYPE html>\n<html>", "web page"),
    "a.tei": (b'<TEI xmlns="http://a"><text>', "XML"),
    "a.yml": (b'version: "3"\nnlu:\n- intent: a\n', "YAML"),
    "offsets.csv": (b"text,start,end,label\nAda left,0,3,PER\n", "entities by their"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_of_another_kind_is_called_what_it_is(tmp_path, name):
    content, what = FOREIGN[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=rf": is .*{what}"):
        recognise.source_of("ner", str(tmp_path / name))


def test_fields_and_annotations_of_sentences_are_accounted_for(tmp_path):
    entities = [{"start": 0, "end": 3, "label": "PER"}]
    row = {"text": "Ada left", "entities": entities, "relations": [], "_hash": 1}
    path = tmp_path / "data.jsonl"
    path.write_text(json_lines([row, {**row, "topic": "x"}]))
    source = recognise.source_of("ner", str(path))
    assert source.read_with_notes(path, None)[1] == [
        "not read of each sentence: 'relations', 'topic'"
    ]
    brat = tmp_path / "brat"
    brat.mkdir()
    (brat / "a.txt").write_text("Ada left")
    (brat / "a.ann").write_text(
        "T1\tPER 0 3\tAda\nR1\tin Arg1:T1 Arg2:T1\n#1\tx T1\ty\n"
    )
    assert source.read_with_notes(brat, None)[1] == [
        "not read of each sentence: 'relations', 'notes'"
    ]


def test_ends_that_exclude_the_last_word_are_noted(tmp_path):
    row = {"tokenized_text": ["Ada", "left", "Oslo", "."], "ner": [[0, 1, "PER"]]}
    path = tmp_path / "data.jsonl"
    path.write_text(json_lines([row] * 30))
    source = recognise.source_of("ner", str(path))
    (note,) = source.read_with_notes(path, None)[1]
    assert note.startswith("none of 30 entities is a single word")


ODD = {
    "a line of vertical tabs": "Ada\tN\nleft\tV\n\n# x\n\x0b\nBo\tN\n\n" * 9,
    "an index of 5,000 digits": "9" * 5000
    + "\t_" * 9
    + "\n"
    + "1\tAda"
    + "\t_" * 8
    + "\n\n",
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("kind", ["ner", "pos"])
def test_odd_lines_end_in_one_line(tmp_path, name, kind):
    path = tmp_path / "data.txt"
    path.write_text(ODD[name])
    with pytest.raises(InputError):
        recognise.source_of(kind, str(path)).load()
