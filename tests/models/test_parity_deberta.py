"""DeBERTa vs. PyTorch: hidden states, logits, gradients, of every setting."""

import itertools

import numpy as np
import pytest

# Before the import below, which would leave half a module behind without it.
pytest.importorskip("torch", reason="parity: pip install -e '.[parity]'")

from transformers.models.deberta_v2 import modeling_deberta_v2

from dicejax.models.deberta import DebertaConfig, relative_rows

from .peers import (
    HEADS,
    batch_for,
    compare,
    compute_ours,
    compute_theirs,
    configured,
    pair,
    torch,
)
from .small import encode

TOKENS, SEQUENCES = "TokenClassification", "SequenceClassification"
KEY_BIASES = ("attention.self.key_proj.bias", "attention.self.pos_key_proj.bias")
V2 = {
    "share_att_key": False,
    "position_biased_input": True,
    "norm_rel_ebd": "none",
    "position_buckets": -1,
    "type_vocab_size": 2,
}


def check(settings, task=TOKENS, unmoved=(), **shape):
    both = pair(configured("deberta-v2", **settings), task)
    batch = batch_for(both, **shape)
    return compare(compute_ours(both, batch), compute_theirs(both, batch), unmoved)


@pytest.mark.parametrize(
    ("task", "padded"),
    [(task, "right") for task in HEADS]
    # PyTorch's summary is that of a row's first column, so padding must stand behind.
    + [(task, "left") for task in HEADS if task != SEQUENCES],
)
def test_heads_equal_pytorch(task, padded):
    depth = 2 if task == TOKENS else 1
    check({"num_hidden_layers": depth}, task, padded=padded)


@pytest.mark.parametrize(
    "settings",
    [
        # One layer, all layers written out, a loop; widths of no power of two.
        {"num_hidden_layers": 1, "hidden_size": 21, "intermediate_size": 13},
        {"num_hidden_layers": 5, "hidden_size": 15, "num_attention_heads": 5},
        {"num_hidden_layers": 7, "hidden_size": 14, "num_attention_heads": 2},
        {"num_hidden_layers": 1, "layer_norm_eps": 0.1, "hidden_act": "relu"},
        {"num_hidden_layers": 1, "type_vocab_size": 3, "embedding_size": 14},
        {"num_hidden_layers": 1, "position_biased_input": True},
        {"num_hidden_layers": 1, "norm_rel_ebd": "none"},
    ],
    ids=str,
)
def test_settings_equal_pytorch(settings):
    check(settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"position_buckets": 8, "max_relative_positions": 12},
        {"position_buckets": 7, "max_position_embeddings": 31},
        {"position_buckets": 32, "max_relative_positions": 64},
        {"position_buckets": -1, "max_relative_positions": 6},
        {"position_buckets": -1},
    ],
    ids=str,
)
def test_rows_beyond_the_buckets_equal_pytorch(settings):
    """Rows of 41 are beyond the 24 positions, the buckets, or the table of distances."""
    check({"num_hidden_layers": 1, **settings}, lengths=(41, 23, 1, 12))


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("terms", ["c2p", "p2c", "p2c|c2p"])
def test_terms_of_a_score_equal_pytorch(terms, shared):
    settings = {"pos_att_type": terms, "share_att_key": shared}
    # All scores of a query gain the same from a key's bias, which a softmax does not
    # see; but shared, it is the positions' bias too, which meets queries alike.
    check({"num_hidden_layers": 1, **settings}, unmoved=KEY_BIASES)
