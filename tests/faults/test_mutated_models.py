"""Damaged model folders end in one line."""

import json
import random

import jax
import pytest
from safetensors.numpy import save_file

from dicejax.data import sources, tokenize
from dicejax.models import huggingface
from dicejax.models.deberta import DebertaConfig
from dicejax.models.modernbert import ModernBertConfig
from dicejax.models.network import Network
from dicejax.tasks import Tagging

from .. import tiny
from ..conftest import SMALL_MODEL, small_tensors
from .commands import called
from .mutations import mutate, restore

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "met", "ada", "here", "a", "b"]
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


SIZES = {"vocab_size": len(WORDS) + 1, "hidden_size": 8, "intermediate_size": 8}
SIZES |= {"num_attention_heads": 2, "num_hidden_layers": 2}
ENCODERS = {
    "deberta": DebertaConfig(**SIZES, relative_attention=True, position_buckets=8),
    "modernbert": ModernBertConfig(**SIZES),
}


@pytest.fixture(scope="module", params=["one file", "shards", *ENCODERS])
def model(request, tmp_path_factory):
    """Return a folder of the smallest BERT, as one file or in shards, or of another."""
    folder = tmp_path_factory.mktemp("model")
    if request.param in ENCODERS:
        network = Network(encoder=ENCODERS[request.param], heads=())
        (folder / "vocab.txt").write_text("\n".join([*WORDS, "king"]) + "\n")
        written = folder / "written"
        params = network.init(jax.random.key(0))
        huggingface.write(written, network, params, tokenizer=tokenize.read(folder))
        return written
    (folder / "config.json").write_text(json.dumps(SMALL_MODEL, indent=2))
    (folder / "vocab.txt").write_text("\n".join([*WORDS, "king"]) + "\n")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    tensors = small_tensors()
    if request.param == "one file":
        save_file(tensors, folder / "model.safetensors")
        return folder
    tokenize.read(folder).save(str(folder / "tokenizer.json"))
    names = sorted(tensors)
    for shard, part in zip(SHARDS, (names[::2], names[1::2]), strict=True):
        save_file({name: tensors[name] for name in part}, folder / shard)
    shards = {name: SHARDS[place % 2] for place, name in enumerate(names)}
    index = {"metadata": {"total_size": 1}, "weight_map": shards}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


@pytest.mark.usefixtures("reading_only")
def test_a_damaged_model_folder_ends_in_one_line(
    model, experiment, tmp_path, request, capsys
):
    data, folder = tmp_path / "data", tmp_path / "model"
    data.mkdir()
    text = tiny.conll(sources.ConllFiles(dir="."), Tagging())
    (data / "data.txt").write_text(text)
    encoder = f"PretrainedEncoder(path={str(folder)!r})"
    kinds = {"source": "ConllFiles", "task": "Tagging", "encoder": encoder}
    small = experiment(data, "data.txt", **kinds)
    argv = ["train", small, "--out", str(tmp_path / "run")]
    argv += ["--training.max_length", "16"]
    names = sorted(file.name for file in model.iterdir())
    problems = []
    for number in range(500 if request.config.getoption("exhaustive") else 8):
        restore(model, folder)
        done, name = "nothing", names[number % len(names)]
        if number:
            done = mutate(folder / name, random.Random(f"{name} {number}"))
        ended = called(argv, capsys)
        problem = ended.problem
        if not number and "all has been read" not in ended.errors:
            problem = ended.errors
        if problem:
            problems.append(f"{number}, {name}, {done}: {problem}")
    assert not problems, f"{len(problems)}: " + "\n".join(problems)
