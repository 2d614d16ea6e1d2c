"""Layers of all encoders: dense and layer normalisation.

Parameters are float32; `dtype` is the type of matrix products and activations. Layer
normalisation is always computed in float32.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array, lax
from jax.ad_checkpoint import checkpoint_name

from dicejax.mesh import automatic_axes, platform
from dicejax.models.dropout import DRAW, DropoutKeys, dropout

PRODUCT = "product"
"""The name by which `jax.checkpoint` knows products of hidden states and weights."""


def wide(dtype: jnp.dtype) -> jnp.dtype:
    """Return `dtype`, widened to at least float32."""
    return jnp.promote_types(dtype, jnp.float32)


class Kernel(nnx.Param[Array]):
    """A float32 matrix that is used in its module's `dtype` alone.

    Many layers' kernels are cast together, in front of the loop over layers. Cast in
    it, each would be stored a second time for the backward pass, and the gradients,
    which have that type, would be stored in float32.
    """


class Dense(nnx.Module):
    """`x @ kernel + bias` over the last axis, accumulated in float32.

    `dtype` is the type of the operands and of the result, `scale` the standard
    deviation of the initial kernel, which is drawn from `rngs`.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        dtype: jnp.dtype,
        scale: float,
        rngs: nnx.Rngs,
        bias: bool = True,
    ):
        draw = nnx.initializers.normal(scale, jnp.float32)
        self.kernel = Kernel(draw(rngs.params(), (in_features, out_features)))
        zeros = jnp.zeros((out_features,), jnp.float32)
        self.bias = nnx.Param(zeros) if bias else None
        self.dtype = dtype

    def added(self) -> Array | float:
        """Return the bias, 0 without one."""
        return 0.0 if self.bias is None else self.bias[...]

    def __call__(self, x: Array) -> Array:
        """Map `[..., in]` to `[..., out]`."""
        return apply_dense(x, self)[0]


def apply_dense(x: Array, *layers: Dense) -> list[Array]:
    """Apply dense layers of one type to the same `[..., in]`."""
    biases = [None if layer.bias is None else layer.bias[...] for layer in layers]
    kernels = [layer.kernel[...] for layer in layers]
    return project(x, kernels, layers[0].dtype, biases)


def project(
    x: Array,
    kernels: Sequence[Array],
    dtype: jnp.dtype,
    biases: Sequence[Array | None] | None = None,
) -> list[Array]:
    """Compute `x @ kernel + bias` in a type for each kernel, accumulated in float32.

    `x` is `[..., D]`; a kernel's axes behind its first, D, are its bias's and the last
    ones of the result. Where a mesh splits the kernels over `tensor`, the gradients of
    `x` are added up before devices exchange them.
    """
    biases = [None] * len(kernels) if biases is None else biases
    width = x.shape[-1]
    rows = x.reshape(-1, width).astype(dtype)
    narrow = tuple(kernel.astype(dtype) for kernel in kernels)
    # Then products are sums over devices.
    is_split = automatic_axes().get("tensor", 1) > 1
    # A GPU adds the bias before it rounds if both are of one type. In float32 it would
    # write each product, and read it again to add and round.
    on_gpu = platform() == "gpu"
    outputs = []
    for kernel, bias, product in zip(
        kernels, biases, _products(rows, narrow, is_split or on_gpu), strict=True
    ):
        if bias is not None:
            bias = bias.reshape(-1)
            product = _add_rounded(product, bias) if on_gpu else product + bias
        product = checkpoint_name(product.astype(dtype), PRODUCT)
        outputs.append(product.reshape(*x.shape[:-1], *kernel.shape[1:]))
    return outputs


@jax.custom_vjp
def _add_rounded(product: Array, bias: Array) -> Array:
    """Add a bias in the type of the product, with a gradient summed in float32."""
    return product + bias.astype(product.dtype)


_add_rounded.defvjp(
    lambda product, bias: (_add_rounded(product, bias), None),
    lambda _, g: (g, g.sum(0, dtype=wide(g.dtype))),
)


def matmul(x: Array, w: Array) -> Array:
    """Multiply `[..., M, K]` by `[..., K, N]` into float32, or float64 if they are."""
    products: tuple[Array, ...] = _products(x, (w,), False)
    return products[0]


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _products(x: Array, ws: tuple[Array, ...], narrow: bool) -> tuple[Array, ...]:
    """Multiply `x` `[..., M, K]` by each of the matrices `[..., K, N]`.

    N may be several axes, which the products have as one. With `narrow` products, and
    gradients of `x`, are in the type of the operands: half the bytes are written, or
    sent where devices add them up. The default gradient would multiply a float32
    cotangent by a bfloat16 operand, which processors without mixed products do in
    float32; here the cotangent is rounded to the operands' type first.
    """
    return tuple(dot(x, _flatten(x, w), (-1, -2), narrow) for w in ws)


def _flatten(x: Array, w: Array) -> Array:
    return w.reshape(*x.shape[:-2], x.shape[-1], -1)


def _products_fwd(
    x: Array, ws: tuple[Array, ...], narrow: bool
) -> tuple[tuple[Array, ...], tuple[Array, tuple[Array, ...]]]:
    # XLA takes stacks of equal shapes for one and copies it, here the rows of all
    # layers and gradients of kernels, if there are as many rows as the kernels have.
    return _products(x, ws, narrow), (x[None], ws)


def _products_bwd(
    narrow: bool, residuals: tuple[Array, tuple[Array, ...]], gs: tuple[Array, ...]
) -> tuple[Array, tuple[Array, ...]]:
    x, ws = residuals
    x = x[0]
    gs = tuple(g.astype(x.dtype) for g in gs)
    pairs = list(zip(gs, ws, strict=True))
    of_x = (dot(g, _flatten(x, w), (-1, -1), narrow).astype(x.dtype) for g, w in pairs)
    transposed_dot = functools.partial(dot, contract=(-2, -2))
    if x.dtype == jnp.bfloat16:
        # On CPUs bfloat16 columns multiply at half the speed of rows.
        transposed_dot = functools.partial(
            lax.platform_dependent, cpu=_dot_of_columns, default=transposed_dot
        )
    of_ws = (transposed_dot(x, g).astype(w.dtype).reshape(w.shape) for g, w in pairs)
    return functools.reduce(jnp.add, of_x), tuple(of_ws)


_products.defvjp(_products_fwd, _products_bwd)


def dot(a: Array, b: Array, contract: tuple[int, int], narrow: bool = False) -> Array:
    """Sum over one of the last two axes of each; in at least float32, or `narrow`."""
    batch = tuple(range(a.ndim - 2))
    dims = (((a.ndim + contract[0],), (b.ndim + contract[1],)), (batch, batch))
    out_type = a.dtype if narrow else wide(a.dtype)
    return lax.dot_general(a, b, dims, preferred_element_type=out_type)


def dot_of_columns(a: Array, b: Array) -> Array:
    """Compute `a^T b` with `a^T` written out."""
    return dot(written(a.swapaxes(-1, -2)), b, (-1, -2))


def _dot_of_columns(a: Array, b: Array) -> Array:
    """Compute `a^T b` with the narrower one's columns written out."""
    if a.shape[-1] <= b.shape[-1]:
        return dot_of_columns(a, b)
    return written(dot_of_columns(b, a)).swapaxes(-1, -2)


def written(x: Array) -> Array:
    """Have an array laid out by rows: XLA would read a transposed one where it is."""
    return lax.optimization_barrier(x.reshape(*x.shape[:-2], -1)).reshape(x.shape)


class LayerNorm(nnx.Module):
    """Layer normalisation over the last axis, computed in at least float32.

    Without `bias` and `centred`, by the mean square alone, it is RMSNorm,
    https://arxiv.org/abs/1910.07467.
    """

    def __init__(
        self,
        features: int,
        *,
        epsilon: float,
        dtype: jnp.dtype,
        bias: bool = True,
        centred: bool = True,
    ):
        self.scale = nnx.Param(jnp.ones((features,), jnp.float32))
        zeros = jnp.zeros((features,), jnp.float32)
        self.bias = nnx.Param(zeros) if bias else None
        self.epsilon = epsilon
        self.dtype = dtype
        self.centred = centred

    def __call__(self, x: Array) -> Array:
        """Normalise `[..., D]`."""
        x = x.astype(wide(x.dtype))
        x = x - x.mean(-1, keepdims=True) if self.centred else x
        variance = jnp.square(x).mean(-1, keepdims=True)
        out = x * lax.rsqrt(variance + self.epsilon) * self.scale[...]
        out = out if self.bias is None else out + self.bias[...]
        return out.astype(self.dtype)


def recompute(function: Callable[..., Array]) -> Callable[..., Array]:
    """Recompute a function in the backward pass: its inputs and draws alone are stored.

    For chains of pointwise operations, which take a device less time than to store and
    read their results. Drawing again would take more: a draw is stored in one byte.
    """
    stored = jax.checkpoint_policies.save_only_these_names(DRAW)
    return jax.checkpoint(function, prevent_cse=False, policy=stored)


def add_and_norm(
    norm: LayerNorm, x: Array, update: Array, rate: float, rng: DropoutKeys | None
) -> Array:
    """Drop out an update of the hidden states, add it and normalise the sum."""
    if platform() == "gpu" and norm.centred and norm.bias is not None:
        added = x + dropout(update, rate, rng)
        parameters = norm.scale[...], norm.bias[...]
        return jnp.asarray(_normalise(added, *parameters, norm.epsilon), norm.dtype)

    def add(x: Array, update: Array) -> Array:
        return norm(x + dropout(update, rate, rng))

    return recompute(add)(x, update)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def _normalise(x: Array, scale: Array, bias: Array, epsilon: float) -> Array:
    """Normalise `[..., D]` as `LayerNorm` does, with a gradient by formula.

    Barriers keep a GPU from storing what both passes compute, in float32, and let it
    read the rows once to normalise them: it writes a sum to memory first in any case.
    """
    x = lax.optimization_barrier(x)
    mean, inverse = _moments(x, epsilon)
    return ((x - mean) * inverse * scale + bias).astype(x.dtype)


def _moments(x: Array, epsilon: float) -> tuple[Array, Array]:
    """Return the mean of each row, and one over its standard deviation."""
    x = x.astype(wide(x.dtype))
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return mean, lax.rsqrt(variance + epsilon)


def _normalise_bwd(
    epsilon: float, residuals: tuple[Array, Array], g: Array
) -> tuple[Array, Array, Array]:
    x, scale, g = lax.optimization_barrier((*residuals, g))
    mean, inverse = lax.optimization_barrier(_moments(x, epsilon))
    normed, g = (x - mean) * inverse, g.astype(mean.dtype)
    scaled, rows = g * scale, tuple(range(g.ndim - 1))
    share = normed * (scaled * normed).mean(-1, keepdims=True)
    of_x = inverse * (scaled - scaled.mean(-1, keepdims=True) - share)
    return of_x.astype(x.dtype), (g * normed).sum(rows), g.sum(rows)


_normalise.defvjp(
    lambda x, scale, bias, epsilon: (_normalise(x, scale, bias, epsilon), (x, scale)),
    _normalise_bwd,
)
