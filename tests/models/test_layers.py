"""Layers of the encoders vs. formulas in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from scipy.stats import norm as normal

from dicejax.models import encoder, layers
from dicejax.models.dropout import DropoutKeys
from dicejax.models.layers import Dense, LayerNorm, add_and_norm, matmul


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
    kernel, bias = map(np.asarray, (dense.kernel[...], dense.bias[...]))
    expected = np.einsum("bti,io->bto", x, kernel) + bias
    np.testing.assert_allclose(dense(x), expected, rtol=1e-5, atol=1e-6)


def test_gpus_write_rounded_products_and_sum_the_bias_in_float32(monkeypatch):
    monkeypatch.setattr(layers, "platform", lambda: "gpu")
    rng = np.random.default_rng(0)
    dense = Dense(64, 3, dtype=jnp.bfloat16, scale=1.0, rngs=nnx.Rngs(0))
    x = jnp.asarray(rng.normal(size=(4096, 64)), jnp.bfloat16)
    dense.bias[...] = jnp.asarray([0.1, -2.0, 30.0])

    def call(x, kernel, bias):
        (out,) = layers.project(x, [kernel], jnp.bfloat16, [bias])
        return out

    weights = dense.kernel[...], dense.bias[...]
    out, pull = jax.vjp(call, x, *weights)
    exact = np.asarray(x, np.float64) @ np.asarray(
        weights[0].astype(jnp.bfloat16), float
    )
    exact += np.asarray(weights[1])
    assert out.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.asarray(out, float), exact, rtol=2**-7, atol=0.15)
    g = jnp.asarray(rng.random(out.shape), jnp.bfloat16)  # a sum of bfloat16 would stop
    *_, of_bias = pull(g)
    assert of_bias.dtype == jnp.float32
    np.testing.assert_allclose(of_bias, np.asarray(g, float).sum(0), rtol=1e-5)
    text = jax.jit(call).lower(x, *weights).as_text()
    assert "(tensor<4096x64xbf16>, tensor<64x3xbf16>) -> tensor<4096x3xbf16>" in text


def test_layer_norm_against_its_formula():
    x = np.random.default_rng(0).normal(3.0, 5.0, size=(4, 16))
    norm = LayerNorm(16, epsilon=1e-6, dtype=jnp.float32)
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    expected = (x - mean) / np.sqrt(variance + 1e-6)
    np.testing.assert_allclose(norm(jnp.asarray(x, jnp.float32)), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_gelu_and_its_gradient_against_their_formula(name):
    x = jnp.linspace(-9, 9, 1001).astype(name)
    value, pull = jax.vjp(encoder.ACTIVATIONS["gelu"], x)
    exact = np.asarray(x, float)
    rounding = float(jnp.finfo(x.dtype).eps)
    close = {"rtol": rounding, "atol": 2e-6}  # of 1 - erf in float32, times x
    np.testing.assert_allclose(
        np.asarray(value, float), exact * normal.cdf(exact), **close
    )
    slope = normal.cdf(exact) + exact * normal.pdf(exact)
    [gradient] = pull(jnp.full_like(x, 3))
    np.testing.assert_allclose(np.asarray(gradient, float), 3 * slope, **close)
    # The backward pass reads the input alone, in its type.
    assert [residual.dtype for residual in jax.tree.leaves(pull)] == [x.dtype]


def test_gpus_add_and_normalise_with_the_same_gradient(monkeypatch):
    rng = np.random.default_rng(0)
    x, update, g = (jnp.asarray(rng.normal(2, 3, (2, 8, 16))) for _ in range(3))
    keys = DropoutKeys.for_rows(jax.random.key(1), jnp.arange(2))
    graph, state = nnx.split(LayerNorm(16, epsilon=1e-6, dtype=jnp.float32))
    drawn = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(1, 1, leaf.shape)), state)

    def call(state, x, update):
        return add_and_norm(nnx.merge(graph, state), x, update, 0.3, keys)

    both = []
    for name in ("cpu", "gpu"):
        monkeypatch.setattr(layers, "platform", lambda name=name: name)
        value, pull = jax.vjp(lambda *inputs: call(*inputs), drawn, x, update)
        both.append(jax.tree.leaves((value, pull(g))))
    assert np.ptp(both[0][-1]) > 1  # of the update
    for on_cpu, on_gpu in zip(*both, strict=True):
        np.testing.assert_allclose(on_gpu, on_cpu, rtol=2e-5, atol=2e-5)
