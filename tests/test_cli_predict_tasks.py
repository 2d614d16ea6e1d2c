"""`dicejax predict` with files, for words, questions and machine reading."""

import csv
import io
import json

import pytest

from dicejax.cli import run

from . import tiny
from .small_project import fails

EXPERIMENT = """
from dicejax.config import Experiment, ScratchEncoder, Training
from dicejax.data.sources import {source}
from dicejax.tasks import {task}


def get_config():
    return Experiment(
        name="tiny",
        data={source}(dir={folder!r}, train="data", dev="data", test=None),
        task={task}({settings}),
        encoder=ScratchEncoder(vocab_size=80, hidden_size=16, intermediate_size=32,
                               num_hidden_layers=1, dropout=0.0),
        training=Training(epochs=1, batch_size=12, max_length=32),
    )
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a function that returns the folder of a run of a task."""

    def train(source, task, content, settings=""):
        root = tmp_path_factory.mktemp(task)
        (root / "data").write_text(content)
        form = {"source": source, "task": task, "settings": settings}
        mine = root / "mine.py"
        mine.write_text(EXPERIMENT.format(folder=str(root), **form))
        assert run(["train", str(mine), "--out", str(root / "run")]) == 0
        return str(root / "run")

    return train


@pytest.fixture
def predict(tmp_path, capsys):
    """Return a function that predicts a file and returns the content of another."""

    def predict(folder, name, content, out):
        (tmp_path / name).write_text(content)
        argv = ["predict", folder, "--file", str(tmp_path / name)]
        assert run([*argv, "--out", str(tmp_path / out)]) == 0, capsys.readouterr()
        return (tmp_path / out).read_text()

    return predict


def test_words_in_all_formats(trained, predict):
    folder = trained("WordLabelFiles", "WordTagging", tiny.words(None, None))
    objects = '{"id": 7, "tokens": ["Ada", "met"]}\n\n{"text": "w1  met"}\n'
    one, blank, other = map(
        json.loads, predict(folder, "a.jsonl", objects, "b.jsonl").splitlines()
    )
    assert (one["id"], one["words"], other["offsets"]) == (
        *(7, ["Ada", "met"]),
        [[0, 2], [4, 7]],
    )
    assert blank == {"words": [], "labels": []}
    for record in (one, other):
        assert set(record["labels"]) <= {"NOUN", "VERB", "PROPN"}
        assert len(record["probabilities"]) == len(record["words"])
        assert all(1 / 3 <= one <= 1 for one in record["probabilities"])
    rows = predict(folder, "a.conll", "Ada X\nmet Y\n\nw1 Z\n", "b.conll")
    assert rows == "Ada X {}\nmet Y {}\n\nw1 Z {}\n".format(
        *one["labels"], rows.split()[-1]
    )
    lines = predict(folder, "a.txt", "Ada met\n\n", "b.txt")
    told = " ".join(map("/".join, zip(one["words"], one["labels"], strict=True)))
    assert lines == f"{told}\n\n"
    table = predict(folder, "a.csv", "id,text\n3,Ada met\n", "b.csv")
    (row,) = csv.DictReader(io.StringIO(table))
    assert json.loads(row["prediction"])["labels"] == one["labels"]


QUESTION = {"id": "q", "question": "Where?", "context": "Ada slept in London."}


def test_questions_in_all_formats(trained, predict, capsys, tmp_path):
    settings = "unanswerable=True"
    task = type("Settings", (), {"unanswerable": True})
    content = tiny.squad(None, task)
    folder = trained("SquadFiles", "QuestionAnswering", content, settings)
    tabbed = {"id": 8, "text": "Where?\tAda slept in London."}
    objects = f"{json.dumps(QUESTION)}\n\n{json.dumps(tabbed)}\n"
    one, blank, other = map(
        json.loads, predict(folder, "a.jsonl", objects, "b.jsonl").splitlines()
    )
    assert (one["id"], other["id"], blank) == ("q", 8, {})
    assert one["answer"] == other["answer"] and one["answer"] in QUESTION["context"]
    assert isinstance(one["no_answer"], float)
    lines = predict(folder, "a.txt", "Where?\tAda slept in London.\n\n", "b.txt")
    assert lines == f"Where?\n  {one['answer'] or 'no answer'}\n\n"
    row = "Where?,Ada slept in London.\n"
    table = predict(folder, "a.csv", f"question,context\n{row}", "b.csv")
    (found,) = csv.DictReader(io.StringIO(table))
    assert found["context"] == QUESTION["context"]
    assert json.loads(found["prediction"])["answer"] == one["answer"]
    document = tmp_path / "squad.json"
    document.write_text(content)
    capsys.readouterr()
    argv = ["predict", folder, "--file", str(document)]
    assert run([*argv, "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["id"] for row in rows] == [str(n) for n in range(12)]
    assert all(row["answer"] in row["context"] for row in rows)
    document.write_text('{"data": [{"paragraphs": [{"context": "a", "qas": [{}]}]}]}')
    fails(capsys, argv, "squad.json: data[0].paragraphs[0].qas[0]: has no 'question'")
    lone = tmp_path / "lone.txt"
    lone.write_text("Where?\n")
    fails(capsys, ["predict", folder, "--file", str(lone)], "lone.txt:1: ", "a tab")
    argv = ["predict", folder, "--file", str(tmp_path / "a.txt")]
    fails(capsys, [*argv, "--out_format", "conll"], "gives words no tags")


def test_machine_reading_in_all_formats(trained, predict):
    queries = (("PER", "who ?"), ("LOC", "where ?"))
    settings = f"queries={queries!r}, nested=True"
    source = type("Scheme", (), {"scheme": None})
    content = tiny.conll(source, None)
    folder = trained("ConllFiles", "MachineReading", content, settings)
    objects = '{"id": 7, "tokens": ["met", "Ada", "King"]}\n\n{"text": "w1  Ada"}\n'
    one, blank, other = map(
        json.loads, predict(folder, "a.jsonl", objects, "b.jsonl").splitlines()
    )
    assert (one["id"], blank) == (7, {"words": [], "entities": []})
    for record in (one, other):
        for entity in record["entities"]:
            words = record["words"][entity["start"] : entity["end"]]
            assert entity["text"] == " ".join(words)
            assert 0.5 <= entity["probability"] <= 1
            assert entity["start_char"] < entity["end_char"]
    rows = predict(folder, "a.conll", "met X\nAda Y\n\nw1 Z\n", "b.conll")
    assert [line.split(" ")[0] for line in rows.splitlines()] == [
        "met",
        "Ada",
        "",
        "w1",
    ]
    assert predict(folder, "a.txt", "met Ada\n\n", "b.txt").startswith("met Ada\n  ")
    table = predict(folder, "a.csv", "id,text\n3,met Ada\n", "b.csv")
    (row,) = csv.DictReader(io.StringIO(table))
    assert json.loads(row["prediction"])["words"] == ["met", "Ada"]
