"""An exported folder is opened again, and one that differs does not appear."""

import dataclasses
import json
import os
import types

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from dicejax.config import Experiment, Training
from dicejax.data import tokenize
from dicejax.data.synthetic import TYPES, SyntheticNER
from dicejax.errors import InputError
from dicejax.formats import ConllFiles
from dicejax.models import huggingface
from dicejax.models.heads import TokenHead
from dicejax.training import export

from ..models.small import KINDS, drawn, encoder_of, network_of

DATA = SyntheticNER(train=40, dev=12, test=4)
EXPERIMENT = Experiment(name="small", data=DATA, training=Training(max_length=24))
LABELS = ("O", *(f"{part}-{name}" for name in TYPES for part in "BI"))


@pytest.fixture(scope="module")
def tokenizer():
    words = [" ".join(example.words) for example in DATA.load().train]
    return tokenize.learn_wordpiece(words, 200)


@pytest.fixture(params=KINDS)
def written(request, tmp_path, tokenizer):
    """Return a folder, and what it is compared with."""
    entries = tokenizer.get_vocab_size()
    settings = {"max_position_embeddings": 26} if request.param == "mpnet" else {}
    encoder = encoder_of(request.param, 24, 40, vocab=entries, **settings)
    network = network_of(encoder, TokenHead(classes=len(LABELS)))
    params = drawn(network)
    run = types.SimpleNamespace(
        path=tmp_path / "run",
        offline_experiment=lambda data=None: EXPERIMENT,
        experiment=lambda: EXPERIMENT,
        labels=lambda: LABELS,
    )
    folder = tmp_path / "model"
    opener = huggingface.write(
        folder, network, params, labels=LABELS, tokenizer=tokenizer
    )
    return folder, opener, run, network, params, tokenizer, export.examples_of(run)


def test_every_encoder_is_the_same_in_pytorch(written):
    pytest.importorskip("torch")
    text = export._check(export.Exported(*written))
    assert "bit for bit" in text
    difference = float(text.split("differ by ")[1].split()[0])
    assert 0 < difference < 1e-3


@pytest.mark.parametrize("written", ["bert"], indirect=True)
@pytest.mark.parametrize("umask", [0o022, 0o027])
def test_all_files_can_be_read_by_the_same_people(written, tmp_path, umask):
    _, _, _, network, params, tokenizer, _ = written
    before = os.umask(umask)
    try:
        folder = tmp_path / f"{umask}"
        huggingface.write(folder, network, params, labels=LABELS, tokenizer=tokenizer)
    finally:
        os.umask(before)
    modes = {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()}
    assert set(modes.values()) == {0o666 & ~umask} and "model.safetensors" in modes


@pytest.mark.parametrize("written", ["bert"], indirect=True)
@pytest.mark.parametrize("kind", ["weights", "vocabulary", "config"])
def test_a_folder_that_differs_is_refused(written, kind):
    folder = written[0]
    if kind == "weights":
        tensors = load_file(folder / "model.safetensors")
        tensors["classifier.bias"][0] = np.nextafter(tensors["classifier.bias"][0], 9)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        message = "other weights or pieces"
    elif kind == "vocabulary":
        content = json.loads((folder / "tokenizer.json").read_text())
        vocabulary = content["model"]["vocab"]
        last, before = sorted(vocabulary, key=vocabulary.get)[-2:]
        vocabulary[last], vocabulary[before] = vocabulary[before], vocabulary[last]
        (folder / "tokenizer.json").write_text(json.dumps(content))
        message = "other weights or pieces"
    else:
        pytest.importorskip("torch")
        content = json.loads((folder / "config.json").read_text())
        content["hidden_act"] = "relu"
        (folder / "config.json").write_text(json.dumps(content))
        message = "logits of PyTorch differ by up to"
    with pytest.raises(InputError, match=message):
        export._check(export.Exported(*written))


@pytest.mark.parametrize("written", ["bert"], indirect=True)
def test_without_the_data_the_weights_are_compared(written):
    folder, opener, run, *rest, _ = written
    moved = ConllFiles(dir=str(folder / "moved"))
    run.offline_experiment = lambda data: Experiment(name="small", data=moved)
    dev = export.examples_of(run)
    text = export._check(export.Exported(folder, opener, run, *rest, dev))
    assert "bit for bit; no inputs of dev were compared, for want of" in text
    assert str(folder) not in text  # which the card shows to all


def test_data_that_has_moved_is_named_by_folder_or_by_file(tmp_path):
    names = {"train": "train.txt", "dev": "dev.txt", "test": "test.txt"}
    (tmp_path / "moved").mkdir()
    for n, name in enumerate(names.values(), start=1):
        text = "".join(f"Ada B-PER\nslept O\nfor{k} O\n\n" for k in range(n))
        (tmp_path / "moved" / name).write_text(text)
    source = ConllFiles(dir=str(tmp_path / "data"), **names)
    experiment = Experiment(name="small", data=source)

    def offline(data):
        new = source if data is None else dataclasses.replace(source, dir=data)
        return dataclasses.replace(experiment, data=new)

    run = types.SimpleNamespace(
        offline_experiment=offline, experiment=lambda: experiment
    )
    why = export.examples_of(run)
    assert isinstance(why, InputError) and "no such folder" in str(why)
    assert len(export.examples_of(run, str(tmp_path / "moved"))) == 2  # dev
    assert len(export.examples_of(run, str(tmp_path / "moved/test.txt"))) == 3
    with pytest.raises(InputError, match="no such folder"):  # what was named counts
        export.examples_of(run, str(tmp_path / "nowhere"))
