"""Damaged data files end in one line, or are read without the damaged examples."""

import gzip
import json
import random
import shutil

import pytest

from dicejax.data import sources
from dicejax.tasks import QuestionAnswering, Tagging

from .. import tiny
from .commands import called
from .mutations import mutate


def queries() -> str:
    """Return BERT-MRC's JSON."""
    item = {"context": "Ada met Bob King", "query": "who", "entity_label": "PER"}
    item |= {"start_position": [0, 2], "end_position": [0, 3], "impossible": False}
    item |= {"span_position": ["0;0", "2;3"]}
    return json.dumps([item | {"qas_id": f"{number}.1"} for number in range(12)])


def columns() -> str:
    """Return a tab-separated file with named columns."""
    rows = [f"{'yes' if n % 3 else 'no'}\tit is {n}\n" for n in range(12)]
    return "label\ttext\n" + "".join(rows)


CONLL = tiny.conll(sources.ConllFiles(dir="."), Tagging())
SQUAD = tiny.squad(None, QuestionAnswering())
JSON_TEXTS = '{"text": "so fine", "label": 1}\n{"text": "so dull", "label": 0}\n' * 10
JSON_LABELS = (
    '{"text": "so fine", "labels": ["a", "b"]}\n{"text": "so dull", "labels": []}\n'
) * 10
JSON_SENTENCES = (
    '{"tokens": ["Anna", "met", "Bo"], "ner_tags": ["B-PER", "O", "B-PER"]}\n'
    '{"text": "Bo left.", "entities": [{"start": 0, "end": 2, "label": "PER"}]}\n'
) * 10
CSV = 'text,label\n"it said ""so"", and\nleft",a\nso dull,b\n' + "so fine,a\n" * 18
# File, text, source, task, and the kind of `dicejax init` that reads it.
FORMATS = {
    "conll": ("data.txt", CONLL, "ConllFiles", "Tagging", "ner"),
    "packed": ("data.txt.gz", CONLL, "ConllFiles", "Tagging", "ner"),
    "words": (
        *("data.txt", tiny.words(None, None), "WordLabelFiles", "WordTagging"),
        "pos",
    ),
    "conllu": (
        *("data.conllu", tiny.conllu(None, None), "ConlluFiles", "WordTagging"),
        "pos",
    ),
    "cluener": (
        *("data.json", tiny.cluener(None, None), "CluenerFiles", "Tagging"),
        None,
    ),
    "bert-mrc": ("data.json", queries(), "BertMrcFiles", "Tagging", None),
    "squad": ("data.json", SQUAD, "SquadFiles", "QuestionAnswering", "qa"),
    "columns": (
        *("data.tsv", columns(), "TabSeparatedFiles", "Classification"),
        "classification",
    ),
    "csv": ("data.csv", CSV, "CsvFiles", "Classification", "classification"),
    "json-texts": (
        *("data.jsonl", JSON_TEXTS, "JsonTexts", "Classification"),
        "classification",
    ),
    "json-labels": (
        *("data.jsonl", JSON_LABELS, "JsonMultiLabelTexts"),
        *("MultiLabelClassification", "classification"),
    ),
    "json-sentences": ("data.jsonl", JSON_SENTENCES, "JsonSentences", "Tagging", "ner"),
    "label-first": (
        *("data.txt", tiny.label_first(None, None), "LabelFirstFiles"),
        *("Classification", "classification"),
    ),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.usefixtures("reading_only")
def test_damaged_data_end_in_one_line(name, experiment, tmp_path, request, capsys):
    file, text, source, task, kind = FORMATS[name]
    content = text.encode()
    whole = gzip.compress(content) if file.endswith(".gz") else content
    folder = tmp_path / "data"
    small = experiment(folder, file, source=source, task=task)
    skip = ["--data.on_error", "skip"]
    commands = [
        ["profile", small, *skip],
        ["train", small, "--out", str(tmp_path / "run"), *skip],
    ]
    if kind is not None:
        words = ["--data", str(folder / file), "--overwrite"]
        commands.append(["init", kind, str(tmp_path / "made"), *words])
    problems = []
    for number in range(1000 if request.config.getoption("exhaustive") else 7):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / file).write_bytes(whole)
        done = "nothing"
        if number:
            done = mutate(folder / file, random.Random(f"{name} {number}"))
        # Each mutation is read by one command, the intact file by all of them.
        for argv in commands if not number else [commands[number % len(commands)]]:
            found = called(argv, capsys)
            problem = found.problem
            if not number and argv[0] != "train" and found.status != 0:
                problem = found.errors
            if problem:
                problems.append(f"{number}, {done}: {argv[0]}: {problem}")
    assert not problems, f"{len(problems)}: " + "\n".join(problems)
