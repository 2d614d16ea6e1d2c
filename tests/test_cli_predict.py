"""`dicejax predict` with files in and out, for each task."""

import csv
import gzip
import io
import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit, logit

import dicejax as dj
from dicejax.cli import run
from dicejax.errors import InputError
from dicejax.metrics.bounds import Observation
from dicejax.training.run_folder import Run

from . import tiny
from .metrics.test_squad import official_v2
from .small_project import fails, write_experiment, write_project


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a function that returns the folder of a run of a task."""

    def train(source, task, *rest):
        root = tmp_path_factory.mktemp(task)
        assert run(write_experiment(root, source, task, *rest)) == 0
        return str(root / "run")

    return train


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of a run that has learnt its corpus."""
    root = write_project(tmp_path_factory.mktemp("project"))
    assert run(["train", str(root / "mine.py"), "--out", str(root / "run")]) == 0
    return str(root / "run")


@pytest.fixture(scope="module")
def reviews(trained, tmp_path_factory):
    header, rows = "text\tlabel\n", "a fine film\tgood\na dull film\tbad\n"
    test = tmp_path_factory.mktemp("test") / "test.tsv"
    test.write_text(header + rows * 8 + "so dull\tbad\n")
    reads = f"test={str(test)!r}, separator='\\t', quoted=False"
    settings = 'positive="bad", threshold="recall:0.7"'
    content = header + rows * 64  # learnt in one epoch
    return trained("TextFiles", "Classification", content, settings, reads)


@pytest.fixture
def predict(tmp_path):
    """Return a function that predicts a file to one of its kind, and reads that."""

    def predict(folder, content, name="a.jsonl"):
        file, plain = tmp_path / name, name.removesuffix(".gz")
        data = content.encode()
        file.write_bytes(data if name == plain else gzip.compress(data))
        out = tmp_path / f"out-{plain}"
        assert run(["predict", folder, "--file", str(file), "--out", str(out)]) == 0
        assert not list(tmp_path.glob(".*partial"))
        text = out.read_text()
        if out.suffix == ".jsonl":
            return [json.loads(line) for line in text.splitlines()]
        return list(csv.DictReader(io.StringIO(text))) if out.suffix == ".csv" else text

    return predict


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "in.conll",
            "-DOCSTART- -X-\n\nAnna NNP\nsaw\tVBD\nOslo NNP\n\n\nBob NNP\n",
            "-DOCSTART- -X-\n\nAnna NNP B-PER\nsaw\tVBD\tO\nOslo NNP B-LOC\n\n\n"
            "Bob NNP B-PER\n",
        ),
        (
            "in.txt.gz",
            "\nAnna\nhere\n",
            "\nAnna\n  PER      Anna  (words 0:1)\nhere\n  no entity\n",
        ),
    ],
)
def test_lines_keep_their_form(folder, predict, capsys, name, content, expected):
    assert predict(folder, content, name) == expected
    output = capsys.readouterr()
    assert output.out == ""
    assert ("run's data are (ConllFiles)" in output.err) == name.endswith("conll")


def test_lines_from_standard_input_to_columns(folder, monkeypatch, capsys):
    stdin = types.SimpleNamespace(buffer=io.BytesIO(b"Anna saw Oslo\r\n\r\nBob"))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert run(["predict", folder, "--file", "-", "--out_format", "conll"]) == 0
    assert capsys.readouterr().out == "Anna B-PER\nsaw O\nOslo B-LOC\n\n\nBob B-PER\n\n"


def test_json_and_tables_in_and_out_with_characters_and_ids(folder, predict):
    content = (
        '{"id": 5, "text": "Bob  saw New  York"}\n\n{"id": 6, "tokens": ["Anna"]}\n'
    )
    first, blank, second = predict(folder, content)
    assert (first["id"], second["id"]) == (5, 6)
    assert blank == {"words": [], "entities": []}
    assert len(first["probabilities"]) == 4 and len(second["probabilities"]) == 1
    for entity in first["entities"]:
        text = first["text"][entity["start_char"] : entity["end_char"]]
        words = first["words"][entity["start"] : entity["end"]]
        assert text.split() == words and " ".join(words) == entity["text"]
        chances = first["probabilities"][entity["start"] : entity["end"]]
        fitted = Run.open(folder).result().get("calibration") or {"temperature": 1}
        calibrated = expit(logit(np.prod(chances)) / fitted["temperature"])
        assert entity["probability"] == pytest.approx(calibrated, abs=1e-6)
    assert [e["text"] for e in first["entities"]] == ["Bob", "New York"]
    (row,) = predict(folder, "text\nAnna saw Oslo\n", "a.csv")
    entities = json.loads(row["prediction"])["entities"]
    assert [entity["text"] for entity in entities] == ["Anna", "Oslo"]


def test_what_cannot_be_predicted_or_written_is_one_line(folder, tmp_path, capsys):
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"text": "a"}\n{}\n')
    argv = ["predict", folder, "--file", str(bad)]
    fails(capsys, argv, f"{bad}:2: has no 'text'")
    fails(capsys, [*argv, "--out", str(tmp_path)], "is a folder")
    fails(capsys, [*argv, "--out", "a.gz"], "uncompressed")
    fails(capsys, ["predict", folder, "a", "--file", "b"], "leave one out")
    fails(capsys, [*argv[:2], "a", "--json", "--out_format", "conll"], "contradicts")


def test_texts_with_classes(reviews, predict, tmp_path, capsys):
    content = '{"id": "x", "text": "a fine film", "label": "?"}\n\n'
    record, blank = predict(reviews, content)
    assert (record["id"], record["text"], blank) == ("x", "a fine film", {})
    chances = record["probabilities"]
    limit = (x := Run.open(reviews).result()).get("calibration") or x["threshold"]
    assert record["label"] == ("good", "bad")[chances["bad"] >= limit["threshold"]]
    assert sum(chances.values()) == pytest.approx(1)
    capsys.readouterr()
    words = tmp_path / "words.jsonl"
    words.write_text('{"text": "good"}\n{"tokens": ["a"]}\n')
    argv = ["predict", reviews, "--file", str(words)]
    fails(capsys, argv, f"{words}:2: ", "takes texts, not words")
    fails(capsys, [*argv, "--out_format", "conll"], "gives words no tags")
    message = "task Classification does not give each question"
    fails(capsys, [*argv, "--out_format", "squad"], message, "jsonl")


def test_a_threshold_that_keeps_recall_is_that_of_all_commands(
    reviews, tmp_path, capsys
):
    result = json.loads(Path(reviews, "result.json").read_text())
    share = result["constraint_on_test"]["bad"]
    recall = result["test_with_tuned_threshold"]["recall"]
    assert share["hits"] / share["total"] == recall and share["total"] == 9
    interval = f"{share['low']:.3f} to {share['high']:.3f}"
    line = f"recall of 'bad' on test {recall:.3f} ({interval})"
    assert run(["evaluate", reviews]) == 0
    assert f"{line}; promised 0.7\n" in capsys.readouterr().out
    evaluation = dj.evaluate(reviews)
    assert line in repr(evaluation)
    assert evaluation.observed == {"bad": Observation.from_json(share)}
    assert run(["evaluate", reviews, "--json", "--split", "dev"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["guarantee"] == result["threshold"]
    assert scores["constraint_on_test"] == {}  # dev has chosen the threshold
    assert run(["export", reviews, str(tmp_path / "model")]) == 0
    config = json.loads((tmp_path / "model/config.json").read_text())
    assert config["decision_threshold"] == result["threshold"]["threshold"]


def test_a_promise_that_dev_could_not_give_is_a_warning(reviews, monkeypatch, capsys):
    result = Run.open(reviews).result()
    lost = {**result["threshold"], "threshold": None, "unattained": {"bad": "why"}}
    monkeypatch.setattr(Run, "result", lambda self: {**result, "threshold": lost})
    text = "recall at least 0.7 cannot be promised: why; the default threshold 0.5"
    with pytest.warns(UserWarning, match=text):
        (record,) = dj.predict(reviews, ["a dull film"])
    chances = record["probabilities"]
    assert record["label"] == max(chances, key=chances.get)
    for argv in (["evaluate", reviews], ["predict", reviews, "a dull film"]):
        assert run(argv) == 0
        captured = capsys.readouterr()
        assert text in captured.err and "promised 0.7" not in captured.out


def test_evaluate_writes_gold_beside_prediction(folder, tmp_path, capsys):
    target = tmp_path / "compared.jsonl"
    assert run(["evaluate", folder, "--json", "--predictions", str(target)]) == 0
    scores = json.loads(capsys.readouterr().out)
    lines = [json.loads(line) for line in target.read_text().splitlines()]
    errors = [line["errors"] for line in lines]
    assert len(lines) == 6 and errors == sorted(errors, reverse=True)
    # Micro F1 follows from the lines.
    total = sum(
        len(line[name]["entities"]) for line in lines for name in ("gold", "predicted")
    )
    assert (total - sum(errors)) / total == pytest.approx(scores["f1"])
    argv = ["evaluate", folder, "--predictions", str(tmp_path)]
    fails(capsys, argv, "is a folder; name a file in it")


def test_a_document_longer_than_the_rows_of_training_is_predicted_whole(folder):
    text = "Anna lives in Oslo " * 200
    (record,) = dj.predict(folder, [text])
    assert len(record["words"]) == 800
    # As many entities at the end as elsewhere: no row is that long.
    starts = [entity["start"] for entity in record["entities"]]
    by_hundred = np.bincount(np.array(starts) // 100, minlength=8)
    assert by_hundred.min() > 10


def test_tables_keep_their_columns(reviews, predict, tmp_path, capsys):
    content = 'id;text;label\r\n7;"a ""fine"",\r\nfilm";?\r\n8;a dull film;x\r\n'
    table = predict(reviews, content, "a.csv")
    assert [row["id"] for row in table] == ["7", "8"]
    assert table[0]["text"] == 'a "fine",\nfilm' and table[0]["label"] == "?"
    predictions = dj.predict(reviews, ['a "fine", film', "a dull film"])
    for row, prediction in zip(table, predictions, strict=True):
        assert row["prediction"] == prediction["label"]
        chance = prediction["probabilities"][prediction["label"]]
        assert float(row["probability"]) == pytest.approx(chance, abs=1e-6)
    assert "read as a table with a header" in capsys.readouterr().err
    argv = ["predict", reviews, "--file", str(tmp_path / "bad.csv")]
    for content, *parts in (
        (
            "id,texts\n1,a\n",
            "bad.csv:1: the header has no column 'text'",
            "mean texts?",
        ),
        (
            "id,text\n1,a\n2,b,c\n",
            "bad.csv:3: 3 columns where 2 are expected, as in line 1; fix the row",
        ),
    ):
        (tmp_path / "bad.csv").write_text(content)
        fails(capsys, argv, *parts)


def test_words_in_all_formats(trained, predict):
    folder = trained(
        *("ConllFiles", "WordTagging", tiny.tagged(None, None), ""),
        'test=None, layout="labels"',
    )
    objects = '{"id": 7, "tokens": ["Ada", "met"]}\n\n{"text": "w1  met"}\n'
    first, blank, second = predict(folder, objects)
    assert (first["id"], first["words"]) == (7, ["Ada", "met"])
    assert second["offsets"] == [[0, 2], [4, 7]]
    assert blank == {"words": [], "labels": []}
    for record in (first, second):
        assert set(record["labels"]) <= {"NOUN", "VERB", "PROPN"}
        assert len(record["probabilities"]) == len(record["words"])
        assert all(1 / 3 <= chance <= 1 for chance in record["probabilities"])
    columns = predict(folder, "Ada X\nmet Y\n\nw1 Z\n", "a.conll")
    labels = (*first["labels"], columns.split()[-1])
    assert columns == "Ada X {}\nmet Y {}\n\nw1 Z {}\n".format(*labels)
    pairs = map("/".join, zip(first["words"], first["labels"], strict=True))
    lines = predict(folder, "Ada met\n\n", "a.txt")
    assert lines == f"{' '.join(pairs)}\n\n"
    (row,) = predict(folder, "id,text\n3,Ada met\n", "a.csv")
    assert json.loads(row["prediction"])["labels"] == first["labels"]


QUESTION = {"id": "q", "question": "Where?", "context": "Ada slept in London."}


@pytest.fixture(scope="module")
def questions(trained):
    """Return the folder of a run on questions, and their document."""
    content = tiny.squad(None, types.SimpleNamespace(unanswerable=True))
    settings = "unanswerable=True"
    return trained("SquadFiles", "QuestionAnswering", content, settings), content


def test_questions_in_all_formats(questions, predict, capsys, tmp_path):
    folder, content = questions
    tabbed = {"id": 8, "text": "Where?\tAda slept in London."}
    first, blank, second = predict(
        folder, f"{json.dumps(QUESTION)}\n\n{json.dumps(tabbed)}\n"
    )
    assert (first["id"], second["id"], blank) == ("q", 8, {})
    assert first["answer"] == second["answer"]
    assert QUESTION["context"][first["start"] : first["end"]] == first["answer"]
    assert isinstance(first["no_answer"], float)
    lines = predict(folder, "Where?\tAda slept in London.\n\n", "a.txt")
    assert lines == f"Where?\n  {first['answer'] or 'no answer'}\n\n"
    (row,) = predict(folder, "question,context\nWhere?,Ada slept in London.\n", "a.csv")
    assert row["context"] == QUESTION["context"]
    names = ("answer", "start", "end", "probability", "no_answer")
    assert json.loads(row["prediction"]) == {name: first[name] for name in names}
    document = tmp_path / "squad.json"
    document.write_text(content)
    capsys.readouterr()
    argv = ["predict", folder, "--file", str(document)]
    assert run([*argv, "--json"]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [answer["id"] for answer in answers] == [str(n) for n in range(12)]
    for answer in answers:
        place = slice(answer["start"], answer["end"])
        assert answer["context"][place] == answer["answer"] or answer["end"] is None
    document.write_text('{"data": [{"paragraphs": [{"context": "a", "qas": [{}]}]}]}')
    fails(capsys, argv, "squad.json: data[0].paragraphs[0].qas[0]: has no 'question'")
    lone = tmp_path / "lone.txt"
    lone.write_text("Where?\n")
    fails(capsys, ["predict", folder, "--file", str(lone)], "lone.txt:1: ", "a tab")
    argv = ["predict", folder, "--file", str(tmp_path / "a.txt")]
    fails(capsys, [*argv, "--out_format", "conll"], "gives words no tags")


def test_the_official_file_has_the_score_of_evaluate(questions, tmp_path, capsys):
    folder, content = questions
    document, out = tmp_path / "squad.json", tmp_path / "official.json"
    document.write_text(content)
    argv = ["predict", folder, "--file", str(document), "--out_format", "squad"]
    assert run([*argv, "--out", str(out)]) == 0
    answers = json.loads(out.read_text())
    asked = [
        asked
        for paragraph in json.loads(content)["data"][0]["paragraphs"]
        for asked in paragraph["qas"]
    ]
    golds = {x["id"]: [answer["text"] for answer in x["answers"]] for x in asked}
    assert answers.keys() == golds.keys()
    capsys.readouterr()
    assert run(["evaluate", folder, "--split", "dev", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    official = official_v2(golds, answers)
    assert scores["f1"] == pytest.approx(official["f1"])
    assert scores["exact"] == pytest.approx(official["exact"])
    assert run([*argv[:-1], "jsonl"]) == 0
    records = map(json.loads, capsys.readouterr().out.splitlines())
    assert answers == {record["id"]: record["answer"] for record in records}


def test_ids_are_the_keys_of_the_official_file(questions, tmp_path, capsys):
    folder, _ = questions
    file, out = tmp_path / "a.jsonl", tmp_path / "out.json"
    argv = ["predict", folder, "--out_format", "squad", "--out", str(out)]
    cases = [
        ([QUESTION, {**QUESTION, "id": 7}], None),
        ([QUESTION, {**QUESTION, "id": None}], "a.jsonl:3: has no id, the key of"),
        ([QUESTION, {**QUESTION, "id": True}], "a.jsonl:3: has no id"),
        ([{**QUESTION, "id": ""}], "a.jsonl:1: has no id"),
        ([QUESTION, QUESTION], "a.jsonl:3: has the id 'q' of line 1; give each its"),
        ([{**QUESTION, "id": "7"}, {**QUESTION, "id": 7}], "the id '7' of line 1"),
    ]
    for objects, message in cases:
        file.write_text("\n\n".join(map(json.dumps, objects)))
        if message is None:
            assert run([*argv, "--file", str(file)]) == 0
            assert json.loads(out.read_text()).keys() == {"q", "7"}
            out.unlink()
            capsys.readouterr()
        else:
            fails(capsys, [*argv, "--file", str(file)], message)
    fails(capsys, [*argv, "Where?\tAda slept."], "texts:1: has no id")
    assert not out.exists()


@pytest.mark.parametrize(
    ("name", "content", "places"),
    [
        ("a.txt", "fine\na weak film\tgood\n", ["a.txt:2: text 2 has a tab"]),
        ("a.tsv", "text\tlabel\nweak\tgood\n", ["a.tsv:1: ", "--format csv"]),
        ("a.jsonl", '{"question": "a", "context": "b"}', ["a.jsonl:1: text 1 has a"]),
    ],
)
def test_a_run_on_single_texts_takes_no_pair(
    reviews, tmp_path, capsys, name, content, places
):
    file, out = tmp_path / name, tmp_path / "out.jsonl"
    file.write_text(content)
    argv = ["predict", reviews, "--file", str(file), "--out", str(out)]
    form = ["--format", "text"] if name.endswith(".tsv") else []
    fails(capsys, [*argv, *form], *places, "trained on single ones")
    assert not out.exists()
    text = "a warm film\tbad"
    fails(capsys, ["predict", reviews, text], "text 1 has a tab", "on single ones")
    with pytest.raises(InputError, match="text 1 has a tab"):
        dj.predict(reviews, [text])


@pytest.mark.parametrize("layout", ["json", "label-first"])
def test_a_tab_in_a_field_is_part_of_a_single_text(trained, predict, layout, capsys):
    if layout == "json":
        rows = [{"text": f"{n} fine", "label": "ab"[n % 2]} for n in range(16)]
        content = "\n".join(map(json.dumps, rows))
    else:
        content = "".join(f"{'ab'[n % 2]} {n} fine\n" for n in range(16))
    reads = f"test=None, layout={layout!r}"
    folder = trained("TextFiles", "Classification", content, "", reads)
    objects = [{"id": "7", "text": text} for text in (" 1\tfine ", "1 fine")]
    tabbed, spaced = predict(folder, "\n".join(map(json.dumps, objects)))
    assert tabbed["texts"] == ["1\tfine"]
    assert tabbed["probabilities"] == spaced["probabilities"]
    if layout == "label-first":  # a first word is a label if all are
        plain = predict(folder, "1 fine\n2 fine\n", "a.txt")
        assert predict(folder, "a 1 fine\nb 2 fine\n", "a.txt") == plain
        assert "c 2 fine" in predict(folder, "a 1 fine\nc 2 fine\n", "a.txt")
    capsys.readouterr()
    fails(capsys, ["predict", folder, "1\tfine"], "text 1 has a tab")


def test_machine_reading_in_all_formats(trained, predict):
    queries = (("PER", "who ?"), ("LOC", "where ?"))
    content = tiny.conll(types.SimpleNamespace(scheme=None, layout="tags"), None)
    settings = f"queries={queries!r}, nested=True"
    folder = trained("ConllFiles", "MachineReading", content, settings)
    objects = '{"id": 7, "tokens": ["met", "Ada", "King"]}\n\n{"text": "w1  Ada"}\n'
    first, blank, second = predict(folder, objects)
    assert (first["id"], blank) == (7, {"words": [], "entities": []})
    for record in (first, second):
        for entity in record["entities"]:
            words = record["words"][entity["start"] : entity["end"]]
            assert entity["text"] == " ".join(words)
            assert 0.5 <= entity["probability"] <= 1
            assert entity["start_char"] < entity["end_char"]
    columns = predict(folder, "met X\nAda Y\n\nw1 Z\n", "a.conll")
    words = [line.split(" ")[0] for line in columns.splitlines()]
    assert words == ["met", "Ada", "", "w1"]
    assert predict(folder, "met Ada\n\n", "a.txt").startswith("met Ada\n  ")
    (row,) = predict(folder, "id,text\n3,met Ada\n", "a.csv")
    assert json.loads(row["prediction"])["words"] == ["met", "Ada"]
