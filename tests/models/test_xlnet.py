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
