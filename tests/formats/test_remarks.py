"""What is noted before training."""

from __future__ import annotations

import pytest

from dicejax.data.examples import Sentence
from dicejax.data.source import Corpus, shared
from dicejax.formats import TextFiles, audit, recognise

from .test_labels import GOOD, labels_first, table

# The content of a CSV file, what the notes say.
NOTES = [
    (
        table(",", ("label", "pos", "Pos", "neg")),
        "labels that differ by case alone are different labels: 'Pos' (4 times), 'pos'",
    ),
    (
        table(",", ("label", "1", "1.0", "0")),
        "labels that differ by number format alone are different labels: '1'",
    ),
    (table(",", ("label", 1, 0, -1)), "label '-1' among numbers often means unknown"),
    (table(",", ("label", -1, 1, -1)), None),
    (
        table(",", ("label", "Rome, Italy", "Rome", "Rome")),
        "classes may be labels with ',' between: 'Rome, Italy', 4 times",
    ),
    (
        table(",", ("label", 1, 0, 1), ("probs", 0.9, 0.1, 0.8), ("weight", 1, 2, 1)),
        "not read beside the class: 'probs' and 'weight'; --label names another field",
    ),
    (
        table(",", ("label", 1, 0, 1), ("id", 7, 8, 9), ("url", "a", "b", "c")),
        "not read of each text: 'url'",
    ),
    ("text,label\n" + "fine,a\nfine,b\n" * 4, "all 8 texts are 'fine'"),
    (table(",", ("label", *GOOD)), None),
]


def said(kind, path):
    """Return the notes of a reader and of the audit."""
    source = recognise.source_of(kind, str(path))
    examples, notes = source.read_with_notes(path, None)
    return notes + audit.remarks({"train": examples})


@pytest.mark.parametrize(("content", "note"), NOTES)
def test_what_would_spoil_training_is_noted(tmp_path, content, note):
    path = tmp_path / "data.csv"
    path.write_text(content)
    notes = said("classification", path)
    assert len(notes) == (note is not None)
    assert note is None or notes[0].startswith(note)


def test_names_of_columns_that_are_read_as_an_example_are_noted(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text("label text\n" + labels_first(*GOOD))
    last = said("classification", path)[-1]
    assert last == "line 1 looks like names of columns: 'text'"


def test_answers_to_other_prompts_are_no_texts_of_train():
    first, other, again = (Sentence(("Yes",), (), 1, prompt=p) for p in "aba")
    assert shared(Corpus((first,), (other,), ())) == []
    assert shared(Corpus((first,), (other, again), ())) == [
        "1 of 2 dev texts are in train as well, which flatters scores: 'a Yes'"
    ]


def test_texts_of_train_that_are_in_dev_and_test_are_noted(tmp_path):
    row = "text,label\nfine,a\ndull,b\n"
    for split, more in (("train", "so so,b\n"), ("dev", "good,a\n"), ("test", "")):
        (tmp_path / f"{split}.csv").write_text(row + more)
    names = {name: f"{name}.csv" for name in ("train", "dev", "test")}
    notes = shared(TextFiles(dir=str(tmp_path), **names).load())
    assert notes == [
        f"2 of {count} {split} texts are in train as well, which flatters scores: "
        "'fine', 'dull'"
        for split, count in (("dev", 3), ("test", 2))
    ]
