"""Damaged data files end in one line, or are read without the damaged examples."""

import gzip
import json
import random
import shutil

import pytest

from dicejax.data import sources
from dicejax.tasks import QuestionAnswering, Tagging

from .. import tiny
from ..data import saved
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


def files_in(folder):
    """Return the files below a folder, in the order of their names."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def packed(path):
    """Write a file compressed by gzip."""
    path.write_bytes(gzip.compress(CONLL.encode()))


def brat(path):
    """Write documents with their annotations in files beside them."""
    path.mkdir()
    for number in range(10):
        (path / f"{number}.txt").write_text("Anna met Bo,\r\nwho left.")
        lines = "T1\tPER 0 4\tAnna\nR1\tmet Arg1:T1 Arg2:T2\nT2\tPER 9 11\tBo\n"
        (path / f"{number}.ann").write_text(lines)


def lines(*records):
    """Return the records as JSON lines, ten times."""
    return "".join(f"{json.dumps(one)}\n" for one in records) * 10


CONLL = tiny.conll(sources.ConllFiles(dir="."), Tagging())
SQUAD = tiny.squad(None, QuestionAnswering())
PLACE = {"start": 0, "end": 2}
STUDIO = {
    "data": {"text": "Bo left."},
    "annotations": [
        {"result": [{"type": "labels", "value": PLACE | {"labels": ["A"]}}]}
    ],
}
CSV = 'text,label\n"it said ""so"", and\nleft",a\nso dull,b\n' + "so fine,a\n" * 18
# A task, and the kind of `dicejax init` that reads it.
TEXT = ("Classification", "classification")
NER, WORDS = ("Tagging", "ner"), ("WordTagging", "pos")
ANSWERS = ("QuestionAnswering", "qa")
# Of each format: a file or folder and what it holds or what writes it, the source,
# the task, and the kind of `dicejax init` that reads it.
FORMATS = {
    "conll": ("data.txt", CONLL, "ConllFiles", *NER),
    "packed": ("data.txt.gz", packed, "ConllFiles", *NER),
    "words": ("data.txt", tiny.words(None, None), "WordLabelFiles", *WORDS),
    "conllu": ("data.conllu", tiny.conllu(None, None), "ConlluFiles", *WORDS),
    "cluener": ("data.json", tiny.cluener(None, None), "CluenerFiles", "Tagging", None),
    "bert-mrc": ("data.json", queries(), "BertMrcFiles", "Tagging", None),
    "squad": ("data.json", SQUAD, "SquadFiles", *ANSWERS),
    "columns": ("data.tsv", columns(), "TabSeparatedFiles", *TEXT),
    "csv": ("data.csv", CSV, "CsvFiles", *TEXT),
    "json-texts": (
        "data.jsonl",
        lines({"text": "so fine", "label": 1}, {"text": "so dull", "label": 0}),
        *("JsonTexts", *TEXT),
    ),
    "json-labels": (
        "data.jsonl",
        lines({"text": "fine", "labels": ["a", "b"]}, {"text": "dull", "labels": []}),
        *("JsonMultiLabelTexts", "MultiLabelClassification", "classification"),
    ),
    "json-sentences": (
        "data.jsonl",
        lines(
            {"tokens": ["Anna", "met", "Bo"], "ner_tags": ["B-PER", "O", "B-PER"]},
            {"text": "Bo left.", "entities": [PLACE | {"label": "PER"}]},
        ),
        *("JsonSentences", *NER),
    ),
    "annotations": (
        "data.jsonl",
        lines(
            {"text": "Bo left.", "spans": [PLACE | {"label": "A"}]},
            ["Bo left.", {"entities": [[0, 2, "A"]]}],
            {"text": "Bo left.", "label": [PLACE | {"labels": ["A"]}]},
        ),
        *("JsonSentences", *NER),
    ),
    "label-studio": ("data.json", json.dumps([STUDIO] * 20), "JsonSentences", *NER),
    "brat": ("corpus", brat, "JsonSentences", *NER),
    "saved": (
        "corpus",
        lambda path: saved.save_to_disk(path, saved.sentences(20), saved.NER, 2),
        *("JsonSentences", *NER),
    ),
    "parquet": (
        "data.parquet",
        lambda path: saved.to_parquet(path, saved.questions(20), saved.READING),
        *("SquadFiles", *ANSWERS),
    ),
    "label-first": ("data.txt", tiny.label_first(None, None), "LabelFirstFiles", *TEXT),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.usefixtures("reading_only")
def test_damaged_data_end_in_one_line(name, experiment, tmp_path, request, capsys):
    file, content, source, task, kind = FORMATS[name]
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
        if isinstance(content, str):
            (folder / file).write_text(content, encoding="utf-8")
        else:
            content(folder / file)
        done = "nothing"
        if number:
            rng = random.Random(f"{name} {number}")
            done = mutate(rng.choice(files_in(folder)), rng)
        # Each mutation is read by one command, the intact file by all of them.
        for argv in commands if not number else [commands[number % len(commands)]]:
            ended = called(argv, capsys)
            problem = ended.problem
            if not number and argv[0] != "train" and ended.status != 0:
                problem = ended.errors
            if problem:
                problems.append(f"{number}, {done}: {argv[0]}: {problem}")
    assert not problems, f"{len(problems)}: " + "\n".join(problems)
