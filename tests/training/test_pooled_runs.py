"""Runs on texts that are pooled: begun, continued, compared, predicted, exported."""

import dataclasses
import importlib.util
import json
import shutil

import jax
import numpy as np
import pytest
from etils import epath

from dicejax.cli import run
from dicejax.data import tokenize
from dicejax.io.files import write_checked
from dicejax.models import huggingface
from dicejax.models.bert import BertConfig
from dicejax.models.network import Network
from dicejax.training.checkpoint import restore_params
from dicejax.training.run_folder import CHECKPOINTS, Run

from ..models.small import drawn

WORDS = [*"abcdefghij"]
MEAN, FIRST = "mean of its pieces' states", "first piece's state, through a dense layer"


def write_texts(folder):
    """Write texts whose label is whether they have the letter "a"."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for name, count in (("train", 48), ("dev", 12), ("test", 12)):
        texts = [" ".join(rng.choice(WORDS, rng.integers(3, 9))) for _ in range(count)]
        lines = [f"{int('a' in text)} {text}" for text in texts]
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Return a folder with an encoder that pools by mean, and a run with it."""
    folder = tmp_path_factory.mktemp("pooled")
    write_texts(folder / "texts")
    tokenizer = tokenize.learn_wordpiece([" ".join(WORDS)], 60)
    encoder = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=32,
        pooling="mean",
    )
    network = Network(encoder=encoder, heads=())
    huggingface.write(folder / "model", network, drawn(network), tokenizer=tokenizer)
    (folder / "mine.py").write_text(
        "from dicejax.config import Experiment, PretrainedEncoder, Training\n"
        "from dicejax.formats import TextFiles\n"
        "from dicejax.objectives import CrossEntropy\n"
        "from dicejax.optimizers import AdamW\n"
        "from dicejax.tasks import Classification\n\n\n"
        "def get_config():\n"
        "    return Experiment(\n"
        f"        name='mine', data=TextFiles(dir={str(folder / 'texts')!r},\n"
        "        layout='label-first'),\n"
        "        task=Classification(),\n"
        f"        encoder=PretrainedEncoder(path={str(folder / 'model')!r}),\n"
        "        compared=(CrossEntropy(),),\n"
        "        optimizer=AdamW(learning_rate=3e-3),\n"
        "        training=Training(epochs=2, batch_size=16, max_length=32),\n"
        "    )\n"
    )
    assert run(trained(folder, "run")) == 0
    return folder


def trained(folder, name, *more):
    return ["train", str(folder / "mine.py"), "--out", str(folder / name), *more]


def forget(folder):
    """Take pooling out of a run's folder, as it was before there was any."""
    for name in ("experiment.json", "encoder.json"):
        content = json.loads((folder / name).read_text())
        content.get("encoder", content).pop("pooling")
        write_checked(epath.Path(folder), name, json.dumps(content))


def params_of(folder):
    found = Run(epath.Path(folder))
    return restore_params(found.path / CHECKPOINTS, found.network(), "last")[1]


def test_a_run_says_and_keeps_how_it_reads_texts(project, capsys, tmp_path):
    shutil.copytree(project, tmp_path, dirs_exist_ok=True)
    (tmp_path / "new.txt").write_text("a b c\nd e\n")
    predict = ["predict", str(tmp_path / "run"), "--json"]
    predict += ["--file", str(tmp_path / "new.txt")]
    assert run(predict) == 0
    before = capsys.readouterr().out
    # What its encoder's folder says later does not matter.
    for name in ("modules.json", "1_Pooling/config.json"):
        (tmp_path / "model" / name).unlink()
    assert run(predict) == 0
    assert capsys.readouterr().out == before and before.count("probabilities") == 2
    encoder = json.loads((tmp_path / "run/encoder.json").read_text())
    assert encoder["pooling"] == "mean"
    assert set(params_of(tmp_path / "run")["heads"]["label"]) == {"dense"}
    assert run(trained(project, "said", "--training.epochs", "1")) == 0
    assert f"each text is read as the {MEAN}\n" in capsys.readouterr().err


def test_an_old_run_keeps_its_own_form(project, capsys):
    first = ["--encoder.pooling", "first"]
    assert run(trained(project, "old", *first)) == 0
    whole = params_of(project / "old")
    assert set(whole["heads"]["label"]) == {"summary", "dense"}
    forget(project / "old")
    (project / "old/result.json").unlink()
    capsys.readouterr()
    assert run(trained(project, "old")) == 0  # and not by mean, as the folder says
    said = capsys.readouterr().err
    assert "resuming from step" in said and f"read as its {FIRST}" in said
    jax.tree.map(np.testing.assert_array_equal, params_of(project / "old"), whole)
    # Named, it is the same; another is not.
    assert run(trained(project, "old", *first)) == 0
    assert run(trained(project, "old", "--encoder.pooling", "mean")) == 2
    assert 'encoder.pooling was "auto" and is "mean"' in capsys.readouterr().err


def test_a_comparison_has_texts_read_in_one_way(project, capsys):
    compare = ["compare", str(project / "mine.py"), "--out", str(project / "compared")]
    compare += ["--no-baselines", "--training.epochs", "1", "--seeds"]
    first = ["--encoder.pooling", "first"]
    assert run([*compare, "1", *first]) == 0
    forget(project / "compared/ce/seed-0")
    capsys.readouterr()
    assert run([*compare, "2"]) == 2
    assert "keep to it with --encoder.pooling first, or" in capsys.readouterr().err
    assert not (project / "compared/ce/seed-1").exists()
    assert run([*compare, "2", *first]) == 0
    assert (project / "compared/ce/seed-1/result.json").exists()


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_an_export_is_a_folder_of_sentence_transformers(project, pooling, capsys):
    pytest.importorskip("torch")
    name, out = ("run", "exported") if pooling == "mean" else ("max", "exported_max")
    if pooling == "max":
        assert run(trained(project, name, "--encoder.pooling", pooling)) == 0
        capsys.readouterr()
    assert run(["export", str(project / name), str(project / out)]) == 0
    said = capsys.readouterr().out
    assert f"sentence_transformers.SentenceTransformer({str(project / out)!r})" in said
    there = importlib.util.find_spec("sentence_transformers") is not None
    program = "sentence-transformers" if there else "PyTorch"
    assert f"bit for bit; logits of {program} on dev differ by" in said
    found = Run(epath.Path(project / name))
    card = (project / out / "README.md").read_text()
    assert "`sentence_transformers.SentenceTransformer` opens this folder" in card
    assert "library_name: sentence-transformers" in card
    assert "pipeline_tag: text-classification" in card
    assert (
        f"Each text is read as the {'mean' if pooling == 'mean' else 'maximum'}" in card
    )
    # Trained on, the exported folder begins where the run ended.
    encoder = huggingface.read_config(project / out)
    network = dataclasses.replace(found.network(), encoder=encoder)
    read = huggingface.read_weights(project / out, network, found.labels())
    assert (read.new_heads, read.notes) == ((), ())
    if not there:
        return
    # As its users have it, with the folder's tokenizer.
    package = importlib.import_module("sentence_transformers")
    texts = ["a b c", "d e", "a a a a", "j", "h a b i j c d"]
    (project / "new.txt").write_text("\n".join(texts) + "\n")
    predict = ["predict", str(project / name), "--file", str(project / "new.txt")]
    assert run([*predict, "--json"]) == 0
    ours = [json.loads(x) for x in capsys.readouterr().out.splitlines()]
    model = package.SentenceTransformer(str(project / out), device="cpu")
    logits = model.encode(texts) / found.result()["calibration"]["temperature"]
    theirs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    mine = [[x["probabilities"][label] for label in found.labels()] for x in ours]
    np.testing.assert_allclose(mine, theirs, 0, 1e-5)


@pytest.mark.slow
def test_onnx_files_predict_as_the_run_does(project, capsys):
    for package in ("onnx", "onnxscript", "onnxruntime", "torch"):
        pytest.importorskip(package)
    out = project / "with_onnx"
    assert run(["export", str(project / "run"), str(out), "--onnx", "--force"]) == 0
    said = capsys.readouterr().out
    line = next(x for x in said.splitlines() if x.startswith("onnx/model.onnx"))
    assert "identical" in line
    difference = float(line.split("differ by up to ")[1].split()[0])
    assert difference < 1e-5


def test_init_says_how_an_encoder_reads_texts(project, tmp_path):
    rows = (project / "texts/train.txt").read_text().splitlines()
    lines = ["label,text", *(f"{row[0]},{row[2:]}" for row in rows)]
    (tmp_path / "texts.csv").write_text("\n".join(lines) + "\n")
    init = ["init", "classification", str(tmp_path / "new")]
    model = ["--encoder", str(project / "model")]
    assert run([*init, "--data", str(tmp_path / "texts.csv"), *model]) == 0
    text = (tmp_path / "new/experiment.py").read_text()
    assert f"# Each text is read as the {MEAN}:\n        # `--encoder.pooling`" in text
