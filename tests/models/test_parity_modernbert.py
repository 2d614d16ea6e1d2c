"""ModernBERT vs. PyTorch: hidden states, logits, gradients, of every setting."""

import dataclasses

import jax
import numpy as np
import pytest

# Before the import below, which would leave half a module behind without it.
pytest.importorskip("torch", reason="parity: pip install -e '.[parity]'")

from .peers import (
    batch_for,
    compare,
    compute_ours,
    compute_theirs,
    configured,
    logits_of,
    our_logits,
    pair,
    theirs,
    torch,
)

TOKENS, SEQUENCES = "TokenClassification", "SequenceClassification"
BIASED = {"attention_bias": True, "mlp_bias": True, "norm_bias": True}


@pytest.mark.parametrize(
    ("task", "padded"),
    # PyTorch takes a row's first column for the summary, so padding stands behind.
    [(TOKENS, "left"), ("QuestionAnswering", "right"), (SEQUENCES, "right")],
)
def test_heads_equal_pytorch(task, padded):
    depth = 4 if task == TOKENS else 1
    both = pair(configured("modernbert", num_hidden_layers=depth), task)
    # One row has no token; its states are finite and nothing else depends on them.
    lengths = (17, 9, 1, 5) if task == SEQUENCES else (17, 9, 0, 5)
    batch = batch_for(both, lengths, padded=padded)
    compare(compute_ours(both, batch), compute_theirs(both, batch))


@pytest.mark.parametrize(
    "settings",
    [
        # One layer, all written out, a loop; odd widths of heads' halves.
        {"num_hidden_layers": 1, "hidden_size": 14, "num_attention_heads": 1},
        {"num_hidden_layers": 7, "hidden_size": 12, "num_attention_heads": 2},
        {"num_hidden_layers": 2, "local_attention": 5, "norm_eps": 0.1},
        {"num_hidden_layers": 2, "classifier_bias": True, "hidden_activation": "silu"},
        {
            "num_hidden_layers": 2,
            "layer_types": ["sliding_attention", "full_attention"],
            "rope_parameters": {
                "full_attention": {"rope_type": "default", "rope_theta": 50.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 7.0},
            },
        },
    ],
    ids=str,
)
def test_settings_equal_pytorch(settings):
    both = pair(configured("modernbert", **settings), TOKENS)
    batch = batch_for(both)
    compare(compute_ours(both, batch), compute_theirs(both, batch))


def test_mean_pooling_equals_pytorch():
    config = configured("modernbert", num_hidden_layers=1, classifier_pooling="mean")
    both = pair(config, SEQUENCES)
    batch = batch_for(both, padded="left")
    compare(compute_ours(both, batch), compute_theirs(both, batch))


def test_biases_equal_pytorch():
    both = pair(configured("modernbert", num_hidden_layers=2, **BIASED), TOKENS)
    batch = batch_for(both)
    compare(compute_ours(both, batch), compute_theirs(both, batch))


@pytest.mark.parametrize(
    "padded", ["left", pytest.param("right", marks=pytest.mark.exhaustive)]
)
def test_rows_of_a_thousand_tokens_equal_pytorch(padded):
    """Windows are computed block by block here."""
    config = configured("modernbert", num_hidden_layers=2, max_position_embeddings=1024)
    both = pair(config, TOKENS)
    batch = batch_for(both, lengths=(1000, 333), padded=padded)
    compare(compute_ours(both, batch), compute_theirs(both, batch))


def test_float64_is_float64_but_for_the_angles():
    both = pair(configured("modernbert", num_hidden_layers=2), TOKENS)
    # In float64 PyTorch makes NaN of rows whose window holds no token.
    batch = batch_for(both, padded="none")
    with torch.no_grad():
        wanted = logits_of(both.model.double()(**theirs(both, batch))).numpy()
    network = dataclasses.replace(both.network, precision="float64")
    both = dataclasses.replace(both, network=network)
    with jax.enable_x64(True):
        got = np.asarray(our_logits(both, both.params, batch))
    assert got.dtype == np.float64
    real = batch["segment_ids"] > 0
    np.testing.assert_allclose(got[real], wanted[real], atol=1e-5, rtol=1e-5)
