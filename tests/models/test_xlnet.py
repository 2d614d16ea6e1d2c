"""XLNet: relative positions vs. their formula, and invalid settings."""

import dataclasses

import jax
import numpy as np
import pytest

from dicejax.models.xlnet import XLNetConfig

from .small import drawn, encode, network_of

SMALL = XLNetConfig(vocab_size=9, d_model=12, n_layer=1, n_head=2, d_inner=8)


def parameters(config):
    """Draw the parameters of an encoder alone."""
    return drawn(network_of(config))["encoder"]


def inputs(types, ids=None):
    types = np.asarray(types)[None]
    ones = np.ones_like(types)
    return {
        "input_ids": ones if ids is None else np.asarray(ids)[None],
        "segment_ids": ones,
        "position_ids": 0 * ones,
        "token_type_ids": types,
    }


def one_layer(params, config, x, types, visible):
    """Compute one layer in NumPy, token by token: `[T, D]`."""
    weight = jax.tree.map(lambda x: x[0].astype(np.float64), params["layers"])
    length, width = x.shape
    rates = 1 / 10_000 ** (np.arange(0, width, 2) / width)
    attended = np.zeros((length, width))
    for t in range(length):
        for n in range(config.n_head):
            query = x[t] @ weight["query"][:, n]
            scores = np.full(length, -np.inf)
            for s in range(length):
                if not visible(t, s):
                    continue
                distance = t - s
                if config.clamp_len > 0:
                    distance = np.clip(distance, -config.clamp_len, config.clamp_len)
                angles = distance * rates
                position = np.concatenate([np.sin(angles), np.cos(angles)])
                differ = int(types[t] != types[s])
                scores[s] = (
                    (query + weight["content_bias"][n]) @ (x[s] @ weight["key"][:, n])
                    + (query + weight["position_bias"][n])
                    @ (position @ weight["position_key"][:, n])
                    + (query + weight["segment_bias"][n])
                    @ weight["segment_key"][differ, n]
                ) / np.sqrt(width // config.n_head)
            share = np.exp(scores - scores.max())
            share /= share.sum()
            value = share @ (x @ weight["value"][:, n])
            attended[t] += weight["attention_output"][:, n] @ value

    def normalised(y, norm):
        y = y - y.mean(-1, keepdims=True)
        y = y / np.sqrt(y.var(-1, keepdims=True) + config.layer_norm_eps)
        return y * weight[norm]["scale"] + weight[norm]["bias"]

    def dense(y, name):
        return y @ weight[name]["kernel"] + weight[name]["bias"]

    x = normalised(x + attended, "attention_norm")
    inner = np.maximum(dense(x, "intermediate"), 0)
    return normalised(x + dense(inner, "output"), "output_norm")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"clamp_len": 2},
        {"attn_type": "uni"},
    ],
    ids=str,
)
def test_a_layer_is_that_of_the_paper(settings):
    config = dataclasses.replace(SMALL, ff_activation="relu", **settings)
    params = parameters(config)
    rng = np.random.default_rng(1)
    ids, types = rng.integers(0, 9, 5), np.array([0, 0, 1, 1, 0])

    def visible(t, s):
        return config.attn_type == "bi" or s <= t

    got, _ = encode(config, params, inputs(types, ids))
    x = params["embeddings"]["word"]["table"][ids]
    wanted = one_layer(params, config, x, types, visible)
    np.testing.assert_allclose(got[0], wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"same_length": True}, "same_length is True; supported: False"),
        ({"bi_data": True}, "bi_data is True; supported: False"),
        ({"d_head": 5}, "d_head is 5; supported: d_model / n_head = 6"),
        ({"d_model": 9, "n_head": 3}, "d_model 9 is not a multiple of 2"),
        ({"d_model": 14, "n_head": 4}, "d_model 14 is not a .* of n_head 4"),
        ({"untie_r": False}, "untie_r is False; supported: True"),
        ({"attn_type": "both"}, "attn_type is 'both'; supported: 'bi', 'uni'"),
        ({"summary_type": "attn"}, "summary_type is 'attn'; supported: 'first', 'l"),
        ({"summary_type": "cls_index"}, "summary_type is 'cls_index'; supported: "),
        ({"summary_activation": "gelu_9"}, "summary_activation is 'gelu_9'; support"),
        ({"ff_activation": "gelu_9"}, "ff_activation is 'gelu_9'; supported: 'gelu'"),
        ({"model_type": "bert"}, "model_type is 'bert'; supported: 'xlnet'"),
    ],
)
def test_what_is_not_followed_is_refused_by_name(settings, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(SMALL, **settings)


def test_there_is_one_rate_of_dropout():
    assert SMALL.with_dropout(None, None) == SMALL
    assert SMALL.with_dropout(0.3, None).dropout == 0.3
    assert SMALL.with_dropout(0.0, 0.0).dropout == 0.0
    with pytest.raises(ValueError, match="XLNet has one rate for both"):
        SMALL.with_dropout(0.3, 0.1)
