"""`dicejax predict` with files in and out."""

import csv
import io
import json
import sys
import types

import numpy as np
import pytest

import dicejax as dj
from dicejax.cli import run

from .small_project import CORPUS, EXPERIMENT, fails

ROWS = "-DOCSTART- -X-\n\nAnna NNP\nsaw\tVBD\nOslo NNP\n\n\nBob NNP\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of a run that has learnt its corpus."""
    root = tmp_path_factory.mktemp("project")
    (root / "data").mkdir()
    for split in ("train", "dev", "test"):
        times = 16 if split == "train" else 2
        (root / "data" / f"{split}.txt").write_text(CORPUS * times)
    mine = root / "mine.py"
    mine.write_text(EXPERIMENT.format(folder=str(root / "data")))
    assert run(["train", str(mine), "--out", str(root / "run")]) == 0
    return str(root / "run")


def predict(folder, tmp_path, name, content, out):
    (tmp_path / name).write_text(content)
    target = tmp_path / out
    argv = ["predict", folder, "--file", str(tmp_path / name), "--out", str(target)]
    assert run(argv) == 0
    assert not list(tmp_path.glob(".*partial"))
    return target.read_text()


def test_columns_in_and_out(folder, tmp_path, capsys):
    written = predict(folder, tmp_path, "in.conll", ROWS, "out.conll")
    assert written == (
        "-DOCSTART- -X-\n\nAnna NNP B-PER\nsaw\tVBD\tO\nOslo NNP B-LOC\n\n\n"
        "Bob NNP B-PER\n"
    )
    said = capsys.readouterr()
    assert said.out == "" and "read as columns" in said.err


def test_json_in_and_out_with_characters_and_ids(folder, tmp_path):
    content = (
        '{"id": 5, "text": "Bob  saw New  York"}\n\n{"id": 6, "tokens": ["Anna"]}\n'
    )
    written = predict(folder, tmp_path, "in.jsonl", content, "out.jsonl")
    one, blank, other = map(json.loads, written.splitlines())
    assert (one["id"], other["id"]) == (5, 6)
    assert blank == {"words": [], "entities": []}
    assert len(one["probabilities"]) == 4 and len(other["probabilities"]) == 1
    for entity in one["entities"]:
        text = one["text"][entity["start_char"] : entity["end_char"]]
        words = one["words"][entity["start"] : entity["end"]]
        assert text.split() == words and " ".join(words) == entity["text"]
        chances = one["probabilities"][entity["start"] : entity["end"]]
        assert entity["probability"] == pytest.approx(np.prod(chances))
    assert [e["text"] for e in one["entities"]] == ["Bob", "New York"]


def test_lines_from_standard_input_to_columns(folder, monkeypatch, capsys):
    stdin = types.SimpleNamespace(buffer=io.BytesIO(b"Anna saw Oslo\r\n\r\nBob"))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert run(["predict", folder, "--file", "-", "--out_format", "conll"]) == 0
    assert capsys.readouterr().out == "Anna B-PER\nsaw O\nOslo B-LOC\n\n\nBob B-PER\n\n"


def test_columns_on_standard_output_keep_their_tabs(folder, tmp_path, capsys):
    (tmp_path / "in.conll").write_text("Anna\tNNP\nsaw\tVBD\n")
    argv = ["predict", folder, "--file", str(tmp_path / "in.conll")]
    assert run([*argv, "--out_format", "conll"]) == 0
    assert capsys.readouterr().out == "Anna\tNNP\tB-PER\nsaw\tVBD\tO\n"


def test_text_output_has_a_line_for_a_blank_line(folder, tmp_path):
    written = predict(folder, tmp_path, "in.txt", "\nAnna\n", "out.txt")
    assert written == "\nAnna\n  PER      Anna  (words 0:1)\n"


def test_python_and_the_command_line_agree_on_positions(folder, tmp_path):
    written = predict(folder, tmp_path, "in.txt", "Anna saw Oslo\n", "out.jsonl")
    (found,) = dj.predict(folder, ["Anna saw Oslo"])
    assert found == json.loads(written)
    assert found["entities"][1]["start_char"] == 9


def test_what_cannot_be_predicted_or_written_is_one_line(folder, tmp_path, capsys):
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"text": "a"}\n{}\n')
    argv = ["predict", folder, "--file", str(bad)]
    fails(capsys, argv, f"{bad}:2: has no 'text'")
    fails(capsys, [*argv, "--out", str(tmp_path)], "is a folder")
    fails(capsys, [*argv, "--out", "a.gz"], "uncompressed")
    fails(capsys, ["predict", folder, "a", "--file", "b"], "want one of them")
    both = ["predict", folder, "a", "--json", "--out_format", "conll"]
    fails(capsys, both, "--json contradicts")


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    """Return the folder of a run on texts."""
    root = tmp_path_factory.mktemp("reviews")
    rows = ["text\tlabel"] + ["a fine film\tgood", "a dull film\tbad"] * 8
    (root / "reviews.tsv").write_text("\n".join(rows) + "\n")
    mine = root / "mine.py"
    mine.write_text(REVIEWS.format(folder=str(root)))
    assert run(["train", str(mine), "--out", str(root / "run")]) == 0
    return str(root / "run")


REVIEWS = """
from dicejax.config import Experiment, ScratchEncoder, Training
from dicejax.data.sources import TabSeparatedFiles
from dicejax.tasks import Classification


def get_config():
    return Experiment(
        name="reviews",
        data=TabSeparatedFiles(dir={folder!r}, train="reviews.tsv", dev="reviews.tsv",
                               test=None, first="text", label="label"),
        task=Classification(positive="bad"),
        encoder=ScratchEncoder(vocab_size=100, hidden_size=16, intermediate_size=32,
                               num_hidden_layers=1),
        training=Training(epochs=1, batch_size=8, max_length=32),
    )
"""


def test_texts_with_classes(reviews, tmp_path, capsys):
    content = '{"id": "x", "text": "a fine film", "label": "?"}\n\n'
    written = predict(reviews, tmp_path, "in.jsonl", content, "out.jsonl")
    one, blank = map(json.loads, written.splitlines())
    assert (one["id"], one["text"], blank) == ("x", "a fine film", {})
    best = max(one["probabilities"], key=one["probabilities"].get)
    assert one["label"] == best and sum(one["probabilities"].values()) == pytest.approx(
        1
    )
    capsys.readouterr()
    words = tmp_path / "words.jsonl"
    words.write_text('{"text": "good"}\n{"tokens": ["a"]}\n')
    argv = ["predict", reviews, "--file", str(words)]
    fails(capsys, argv, f"{words}:2: ", "takes texts, not words")
    fails(capsys, [*argv, "--out_format", "conll"], "gives words no tags")


def test_evaluate_writes_gold_beside_prediction(folder, tmp_path, capsys):
    target = tmp_path / "compared.jsonl"
    assert run(["evaluate", folder, "--json", "--predictions", str(target)]) == 0
    scores = json.loads(capsys.readouterr().out)
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    assert len(rows) == 6
    assert [row["errors"] for row in rows] == sorted(
        (row["errors"] for row in rows), reverse=True
    )
    # Micro F1 follows from the rows.
    spans = {
        name: [len(row[name]["entities"]) for row in rows]
        for name in ("gold", "predicted")
    }
    total = sum(spans["gold"]) + sum(spans["predicted"])
    wrong = sum(row["errors"] for row in rows)
    assert (total - wrong) / total == pytest.approx(scores["f1"])
    fails(
        capsys,
        ["evaluate", folder, "--predictions", str(tmp_path)],
        "is a folder; name a file in it",
    )


def test_a_document_longer_than_the_rows_of_training_is_predicted_whole(folder):
    text = "Anna lives in Oslo " * 200
    (record,) = dj.predict(folder, [text])
    assert len(record["words"]) == 800
    # As many entities at the end as elsewhere: no row is that long.
    starts = [entity["start"] for entity in record["entities"]]
    by_hundred = np.bincount(np.array(starts) // 100, minlength=8)
    assert by_hundred.min() > 10


def test_tables_keep_their_columns(reviews, tmp_path, capsys):
    content = 'id;text;label\r\n7;"a ""fine"",\r\nfilm";?\r\n8;a dull film;x\r\n'
    written = predict(reviews, tmp_path, "in.csv", content, "out.csv")
    rows = list(csv.DictReader(io.StringIO(written)))
    assert [row["id"] for row in rows] == ["7", "8"]
    assert rows[0]["text"] == 'a "fine",\nfilm' and rows[0]["label"] == "?"
    (first, second) = dj.predict(reviews, ['a "fine", film', "a dull film"])
    for row, one in zip(rows, (first, second), strict=True):
        assert row["prediction"] == one["label"]
        chance = one["probabilities"][one["label"]]
        assert float(row["probability"]) == pytest.approx(chance, abs=1e-6)
    assert "read as a table with a header" in capsys.readouterr().err
    (tmp_path / "bad.csv").write_text("id,texts\n1,a\n")
    argv = ["predict", reviews, "--file", str(tmp_path / "bad.csv")]
    fails(capsys, argv, "bad.csv:1: the header has no column 'text'", "mean texts?")
    (tmp_path / "bad.csv").write_text("id,text\n1,a\n2,b,c\n")
    fails(capsys, argv, "bad.csv:3: 3 columns where the header has 2; mend the row")


def test_a_table_of_sentences(folder, tmp_path):
    written = predict(folder, tmp_path, "in.csv", "text\nAnna saw Oslo\n", "out.csv")
    (row,) = csv.DictReader(io.StringIO(written))
    found = json.loads(row["prediction"])
    assert [one["text"] for one in found["entities"]] == ["Anna", "Oslo"]
