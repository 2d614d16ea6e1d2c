"""Model folders: reading, and error messages."""

import json

import jax
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from dicejax.errors import InputError
from dicejax.models import huggingface
from dicejax.models.heads import TokenHead
from dicejax.models.network import Network


@pytest.fixture
def folder(model_folder):
    return model_folder


def network_of(folder, *heads):
    config = huggingface.read_config(folder)
    return Network(encoder=config, heads=heads)


def read(folder, *heads):
    weights = huggingface.read_weights(folder, network_of(folder, *heads))
    return weights.params["encoder"]


def test_layers_are_stacked_and_kernels_transposed(folder):
    params = read(folder)
    source = load_file(folder / "model.safetensors")
    for layer in range(2):
        np.testing.assert_array_equal(
            params["layers"]["intermediate"]["kernel"][layer],
            source[f"encoder.layer.{layer}.intermediate.dense.weight"].T,
        )
        np.testing.assert_array_equal(
            params["layers"]["output_norm"]["scale"][layer],
            source[f"encoder.layer.{layer}.output.LayerNorm.weight"],
        )
    np.testing.assert_array_equal(
        params["embeddings"]["word"]["table"],
        source["embeddings.word_embeddings.weight"],
    )


def test_what_is_read_has_the_form_of_what_is_initialised(folder):
    network = network_of(folder, ("tags", TokenHead(classes=3)))
    wanted = jax.eval_shape(network.init, jax.random.key(0))["encoder"]
    found = read(folder)
    assert jax.tree.map(np.shape, found) == jax.tree.map(lambda x: x.shape, wanted)


def test_prefix_old_names_heads_and_buffers(folder):
    renamed = {
        "bert."
        + name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): value
        for name, value in load_file(folder / "model.safetensors").items()
    }
    plain = read(folder)
    renamed["bert.embeddings.position_ids"] = np.arange(16)[None]
    renamed["bert.pooler.dense.weight"] = np.ones((8, 8), np.float32)
    renamed["cls.predictions.bias"] = np.ones(11, np.float32)
    save_file(renamed, folder / "model.safetensors")
    jax.tree.map(np.testing.assert_array_equal, read(folder), plain)


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_other_float_types_become_float32(folder, kind):
    stored = {
        name: value.astype(kind)
        for name, value in load_file(folder / "model.safetensors").items()
    }
    save_file(stored, folder / "model.safetensors")
    found = read(folder)["embeddings"]["word"]["table"]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(
        found, stored["embeddings.word_embeddings.weight"].astype(np.float32)
    )


def test_a_missing_shard_is_named(folder):
    (folder / "model.safetensors").unlink()
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "gone.safetensors"}}))
    with pytest.raises(InputError, match=r"gone\.safetensors: not a readable"):
        read(folder)
    index.write_text("[]")
    with pytest.raises(InputError, match=r"index\.json: holds no JSON object"):
        read(folder)
    index.write_text("{}")
    with pytest.raises(InputError, match=r"index\.json: has no weight_map"):
        read(folder)


def test_shards_are_read_as_one(folder):
    plain = read(folder)
    everything = load_file(folder / "model.safetensors")
    names = sorted(everything)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, part in shards.items():
        save_file({n: everything[n] for n in part}, folder / file)
    (folder / "model.safetensors").unlink()
    index = {n: file for file, part in shards.items() for n in part}
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": index})
    )
    jax.tree.map(np.testing.assert_array_equal, read(folder), plain)


def test_all_mismatches_are_listed_at_once(folder):
    broken = load_file(folder / "model.safetensors")
    broken["embeddings.LayerNorm.weight"] = np.ones(9, np.float32)
    broken["encoder.layer.1.output.dense.weight"] = np.ones((8, 13), np.float32)
    del broken["encoder.layer.0.attention.self.key.bias"]
    broken["encoder.layer.2.output.dense.bias"] = np.ones(8, np.float32)
    save_file(broken, folder / "model.safetensors")
    with pytest.raises(InputError) as caught:
        read(folder)
    message = str(caught.value)
    assert "\n" not in message
    for part in (
        "embeddings.LayerNorm.weight is (9,), config.json wants (8,)",
        "encoder.layer.1.output.dense.weight is (8, 13), config.json wants (8, 12)",
        "missing encoder.layer.0.attention.self.key.bias (8,)",
        "unexpected encoder.layer.2.output.dense.bias (8,)",
    ):
        assert part in message


def test_pickle_is_refused_with_the_way_out(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(
        InputError, match=r"pytorch_model.bin: pickle .*\.save_pretrained"
    ):
        read(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"model_type": "gpt2"},
            "model_type is 'gpt2'; supported: 'bert', 'deberta-v2', ",
        ),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ({"num_attention_heads": 3}, "hidden_size 8 is not a multiple"),
    ],
)
def test_other_architectures_are_refused(folder, change, message):
    (folder / "config.json").write_text(
        json.dumps(json.loads((folder / "config.json").read_text()) | change)
    )
    with pytest.raises(InputError, match=message):
        huggingface.read_config(folder)


def test_damaged_files_are_named(folder):
    plain = (folder / "config.json").read_text()
    (folder / "config.json").write_text('{"model_type":\n oops')
    with pytest.raises(InputError, match=r"config.json:2: not JSON"):
        huggingface.read_config(folder)
    (folder / "config.json").write_text(plain)
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"model.safetensors: not a readable"):
        read(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"holds no model\.safetensors"):
        read(folder)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(InputError, match="not a folder"):
        huggingface.locate(str(tmp_path / "nowhere"))
