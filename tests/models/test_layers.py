"""Layers of the encoders vs. formulas in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from dicejax.models.dropout import dropout
from dicejax.models.layers import Dense, LayerNorm, matmul


def test_matmul_gradients_are_those_of_the_plain_product():
    rng = np.random.default_rng(0)
    x, w, g = (rng.normal(size=s).astype(np.float32) for s in ((5, 7), (7, 3), (5, 3)))
    value, pull = jax.vjp(matmul, jnp.asarray(x), jnp.asarray(w))
    dx, dw = pull(jnp.asarray(g))
    np.testing.assert_allclose(value, x @ w, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dx, g @ w.T, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dw, x.T @ g, rtol=1e-5, atol=1e-6)


def test_bfloat16_matmul_accumulates_in_float32():
    x = jnp.full((1, 4096), 1.0, jnp.bfloat16)
    w = jnp.full((4096, 1), 1.0, jnp.bfloat16)
    product = matmul(x, w)
    assert product.dtype == jnp.float32
    assert float(product[0, 0]) == 4096.0  # bfloat16 sums stop at 256


def test_dense_keeps_leading_axes():
    dense = Dense(4, 3, dtype=jnp.float32, scale=1.0, rngs=nnx.Rngs(0))
    x = jax.random.normal(jax.random.key(1), (2, 5, 4))
    wanted = np.einsum("bti,io->bto", x, dense.kernel[...]) + np.asarray(
        dense.bias[...]
    )
    np.testing.assert_allclose(dense(x), wanted, rtol=1e-5, atol=1e-6)


def test_layer_norm_against_its_formula():
    x = np.random.default_rng(0).normal(3.0, 5.0, size=(4, 16))
    norm = LayerNorm(16, epsilon=1e-6, dtype=jnp.float32)
    wanted = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(norm(jnp.asarray(x, jnp.float32)), wanted, atol=1e-5)


@pytest.mark.parametrize("shape", [(1000, 100), (1000, 101)])
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_dropout_drops_its_rate_and_keeps_the_mean(shape, rate):
    out = np.asarray(dropout(jnp.ones(shape), rate, jax.random.key(3)))
    share = (out == 0).mean()
    spread = np.sqrt(rate * (1 - rate) / out.size)
    assert abs(share - rate) < 5 * spread
    np.testing.assert_allclose(out[out != 0], 1 / (1 - rate), rtol=1e-4)


def test_dropout_decisions_are_independent_between_the_halves_of_a_word():
    out = np.asarray(dropout(jnp.ones((4000, 2)), 0.5, jax.random.key(0))) != 0
    together = (out[:, 0] & out[:, 1]).mean()
    assert abs(together - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 4000)


def test_dropout_without_a_key_is_the_identity():
    x = jnp.arange(6.0)
    assert dropout(x, 0.5, None) is x
