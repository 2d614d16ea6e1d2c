"""Data sets of tensorflow-datasets, prepared by its own builders from tiny files."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from dicejax.data.examples import AnswerSpan, LabelledText, TaggedWords
from dicejax.data.tags import Span
from dicejax.errors import InputError
from dicejax.formats import ConllFiles, SquadFiles, TensorflowDataset, TextFiles, tfds
from dicejax.formats.records import Skipped

from ..data import glue
from ..faults.commands import limited
from ..faults.mutations import mutate, restore

package = pytest.importorskip("tensorflow_datasets")
pytest.importorskip("tensorflow_datasets.text")


def read(name, split, *, data_dir=None, on_error=None, **fields):
    folder = None if data_dir is None else str(data_dir)
    return TensorflowDataset(name=name, dir=folder, **fields).read(split, on_error)


ANSWERS = [{"text": "Ada", "answer_start": start} for start in (0, 19)]
ASKED = [
    {"id": "who", "question": "Who?", "is_impossible": False, "answers": ANSWERS},
    {"id": "why", "question": "Why?", "is_impossible": True, "answers": []},
]
PARAGRAPH = {"context": "Ada slept in Rome. Ada woke.", "qas": ASKED}
SQUAD = {"data": [{"title": "Ada", "paragraphs": [PARAGRAPH]}]}
CONLL = (
    "EU NNP I-NP B-ORG\nrejects VBZ I-VP O\n\n"
    "Peter NNP I-NP B-PER\nPan NNP I-NP I-PER\n\n"
)
CONLLU = (
    "# sent_id = 1\n# text = Ja.\n"
    "1\tJa\tja\tINTJ\tUH\t_\t0\troot\t_\t_\n2\t.\t.\tPUNCT\t.\t_\t1\tpunct\t_\t_\n\n"
)
MRPC = (
    "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    '1\t7\t8\tHe said "no\tHe refused .\n0\t9\t10\tOne\tTwo\n'
)
QQP = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n5\t1\t2\tWho?\tWhat?\t1\n"
SST2 = "sentence\tlabel\na fine film \t1\ndull \t0\n"
SST2_TEST = "index\tsentence\n0\twell , well\n"


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    """Return the files that the builders would download."""
    folder = tmp_path_factory.mktemp("raw")
    (folder / "squad.json").write_text(json.dumps(SQUAD))
    for name in ("train", "valid", "test"):
        (folder / f"{name}.txt").write_text(CONLL)
    (folder / "ud.conllu").write_text(CONLLU)
    (folder / "mrpc.txt").write_text(MRPC, "utf-8-sig")
    (folder / "dev_ids.tsv").write_text("9\t10\n")
    for task, content, test in (("QQP", QQP, QQP), ("SST-2", SST2, SST2_TEST)):
        (folder / task).mkdir()
        for split in ("train", "dev", "test"):
            text = test if split == "test" else content
            (folder / task / f"{split}.tsv").write_text(text)
    return folder


@pytest.fixture(scope="module")
def prepared(raw, tmp_path_factory):
    """Return a folder with each data set as array_record."""
    folder = tmp_path_factory.mktemp("tfds")
    ud = {split: [raw / "ud.conllu"] for split in ("train", "dev", "test")}
    mrpc = {name: raw / "mrpc.txt" for name in ("train", "test")}
    with pytest.MonkeyPatch.context() as patch:
        for name, files in {
            "squad/v2.0": dict.fromkeys(("train", "dev"), raw / "squad.json"),
            "conll2003": raw,
            "universal_dependencies/en_ewt": ud,
            "glue/mrpc": mrpc | {"dev_ids": raw / "dev_ids.tsv"},
            "glue/qqp": raw,
            "glue/sst2": raw,
        }.items():
            if name.startswith("universal") and not find_spec("conllu"):
                continue
            manager = package.download.DownloadManager
            for method in ("download", "download_and_extract"):
                patch.setattr(manager, method, lambda *_, f=files: f)
            read(name, "train", data_dir=folder, download=True)
    return folder


def test_squad(prepared, raw):
    examples = read("squad/v2.0", "validation", data_dir=prepared)
    expected = SquadFiles.read_file(raw / "squad.json")
    assert sorted(examples, key=lambda e: e.id) == expected
    assert expected[0].answers == ((AnswerSpan(0, "Ada"),), (AnswerSpan(19, "Ada"),))


def test_conll2003(prepared, raw):
    sentences = read("conll2003", "dev", data_dir=prepared)
    assert {s.line for s in sentences} <= {1, 2, 3}  # one record has no words
    expected = {(s.words, s.spans) for s in ConllFiles.read_file(raw / "valid.txt")}
    assert {(s.words, s.spans) for s in sentences} == expected
    assert (("Peter", "Pan"), (Span("PER", 0, 2),)) in expected
    examples = read("conll2003", "test", data_dir=prepared, label="pos")
    assert {e.labels for e in examples} == {("NNP", "VBZ"), ("NNP", "NNP")}
    chunks = read("conll2003", "test", data_dir=prepared, label="chunks")
    assert Span("VP", 1, 2) in {span for s in chunks for span in s.spans}


def test_universal_dependencies(prepared, raw):
    pytest.importorskip("conllu")
    name = "universal_dependencies/en_ewt"
    (example,) = read(name, "train", data_dir=prepared)
    assert example == TaggedWords(("Ja", "."), ("INTJ", "PUNCT"), 1)
    file = raw / "ud.conllu"
    (expected,) = ConllFiles.read_file(file, layout="conllu", label_column="XPOS")
    (example,) = read(name, "train", data_dir=prepared, label="xpos")
    assert example.labels == expected.labels
    splits = {"dev": "dev", "test": "test"}
    source = TensorflowDataset(name=name, dir=str(prepared), characters=True, **splits)
    (sentence,) = source.load().train
    assert sentence.words == ("J", "a", ".")
    assert sentence.spans == (Span("INTJ", 0, 2), Span("PUNCT", 2, 3))


def test_pairs(prepared):
    (train,) = read("glue/mrpc", "train", data_dir=prepared)
    assert train == LabelledText('He said "no', "He refused .", "1", "0", 1)
    (dev,) = read("glue/mrpc", "validation", data_dir=prepared)
    assert (dev.first, dev.second, dev.label) == ("One", "Two", "0")
    test = read("glue/mrpc", "test", data_dir=prepared)
    assert {e.label for e in test} == {None}
    (pair,) = read("glue/qqp", "train", data_dir=prepared)
    assert (pair.first, pair.second, pair.label) == ("Who?", "What?", "1")


def test_a_damaged_set_is_read_or_refused_in_one_line(prepared, tmp_path, request):
    count = 1000 if request.config.getoption("exhaustive") else 20
    refused, rng, place = 0, random.Random(0), tmp_path / "glue"
    for _ in range(count):
        restore(prepared / "glue", place)
        files = sorted(x for x in (place / "sst2").rglob("*") if x.is_file())
        mutate(rng.choice(files), rng)
        try:
            with limited(seconds=60, memory=2 << 30):
                read("glue/sst2", "train", data_dir=tmp_path)
        except InputError as error:
            assert "\n" not in str(error) and len(str(error)) < 2100
            refused += 1
    assert refused > count / 10


def test_sentences(prepared, raw):
    path = raw / "SST-2" / "train.tsv"
    expected = TextFiles.read_file(path, **glue.SST2)
    examples = read("glue/sst2", "train", data_dir=prepared)
    assert {(e.first, e.second, e.label, e.id) for e in examples} == {
        (e.first, e.second, e.label, e.id) for e in expected
    }
    assert len(read("glue/sst2", "train[:1]", data_dir=prepared)) == 1
    (test,) = read("glue/sst2", "test", data_dir=prepared)
    assert test == LabelledText("well , well", None, None, "0", 1)


def test_an_experiment_can_name_a_prepared_set(prepared):
    corpus = TensorflowDataset(name="conll2003", dev="dev", dir=str(prepared)).load()
    words = {s.words for s in corpus.train}
    assert words == {("EU", "rejects"), ("Peter", "Pan")}
    assert {s.words for s in corpus.dev} == {s.words for s in corpus.test} == words
    assert corpus.notes == ()


def test_a_folder_is_enough_without_the_builder(prepared, tmp_path):
    """Prepared sets unknown to the package are read too."""
    shutil.copytree(prepared / "glue", tmp_path / "unheard_of")
    for path in (tmp_path / "unheard_of").rglob("*"):
        if path.is_file() and "glue" in path.name:
            path.rename(path.with_name(path.name.replace("glue", "unheard_of")))
    for path in (tmp_path / "unheard_of").rglob("dataset_info.json"):
        path.write_text(path.read_text().replace('"glue"', '"unheard_of"'))
    examples = read("unheard_of/sst2", "train", data_dir=tmp_path)
    assert len(examples) == 2


@pytest.mark.parametrize(
    ("name", "split", "settings", "message"),
    [
        ("squaad", "train", {}, "squaad: no such data set in tensorflow-datasets "),
        ("squad/v2.0", "dev", {}, "squad/v2.0: no split 'dev'; name one of train, val"),
        ("squad/v2.0", "tran", {}, "squad/v2.0: no split 'tran'; did you mean train?"),
        ("squad/v9", "train", {}, "squad/v9: "),
        ("squad/v1.1", "train", {}, "squad/v1.1: is not prepared in "),
        ("squad/v2.0", "train", {"label": "ner"}, "squad/v2.0: has no labels per word"),
        ("conll2003", "dev", {"label": "poss"}, "conll2003: no labels 'poss'; did you"),
        ("conll2003", "dev", {"label": "tokens"}, "conll2003: no labels 'tokens';"),
    ],
)
def test_what_cannot_be_read_is_refused(prepared, name, split, settings, message):
    with pytest.raises(InputError) as caught:
        read(name, split, data_dir=prepared, **settings)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (OSError("no route\nto host"), "cannot be prepared: no route; "),
        (
            ModuleNotFoundError("No module named 'conllu'\nSee setup.py"),
            "cannot be prepared (No module named 'conllu'); install the ",
        ),
    ],
)
def test_a_failed_download_is_one_line(tmp_path, monkeypatch, failure, message):
    def fail(*_):
        raise failure

    monkeypatch.setattr(package.download.DownloadManager, "download_and_extract", fail)
    with pytest.raises(InputError) as caught:
        read("squad/v1.1", "train", data_dir=tmp_path, download=True)
    assert str(caught.value).startswith(f"squad/v1.1: {message}")


def test_flawed_examples_are_left_out_where_someone_listens(monkeypatch):
    features = dict.fromkeys(("sentence", "label"))
    records = [
        {"sentence": b"fine", "label": np.int64(1)},
        {"sentence": b"\xff", "label": np.int64(1)},
        {"sentence": b" ", "label": np.int64(0)},
    ]
    monkeypatch.setattr(tfds, "_source", lambda *_: (records, features))
    skipped = Skipped()
    assert len(read("mine", "train", on_error=skipped)) == 1
    assert skipped.messages == [
        "mine:train: example 2: b'\\xff' is not UTF-8; prepare the set again",
        "mine:train: example 3: a text is empty; leave the example out",
    ]
    corpus = TensorflowDataset(name="mine", on_error="skip").load()
    assert len(corpus.train) == 1 and len(corpus.notes) == 3
    assert corpus.notes[0].startswith("mine, train: 2 left out:")
    with pytest.raises(InputError, match="example 2"):
        TensorflowDataset(name="mine").load()
    records[:] = []
    with pytest.raises(InputError, match="mine:train: is empty"):
        read("mine", "train")
    features["image"] = features.pop("sentence")
    with pytest.raises(InputError, match="mine: has features label, image, which make"):
        read("mine", "train")


@pytest.mark.skipif(bool(find_spec("tensorflow")), reason="it would be used")
def test_tensorflow_is_not_needed(prepared):
    program = (
        "import sys\n"
        "from dicejax.formats import TensorflowDataset\n"
        "sst2 = TensorflowDataset(name='glue/sst2', dir=sys.argv[1])\n"
        "print(len(sst2.read('train')))\n"
        "print('tensorflow' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, prepared],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["2", "False"]
