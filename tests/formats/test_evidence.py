"""What whole samples and all splits show: no line alone tells a format."""

import random

import pytest

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
    assert recognise.left_out(data, source) == [
        "test.csv has no labels and is not read: test is held out of train.csv",
        f"not read of {data}: 'notes.txt'",
    ]


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
    notes = audit.remarks(source.read(path, None), source)
    assert any("differ by Unicode form, invisible signs or spaces" in x for x in notes)


def test_a_column_of_one_label_is_no_part_of_speech(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text("1\tAda\tPROPN\t_\n2\tleft\tVERB\t_\n\n" * 9)
    with pytest.raises(InputError, match=r"all 18 words have the label '_'; .*--label"):
        recognise.source_of("pos", str(path))
    source = recognise.source_of("pos", str(path), Columns(label="2"))
    assert source.read(path, None)[0].labels == ("PROPN", "VERB")
