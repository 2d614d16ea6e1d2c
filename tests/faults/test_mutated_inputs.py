"""Damaged data files and model folders end in one line.

Data may also be read without the damaged examples.
"""

import gzip
import json
import random
import shutil

import jax
import pyarrow as pa
import pytest
from safetensors.numpy import load_file, save_file

from dicejax import formats
from dicejax.data import tokenize
from dicejax.models import huggingface
from dicejax.models.network import Network
from dicejax.tasks import QuestionAnswering, Tagging

from .. import tiny
from ..data import saved
from ..formats.writers import json_lines
from ..models.small import KINDS, encoder_of
from .commands import MOST, called, peak, start_peak
from .mutations import mutate


def sweep(name, folder, write, commands, request, capsys):
    """Let commands read mutations of what `write` makes in a folder.

    Each mutation is read by one command, the intact folder by all of them; by default
    each command reads one, or where it is alone three, of other files. The peak of
    memory beyond what this process holds before is a property of the test.
    """
    count = 1000 if request.config.getoption("exhaustive") else 4
    problems, before = [], start_peak()
    for number in range(count):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        write(folder)
        done, chosen = "nothing", commands
        if number:
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            file = files[number // len(commands) % len(files)]
            done = f"{file.name}, {mutate(file, random.Random(f'{name} {number}'))}"
            chosen = [commands[number % len(commands)]]
        for argv in chosen:
            ended = called(argv, capsys)
            problem = ended.problem
            is_read = ended.status == 0 or "all has been read" in ended.errors
            if problem or not (number or is_read):
                problems.append(f"{number}, {done}: {argv[0]}: {ended.errors}{problem}")
    more = peak() - before
    request.node.user_properties.append((name, f"{count} {more >> 20} MiB"))
    assert not problems, f"{len(problems)}: " + "\n".join(problems)
    assert more < MOST


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
    return json_lines(records * 10)


def packed_lines(path):
    """Write JSON lines compressed by gzip."""
    path.write_bytes(gzip.compress(TEXTS.encode()))


def arrow(path):
    """Write a file as Arrow's streams are."""
    table = pa.table({"text": ["so fine", "so dull"] * 10, "label": [1, 0] * 10})
    with pa.ipc.new_stream(path, table.schema) as out:
        out.write_table(table)


TEXTS = lines({"text": "so fine", "label": 1}, {"text": "so dull", "label": 0})


CONLL = tiny.conll(formats.ConllFiles(dir="."), Tagging())
SQUAD = tiny.squad(None, QuestionAnswering())
PLACE = {"start": 0, "end": 2}
STUDIO = {
    "data": {"text": "Bo left."},
    "annotations": [
        {"result": [{"type": "labels", "value": PLACE | {"labels": ["A"]}}]}
    ],
}
QUERY = {"context": "Ada met Bob King", "query": "who", "entity_label": "PER"}
QUERY |= {"start_position": [0, 2], "end_position": [0, 3], "impossible": False}
QUERY |= {"span_position": ["0;0", "2;3"]}
QUERIES = json.dumps([QUERY | {"qas_id": f"{number}.1"} for number in range(12)])
FIRST = {"text": ["Ada"], "answer_start": [0]}
COLUMNS = "label\ttext\n" + "yes\tit is so\nno\tit is not\n" * 6
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
    "words": ("data.txt", tiny.tagged(None, None), "ConllFiles", *WORDS),
    "conllu": ("data.conllu", tiny.conllu(None, None), "ConllFiles", *WORDS),
    "cluener": ("data.json", tiny.cluener(None, None), "CluenerFiles", "Tagging", None),
    "bert-mrc": ("data.json", QUERIES, "BertMrcFiles", "Tagging", None),
    "squad": ("data.json", SQUAD, "SquadFiles", *ANSWERS),
    "squad-lines": (
        "data.jsonl",
        json_lines(
            {"question": "who", "context": f"Ada left {n}.", "answers": FIRST}
            for n in range(20)
        ),
        *("SquadFiles", *ANSWERS),
    ),
    "columns": ("data.tsv", COLUMNS, "TextFiles", *TEXT),
    "csv": ("data.csv", CSV, "TextFiles", *TEXT),
    "csv-labels": (
        "data.csv",
        "text,labels\n" + "fine,\"['a', 'b']\"\ndull,[]\nso so,['b']\n" * 8,
        *("TextFiles", "MultiLabelClassification", "classification"),
    ),
    "fasttext": (
        "data.txt",
        "__label__a so fine\n__label__b so dull\n" * 10,
        *("TextFiles", *TEXT),
    ),
    "json-texts": (
        "data.jsonl",
        TEXTS,
        *("TextFiles", *TEXT),
    ),
    "packed-lines": ("data.jsonl.gz", packed_lines, "TextFiles", *TEXT),
    "arrow": ("data.arrow", arrow, "TextFiles", *TEXT),
    "json-labels": (
        "data.jsonl",
        lines({"text": "fine", "labels": ["a", "b"]}, {"text": "dull", "labels": []}),
        *("TextFiles", "MultiLabelClassification", "classification"),
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
    "gliner": (
        "data.jsonl",
        lines({"tokenized_text": ["Ada", "met", "Bo"], "ner": [[0, 0, "PER"]]}),
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
    "label-first": ("data.txt", tiny.label_first(None, None), "TextFiles", *TEXT),
    "table": (
        "data.csv",
        "Sentence #,Word,Tag\n" + "Sentence: 1,Ada,B-PER\n,left,O\n" * 20,
        *("ConllFiles", *NER),
    ),
}
LISTS = "multi_label=True, label='labels'"
FIELDS = {
    "words": "layout='labels'",
    "conllu": "layout='conllu'",
    "table": "word_column=1, separator=',', sentence_column=0",
    "columns": "separator='\\t', quoted=False",
    "csv-labels": LISTS,
    "fasttext": "layout='fasttext'",
    "json-texts": "layout='json'",
    "packed-lines": "layout='json'",
    "arrow": "layout='json'",
    "json-labels": f"layout='json', {LISTS}",
    "label-first": "layout='label-first'",
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.usefixtures("reading_only")
def test_damaged_data_end_in_one_line(name, experiment, tmp_path, request, capsys):
    file, content, source, task, kind = FORMATS[name]
    folder = tmp_path / "data"
    fields = FIELDS.get(name, "")
    small = experiment(folder, file, source=source, task=task, fields=fields)
    skip = ["--data.on_error", "skip"]
    commands = [
        ["profile", small, *skip],
        ["train", small, "--out", str(tmp_path / "run"), *skip],
    ]
    if kind is not None:
        words = ["--data", str(folder / file), "--overwrite"]
        commands.append(["init", kind, str(tmp_path / "made"), *words])

    def write(folder):
        if isinstance(content, str):
            (folder / file).write_text(content, encoding="utf-8")
        else:
            content(folder / file)

    sweep(name, folder, write, commands, request, capsys)


SCORES = "data,loss,seed,score\n" + "".join(
    f"x,{loss},{seed},{score + seed}\n"
    for loss, score in {"ce": 70, "dice": 72}.items()
    for seed in range(3)
)
# Files that are read without gold, and the scores of other tools.
OTHERS = {
    "in.txt": "Ada met Bo\n\nBo left\n",
    "in.jsonl": lines({"text": "Ada left"}, {"tokens": ["Bo", "left"], "id": 1}),
    "in.csv": "id,text\n" + '1,"Ada, left"\n2,Bo\n' * 3,
    "in.conll": "-DOCSTART- O\n\nAda B-PER\nleft O\n\nBo B-PER\n" * 3,
    "scores.csv": SCORES,
}


@pytest.mark.parametrize("name", OTHERS)
def test_damaged_texts_and_scores_end_in_one_line(
    name, finished, tmp_path, request, capsys
):
    file, out = tmp_path / "data" / name, tmp_path / "out"
    command = ["predict", str(finished), "--file", str(file), "--json"]
    if name == "scores.csv":
        command = ["report", "--scores", str(file), "--out", str(out)]

    def write(folder):
        file.write_text(OTHERS[name])

    sweep(name, file.parent, write, [command], request, capsys)


VOCABULARY = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nmet\nada\nhere\na\nb\nking\n"


@pytest.fixture(scope="module", params=[*KINDS, "shards"])
def model(request, tmp_path_factory):
    """Return a folder of a small encoder; BERT's has a vocabulary or shards."""
    folder = tmp_path_factory.mktemp("model")
    written, vocabulary = folder / request.param, folder / "vocab.txt"
    vocabulary.write_text(VOCABULARY)
    kind = request.param.replace("shards", "bert")
    encoder = encoder_of(kind, 8, 8, heads=2, vocab=VOCABULARY.count("\n"))
    network = Network(encoder=encoder, heads=())
    params = network.init(jax.random.key(0))
    huggingface.write(written, network, params, tokenizer=tokenize.read(folder))
    if request.param == "bert":
        (written / "tokenizer.json").unlink()
        (written / "tokenizer_config.json").write_text('{"do_lower_case": true}')
        vocabulary.rename(written / "vocab.txt")
    if request.param == "shards":
        tensors = load_file(written / "model.safetensors")
        (written / "model.safetensors").unlink()
        shards = {name: f"{n % 2}.safetensors" for n, name in enumerate(tensors)}
        for shard in set(shards.values()):
            part = {name: tensors[name] for name in tensors if shards[name] == shard}
            save_file(part, written / shard)
        index = {"metadata": {"total_size": 1}, "weight_map": shards}
        (written / "model.safetensors.index.json").write_text(json.dumps(index))
    return written


@pytest.mark.usefixtures("reading_only")
def test_a_damaged_model_folder_ends_in_one_line(
    model, experiment, tmp_path, request, capsys
):
    (tmp_path / "data.txt").write_text(CONLL)
    folder = tmp_path / "model"
    encoder = f"PretrainedEncoder(path={str(folder)!r})"
    kinds = {"source": "ConllFiles", "task": "Tagging", "encoder": encoder}
    small = experiment(tmp_path, "data.txt", **kinds)
    argv = ["train", small, "--out", str(tmp_path / "run")]
    argv += ["--training.max_length", "16"]

    def write(folder):
        shutil.copytree(model, folder, dirs_exist_ok=True)

    sweep(model.name, folder, write, [argv], request, capsys)
