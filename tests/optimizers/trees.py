"""Small trees of parameters, and steps on them."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax

from dicejax.optimizers import AdamW, Optimizer

LAYERS = 3
STEADY = {"schedule": "constant", "warmup": 0.0}  # one rate from the first step on


@dataclasses.dataclass(frozen=True, kw_only=True)
class Signs(Optimizer):
    """Lion, as a user writes it.

    Args:
      b1: share of the momentum in the sign.
    """

    b1: float = 0.9

    def rule(self):
        return optax.scale_by_lion(self.b1, 0.99)


RULES = (AdamW, Signs)


def tree(seed=0):
    """Return a tree like a network's; layers differ in scale."""
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return rng.normal(size=shape)

    sizes = 10.0 ** -np.arange(LAYERS)
    stacked = {
        "query": {
            "kernel": draw(LAYERS, 4, 6) * sizes[:, None, None],
            "bias": draw(LAYERS, 6) * sizes[:, None],
        },
        "norm": {"scale": 1 + draw(LAYERS, 4) * sizes[:, None]},
    }
    embeddings = {"word": {"table": draw(7, 4)}, "norm": {"bias": draw(4)}}
    return {
        "encoder": {"embeddings": embeddings, "layers": stacked},
        "heads": {"tags": {"kernel": draw(4, 3), "bias": draw(3)}},
    }


def on_device(tree, dtype=jnp.float32):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), tree)


def run(optimizer, params, gradients):
    """Take a jitted step per gradient; return parameters, state and last `Update`."""
    step = jax.jit(optimizer.update, donate_argnums=(1, 2))
    params = jax.tree.map(jnp.array, params)
    state = optimizer.init(params)
    for number, gradient in enumerate(gradients):
        update = step(gradient, state, params, number, len(gradients))
        params, state = update.params, update.opt_state
    return update


def close(got, expected, **tolerance):
    jax.tree.map(
        lambda g, e: np.testing.assert_allclose(g, e, **tolerance), got, expected
    )


def same(got, expected):
    jax.tree.map(np.testing.assert_array_equal, got, expected)
