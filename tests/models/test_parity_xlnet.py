"""XLNet vs. PyTorch: hidden states, logits, gradients, of every setting."""

import pytest

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
)

# What pretraining puts in place of a word.
UNMOVED = ("mask_emb",)
TOKENS, SEQUENCES = "TokenClassification", "SequenceClassification"


@pytest.mark.parametrize(
    ("task", "padded"),
    # PyTorch's summary is that of a row's last column, so padding must stand before.
    [(task, "left") for task in HEADS]
    + [
        pytest.param(task, "right", marks=pytest.mark.exhaustive)
        for task in HEADS
        if task != SEQUENCES
    ],
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
        pytest.param(
            {"n_layer": 5, "d_model": 30, "n_head": 6},
            marks=pytest.mark.exhaustive,  # two layers are above
        ),
        {"n_layer": 7, "d_model": 10, "n_head": 2},
        *(
            pytest.param(
                {"n_layer": 1, "ff_activation": name}, marks=pytest.mark.exhaustive
            )
            for name in ("gelu_new", "gelu_pytorch_tanh", "relu", "silu", "tanh")
        ),
        {"clamp_len": 3},
        {"n_layer": 1, "clamp_len": 40, "layer_norm_eps": 0.1},
    ],
    ids=str,
)
def test_settings_equal_pytorch(settings):
    both = pair(configured("xlnet", **settings), TOKENS)
    batch = batch_for(both, padded="left")
    compare(compute_ours(both, batch), compute_theirs(both, batch), UNMOVED)


@pytest.mark.parametrize(
    "settings",
    [pytest.param({}, marks=pytest.mark.exhaustive), {"clamp_len": 4}],
    ids=str,
)
def test_looking_back_alone_equals_pytorch(settings):
    both = pair(configured("xlnet", attn_type="uni", **settings), TOKENS)
    # With a mask for more than one row PyTorch fails here.
    batch = batch_for(both, padded="none")
    wanted = compute_theirs(both, batch, masked=False)
    compare(compute_ours(both, batch), wanted, UNMOVED)


@pytest.mark.parametrize(
    "settings",
    [
        {"summary_type": "first", "summary_activation": ""},
        {"summary_type": "mean", "summary_use_proj": False},
        {"summary_activation": "relu"},
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
