"""Damaged model folders end in one line, and before anything large is allocated."""

import dataclasses
import json
import random
import shutil
import struct
from pathlib import Path

import jax
import numpy as np
import pytest
from etils import epath
from safetensors.numpy import load_file, save_file

import dicejax
from dicejax.data import tokenize
from dicejax.errors import InputError
from dicejax.models import huggingface
from dicejax.models.bert import BertConfig
from dicejax.models.deberta import DebertaConfig
from dicejax.models.heads import TokenHead
from dicejax.models.huggingface import reading
from dicejax.models.network import Network
from dicejax.models.xlnet import XLNetConfig
from dicejax.training.checkpoint import restore_params

from ..data import made
from .mutations import mutate

HEADS = {"tags": TokenHead(classes=3)}


@pytest.fixture
def folder(model_folder):
    """Return a model folder with weights and tokenizer that fit."""
    made.pieces("wordpiece", model_folder)
    (model_folder / "config.json").write_text(
        json.dumps(json.loads((model_folder / "config.json").read_text()))
    )
    widened(model_folder, len(tokenize.read(model_folder).get_vocab()))
    return model_folder


def widened(folder, entries):
    """Give the table of words as many rows as the tokenizer has entries."""
    change(folder, vocab_size=entries)
    weights = load_file(folder / "model.safetensors")
    name = "embeddings.word_embeddings.weight"
    weights[name] = np.resize(weights[name], (entries, weights[name].shape[1]))
    save_file(weights, folder / "model.safetensors")


def change(folder, **settings):
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))


def refused(folder, *parts):
    with pytest.raises(InputError) as caught:
        dicejax.from_pretrained(folder, HEADS)
    message = str(caught.value)
    assert message.startswith(str(folder)) and "\n" not in message
    assert len(message) < 2100
    for part in parts:
        assert part in message


def split_into_shards(folder, weight_map=None):
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").rename(folder / "a.safetensors")
    weight_map = weight_map or dict.fromkeys(weights, "a.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))


def test_the_folder_itself_is_read(folder):
    model, _, tokenizer = dicejax.from_pretrained(folder, HEADS)
    assert model.encoder.vocab_size == tokenizer.get_vocab_size()


WRONG = (True, None, [8], {"size": 8}, "8", 8.0, 0, -1, 10**12, 10**4000)


@pytest.mark.parametrize("value", WRONG, ids=lambda value: str(value)[:9])
def test_every_size_is_checked_for_type_and_range(folder, value):
    sizes = "vocab_size hidden_size num_hidden_layers num_attention_heads "
    sizes += "intermediate_size max_position_embeddings type_vocab_size"
    whole = (folder / "config.json").read_text()
    for name in sizes.split():
        change(folder, **{name: value})
        message = rf"config.json: {name} is .*; want a whol"
        with pytest.raises(InputError, match=message):
            huggingface.read_config(folder)
        (folder / "config.json").write_text(whole)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("hidden_dropout_prob", (True, "0.1", [0.1], 1, 1.0, -0.1, 10**400)),
        ("attention_probs_dropout_prob", (None, 2)),
        ("classifier_dropout", ("none", 1.5)),
        ("layer_norm_eps", (0, -1e-12, "1e-12", 1e9)),
        ("initializer_range", (-1, None, 1e300)),
        ("hidden_act", ("swish9", ["gelu"], None, {})),
        ("position_embedding_type", ("relative_key", 1, [])),
        ("is_decoder", (True, 0, None, "false")),
        ("pad_token_id", (-1, 2**31, True, [0])),
        ("embedding_size", (0, "8")),
        ("model_type", (["bert"], None, 3, {}, "gpt2")),
    ],
)
def test_every_other_setting_is_checked_for_type_and_range(folder, name, values):
    whole = (folder / "config.json").read_text()
    for value in values:
        change(folder, **{name: value})
        with pytest.raises(InputError, match=f"config.json: {name} is "):
            huggingface.read_config(folder)
        (folder / "config.json").write_text(whole)


@pytest.mark.parametrize("config", [XLNetConfig, DebertaConfig])
def test_every_setting_of_an_encoder_is_checked_for_type_and_range(config):
    for field in (one.name for one in dataclasses.fields(config)):
        for value in ([1], {}, 1 + 2j, float("nan"), 10**400):
            with pytest.raises(ValueError, match=f"{field} is "):
                config(**{"vocab_size": 9, field: value})


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999", "9" * 5000])
def test_numbers_that_json_has_not_are_refused(folder, number):
    text = json.dumps({"model_type": "bert", "layer_norm_eps": "HERE"})
    (folder / "config.json").write_text(text.replace('"HERE"', number))
    refused(folder, "config.json:1: number ", "is too large or not finite")


def test_roberta_s_padding_leaves_positions(folder):
    change(folder, model_type="roberta", pad_token_id=16)
    refused(folder, "pad_token_id 16 leaves no positions of max_position_embeddings 16")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff\xfe{}", b"[" * 100_000, b'{"a": 1, "a": 2}', b"\0"],
    ids=["empty", "cut", "list", "bytes", "deep", "twice", "nul"],
)
@pytest.mark.parametrize("name", ["config.json", "model.safetensors.index.json"])
def test_json_files_of_another_kind_are_named(folder, name, content):
    (folder / name).write_bytes(content)
    refused(folder, name)


def test_a_file_that_is_a_folder_or_a_pipe_is_named(folder):
    (folder / "config.json").unlink()
    refused(folder, "config.json: no such file")
    (folder / "config.json").mkdir()
    refused(folder, "config.json: is a folder")


NO_SHARDS = ["../a.safetensors", "/etc/passwd", "deeper/a.safetensors", "..", ""]
NO_SHARDS += ["..\\a.safetensors", "a\0", ["a.safetensors"], 1, None]


@pytest.mark.parametrize("shard", NO_SHARDS, ids=repr)
def test_shards_lie_in_the_folder(folder, shard):
    shutil.copy(folder / "model.safetensors", folder.parent / "a.safetensors")
    split_into_shards(folder, {"a": shard})
    refused(folder, "index.json: weight_map has ", "no name of a file in this folder")


@pytest.mark.parametrize("weight_map", [None, [], {}, "a.safetensors", 1])
def test_an_index_without_files_is_refused(folder, weight_map):
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    refused(folder, "index.json: has no weight_map")


def test_a_missing_shard_is_found_before_another_is_read(folder, monkeypatch):
    names = load_file(folder / "model.safetensors")
    first = dict.fromkeys(names, "a.safetensors")
    split_into_shards(folder, first | {"pooler.dense.bias": "z.safetensors"})
    monkeypatch.setattr(reading, "_read", None)
    refused(folder, "z.safetensors: not a readable safetensors file (missing)")


def test_a_tensor_in_two_shards_is_refused(folder):
    shutil.copy(folder / "model.safetensors", folder / "b.safetensors")
    split_into_shards(folder, {"a": "a.safetensors", "b": "b.safetensors"})
    refused(folder, "b.safetensors: tensor ", " of a.safetensors again")


@pytest.mark.parametrize("kind", ["I32", "U32"])
def test_the_bytes_of_floats_are_not_read_as_integers(folder, kind):
    file = folder / "model.safetensors"
    header, body = parts_of(file.read_bytes())
    header["embeddings.LayerNorm.weight"]["dtype"] = kind
    file.write_bytes(joined(header, body))
    refused(folder, f"embeddings.LayerNorm.weight holds {kind}, want one of BF16, F16")


def parts_of(content):
    """Return the header of a safetensors file as JSON, and its body."""
    (size,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def joined(header, body):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def test_damaged_headers_of_weights_are_refused(folder):
    file = folder / "model.safetensors"
    whole = file.read_bytes()
    header, body = parts_of(whole)
    one, two = list(header)[:2]
    overlapping = header | {one: header[two]}
    beyond = header | {one: header[one] | {"data_offsets": [0, 10**15]}}
    huge = header | {one: header[one] | {"shape": [10**9, 10**9]}}
    headers = (overlapping, beyond, huge)
    contents = [b"", whole[:7], whole[:-1], whole + b"\0"]
    contents += [struct.pack("<Q", size) + whole[8:] for size in (2**63, 10**9)]
    contents += [whole[:8] + b"x" + whole[9:], *(joined(h, body) for h in headers)]
    for content in contents:
        file.write_bytes(content)
        refused(folder, "model.safetensors: not a readable safetensors file")


def test_what_does_not_fit_in_memory_is_refused_by_arithmetic(folder):
    change(folder, intermediate_size=2**31 - 1, hidden_size=2**20)
    refused(folder, "config.json: its parameters take 36,0", " GB of memory")


def test_layers_beyond_the_tensors_are_refused_before_they_are_listed(folder):
    change(folder, num_hidden_layers=10**6)
    refused(folder, "config.json wants 1000000 layers, but the weights are ")


def test_random_weights_and_those_of_a_run_are_refused_by_the_same_arithmetic(tmp_path):
    encoder = BertConfig(vocab_size=2**31 - 1, hidden_size=2**16, num_attention_heads=1)
    network = Network(encoder=encoder, heads=())
    with pytest.raises(InputError, match=r"^encoder: its parameters take .* GB"):
        network.check_memory("encoder")
    with pytest.raises(InputError, match=r"run: its parameters take .* GB"):
        restore_params(epath.Path(tmp_path / "run" / "checkpoints"), network)


VOCABULARY = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "vocab.txt: is empty"),
        (b"[UNK]\n\xff\n", "vocab.txt:2: byte 6 (0xff) is not UTF-8"),
        (VOCABULARY.encode() + b"a\n", "vocab.txt:7: 'a' is on line 6 too"),
        (b"a\n", "vocab.txt lacks [UNK], [CLS], [SEP]"),
    ],
)
def test_a_damaged_vocabulary_is_named(folder, content, message):
    (folder / "vocab.txt").write_bytes(content)
    refused(folder, message)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"do_lower_case": "false"}, "do_lower_case is 'false'; want true, false or"),
        ({"strip_accents": 1}, "strip_accents is 1; want"),
        ({"cls_token": ["[CLS]"]}, "cls_token is ['[CLS]']; want text or null"),
        ({"cls_token": {"content": 3}}, "cls_token is 3; want text or null"),
    ],
)
def test_settings_of_the_tokenizer_are_checked_for_type(folder, settings, message):
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    refused(folder, f"no usable tokenizer (tokenizer_config.json: {message}")


def test_a_template_that_disagrees_with_the_vocabulary_is_refused(folder):
    content = json.loads(tokenize.read(folder).to_str())
    content["post_processor"]["special_tokens"]["[CLS]"]["ids"] = [7]
    (folder / "tokenizer.json").write_text(json.dumps(content))
    refused(folder, "its template gives '[CLS]' the id 7")


def survives(folder, tmp_path, read, count):
    """Damage each file of a folder; count the errors of what reads it."""
    rng, errors = random.Random(0), 0
    for name in sorted(file.name for file in folder.iterdir()):
        for number in range(count):
            damaged = tmp_path / f"{name}-{number}"
            shutil.copytree(folder, damaged)
            mutate(damaged / name, rng)
            try:
                read(damaged)
            except InputError as error:
                assert "\n" not in str(error)
                assert len(str(error)) < 2100
                errors += 1
            shutil.rmtree(damaged)
    return errors


@pytest.mark.parametrize(
    "kind", ["wordpiece", "xlnet", "deberta", "byte_level", "json"]
)
def test_damaged_tokenizers_are_read_or_refused(tmp_path, kind):
    folder = made.pieces("wordpiece" if kind == "json" else kind, tmp_path / "files")
    if kind == "json":
        content = tokenize.read(folder).to_str()
        (folder / "vocab.txt").unlink()
        (folder / "tokenizer.json").write_text(content)

    def read(damaged):
        tokenize.read(damaged).encode("the caf\xe9 1, \u6771", "x")

    assert survives(folder, tmp_path, read, 30) > 10


def test_an_export_to_a_place_that_cannot_be_written_is_one_line(tmp_path):
    sizes = {"vocab_size": 9, "hidden_size": 4, "num_hidden_layers": 1}
    encoder = BertConfig(**sizes, num_attention_heads=2, intermediate_size=4)
    network = Network(encoder=encoder, heads=())
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    places = {
        "/proc/model": "cannot be written",
        str(tmp_path / "file"): "exists already",
        str(tmp_path / "file" / "model"): "cannot be written: ",
        str(tmp_path / "link"): "exists already",
        str(tmp_path / "loop" / "model"): "cannot be written: ",
        str(tmp_path / ("x" * 300)): "cannot be written: File name too long",
    }
    params = network.init(jax.random.key(0))
    for place, message in places.items():
        with pytest.raises(InputError, match=message) as caught:
            huggingface.write(Path(place), network, params)
        assert str(caught.value).startswith(place)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file", "link", "loop"]
