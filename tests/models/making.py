"""Heads with drawn weights, and batches for them."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from dicejax.models.bert import BertConfig


def encoder(model_type="bert", width=8, dropout=0.0, **settings):
    """Return an encoder's settings for the heads."""
    return BertConfig(
        model_type=model_type,
        vocab_size=9,
        hidden_size=width,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        hidden_dropout_prob=dropout,
        **settings,
    )


def make(head, config, dtype=jnp.float32, seed=0):
    """Return the head's module with all weights drawn, biases and scales too."""
    module = head.module(
        head, config, dtype=jnp.dtype(dtype), rngs=nnx.Rngs(params=seed)
    )
    rng = np.random.default_rng(seed)

    def drawn(x):
        return jnp.asarray(rng.normal(scale=0.5, size=x.shape), x.dtype)

    nnx.update(module, jax.tree.map(drawn, nnx.state(module)))
    return module


def weights(module):
    """Return the module's weights, a nested dict of float64 NumPy arrays."""
    state = nnx.to_pure_dict(nnx.state(module))
    return jax.tree.map(lambda x: np.asarray(x, np.float64), state)


def hidden_states(shape, seed=1, dtype=None):
    """Draw hidden states from a normal distribution."""
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), dtype)
