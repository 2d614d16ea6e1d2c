"""Folders and Parquet of `datasets` through init, profile, train, evaluate, predict."""

import json

import pytest

from dicejax import config
from dicejax.cli import run
from dicejax.formats import JsonSentences, SquadFiles

from .data import saved
from .small_project import fails

SMALL = (
    "--encoder.hidden_size 16 --encoder.intermediate_size 32 --encoder.vocab_size 120 "
    "--encoder.num_hidden_layers 1 --training.epochs 1 --training.batch_size 16"
)


def sizes_of(source):
    corpus = source.load()
    return [len(split) for split in (corpus.train, corpus.dev, corpus.test)]


def begun(folder, kind, data, *words):
    argv = ["init", kind, str(folder), "--data", str(data), "--encoder", "scratch"]
    assert run([*argv, *words]) == 0
    return config.load(folder / "experiment.py")


def test_a_saved_folder_of_splits_from_init_to_predict(tmp_path, capsys):
    sizes = {"train": 32, "validation": 3, "test": 5}
    splits = {name: saved.sentences(size) for name, size in sizes.items()}
    data = tmp_path / "data"
    saved.save_splits(data, splits, saved.NER)
    experiment = begun(tmp_path / "mine", "ner", data)
    assert isinstance(experiment.data, JsonSentences)
    assert sizes_of(experiment.data) == [32, 3, 5]
    text = capsys.readouterr().out
    assert "saved by datasets (state.json), columns: id, tokens, ner_tags (O, " in text
    assert "  Ada Berg met Bo\n    PER: Ada Berg; PER: Bo\n" in text
    file, out = str(tmp_path / "mine/experiment.py"), str(tmp_path / "run")
    assert run(["profile", file]) == 0
    assert run(["train", file, "--out", out, *SMALL.split()]) == 0
    assert run(["evaluate", out, "--data", str(data), "--json"]) == 0
    target = tmp_path / "found.jsonl"
    argv = ["predict", out, "--file", str(data / "test"), "--out", str(target)]
    capsys.readouterr()
    assert run(argv) == 0
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    assert [row["id"] for row in rows] == [str(n) for n in range(5)]
    assert rows[0]["tokens"] == rows[0]["words"] == ["Ada", "Berg", "met", "Bo"]
    assert "read as" not in capsys.readouterr().err
    fails(capsys, [*argv[:-1], str(tmp_path / "x.parquet")], "results are not tables")
    saved.to_parquet(tmp_path / "n.parquet", [{"n": 1}], {"n": saved.INT})
    argv = ["predict", out, "--file", str(tmp_path / "n.parquet")]
    fails(capsys, argv, "n.parquet: [0]: has no 'text'")


@pytest.mark.parametrize("folder", ["data", "plain_text", ""])
def test_parquet_as_on_the_hub(tmp_path, capsys, folder):
    hidden = [review | {"label": -1} for review in saved.reviews(4)]
    root = tmp_path / "hub" / folder
    for part in range(2):
        name = f"train-{part:05}-of-00002.parquet"
        saved.to_parquet(root / name, saved.reviews(40), saved.TEXTS)
    dev, test = "validation-00000-of-00001.parquet", "test-00000-of-00001.parquet"
    saved.to_parquet(root / dev, saved.reviews(7), saved.TEXTS)
    saved.to_parquet(root / test, hidden, saved.TEXTS)
    (tmp_path / "hub" / "README.md").write_text("---\n")
    source = begun(tmp_path / "mine", "classification", tmp_path / "hub").data
    assert source.layout == "json" and source.test is None  # labels kept back
    assert (source.first, source.label) == ("sentence", "label")
    corpus = source.load()
    assert (len(corpus.train) + len(corpus.test), len(corpus.dev)) == (80, 7)
    assert {text.label for text in corpus.train} == {"bad", "good"}
    columns = (
        "in Parquet, columns: sentence, label (bad, good), idx. layout: json, first"
    )
    assert columns in capsys.readouterr().out


def test_plain_names_and_one_file_and_questions(tmp_path, capsys):
    for split in ("train", "validation", "test"):
        path = tmp_path / "plain" / f"{split}.parquet"
        saved.to_parquet(path, saved.questions(9), saved.READING)
    source = begun(tmp_path / "qa", "qa", tmp_path / "plain").data
    assert isinstance(source, SquadFiles)
    assert (source.dev, source.test) == ("validation.parquet", "test.parquet")
    assert sizes_of(source) == [9, 9, 9]
    saved.save_to_disk(tmp_path / "one", saved.reviews(40), saved.TEXTS, shards=2)
    source = begun(tmp_path / "texts", "classification", tmp_path / "one").data
    assert sizes_of(source) == [28, 6, 6]
    argv = ["init", "pos", str(tmp_path / "pos"), "--data", str(tmp_path / "one")]
    capsys.readouterr()
    fails(capsys, argv, "saved by datasets (state.json)", "`init pos` reads a word")


def test_several_configurations_in_a_folder_are_named(tmp_path, capsys):
    for name in ("en", "fr"):
        path = tmp_path / "hub" / name / "train-00000-of-00001.parquet"
        saved.to_parquet(path, saved.reviews(9), saved.TEXTS)
    argv = ["init", "classification", str(tmp_path / "m"), "--data"]
    fails(capsys, [*argv, str(tmp_path / "hub")], "holds en and fr; name one of")
    (tmp_path / "hub/en/train-00000-of-00001.parquet").write_bytes(b"PAR1 cut")
    fails(capsys, [*argv, str(tmp_path / "hub/en")], "cannot be read as Parquet")
