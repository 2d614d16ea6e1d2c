"""Model folders: reading, and error messages."""

import json

import jax
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from dicejax.errors import InputError
from dicejax.models import huggingface
from dicejax.models.network import INPUTS, Network

from .small import network_of


def read(model_folder):
    config = huggingface.read_config(model_folder)
    weights = huggingface.read_weights(model_folder, Network(encoder=config, heads=()))
    return weights.params["encoder"]


def test_layers_are_stacked_and_kernels_transposed(model_folder):
    params = read(model_folder)
    source = load_file(model_folder / "model.safetensors")
    layers = params["layers"]
    for layer in range(2):
        for ours, theirs in (
            (layers["intermediate"]["kernel"], "intermediate.dense"),
            (layers["output_norm"]["scale"], "output.LayerNorm"),
        ):
            weight = source[f"encoder.layer.{layer}.{theirs}.weight"]
            np.testing.assert_array_equal(ours[layer], weight.T)
    words = source["embeddings.word_embeddings.weight"]
    np.testing.assert_array_equal(params["embeddings"]["word"]["table"], words)
    network = network_of(huggingface.read_config(model_folder))
    initial = jax.eval_shape(network.init, jax.random.key(0))["encoder"]
    assert jax.tree.map(np.shape, params) == jax.tree.map(lambda x: x.shape, initial)


def test_a_position_beyond_the_table_is_refused(model_folder):
    network = network_of(huggingface.read_config(model_folder))
    params = network.init(jax.random.key(0))
    limit = network.encoder.max_length
    batch = {name: np.zeros((1, limit + 1), np.int32) for name in INPUTS}
    network.apply(params, batch | {"segment_ids": np.ones((1, limit + 1), np.int32)})
    batch["position_ids"] = np.arange(limit + 1)[None]
    with pytest.raises(ValueError, match=f"go to {limit}, .* has {limit} positions"):
        network.apply(params, batch)


def test_prefix_old_names_heads_and_buffers(model_folder):
    renamed, plain = {}, read(model_folder)
    for name, value in load_file(model_folder / "model.safetensors").items():
        name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
        name = name.replace("LayerNorm.bias", "LayerNorm.beta")
        renamed[f"bert.{name}"] = value
    renamed["bert.embeddings.position_ids"] = np.arange(16)[None]
    renamed["bert.pooler.dense.weight"] = np.ones((8, 8), np.float32)
    renamed["cls.predictions.bias"] = np.ones(11, np.float32)
    save_file(renamed, model_folder / "model.safetensors")
    jax.tree.map(np.testing.assert_array_equal, read(model_folder), plain)


@pytest.mark.parametrize("wrapper", ["module.", "_orig_mod.", "base_model.model."])
def test_names_that_all_begin_with_a_wrapper_are_read_without(model_folder, wrapper):
    plain = read(model_folder)
    stored = load_file(model_folder / "model.safetensors")
    stored = {f"{wrapper}bert.{name}": value for name, value in stored.items()}
    save_file(stored, model_folder / "model.safetensors")
    jax.tree.map(np.testing.assert_array_equal, read(model_folder), plain)
    network = network_of(huggingface.read_config(model_folder))
    (note,) = huggingface.read_weights(model_folder, network).notes
    assert note.endswith(f"read without '{wrapper}' before all names")


def test_adapters_are_not_read_and_the_line_that_merges_one_is_said(model_folder):
    plain, name = read(model_folder), "adapter_config.json"
    for task in ("retrieval", "classification"):
        (model_folder / task).mkdir()
        (model_folder / task / name).write_text("{}")
    network = network_of(huggingface.read_config(model_folder))
    weights = huggingface.read_weights(model_folder, network)
    jax.tree.map(np.testing.assert_array_equal, weights.params["encoder"], plain)
    (note,) = weights.notes
    assert "read without classification, retrieval; with peft" in note
    both = f"M.from_pretrained('{model_folder}'), '{model_folder}/classification')"
    assert f"{both}.merge_and_unload()" in note
    with pytest.raises(InputError, match="is an adapter, which is not read; with peft"):
        huggingface.read_config(model_folder / "retrieval")


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_other_float_types_become_float32(model_folder, kind):
    file = model_folder / "model.safetensors"
    stored = {name: value.astype(kind) for name, value in load_file(file).items()}
    save_file(stored, file)
    table = read(model_folder)["embeddings"]["word"]["table"]
    assert table.dtype == np.float32
    words = stored["embeddings.word_embeddings.weight"]
    np.testing.assert_array_equal(table, words.astype(np.float32))


def test_shards_are_read_as_one(model_folder):
    plain = read(model_folder)
    everything = load_file(model_folder / "model.safetensors")
    names = sorted(everything)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, part in shards.items():
        save_file({n: everything[n] for n in part}, model_folder / file)
    (model_folder / "model.safetensors").unlink()
    index = {n: file for file, part in shards.items() for n in part}
    (model_folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": index})
    )
    jax.tree.map(np.testing.assert_array_equal, read(model_folder), plain)


def test_all_mismatches_are_listed_at_once(model_folder):
    broken = load_file(model_folder / "model.safetensors")
    broken["embeddings.LayerNorm.weight"] = np.ones(9, np.float32)
    broken["encoder.layer.1.output.dense.weight"] = np.ones((8, 13), np.float32)
    del broken["encoder.layer.0.attention.self.key.bias"]
    broken["encoder.layer.2.output.dense.bias"] = np.ones(8, np.float32)
    save_file(broken, model_folder / "model.safetensors")
    with pytest.raises(InputError) as caught:
        read(model_folder)
    message = str(caught.value)
    assert "\n" not in message
    for part in (
        "embeddings.LayerNorm.weight is (9,), config.json wants (8,)",
        "encoder.layer.1.output.dense.weight is (8, 13), config.json wants (8, 12)",
        "missing encoder.layer.0.attention.self.key.bias (8,)",
        "unexpected encoder.layer.2.output.dense.bias (8,)",
    ):
        assert part in message


def test_pickle_is_refused_with_the_way_out(model_folder):
    (model_folder / "model.safetensors").rename(model_folder / "pytorch_model.bin")
    with pytest.raises(
        InputError, match=r"pytorch_model.bin: pickle .*\.save_pretrained"
    ):
        read(model_folder)
    file = model_folder / "config.json"
    task = "BertForTokenClassification"  # whose head the encoder's class would drop
    content = json.loads(file.read_text()) | {"architectures": [task]}
    file.write_text(json.dumps(content))
    with pytest.raises(InputError, match=f"import {task} as M; M.from_pretrained"):
        read(model_folder)
