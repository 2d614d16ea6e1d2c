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
from ..models.small import encoder_of
from .mutations import damage, mutate, restore

HEADS = {"tags": TokenHead(classes=3)}
CONFIG, INDEX = "config.json", "model.safetensors.index.json"
WEIGHTS = "model.safetensors"


@pytest.fixture
def folder(model_folder):
    """Return a model folder with weights and tokenizer that fit."""
    made.pieces("wordpiece", model_folder)
    entries = len(tokenize.read(model_folder).get_vocab())
    spoil(model_folder / CONFIG, {"vocab_size": entries})
    weights = load_file(model_folder / WEIGHTS)
    name = "embeddings.word_embeddings.weight"
    weights[name] = np.resize(weights[name], (entries, weights[name].shape[1]))
    save_file(weights, model_folder / WEIGHTS)
    return model_folder


def spoil(file, change):
    """Write bytes, change settings of JSON, or change the file as `damage` does."""
    if isinstance(change, bytes):
        file.write_bytes(change)
    elif isinstance(change, dict):
        content = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps(content | change))
    else:
        damage(file, change)


def refused(folder, *parts):
    with pytest.raises(InputError) as caught:
        dicejax.from_pretrained(folder, HEADS)
    message = str(caught.value)
    assert message.startswith(str(folder)) and "\n" not in message
    assert len(message) < 2100
    for part in parts:
        assert part in message


def test_the_folder_itself_is_read(folder):
    model, _, tokenizer = dicejax.from_pretrained(folder, HEADS)
    assert model.encoder.vocab_size == tokenizer.get_vocab_size()


def with_header(change):
    """Return a function that changes an entry of a safetensors file's header."""

    def rewrite(content):
        (size,) = struct.unpack("<Q", content[:8])
        header, body = json.loads(content[8 : 8 + size]), content[8 + size :]
        entry = header[NORM] | change(header)
        text = json.dumps(header | {NORM: entry}).encode()
        return struct.pack("<Q", len(text)) + text + body

    return rewrite


NORM, BIAS = "embeddings.LayerNorm.weight", "embeddings.LayerNorm.bias"
# Shards that are no names of files in the folder.
NO_SHARDS = ("../a.safetensors", "/etc/passwd", "deeper/a.safetensors", "..", "")
NO_SHARDS += ("..\\a.safetensors", "a\0", ["a.safetensors"], 1, None)
VOCABULARY = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n"
DAMAGED = "model.safetensors: not a readable safetensors file"
JSON = [b"", b"{", b"[]", b"\xff\xfe{}", b"[" * 10**5, b'{"a": 1, "a": 2}', b"\0"]
# Of each file: messages, and the contents or changes that each of them is for.
HOSTILE = {
    CONFIG: {
        "config.json:1: number ... is too large or not finite": [
            b'{"model_type": "bert", "layer_norm_eps": %s}' % number
            for number in (b"NaN", b"-Infinity", b"1e999", b"9" * 5000)
        ],
        "config.json": JSON,
        "config.json:2: not JSON": [b'{"model_type":\n oops'],
        "config.json: no such file": ["missing"],
        "config.json: is a folder": ["folder"],
        "pad_token_id 16 leaves no positions of max_position_embeddings 16": [
            {"model_type": "roberta", "pad_token_id": 16}
        ],
        # By arithmetic: before the memory is asked for, or the layers are listed.
        "config.json: its parameters take 36,0 ... GB of memory": [
            {"intermediate_size": 2**31 - 1, "hidden_size": 2**20}
        ],
        "config.json wants 1000000 layers, but the weights are ": [
            {"num_hidden_layers": 10**6}
        ],
    },
    INDEX: {
        "index.json": JSON,
        "index.json: holds no JSON object": [b"[]"],
        "index.json: has no weight_map": [
            {"weight_map": value} for value in (None, [], {}, "a.safetensors", 1)
        ],
        "index.json: weight_map has ... not the name of a file in this folder": [
            {"weight_map": {"a": shard}} for shard in NO_SHARDS
        ],
    },
    WEIGHTS: {
        "holds no model.safetensors": ["missing"],
        DAMAGED: [
            b"",
            lambda whole: whole[:7],
            lambda whole: whole[: len(whole) // 2],
            lambda whole: whole[:-1],
            lambda whole: whole + b"\0",
            lambda whole: struct.pack("<Q", 2**63) + whole[8:],
            lambda whole: struct.pack("<Q", 10**9) + whole[8:],
            lambda whole: whole[:8] + b"x" + whole[9:],
            with_header(lambda header: header[BIAS]),
            with_header(lambda header: {"shape": [10**9, 10**9]}),
            with_header(lambda header: {"data_offsets": [0, 10**15]}),
        ],
        f"{NORM} holds I32, want one of BF16, F16": [
            with_header(lambda header: {"dtype": "I32"})
        ],
        f"{NORM} holds U32, want one of BF16, F16": [
            with_header(lambda header: {"dtype": "U32"})
        ],
    },
    "vocab.txt": {
        "vocab.txt: is empty": [b""],
        "vocab.txt:2: byte 6 (0xff) is not UTF-8": [b"[UNK]\n\xff\n"],
        "vocab.txt:7: 'a' is on line 6 too": [VOCABULARY + b"a\n"],
        "vocab.txt lacks [UNK], [CLS], [SEP]": [b"a\n"],
    },
    "tokenizer_config.json": {
        f"no usable tokenizer (tokenizer_config.json: {message}": [settings]
        for message, settings in (
            ("do_lower_case is 'false'; want true, ", {"do_lower_case": "false"}),
            ("strip_accents is 1; want", {"strip_accents": 1}),
            ("cls_token is ['[CLS]']; want text or null", {"cls_token": ["[CLS]"]}),
            ("cls_token is 3; want text or null", {"cls_token": {"content": 3}}),
        )
    },
}


@pytest.mark.parametrize(
    ("file", "message", "change"),
    [
        (file, message, change)
        for file, messages in HOSTILE.items()
        for message, changes in messages.items()
        for change in changes
    ],
)
def test_a_hostile_folder_is_refused_in_one_line(folder, file, message, change):
    spoil(folder / file, change)
    refused(folder, *message.split(" ... "))


def test_a_missing_shard_is_noticed_before_another_is_read(folder, monkeypatch):
    shards = {NORM: WEIGHTS, "pooler.dense.bias": "z.safetensors"}
    spoil(folder / INDEX, {"weight_map": shards})
    monkeypatch.setattr(reading, "_read", None)
    refused(folder, "z.safetensors: not a readable safetensors file (missing)")


def test_a_tensor_in_two_shards_is_refused(folder):
    for name in ("a.safetensors", "b.safetensors"):
        shutil.copy(folder / WEIGHTS, folder / name)
    shards = {"a": "a.safetensors", "b": "b.safetensors"}
    spoil(folder / INDEX, {"weight_map": shards})
    refused(folder, "b.safetensors: tensor ", " of a.safetensors again")


SIZES = "vocab_size hidden_size num_hidden_layers num_attention_heads "
SIZES += "intermediate_size max_position_embeddings type_vocab_size"
WRONG = (True, None, [8], {"size": 8}, "8", 8.0, 0, -1, 10**12, 10**4000)
SETTINGS = dict.fromkeys(SIZES.split(), WRONG) | {
    "hidden_dropout_prob": (True, "0.1", [0.1], 1, 1.0, -0.1, 10**400),
    "attention_probs_dropout_prob": (None, 2),
    "classifier_dropout": ("none", 1.5),
    "layer_norm_eps": (0, -1e-12, "1e-12", 1e9),
    "initializer_range": (-1, None, 1e300),
    "hidden_act": ("swish9", ["gelu"], None, {}),
    "position_embedding_type": ("relative_key", 1, []),
    "is_decoder": (True, 0, None, "false"),
    "pad_token_id": (-1, 2**31, True, [0]),
    "embedding_size": (0, "8"),
    "model_type": (["bert"], None, 3, {}, "gpt2"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_is_checked_for_type_and_range(folder, name):
    whole = json.loads((folder / CONFIG).read_text())
    suffix = ".*; want a whol" if name in SIZES else ""
    for value in SETTINGS[name]:
        (folder / CONFIG).write_text(json.dumps(whole | {name: value}))
        with pytest.raises(InputError, match=f"config.json: {name} is {suffix}"):
            huggingface.read_config(folder)


@pytest.mark.parametrize("config", [XLNetConfig, DebertaConfig])
def test_every_setting_of_an_encoder_is_checked_for_type_and_range(config):
    for field in dataclasses.fields(config):
        for value in ([1], {}, 1 + 2j, float("nan"), 10**400):
            with pytest.raises(ValueError, match=f"{field.name} is "):
                config(**{"vocab_size": 9, field.name: value})


def test_random_weights_and_those_of_a_run_are_refused_by_the_same_arithmetic(tmp_path):
    encoder = BertConfig(vocab_size=2**31 - 1, hidden_size=2**16, num_attention_heads=1)
    network = Network(encoder=encoder, heads=())
    with pytest.raises(InputError, match=r"^encoder: its parameters take .* GB"):
        network.check_memory("encoder")
    with pytest.raises(InputError, match=r"run: its parameters take .* GB"):
        restore_params(epath.Path(tmp_path / "run" / "checkpoints"), network)


def test_a_template_that_disagrees_with_the_vocabulary_is_refused(folder):
    content = json.loads(tokenize.read(folder).to_str())
    content["post_processor"]["special_tokens"]["[CLS]"]["ids"] = [7]
    (folder / "tokenizer.json").write_text(json.dumps(content))
    refused(folder, "its template gives '[CLS]' the id 7")


@pytest.mark.parametrize("kind", [3, 2**31])
def test_a_template_with_a_type_that_no_encoder_has_is_refused(folder, kind):
    content = json.loads(tokenize.read(folder).to_str())
    content["post_processor"]["single"][0]["SpecialToken"]["type_id"] = kind
    (folder / "tokenizer.json").write_text(json.dumps(content))
    refused(folder, f"its template gives a piece the type {kind}, more than 2")


@pytest.mark.parametrize("names", [[[]], True, "BertModel", [1]])
def test_names_of_classes_are_a_list(folder, names):
    config = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(config | {"architectures": names}))
    refused(folder, "config.json: architectures is ", "; want a list of names")


@pytest.mark.parametrize(
    "kind", ["wordpiece", "xlnet", "deberta", "byte_level", "json"]
)
def test_damaged_tokenizers_are_read_or_refused(tmp_path, kind):
    folder = made.pieces("wordpiece" if kind == "json" else kind, tmp_path / "files")
    if kind == "json":
        content = tokenize.read(folder).to_str()
        (folder / "vocab.txt").unlink()
        (folder / "tokenizer.json").write_text(content)
    rng, errors, damaged = random.Random(0), 0, tmp_path / "damaged"
    for name in [file.name for file in folder.iterdir() for _ in range(30)]:
        restore(folder, damaged)
        mutate(damaged / name, rng)
        try:
            tokenize.read(damaged).encode("the caf\xe9 1, \u6771", "x")
        except InputError as error:
            assert "\n" not in str(error) and len(str(error)) < 2100
            errors += 1
    assert errors > 10


def test_an_export_to_a_place_that_cannot_be_written_is_one_line(tmp_path):
    encoder = encoder_of("bert", 4, 4, heads=2, depth=1, vocab=9)
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
