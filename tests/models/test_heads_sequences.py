"""Summaries of sequences and their heads vs. NumPy and PyTorch."""

import jax.numpy as jnp
import numpy as np
import pytest

from dicejax.models.heads import AnswerabilityHead, SequenceHead
from dicejax.models.heads.sequences import summary_state

from .making import encoder, hidden_states, make, weights
from .small import encoder_of

pytestmark = pytest.mark.usefixtures("float64")

SEGMENTS = np.array([[0, 0, 1, 1, 1, 0], [1, 1, 2, 2, 2, 0], [1, 2, 3, 3, 0, 0]])
PLACES = np.array([[2, -1, -1], [1, 4, -1], [0, 1, 3]])
ROWS = {"segment_ids": jnp.array(SEGMENTS)}
PACKED = ROWS | {"summary_positions": jnp.array(PLACES)}


def xlnet(**settings):
    return encoder_of("xlnet", 8, 8, heads=2, depth=1, vocab=9, **settings)


@pytest.mark.parametrize(
    ("position", "places"), [("first", [2, 0, 0]), ("last", [4, 4, 3])]
)
def test_a_row_is_summed_up_by_its_first_or_last_real_token(position, places):
    hidden = hidden_states((3, 6, 8))
    got = summary_state(hidden, ROWS, position)
    np.testing.assert_array_equal(got, np.asarray(hidden)[range(3), places])


@pytest.mark.parametrize("position", ["first", "last"])
def test_packed_sequences_are_summed_up_where_the_batch_says(position):
    hidden = hidden_states((3, 6, 8))
    got = np.asarray(summary_state(hidden, PACKED, position))
    assert got.shape == (3, 3, 8)
    for row, column in np.argwhere(PLACES >= 0):
        expected = hidden[row, PLACES[row, column]]
        np.testing.assert_array_equal(got[row, column], expected)


def test_rows_and_packed_sequences_have_a_mean_of_their_real_tokens():
    hidden = hidden_states((3, 6, 8))
    h, pairs = np.asarray(hidden), zip(hidden, SEGMENTS, strict=True)
    expected = [np.asarray(row)[segments > 0].mean(0) for row, segments in pairs]
    got = summary_state(hidden, ROWS, "mean")
    np.testing.assert_allclose(got, expected, 0, 1e-14)
    got = np.asarray(summary_state(hidden, PACKED, "mean"))
    assert got.shape == (3, 3, 8)
    for row, column in np.argwhere(PLACES >= 0):
        expected = h[row, SEGMENTS[row] == column + 1].mean(0)
        np.testing.assert_allclose(got[row, column], expected, 0, 1e-14)
    assert (got[PLACES < 0] == 0).all()


@pytest.mark.parametrize("batch", ["rows", "packed"])
def test_a_mean_in_bfloat16_is_rounded_once(batch):
    hidden = 1 + hidden_states((1, 400, 8), dtype=jnp.bfloat16)
    segment_ids = jnp.ones((1, 400), jnp.int32)
    arrays = {"segment_ids": segment_ids}
    if batch == "packed":
        arrays["summary_positions"] = jnp.zeros((1, 1), jnp.int32)
    got = summary_state(hidden, arrays, "mean")
    assert got.dtype == jnp.bfloat16
    expected = np.asarray(hidden, np.float64).mean(1)
    np.testing.assert_allclose(
        np.asarray(got, np.float64).reshape(1, 8), expected, 2**-8
    )


@pytest.mark.parametrize("batch", [ROWS, PACKED], ids=["rows", "packed"])
@pytest.mark.parametrize(
    "config",
    [encoder(), xlnet(), xlnet(summary_type="mean")],
    ids=["first", "last", "mean"],
)
def test_classes_of_a_sequence_come_from_its_pooled_summary(config, batch):
    module = make(SequenceHead(classes=3), config, "float64")
    weight, hidden = weights(module), hidden_states((3, 6, 8))
    state = np.asarray(summary_state(hidden, batch, config.summary.position))
    dense, out = weight["summary"]["dense"], weight["dense"]
    pooled = np.tanh(state @ dense["kernel"] + dense["bias"])
    expected = pooled @ out["kernel"] + out["bias"]
    np.testing.assert_allclose(module(hidden, batch, None), expected, 0, 1e-12)


def test_a_summary_may_do_without_a_pooler():
    config = xlnet(summary_use_proj=False, summary_activation=None)
    module = make(SequenceHead(classes=3), config, "float64")
    weight, hidden = weights(module), hidden_states((3, 6, 8))
    assert set(weight) == {"dense"}
    last = np.asarray(hidden)[range(3), [4, 4, 3]]
    expected = last @ weight["dense"]["kernel"] + weight["dense"]["bias"]
    np.testing.assert_allclose(module(hidden, ROWS, None), expected, 0, 1e-12)


@pytest.mark.parametrize("batch", [ROWS, PACKED], ids=["rows", "packed"])
@pytest.mark.parametrize("activation", ["gelu", "relu", "tanh"])
def test_answerability_equals_the_published_mlp(torch, activation, batch):
    head = AnswerabilityHead(activation=activation)
    module = make(head, encoder(), "float64")
    weight, hidden = weights(module), hidden_states((3, 6, 8))

    def linear(layer, x):
        kernel, bias = torch.tensor(layer["kernel"]), torch.tensor(layer["bias"])
        return torch.nn.functional.linear(x, kernel.T, bias)

    state = torch.tensor(np.asarray(summary_state(hidden, batch, "first")))
    pooled = torch.tanh(linear(weight["summary"]["dense"], state))
    inside = getattr(torch.nn.functional, activation)(linear(weight["dense"], pooled))
    expected = linear(weight["out"], inside).squeeze(-1).numpy()
    got = module(hidden, batch, None)
    assert got.shape == ((3,) if batch is ROWS else (3, 3))
    np.testing.assert_allclose(got, expected, 0, 1e-12)
