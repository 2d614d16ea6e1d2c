"""DeBERTa: a layer vs. the paper's formula, folders, and invalid settings."""

import dataclasses
import json

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from dicejax.errors import InputError
from dicejax.models import huggingface
from dicejax.models.deberta import relative_rows

from .small import drawn, encode, encoder_of, network_of

SIZES = {"heads": 2, "depth": 1, "vocab": 9, "max_position_embeddings": 16}
SMALL = encoder_of("deberta", 12, 8, position_buckets=6, **SIZES)


def scores(config, params, x, segments):
    """Compute attention's scores in NumPy, pair by pair: `[N, T, T]`."""
    weight = jax.tree.map(lambda x: np.float64(x[0]), params["layers"])
    table = np.float64(params["embeddings"]["relative"])
    table = table - table.mean(-1, keepdims=True)
    table /= np.sqrt(table.var(-1, keepdims=True) + config.layer_norm_eps)
    norm = params["embeddings"]["relative_norm"]
    table = table * norm["scale"] + norm["bias"]

    def projected(y, name):
        y = y @ weight[name]["kernel"] + weight[name]["bias"]
        return y.reshape(len(y), config.num_attention_heads, -1)

    query, key = projected(x, "query"), projected(x, "key")
    distant_query, distant_key = projected(table, "query"), projected(table, "key")
    got = np.full((config.num_attention_heads, len(x), len(x)), -np.inf)
    for n, i, j in np.ndindex(got.shape):
        if segments[i] == segments[j]:
            row = relative_rows(np.array(i - j), config)
            terms = [
                query[i, n] @ key[j, n],
                query[i, n] @ distant_key[row, n],
                key[j, n] @ distant_query[row, n],
            ]
            got[n, i, j] = sum(terms) / np.sqrt(3 * query.shape[-1])
    return got


def test_scores_are_those_of_the_paper():
    """Through attention of a layer whose other parts give its input back."""
    params = drawn(network_of(SMALL))["encoder"]
    segments = np.repeat([1, 2, 3], [11, 4, 1])
    ids = np.random.default_rng(1).integers(0, 9, len(segments))
    inputs = {
        "input_ids": ids[None],
        "segment_ids": segments[None],
        "position_ids": 0 * ids[None],
        "token_type_ids": 0 * ids[None],
    }
    layer = params["layers"]
    layer["attention_output"]["kernel"] = np.eye(12, dtype=np.float32)[None]
    layer["attention_output"]["bias"][:] = 0
    layer["output"]["kernel"][:] = layer["output"]["bias"][:] = 0
    last, inputs_of_layers = encode(SMALL, params, inputs)
    x = np.float64(inputs_of_layers[0, 0])
    got = scores(SMALL, params, x, segments)
    share = np.exp(got - got.max(-1, keepdims=True))
    share /= share.sum(-1, keepdims=True)
    value = x @ layer["value"]["kernel"][0] + layer["value"]["bias"][0]
    attended = np.einsum("nij,jnh->inh", share, value.reshape(16, 2, 6))
    expected = x + attended.reshape(16, 12)
    for name in ("attention_norm", "output_norm"):
        expected = expected - expected.mean(-1, keepdims=True)
        expected /= np.sqrt(expected.var(-1, keepdims=True) + SMALL.layer_norm_eps)
        expected = expected * layer[name]["scale"][0] + layer[name]["bias"][0]
    np.testing.assert_allclose(last[0], expected, atol=1e-5)


def test_settings_that_a_file_leaves_out_are_those_of_transformers():
    content = SMALL.to_json()
    assert huggingface.config_from(content) == SMALL
    for name in ("position_buckets", "norm_rel_ebd", "share_att_key", "pos_att_type"):
        del content[name]
    del content["position_biased_input"]
    bare = huggingface.config_from(content)
    assert (bare.span, bare.terms, bare.norm_rel_ebd) == (16, (), "none")
    assert not bare.share_att_key and bare.max_length == 16
    for terms in ("c2p|p2c", ["p2c", "c2p"]):
        assert huggingface.config_from(content | {"pos_att_type": terms}).terms == (
            "c2p",
            "p2c",
        )
    for terms in (["c2p", 3], 7, {}):
        with pytest.raises(InputError, match="pos_att_type is "):
            huggingface.config_from(content | {"pos_att_type": terms})
    del content["relative_attention"]
    with pytest.raises(InputError, match="relative_attention is False"):
        huggingface.config_from(content)


def test_what_pretraining_leaves_in_a_folder_is_passed_over(tmp_path):
    network = network_of(SMALL)
    params = drawn(network)
    huggingface.write(tmp_path / "out", network, params)
    file = tmp_path / "out" / "model.safetensors"
    arrays = load_file(file)
    one = np.ones((3, 12), np.float32)
    for name in (
        "deberta.embeddings.position_embeddings.weight",
        "lm_predictions.lm_head.dense.weight",
        "mask_predictions.dense.weight",
        "pooler.dense.weight",
    ):
        arrays[name] = one
    save_file(arrays, file, {"format": "pt"})
    weights = huggingface.read_weights(tmp_path / "out", network)
    jax.tree.map(np.testing.assert_array_equal, weights.params, params)
    # With positions in the input they are expected, in the right shape.
    config = tmp_path / "out" / "config.json"
    content = json.loads(config.read_text()) | {"position_biased_input": True}
    config.write_text(json.dumps(content))
    biased = dataclasses.replace(SMALL, position_biased_input=True)
    with pytest.raises(InputError, match=r"position_embeddings.weight is \(3, 12\), "):
        huggingface.read_weights(tmp_path / "out", network_of(biased))
