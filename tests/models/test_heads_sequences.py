"""Summaries of sequences and their heads vs. NumPy and PyTorch."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax.models.heads import AnswerabilityHead, SequenceHead
from dicejax.models.heads.sequences import summary_state
from dicejax.models.xlnet import XLNetConfig

from .making import encoder, hidden_states, make, weights

SEGMENTS = np.array([[0, 0, 1, 1, 1, 0], [1, 1, 2, 2, 2, 0], [1, 2, 3, 3, 0, 0]])
PLACES = np.array([[2, -1, -1], [1, 4, -1], [0, 1, 3]])
ROWS = {"segment_ids": jnp.array(SEGMENTS)}
PACKED = ROWS | {"summary_positions": jnp.array(PLACES)}


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def xlnet(summary_type="last"):
    return XLNetConfig(
        vocab_size=9,
        d_model=8,
        n_layer=1,
        n_head=2,
        d_inner=8,
        summary_type=summary_type,
    )


@pytest.mark.parametrize(
    ("position", "places"), [("first", [2, 0, 0]), ("last", [4, 4, 3])]
)
def test_a_row_is_summed_up_by_its_first_or_last_real_token(position, places):
    hidden = hidden_states((3, 6, 8))
    found = summary_state(hidden, ROWS, position)
    np.testing.assert_array_equal(found, np.asarray(hidden)[range(3), places])


@pytest.mark.parametrize("position", ["first", "last"])
def test_packed_sequences_are_summed_up_where_the_batch_says(position):
    hidden = hidden_states((3, 6, 8))
    found = np.asarray(summary_state(hidden, PACKED, position))
    assert found.shape == (3, 3, 8)
    for row, column in np.argwhere(PLACES >= 0):
        wanted = hidden[row, PLACES[row, column]]
        np.testing.assert_array_equal(found[row, column], wanted)


def test_the_mean_of_a_row_is_that_of_its_real_tokens():
    hidden = hidden_states((3, 6, 8))
    found = summary_state(hidden, ROWS, "mean")
    wanted = [
        np.asarray(h)[s > 0].mean(0) for h, s in zip(hidden, SEGMENTS, strict=True)
    ]
    np.testing.assert_allclose(found, wanted, 0, 1e-14)


def test_packed_sequences_have_a_mean_each():
    hidden = hidden_states((3, 6, 8))
    found = np.asarray(summary_state(hidden, PACKED, "mean"))
    assert found.shape == (3, 3, 8)
    for row, column in np.argwhere(PLACES >= 0):
        own = np.asarray(hidden)[row, SEGMENTS[row] == column + 1]
        np.testing.assert_allclose(found[row, column], own.mean(0), 0, 1e-14)
    assert (found[PLACES < 0] == 0).all()


@pytest.mark.parametrize("batch", ["rows", "packed"])
def test_a_mean_in_bfloat16_is_rounded_once(batch):
    hidden = 1 + hidden_states((1, 400, 8), dtype=jnp.bfloat16)
    segment_ids = jnp.ones((1, 400), jnp.int32)
    arrays = {"segment_ids": segment_ids}
    if batch == "packed":
        arrays["summary_positions"] = jnp.zeros((1, 1), jnp.int32)
    found = summary_state(hidden, arrays, "mean")
    assert found.dtype == jnp.bfloat16
    wanted = np.asarray(hidden, np.float64).mean(1)
    np.testing.assert_allclose(
        np.asarray(found, np.float64).reshape(1, 8), wanted, 2**-8
    )


@pytest.mark.parametrize("batch", [ROWS, PACKED], ids=["rows", "packed"])
@pytest.mark.parametrize(
    "config", [encoder(), xlnet(), xlnet("mean")], ids=["first", "last", "mean"]
)
def test_classes_of_a_sequence_come_from_its_pooled_summary(config, batch):
    module = make(SequenceHead(classes=3), config, "float64")
    own, hidden = weights(module), hidden_states((3, 6, 8))
    state = np.asarray(summary_state(hidden, batch, config.summary.position))
    dense, out = own["summary"]["dense"], own["dense"]
    pooled = np.tanh(state @ dense["kernel"] + dense["bias"])
    wanted = pooled @ out["kernel"] + out["bias"]
    np.testing.assert_allclose(module(hidden, batch, None), wanted, 0, 1e-12)


def test_a_summary_may_do_without_a_pooler():
    config = dataclasses.replace(
        xlnet(), summary_use_proj=False, summary_activation=None
    )
    module = make(SequenceHead(classes=3), config, "float64")
    own, hidden = weights(module), hidden_states((3, 6, 8))
    assert set(own) == {"dense"}
    last = np.asarray(hidden)[range(3), [4, 4, 3]]
    wanted = last @ own["dense"]["kernel"] + own["dense"]["bias"]
    np.testing.assert_allclose(module(hidden, ROWS, None), wanted, 0, 1e-12)


@pytest.mark.parametrize("batch", [ROWS, PACKED], ids=["rows", "packed"])
@pytest.mark.parametrize("activation", ["gelu", "relu", "tanh"])
def test_answerability_equals_the_published_mlp(activation, batch):
    torch = pytest.importorskip("torch", reason="parity: pip install -e '.[parity]'")
    head = AnswerabilityHead(activation=activation)
    module = make(head, encoder(), "float64")
    own, hidden = weights(module), hidden_states((3, 6, 8))

    def linear(layer, x):
        kernel, bias = torch.tensor(layer["kernel"]), torch.tensor(layer["bias"])
        return torch.nn.functional.linear(x, kernel.T, bias)

    state = torch.tensor(np.asarray(summary_state(hidden, batch, "first")))
    pooled = torch.tanh(linear(own["summary"]["dense"], state))
    inside = getattr(torch.nn.functional, activation)(linear(own["dense"], pooled))
    wanted = linear(own["out"], inside).squeeze(-1).numpy()
    found = module(hidden, batch, None)
    assert found.shape == ((3,) if batch is ROWS else (3, 3))
    np.testing.assert_allclose(found, wanted, 0, 1e-12)
