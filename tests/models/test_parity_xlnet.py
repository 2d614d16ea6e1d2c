"""XLNet beside PyTorch: hidden states, logits, gradients, memory, of every setting."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax.models.xlnet import next_memory

# Before the import below, which would leave half a module behind without it.
pytest.importorskip("torch", reason="parity: pip install -e '.[parity]'")

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

# What pretraining puts in place of a word.
UNMOVED = ("mask_emb",)
SCORES = ("attn.q", "attn.k", "attn.r", "r_bias", "w_bias", "s_bias", "seg_embed")
TOKENS, SEQUENCES = "TokenClassification", "SequenceClassification"


@pytest.mark.parametrize(
    ("task", "padded"),
    # PyTorch's summary is that of a row's last column, so padding must stand before.
    [(task, "left") for task in HEADS]
    + [(task, "right") for task in HEADS if task != SEQUENCES],
)
def test_heads_equal_pytorch(task, padded):
    depth = 2 if task == TOKENS else 1
    both = pair(configured("xlnet", n_layer=depth), task)
    batch = batch_for(both, padded=padded)
    compare(compute_ours(both, batch), compute_theirs(both, batch), UNMOVED)


@pytest.mark.parametrize(
    "settings",
    [
        # One layer, all layers written out, a loop; odd widths of heads.
        {"n_layer": 1, "d_model": 14, "n_head": 2, "d_inner": 13},
        {"n_layer": 5, "d_model": 30, "n_head": 6},
        {"n_layer": 7, "d_model": 10, "n_head": 2},
        *(
            {"n_layer": 1, "ff_activation": name}
            for name in ("gelu_new", "gelu_pytorch_tanh", "relu", "silu", "tanh")
        ),
        {"clamp_len": 3},
        {"n_layer": 1, "clamp_len": 40, "layer_norm_eps": 0.1},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
def test_settings_equal_pytorch(settings):
    both = pair(configured("xlnet", **settings), TOKENS)
    batch = batch_for(both, padded="left")
    compare(compute_ours(both, batch), compute_theirs(both, batch), UNMOVED)


@pytest.mark.parametrize(
    ("settings", "unmoved"),
    [
        ({}, UNMOVED),
        ({"clamp_len": 4}, UNMOVED),
        # Without a memory each token sees but itself, whatever the scores.
        ({"same_length": True}, (*UNMOVED, *SCORES)),
    ],
    ids=["plain", "clamped", "same-length"],
)
def test_looking_back_alone_equals_pytorch(settings, unmoved):
    both = pair(configured("xlnet", attn_type="uni", **settings), TOKENS)
    # With a mask for more than one row PyTorch fails here.
    batch = batch_for(both, padded="none")
    wanted = compute_theirs(both, batch, masked=False)
    compare(compute_ours(both, batch), wanted, unmoved)


@pytest.mark.parametrize(
    "settings",
    [
        {"summary_type": "first"},
        {"summary_type": "mean"},
        {"summary_use_proj": False},
        {"summary_activation": "relu"},
        {"summary_activation": ""},
    ],
    ids=str,
)
def test_summaries_equal_pytorch(settings):
    both = pair(configured("xlnet", n_layer=1, **settings), SEQUENCES)
    # Of padded rows PyTorch takes the mean of padding too, and the first column.
    batch = batch_for(both, padded="none")
    compare(compute_ours(both, batch), compute_theirs(both, batch), UNMOVED)


def test_rows_without_types_equal_pytorch():
    both = pair(configured("xlnet"), TOKENS)
    batch = batch_for(both, padded="left")
    batch["token_type_ids"][:] = 0
    ours = compute_ours(both, batch)
    # All scores of a token gain the same, which a softmax does not see.
    same = ("seg_embed", "r_s_bias", *UNMOVED)
    compare(ours, compute_theirs(both, batch), same)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"mem_len": 8},
        {"mem_len": 8, "reuse_len": 4},
        {"mem_len": 3, "attn_type": "uni"},
        {"mem_len": 8, "attn_type": "uni", "same_length": True, "clamp_len": 4},
    ],
    ids=str,
)
def test_memory_equals_pytorch(settings):
    both = pair(configured("xlnet", **settings), TOKENS)
    config = both.network.encoder
    batch = batch_for(both, lengths=(18, 18, 18), padded="none")
    memory = mems = None
    for part in (slice(0, 6), slice(6, 11), slice(11, 18)):
        piece = {name: array[:, part] for name, array in batch.items()}
        last, inputs = encode(config, both.params["encoder"], piece, memory)
        memory = next_memory(config, inputs, memory)
        with torch.no_grad():
            wanted = both.model.transformer(
                torch.tensor(piece["input_ids"]),
                token_type_ids=torch.tensor(piece["token_type_ids"]).long(),
                mems=mems,
                use_mems=True,
            )
        mems = wanted.mems
        np.testing.assert_allclose(last, wanted.last_hidden_state, atol=1e-4)
        theirs = np.stack([mem.numpy() for mem in mems]).swapaxes(1, 2)
        assert memory.shape == theirs.shape
        np.testing.assert_allclose(memory, theirs, atol=1e-4)


def test_no_gradient_flows_through_memory():
    both = pair(configured("xlnet"), TOKENS)
    inputs = jnp.ones((2, 1, 4, 24))

    def kept(inputs):
        return next_memory(both.network.encoder, inputs, None).sum()

    assert not np.any(jax.grad(kept)(inputs))
