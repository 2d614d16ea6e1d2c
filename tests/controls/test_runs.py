"""A control is a run folder like any other."""

import dataclasses
import json

import jax
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from dicejax import config
from dicejax.cli import run
from dicejax.controls import TfIdf
from dicejax.errors import InputError
from dicejax.models import huggingface
from dicejax.tasks import QuestionAnswering
from dicejax.training import control as fitting
from dicejax.training.control import drawn
from dicejax.training.encoded import reading_once
from dicejax.training.export import export
from dicejax.training.inference import evaluate, predict
from dicejax.training.restored import ARRAYS, CONTROL, restore
from dicejax.training.run_folder import Run
from dicejax.training.setup import prepare
from dicejax.training.train import Result, train

FILE = """
from dicejax.config import Experiment, PretrainedEncoder, Training
from dicejax.formats import TextFiles
from dicejax.tasks import Classification


def get_config():
    return Experiment(
        name="texts",
        data=TextFiles(dir={folder!r}, train="a.csv", dev="a.csv", test="b.csv"),
        task=Classification(tune_threshold=True),
        encoder=PretrainedEncoder(path={model!r}),
        training=Training(epochs=1, max_length=16),
    )
"""
GOOD = ("good", "fine", "great")
BAD = ("bad", "poor")


def rows(number):
    rng = np.random.default_rng(number)
    lines = ["text,label"]
    for place in range(40):
        label = int(place % 4 == 0)
        words = rng.choice(GOOD if label else BAD, 2)
        lines.append(f"{words[0]} it {words[1]},{label}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def texts(tmp_path, model_folder):
    for number, name in enumerate(("a.csv", "b.csv")):
        (tmp_path / name).write_text(rows(number))
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *GOOD, *BAD, "it"]
    (model_folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    file = tmp_path / "texts.py"
    file.write_text(FILE.format(folder=str(tmp_path), model=str(model_folder)))
    return file


@pytest.mark.parametrize("control", ["majority", "tfidf", "frozen"])
def test_run_is_evaluated_and_predicts_as_it_was_scored(texts, tmp_path, control):
    folder = tmp_path / "run"
    argv = ["train", str(texts), "--control", control, "--out", str(folder)]
    assert run(argv) == 0
    opened = Run.open(str(folder))
    result, scores = opened.result(), evaluate(str(folder)).scores.to_json()
    assert scores == result["test"]
    assert result["steps"] == 0
    if control == "tfidf":
        assert result["test"]["f1"] == 1.0
    (record,) = predict(str(folder), ["good it is"])
    counted = opened.test_array("predictions")
    names = [x["label"] for x in predict(str(folder), ["bad it is", "fine it is"])]
    assert set(names) <= {"0", "1"}
    assert len(counted) == 40
    assert sum(record["probabilities"].values()) == pytest.approx(1.0)
    assert Result.read(opened).test == result["test"]


@pytest.mark.parametrize("most", [fitting.MOST_WORDS, 30])
def test_one_fit_serves_all_seeds_but_of_drawn_texts(
    texts, tmp_path, monkeypatch, most
):
    real, made = TfIdf.fits, []
    monkeypatch.setattr(TfIdf, "fits", lambda *args: made.append(args) or real(*args))
    monkeypatch.setattr(fitting, "MOST_WORDS", most)  # of 40 texts
    experiment = dataclasses.replace(config.load(texts), control="tfidf")

    def fitted(seed, name):
        training = dataclasses.replace(experiment.training, seed=seed)
        folder = tmp_path / name
        result = train(dataclasses.replace(experiment, training=training), str(folder))
        contents = [(folder / name).read_bytes() for name in (ARRAYS, CONTROL)]
        return result.test, contents, result.seconds

    with reading_once():
        together = [fitted(seed, f"together-{seed}") for seed in (0, 1)]
    assert len(made) == (1 if most > 40 else 2)
    alone = fitted(1, "alone")
    assert together[1][:2] == alone[:2]
    assert min(seconds for *_, seconds in together) > 0
    assert (together[0][1] == together[1][1]) == (most > 40)


def test_frozen_encoder_has_a_regression_on_what_its_head_reads(texts, tmp_path):
    experiment = config.load(texts)
    experiment = dataclasses.replace(experiment, control="frozen")
    folder = str(tmp_path / "run")
    train(experiment, folder)
    setup = prepare(experiment, print)
    mesh = experiment.mesh.make()
    before = setup.initial_params(mesh)
    _, params = restore(Run.open(folder), setup.network, "best", mesh)
    for name in before["encoder"]:
        pair = (jax.tree.leaves(tree["encoder"][name]) for tree in (before, params))
        assert all(np.array_equal(a, b) for a, b in zip(*pair, strict=True))
    # BERT's pooler of the states of the first piece, text by text.
    states = []
    for item in setup.data.items["train"]:
        ids = np.asarray(item.arrays["input_ids"])[None]
        batch = {
            "input_ids": ids,
            "segment_ids": np.ones_like(ids),
            "position_ids": np.arange(ids.shape[1])[None],
            "token_type_ids": np.zeros_like(ids),
        }
        last = setup.network.hidden_states(before, batch)[-1, 0, 0]
        pooler = before["heads"]["label"]["summary"]["dense"]
        states.append(np.tanh(last @ pooler["kernel"] + pooler["bias"]))
    x = np.stack(states)
    scaled = (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-6)
    gold = np.array([example.label == "1" for example in setup.data.corpus.train])
    line = json.loads((tmp_path / "run" / "metrics.jsonl").read_text())
    theirs = LogisticRegression(
        C=line["C"], class_weight="balanced" if line["balanced"] else None
    ).fit(scaled, gold)
    dense = params["heads"]["label"]["dense"]
    logits = x @ np.asarray(dense["kernel"]) + np.asarray(dense["bias"])
    np.testing.assert_allclose(
        logits[:, 1] - logits[:, 0], theirs.decision_function(scaled), atol=5e-3
    )


def test_frozen_encoder_is_exported_and_others_are_refused(texts, tmp_path):
    experiment = config.load(texts)
    for control in ("frozen", "tfidf"):
        train(dataclasses.replace(experiment, control=control), tmp_path / control)
    name, _ = export(str(tmp_path / "frozen"), str(tmp_path / "made"), "best")
    assert name == "AutoModelForSequenceClassification" or "Classification" in name
    assert huggingface.read_config(tmp_path / "made").width > 0
    with pytest.raises(InputError, match="is the control tfidf, which has no network"):
        export(str(tmp_path / "tfidf"), str(tmp_path / "other"), "best")
    assert not (tmp_path / "other").exists()


def test_interrupted_fit_begins_anew(texts, tmp_path):
    folder = tmp_path / "run"
    argv = ["train", str(texts), "--control", "tfidf", "--out", str(folder)]
    assert run(argv) == 0
    before = json.loads((folder / "result.json").read_text())
    (folder / "result.json").unlink()
    (folder / "control.safetensors").unlink()
    assert run(argv) == 0
    after = json.loads((folder / "result.json").read_text())
    assert before["test"] == after["test"]


def test_damaged_arrays_are_named(texts, tmp_path, capsys):
    folder = tmp_path / "run"
    argv = ["train", str(texts), "--control", "tfidf", "--out", str(folder)]
    assert run(argv) == 0
    (folder / "control.safetensors").write_bytes(b"torn")
    assert run(["evaluate", str(folder)]) == 2
    assert "control.safetensors" in capsys.readouterr().err.splitlines()[-1]


def test_tasks_without_controls_say_so(project, capsys):
    experiment = config.load("mine.py")
    with pytest.raises(InputError, match="not for QuestionAnswering; leave it out"):
        dataclasses.replace(experiment, task=QuestionAnswering(), control="tfidf")
    assert run(["train", "mine.py", "--control", "frozen"]) == 2
    assert "random weights; name a pretrained one" in capsys.readouterr().err
    assert run(["train", "mine.py", "--loss", "tfidf"]) == 2
    assert "takes --control tfidf" in capsys.readouterr().err


def test_of_many_words_some_sentences_are_drawn(project, monkeypatch):
    setup = prepare(config.load("mine.py"), print)
    assert len(drawn(setup)[0]) == len(setup.data.corpus.train)
    monkeypatch.setattr("dicejax.training.control.MOST_WORDS", 30)
    examples, places = drawn(setup)
    assert 20 < sum(len(x.words) for x in examples) <= 30
    assert [setup.data.corpus.train[n] for n in places] == examples
