"""BERT-like encoders: settings and their errors."""

import jax
import numpy as np
import pytest

from dicejax.models.bert import BertConfig

from .small import drawn, network_of, quickly


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"hidden_size": 10, "num_attention_heads": 4},
            "hidden_size 10 is not a multiple of num_attention_heads 4",
        ),
        ({"hidden_act": "gelu_9"}, "hidden_act is 'gelu_9'; supported: 'gelu', "),
        (
            {"position_embedding_type": "relative_key"},
            "position_embedding_type is 'relative_key'; supported: 'absolute'",
        ),
        ({"is_decoder": True}, "is_decoder is True; supported: False"),
        ({"model_type": "gpt2"}, "model_type is 'gpt2'; supported: 'bert', 'electra'"),
    ],
)
def test_what_is_not_followed_is_refused_by_name(settings, message):
    with pytest.raises(ValueError, match=message):
        BertConfig(vocab_size=9, **settings)


@pytest.mark.parametrize(
    ("model_type", "longest"),
    [("bert", 12), ("electra", 12), ("roberta", 10), ("xlm-roberta", 10)],
)
def test_the_longest_sequence_leaves_out_positions_that_no_token_takes(
    model_type, longest
):
    config = BertConfig(
        model_type=model_type,
        vocab_size=9,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=12,
        pad_token_id=1,
    )
    assert config.max_length == longest
    network = network_of(config)
    params = drawn(network)
    ones = np.ones((1, longest), np.int32)
    batch = {
        "input_ids": ones,
        "segment_ids": ones,
        "position_ids": np.arange(longest)[None],
        "token_type_ids": 0 * ones,
    }

    def total(table):
        params["encoder"]["embeddings"]["position"]["table"] = table
        return (network.apply(params, batch)["tags"] ** 3).sum()

    table = params["encoder"]["embeddings"]["position"]["table"]
    used = np.abs(quickly(jax.grad(total))(table)).max(-1) > 0
    assert used.tolist() == [False] * (12 - longest) + [True] * longest


def test_rates_of_dropout_are_changed_one_by_one():
    config = BertConfig(vocab_size=9)
    assert config.with_dropout(None, None) == config
    changed = config.with_dropout(0.3, None)
    assert changed.hidden_dropout_prob == changed.head_dropout == 0.3
    assert changed.attention_probs_dropout_prob == 0.1
    assert config.with_dropout(None, 0.0).attention_probs_dropout_prob == 0.0
