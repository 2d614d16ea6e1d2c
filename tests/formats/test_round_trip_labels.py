"""Files of classes, labels, columns and questions: trained on, predicted, read again.

Files are read here without the package; the scores are seqeval's and scikit-learn's.
"""

import csv
import io
import json

import pytest
import sklearn.metrics

from dicejax.cli import run

from .test_round_trip import (
    check_f1,
    evaluated,
    sentences,
    spans_of,
    tags,
    train,
    words,
)
from .writers import csv_text, json_lines, json_records

CLASSES = ("good", "bad")


def reviews():
    """Return texts with their class."""
    nouns = ("film", "play", "book")
    return [
        (f"a {('warm', 'dull')[n % 2]} {nouns[n % 3]} {n}", CLASSES[n % 2])
        for n in range(30)
    ]


def table(separator):
    def read(content):
        rows = csv.DictReader(io.StringIO(content), delimiter=separator)
        return [row["label"] for row in rows]

    return lambda rows: csv_text([("text", "label"), *rows], separator), read


def lines(prefix):
    return (
        lambda rows: "".join(f"{prefix}{label} {text}\n" for text, label in rows),
        lambda content: [
            line.split(" ")[0].removeprefix(prefix) for line in content.splitlines()
        ],
    )


def of_objects(content):
    return [record["label"] for record in json_records(content)]


TEXTS = {
    "data.csv": table(","),
    "semicolons.csv": table(";"),
    "data.tsv": table("\t"),
    "fasttext.txt": lines("__label__"),
    "label_first.txt": lines(""),
    "data.jsonl": (
        lambda rows: json_lines({"text": t, "label": x} for t, x in rows),
        of_objects,
    ),
    "list.json": (
        lambda rows: json.dumps([{"text": t, "label": x} for t, x in rows]),
        of_objects,
    ),
}


def predict(folder, file, capsys):
    """Return what predict writes for the file of a run in its own layout."""
    out = folder / f"out{file.suffix}"
    argv = ["predict", str(folder / "run"), "--file", str(file), "--out", str(out)]
    assert run([*argv, "--out_format", "same"]) == 0
    assert "read as the run's data are" in capsys.readouterr().err
    return out.read_text()


@pytest.mark.parametrize("name", TEXTS)
def test_classes_that_are_written_have_the_score_of_evaluate(tmp_path, capsys, name):
    write, read = TEXTS[name]
    file = tmp_path / name
    file.write_text(write(reviews()))
    train(tmp_path, "classification", file)
    predicted = read(predict(tmp_path, file, capsys))
    rows = evaluated(tmp_path, file, capsys)
    by_text = {row["texts"][0]: row["predicted"]["label"] for row in rows}
    gold = [label for _, label in reviews()]
    expected = [by_text[text] for text, _ in reviews()]
    scores = [
        sklearn.metrics.f1_score(gold, labels, average="macro")
        for labels in (predicted, expected)
    ]
    assert 0 < scores[0] == pytest.approx(scores[1])


def of_lists(rows):
    return json.dumps([{"text": t, "labels": x} for t, x in rows])


def columns(rows):
    written = [f"{t},{int('a' in x)},{int('b' in x)}" for t, x in rows]
    return "\n".join(["text,a,b", *written, ""])


def of_columns(content):
    rows = csv.DictReader(io.StringIO(content))
    return [[name for name in "ab" if row[name] == "1"] for row in rows]


LABELS = {
    "lists.json": (
        of_lists,
        lambda content: [record["labels"] for record in json_records(content)],
    ),
    "columns.csv": (columns, of_columns),
    "fasttext.txt": (
        lambda rows: "".join(
            " ".join([*(f"__label__{x}" for x in labels), text]) + "\n"
            for text, labels in rows
        ),
        lambda content: [
            [w.removeprefix("__label__") for w in line.split(" ") if "__label__" in w]
            for line in content.splitlines()
        ],
    ),
}


@pytest.mark.parametrize("name", LABELS)
def test_lists_of_labels_have_the_score_of_evaluate(tmp_path, capsys, name):
    write, read = LABELS[name]
    gold = [["a"], ["b"], ["a", "b"]]
    texts = [f"{('warm', 'dull', 'warm dull')[n % 3]} film {n}" for n in range(30)]
    pairs = [(text, gold[n % 3]) for n, text in enumerate(texts)]
    file = tmp_path / name
    file.write_text(write(pairs))
    train(tmp_path, "classification", file)
    predicted = read(predict(tmp_path, file, capsys))
    rows = {r["texts"][0]: r for r in evaluated(tmp_path, file, capsys)}
    expected = [rows[text]["predicted"]["labels"] for text in texts]

    def f1(labels):
        places = [[[x in row for x in "ab"] for row in y] for y in (gold * 10, labels)]
        return sklearn.metrics.f1_score(*places, average="micro")

    assert 0 < f1(predicted) == pytest.approx(f1(expected))


def conll(rows, number=False):
    """Return words with tags, perhaps with an index and a comment, as GermEval."""
    written = []
    for text, spans in rows:
        pairs = zip(words(text), tags(text, spans), strict=True)
        written += ["# text"] * number
        for place, ((word, _, _), tag) in enumerate(pairs, start=1):
            written.append(f"{place}\t{word}\t{tag}\tO" if number else f"{word} {tag}")
        written.append("")
    return "\n".join(written) + "\n"


def of_conll(content, column):
    rows = [[]]
    for line in content.splitlines():
        if not line:
            rows.append([])
        elif not line.startswith("#"):
            rows[-1].append(line.split()[column])
    return [row for row in rows if row]


def kaggle(rows):
    written = [("Sentence #", "Word", "POS", "Tag")]
    for number, (text, spans) in enumerate(rows, start=1):
        pairs = zip(words(text), tags(text, spans), strict=True)
        for place, ((word, _, _), tag) in enumerate(pairs):
            written.append(("" if place else f"Sentence: {number}", word, "NN", tag))
    return csv_text(written)


def of_kaggle(content):
    rows = []
    for row in csv.DictReader(io.StringIO(content)):
        if row["Sentence #"]:
            rows.append([])
        rows[-1].append(row["Tag"])
    return rows


TAGS = {
    "data.conll": (conll, lambda content: of_conll(content, 1)),
    "columns.txt": (conll, lambda content: of_conll(content, 1)),
    "germeval.conll": (
        lambda rows: conll(rows, number=True),
        lambda content: of_conll(content, 2),
    ),
    "kaggle.csv": (kaggle, of_kaggle),
}


@pytest.mark.parametrize("name", TAGS)
def test_tags_in_columns_have_the_score_of_evaluate(tmp_path, capsys, name):
    write, read = TAGS[name]
    file = tmp_path / name
    file.write_text(write(sentences()))
    train(tmp_path, "ner", file)
    predicted = read(predict(tmp_path, file, capsys))
    gold = [tags(*row) for row in sentences()]
    check_f1(gold, predicted, evaluated(tmp_path, file, capsys))


def test_a_folder_of_brat_has_the_score_of_evaluate(tmp_path, capsys):
    folder, out = tmp_path / "brat", tmp_path / "out"
    folder.mkdir()
    for number, (text, spans) in enumerate(sentences()):
        (folder / f"{number:02}.txt").write_text(text)
        named = [
            f"T{n}\t{t} {s} {e}\t{text[s:e]}\n" for n, (s, e, t) in enumerate(spans)
        ]
        (folder / f"{number:02}.ann").write_text("".join(named))
    train(tmp_path, "ner", folder)
    argv = ["predict", str(tmp_path / "run"), "--file", str(folder), "--out", str(out)]
    assert run([*argv, "--out_format", "same"]) == 0
    predicted = []
    for number, (text, _) in enumerate(sentences()):
        assert (out / f"{number:02}.txt").read_text() == text
        places = []
        for line in (out / f"{number:02}.ann").read_text().splitlines():
            _, place, part = line.split("\t")
            kind, start, end = place.split()
            assert text[int(start) : int(end)] == part
            places.append((int(start), int(end), kind))
        predicted.append(tags(text, places))
        assert spans_of(text, predicted[-1]) == sorted(places)
    gold = [tags(*row) for row in sentences()]
    check_f1(gold, predicted, evaluated(tmp_path, folder, capsys))


def test_parts_of_speech_in_a_treebank_have_the_score_of_evaluate(tmp_path, capsys):
    file, rows = tmp_path / "data.conllu", []
    for number in range(24):
        rows.append(f"# sent_id = {number}")
        pairs = (("Ada", "PROPN"), ("sees", "VERB"), (f"w{number}", "NOUN"))
        for place, (word, label) in enumerate(pairs, start=1):
            rows.append(f"{place}\t{word}\t_\t{label}" + "\t_" * 6)
        rows.append("")
    file.write_text("\n".join(rows) + "\n")
    train(tmp_path, "pos", file)
    content = predict(tmp_path, file, capsys).splitlines()
    gold, predicted = (
        [row.split("\t")[3] for row in part if row and row[0] != "#"]
        for part in (rows, content)
    )
    assert [row for row in content if row.startswith("#")] == rows[::5]
    errors = sum(row["errors"] for row in evaluated(tmp_path, file, capsys))
    score = sklearn.metrics.accuracy_score(gold, predicted)
    wrong = (1 - score) * len(gold)
    assert wrong == pytest.approx(errors) or 2 * wrong == pytest.approx(errors)
    assert score > 0


def test_answers_have_the_score_of_evaluate(tmp_path, capsys):
    file, articles = tmp_path / "squad.json", []
    for number in range(24):
        name = ("Ada", "Bo", "Cy")[number % 3]
        context = f"{name} slept in Rome {number}."
        answers = [{"text": name, "answer_start": 0}]
        asked = {"id": str(number), "question": "Who slept?", "answers": answers}
        articles.append({"paragraphs": [{"context": context, "qas": [asked]}]})
    file.write_text(json.dumps({"data": articles}))
    train(tmp_path, "qa", file)
    document = json.loads(predict(tmp_path, file, capsys))
    paragraphs = [article["paragraphs"][0] for article in document["data"]]
    gold = [article["paragraphs"][0]["qas"][0]["answers"] for article in articles]
    right = 0
    for paragraph, [answer] in zip(paragraphs, gold, strict=True):
        (asked,) = paragraph["qas"]
        for x in asked["answers"]:
            assert paragraph["context"].startswith(x["text"], x["answer_start"])
        right += [x["text"] for x in asked["answers"]] == [answer["text"]]
    rows = evaluated(tmp_path, file, capsys)
    assert right == sum(row["errors"] == 0 for row in rows) > 0
