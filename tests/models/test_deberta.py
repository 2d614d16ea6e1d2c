"""DeBERTa: settings that a file leaves out, and what pretraining leaves behind."""

import dataclasses
import json

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from dicejax.errors import InputError
from dicejax.models import huggingface

from .small import drawn, encoder_of, network_of

SIZES = {"heads": 2, "depth": 1, "vocab": 9, "max_position_embeddings": 16}
SMALL = encoder_of("deberta", 12, 8, position_buckets=6, **SIZES)


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
        config = huggingface.config_from(content | {"pos_att_type": terms})
        assert config.terms == ("c2p", "p2c")
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
    names = ("deberta.embeddings.position_embeddings", "lm_predictions.lm_head.dense")
    names += ("mask_predictions.dense", "pooler.dense")
    spare = np.ones((3, 12), np.float32)
    arrays |= dict.fromkeys((f"{name}.weight" for name in names), spare)
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
