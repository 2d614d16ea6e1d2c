"""Heads with drawn weights, and batches for them."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from .small import encoder_of


def encoder(model_type="bert", width=8, dropout=0.0):
    """Return an encoder's settings for the heads."""
    settings = {"model_type": model_type, "hidden_dropout_prob": dropout}
    return encoder_of("bert", width, 8, heads=2, depth=1, vocab=9, **settings)


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
