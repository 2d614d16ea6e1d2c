"""Starts and ends, and a softmax over positions, vs. NumPy and PyTorch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax import losses
from dicejax.models.heads import IMPOSSIBLE, StartEndHead, per_segment

from .making import encoder, hidden_states, make, weights

pytestmark = pytest.mark.usefixtures("float64")

SEGMENTS = np.array([[1, 1, 1, 2, 2, 0], [0, 0, 1, 1, 1, 1]])
ROWS = {"segment_ids": jnp.array(SEGMENTS)}
PACKED = ROWS | {"summary_positions": jnp.array([[0, 3], [2, -1]])}


def in_torch(torch, x):
    return torch.tensor(np.asarray(x))


@pytest.mark.parametrize("classes", [1, 3])
def test_starts_of_all_kinds_come_before_ends(classes):
    module = make(StartEndHead(classes=classes), encoder(), "float64")
    part, hidden = weights(module)["dense"], hidden_states((2, 6, 8))
    both = np.asarray(hidden) @ part["kernel"] + part["bias"]
    got = module(hidden, ROWS, None)
    shape = (2, 6) if classes == 1 else (2, 6, 3)
    for output, expected in (
        ("start", both[..., :classes]),
        ("end", both[..., classes:]),
    ):
        assert got[output].shape == shape
        np.testing.assert_allclose(got[output], expected.reshape(shape), 0, 1e-12)


@pytest.mark.parametrize("classes", [1, 3])
def test_a_sigmoid_of_each_kind(torch, classes):
    module = make(StartEndHead(classes=classes), encoder(), "float64")
    logits = module(hidden_states((2, 6, 8)), ROWS, None)["end"]
    labels = np.random.default_rng(0).integers(0, 2, logits.shape)
    expected = torch.nn.functional.binary_cross_entropy_with_logits(
        in_torch(torch, logits), torch.tensor(labels, dtype=float), reduction="none"
    )
    settings = {"class_axis": None} if classes == 1 else {"multi_label": True}
    got = losses.cross_entropy(logits, jnp.array(labels), **settings)
    np.testing.assert_allclose(got, expected.numpy(), 0, 1e-12)


def test_a_softmax_over_classes(torch):
    module = make(StartEndHead(classes=3, form="softmax"), encoder(), "float64")
    logits = module(hidden_states((2, 6, 8)), ROWS, None)["start"]
    labels = np.random.default_rng(0).integers(0, 3, (2, 6))
    expected = torch.nn.functional.cross_entropy(
        in_torch(torch, logits).mT, torch.tensor(labels), reduction="none"
    )
    got = losses.cross_entropy(logits, jnp.array(labels))
    np.testing.assert_allclose(got, expected.numpy(), 0, 1e-12)


def test_a_softmax_over_the_positions_of_a_row(torch):
    module = make(StartEndHead(form="positions"), encoder(), "float64")
    hidden = hidden_states((2, 6, 8))
    logits = module(hidden, ROWS, None)["start"]
    plain = make(StartEndHead(), encoder(), "float64")(hidden, ROWS, None)["start"]
    assert (np.asarray(logits)[SEGMENTS == 0] == IMPOSSIBLE).all()
    expected = [
        torch.nn.functional.cross_entropy(in_torch(torch, part), torch.tensor(place))
        for part, place in ((plain[0, :5], 4), (plain[1, 2:], 1))
    ]
    got = losses.cross_entropy(logits, jnp.array([4, 3]))
    np.testing.assert_allclose(got, expected, 0, 1e-12)


def test_a_softmax_over_the_positions_of_each_segment(torch):
    module = make(StartEndHead(form="positions"), encoder(), "float64")
    hidden = hidden_states((2, 6, 8))
    labels = jnp.array([[2, 3], [5, -100]])
    plain = make(StartEndHead(), encoder(), "float64")(hidden, ROWS, None)["end"]
    ours = module(hidden, PACKED, None)["end"]
    assert ours.shape == (2, 2, 6)
    expected = [
        torch.nn.functional.cross_entropy(in_torch(torch, part), torch.tensor(place))
        for part, place in ((plain[0, :3], 2), (plain[0, 3:5], 0), (plain[1, 2:], 3))
    ]
    got = losses.cross_entropy(ours, labels)
    np.testing.assert_allclose(got, np.reshape([*expected, 0], (2, 2)), 0, 1e-12)


@pytest.mark.parametrize("batch", [ROWS, PACKED], ids=["rows", "packed"])
def test_gradients_of_a_softmax_over_positions_stay_among_its_tokens(batch):
    module = make(StartEndHead(form="positions"), encoder())
    labels = jnp.array([2, 3] if batch is ROWS else [[2, -100], [3, -100]])

    def loss(hidden):
        return losses.cross_entropy(module(hidden, batch, None)["start"], labels).sum()

    moved = np.abs(jax.grad(loss)(hidden_states((2, 6, 8), dtype="float32"))).sum(-1)
    seen = SEGMENTS > 0 if batch is ROWS else SEGMENTS == 1
    assert np.isfinite(moved).all()
    assert ((moved > 0) == seen).all()


def test_logits_are_spread_out_over_their_segments():
    logits = hidden_states((2, 6))
    got = np.asarray(per_segment(logits, jnp.array(SEGMENTS), 3))
    assert got.shape == (2, 3, 6)
    for row, segment, token in np.ndindex(got.shape):
        part = SEGMENTS[row, token] == segment + 1
        expected = float(logits[row, token]) if part else IMPOSSIBLE
        assert got[row, segment, token] == expected
