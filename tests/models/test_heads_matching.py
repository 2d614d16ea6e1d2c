"""Span matching vs. the explicit concatenation, and its memory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from scipy.special import erf

from dicejax.models.heads import IMPOSSIBLE, SpanMatchHead

from .making import encoder, hidden_states, make, weights

SEGMENTS = np.array([[1, 1, 1, 2, 2, 2, 0], [0, 0, 1, 1, 1, 1, 1]])
BATCH = {"segment_ids": jnp.array(SEGMENTS)}
ACTIVATIONS = {
    "gelu": lambda x: x * (1 + erf(x / np.sqrt(2))) / 2,
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
}
POSSIBLE = np.zeros((2, 7, 7), bool)
for row, i, j in np.ndindex(POSSIBLE.shape):
    inside = SEGMENTS[row, i] == SEGMENTS[row, j] > 0
    POSSIBLE[row, i, j] = inside and i <= j


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(
    ("activation", "width", "chunk"),
    [
        ("gelu", None, 1),
        ("gelu", 5, 3),
        ("gelu", 5, 7),
        ("gelu", 5, 100),
        ("relu", 5, 3),
        ("tanh", 5, 3),
    ],
)
def test_logits_equal_those_of_concatenated_pairs(activation, width, chunk):
    head = SpanMatchHead(activation=activation, width=width, chunk=chunk)
    module = make(head, encoder(), "float64")
    weight, hidden = weights(module), hidden_states((2, 7, 8))
    h = np.asarray(hidden)
    both = np.broadcast_arrays(h[:, :, None], h[:, None])
    pairs = np.concatenate(both, axis=-1)
    assert weight["dense"]["kernel"].shape == (16, width or 16)
    inside = pairs @ weight["dense"]["kernel"] + weight["dense"]["bias"]
    inside = ACTIVATIONS[activation](inside)
    expected = inside @ weight["out"]["kernel"][:, 0] + weight["out"]["bias"]
    got = np.asarray(module(hidden, BATCH, None))
    np.testing.assert_allclose(got[POSSIBLE], expected[POSSIBLE], 0, 1e-12)
    assert (got[~POSSIBLE] == IMPOSSIBLE).all()


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("chunk", [1, 3])
def test_gradients_equal_those_of_pytorch_on_concatenated_pairs(torch, chunk):
    module = make(SpanMatchHead(width=5, chunk=chunk), encoder(), "float64")
    hidden, cotangent = hidden_states((2, 7, 8)), hidden_states((2, 7, 7), seed=2)

    names = (("dense", "kernel"), ("dense", "bias"), ("out", "kernel"), ("out", "bias"))
    weight = weights(module)
    leaves = [torch.tensor(weight[a][b], requires_grad=True) for a, b in names]
    h = torch.tensor(np.asarray(hidden), requires_grad=True)
    pairs = torch.cat(
        [h[:, :, None].expand(-1, -1, 7, -1), h[:, None].expand(-1, 7, -1, -1)], dim=3
    )
    inside = torch.nn.functional.gelu(pairs @ leaves[0] + leaves[1])
    logits = (inside @ leaves[2] + leaves[3]).squeeze(-1)
    total = (logits * torch.tensor(np.asarray(cotangent)))[torch.tensor(POSSIBLE)].sum()
    total.backward()

    graph, params = nnx.split(module)
    params = jax.tree.map(lambda x: x.astype("float64"), params)

    def ours(params, hidden):
        return jnp.sum(nnx.merge(graph, params)(hidden, BATCH, None) * cotangent)

    of_params, of_hidden = jax.grad(ours, (0, 1))(params, hidden)
    np.testing.assert_allclose(of_hidden, h.grad.numpy(), 0, 1e-12)
    of_params = nnx.to_pure_dict(of_params)
    for (layer, part), leaf in zip(names, leaves, strict=True):
        np.testing.assert_allclose(of_params[layer][part], leaf.grad.numpy(), 0, 1e-12)


def naive(params, hidden, batch):
    """Compute the broadcast sum at once."""
    first, out = params["dense"], params["out"]
    starts, ends = (hidden @ kernel for kernel in jnp.split(first["kernel"], 2))
    pairs = jax.nn.gelu(
        starts[:, :, None] + ends[:, None] + first["bias"], approximate=False
    )
    return (pairs @ out["kernel"] + out["bias"])[..., 0]


@pytest.mark.parametrize("differentiate", [False, True], ids=["forward", "backward"])
def test_no_array_of_all_pairs_of_vectors_is_ever_held(differentiate):
    batch_size, tokens, width, inside = 2, 64, 8, 96
    pairs_of_vectors = batch_size * tokens**2 * inside * 4  # bytes
    module = make(SpanMatchHead(width=inside, chunk=2), encoder(width=width))
    graph, params = nnx.split(module)
    batch = {"segment_ids": jnp.ones((batch_size, tokens), jnp.int32)}
    hidden = hidden_states((batch_size, tokens, width), dtype="float32")

    def chunked(params, hidden, batch):
        return nnx.merge(graph, params)(hidden, batch, None)

    def peak(function, params):
        def total(params, hidden, batch):
            return jnp.sum(jnp.sin(function(params, hidden, batch)))

        if differentiate:
            total = jax.grad(total, (0, 1))
        compiled = jax.jit(total).lower(params, hidden, batch).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    # The measure sees such an array where there is one.
    assert peak(naive, nnx.to_pure_dict(params)) >= pairs_of_vectors
    assert peak(chunked, params) < pairs_of_vectors / 4
