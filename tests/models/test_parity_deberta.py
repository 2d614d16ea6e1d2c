"""DeBERTa vs. PyTorch: hidden states, logits, gradients, of every setting."""

import itertools

import numpy as np
import pytest

# Before the import below, which would leave half a module behind without it.
pytest.importorskip("torch", reason="parity: pip install -e '.[parity]'")

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
    transformers,
)

EXHAUSTIVE = pytest.mark.exhaustive
TOKENS, SEQUENCES = "TokenClassification", "SequenceClassification"


def check(settings, task=TOKENS, unmoved=(), **shape):
    both = pair(configured("deberta-v2", **settings), task)
    batch = batch_for(both, **shape)
    return compare(compute_ours(both, batch), compute_theirs(both, batch), unmoved)


@pytest.mark.parametrize(
    ("task", "padded"),
    [(task, "right") for task in HEADS]
    # PyTorch's summary is that of a row's first column, so padding must stand behind.
    + [
        pytest.param(task, "left", marks=[EXHAUSTIVE] * (task != TOKENS))
        for task in HEADS
        if task != SEQUENCES
    ],
)
def test_heads_equal_pytorch(task, padded):
    depth = 2 if task == TOKENS else 1
    check({"num_hidden_layers": depth}, task, padded=padded)


@pytest.mark.parametrize(
    "settings",
    [
        # One layer, all layers written out, a loop; widths of no power of two.
        {"num_hidden_layers": 1, "hidden_size": 21, "intermediate_size": 13},
        pytest.param(
            {"num_hidden_layers": 5, "hidden_size": 15, "num_attention_heads": 5},
            marks=EXHAUSTIVE,  # two layers are above
        ),
        {"num_hidden_layers": 7, "hidden_size": 14, "num_attention_heads": 2},
        {"num_hidden_layers": 1, "type_vocab_size": 3, "embedding_size": 14},
        *(
            pytest.param({"num_hidden_layers": 1, **one}, marks=EXHAUSTIVE)
            for one in (
                {"layer_norm_eps": 0.1, "hidden_act": "relu"},
                {"position_biased_input": True},
                {"norm_rel_ebd": "none"},
            )
        ),
    ],
    ids=str,
)
def test_settings_equal_pytorch(settings):
    check(settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"position_buckets": 8, "max_relative_positions": 12},
        {"position_buckets": -1, "max_relative_positions": 6},
        *(
            pytest.param(one, marks=EXHAUSTIVE)
            for one in (
                {"position_buckets": 7, "max_position_embeddings": 31},
                {"position_buckets": 32, "max_relative_positions": 64},
                {"position_buckets": -1},
            )
        ),
    ],
    ids=str,
)
def test_rows_beyond_the_buckets_equal_pytorch(settings):
    """Rows of 41 are beyond the 24 positions, the buckets, or the table itself."""
    check({"num_hidden_layers": 1, **settings}, lengths=(41, 23, 1, 12))


@pytest.mark.parametrize("shared", [pytest.param(True, marks=EXHAUSTIVE), False])
@pytest.mark.parametrize(
    ("terms", "unmoved"),
    # What adds the same to all scores of a query, a softmax does not see.
    [
        ("c2p", ("key_proj.bias", "encoder.LayerNorm.bias")),
        ("p2c", ()),
        ("p2c|c2p", ("pos_key_proj.bias",)),
    ],
)
def test_terms_of_a_score_equal_pytorch(terms, unmoved, shared):
    settings = {"pos_att_type": terms, "share_att_key": shared}
    check({"num_hidden_layers": 1, **settings}, unmoved=unmoved)


@EXHAUSTIVE
def test_scores_without_positions_equal_pytorch():
    settings = {"num_hidden_layers": 1, "pos_att_type": None, "norm_rel_ebd": "none"}
    check(settings, unmoved=("self.key_proj.bias", "rel_embeddings.weight"))


def test_settings_of_version_two_equal_pytorch():
    v2 = {
        "share_att_key": False,
        "position_biased_input": True,
        "norm_rel_ebd": "none",
        "position_buckets": -1,
        "type_vocab_size": 2,
        "num_hidden_layers": 1,
    }
    check(v2, SEQUENCES, unmoved=("pos_key_proj.bias",))


def test_rows_of_padding_alone_are_finite():
    both = pair(configured("deberta-v2", num_hidden_layers=1), TOKENS)
    batch = batch_for(both, lengths=(16, 0, 5))
    ours, wanted = compute_ours(both, batch), compute_theirs(both, batch)
    compare(ours, wanted)
    states = both.network.hidden_states(both.params, batch)
    assert np.isfinite(states).all()
    # Embeddings of padding are zero, as there.
    assert np.abs(states[0][batch["segment_ids"] == 0]).max() == 0


def test_every_distance_has_pytorchs_row():
    """Buckets begin at whole numbers, so the last bit of a logarithm decides."""
    theirs = transformers.models.deberta_v2.modeling_deberta_v2
    distances = np.arange(-3000, 3001)
    for buckets, most in itertools.product(
        [2, 3, 5, 8, 12, 31, 32, 64, 100, 256, 320, 512], [24, 33, 128, 512, 1024, 2048]
    ):
        if most - 1 <= buckets // 2:
            continue
        config = DebertaConfig(
            vocab_size=9, position_buckets=buckets, max_relative_positions=most
        )
        wanted = theirs.make_log_bucket_position(
            torch.tensor(distances), buckets, most
        ).to(torch.long)
        wanted = (wanted + buckets).clamp(0, 2 * buckets - 1)
        got = relative_rows(distances, config)
        np.testing.assert_array_equal(got, wanted.numpy(), f"{buckets}, {most}")
