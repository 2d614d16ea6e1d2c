"""Properties of all heads: types, shapes, dropout, packed rows, names."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from dicejax.models.dropout import DropoutKeys
from dicejax.models.heads import (
    IMPOSSIBLE,
    AnswerabilityHead,
    AnswerHead,
    SequenceHead,
    SpanMatchHead,
    StartEndHead,
    TokenHead,
    TwoPointerHead,
    output_names,
)
from dicejax.models.network import Network

from .making import encoder, hidden_states, make

# A head, and for each of its outputs what it is of: "token" [B, T, ...], "sequence"
# [B, ...], "positions" of a sequence [B, T], or "pairs" [B, T, T].
ENDS = {"start": "token", "end": "token"}
PLACED = {"start": "positions", "end": "positions"}
PREDICTED = {"teacher": "predicted"}
HEADS = {
    "token": (TokenHead(classes=3), {"it": "token"}),
    "sequence": (SequenceHead(classes=3), {"it": "sequence"}),
    "answerability": (AnswerabilityHead(), {"it": "sequence"}),
    "sigmoid": (StartEndHead(), ENDS),
    "sigmoids": (StartEndHead(classes=3), ENDS),
    "softmax": (StartEndHead(classes=3, form="softmax"), ENDS),
    "positions": (StartEndHead(form="positions"), PLACED),
    "two pointers": (TwoPointerHead(classes=3, **PREDICTED), ENDS),
    "two sigmoids": (TwoPointerHead(classes=1, form="sigmoid", **PREDICTED), ENDS),
    "answer": (AnswerHead(**PREDICTED), PLACED | {"impossible": "sequence"}),
    "match": (SpanMatchHead(width=6, chunk=2), {"it": "pairs"}),
}
each_head = pytest.mark.parametrize("name", HEADS)

# Two sentences in the first row, one behind padding in the second, none in the third.
SEGMENTS = np.array(
    [[1, 1, 1, 2, 2, 0, 0], [0, 0, 1, 1, 1, 1, 1], [0] * 7], dtype=np.int32
)
PLACES = np.array([[0, 3], [2, -1], [-1, -1]], dtype=np.int32)
PACKED = {"segment_ids": jnp.array(SEGMENTS), "summary_positions": jnp.array(PLACES)}
ROWS = {"segment_ids": jnp.array(SEGMENTS)}


def outputs(module, hidden, batch, rng=None):
    got = module(hidden, batch, rng)
    return got if isinstance(got, dict) else {"it": got}


@each_head
@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_logits_are_at_least_float32(name, dtype):
    head, kinds = HEADS[name]

    def traced():
        module = make(head, encoder(), dtype)
        return outputs(module, hidden_states((3, 7, 8), dtype=dtype), PACKED)

    with jax.enable_x64(dtype == "float64"):
        got = jax.eval_shape(traced)
        assert set(got) == set(kinds) == set(head.outputs("it"))
        expected = jnp.float64 if dtype == "float64" else jnp.float32
        assert {x.dtype for x in got.values()} == {jnp.dtype(expected)}


@each_head
def test_packed_sentences_get_the_logits_that_they_get_alone(name):
    head, kinds = HEADS[name]
    with jax.enable_x64(True):
        module = make(head, encoder(), "float64")
        hidden = hidden_states((3, 7, 8))
        segments = {
            (row, segment): np.flatnonzero(SEGMENTS[row] == segment)
            for row, segment in ((0, 1), (0, 2), (1, 1))
        }

        @jax.jit
        def packed_and_alone(hidden):
            each = [
                outputs(
                    module,
                    hidden[row : row + 1, places],
                    {"segment_ids": jnp.ones((1, len(places)), jnp.int32)},
                )
                for (row, _), places in segments.items()
            ]
            return outputs(module, hidden, PACKED), each

        packed, each = packed_and_alone(hidden)
        for ((row, segment), places), alone in zip(segments.items(), each, strict=True):
            for output, kind in kinds.items():
                got = np.asarray(packed[output][row])
                if kind in ("positions", "sequence"):
                    got = got[segment - 1]
                if kind == "positions":
                    assert (np.delete(got, places) == IMPOSSIBLE).all()
                if kind == "pairs":
                    got = got[places]
                    assert (np.delete(got, places, axis=1) == IMPOSSIBLE).all()
                    got = got[:, places]
                elif kind != "sequence":
                    got = got[places]
                np.testing.assert_allclose(got, alone[output][0], 0, 1e-12)


@each_head
@pytest.mark.parametrize("batch", [ROWS, PACKED], ids=["rows", "packed"])
def test_what_stands_at_padding_changes_nothing(name, batch):
    head, kinds = HEADS[name]
    module = make(head, encoder())
    hidden = hidden_states((3, 7, 8))
    other = jnp.where(SEGMENTS[..., None] > 0, hidden, 100 * hidden + 7)
    got, again = (outputs(module, h, batch) for h in (hidden, other))
    for output, kind in kinds.items():
        real = np.ones(got[output].shape[:2], bool)
        if kind == "token":
            real = SEGMENTS > 0
        elif batch is PACKED and kind in ("sequence", "positions"):
            real = PLACES >= 0
        else:
            real[2] = False  # an empty row
        real, first, second = map(np.asarray, (real, got[output], again[output]))
        np.testing.assert_array_equal(first[real], second[real])


@each_head
def test_dropout_needs_a_key(name):
    head, kinds = HEADS[name]
    hidden = hidden_states((3, 7, 8))
    key = DropoutKeys.of(jax.random.key(0), jnp.arange(3))
    # RoBERTa drops out in front of and behind its summary.
    module = make(head, encoder("roberta", dropout=0.5))
    without = make(head, encoder("roberta", dropout=0.0))
    still = outputs(module, hidden, ROWS)
    for output in kinds:
        plain = outputs(without, hidden, ROWS, key)[output]
        np.testing.assert_array_equal(still[output], plain)
        dropped = outputs(module, hidden, ROWS, key)[output]
        assert not np.allclose(still[output], dropped)
        again = outputs(module, hidden, ROWS, key)[output]
        np.testing.assert_array_equal(dropped, again)


@each_head
def test_gradients_are_finite(name):
    head, _ = HEADS[name]
    graph, params = nnx.split(make(head, encoder()))
    hidden = hidden_states((3, 7, 8))

    @jax.jit
    @functools.partial(jax.grad, argnums=(0, 1))
    def gradients(params, hidden):
        got = outputs(nnx.merge(graph, params), hidden, PACKED)
        return sum(jnp.sum(jnp.sin(x)) for x in got.values())

    for scale in (0.0, 1.0, 1e4):
        for gradient in jax.tree.leaves(gradients(params, scale * hidden)):
            assert np.isfinite(gradient).all()


def network_of(*heads, **settings):
    return Network(encoder=encoder(), heads=heads, **settings)


def test_a_network_returns_the_logits_of_all_heads():
    heads = (
        ("tags", TokenHead(classes=3)),
        ("span", StartEndHead()),
        ("match", SpanMatchHead(width=6)),
        ("answerable", AnswerabilityHead()),
    )
    network = network_of(*heads, precision="bfloat16")
    batch = {
        name: jnp.array(SEGMENTS) for name in ("input_ids", "position_ids")
    } | PACKED
    batch["token_type_ids"] = jnp.zeros_like(batch["input_ids"])
    params = network.init(jax.random.key(0))
    got = jax.jit(network.apply)(params, batch, jax.random.key(1))
    assert set(got) == set(output_names(heads))
    assert {name: x.shape for name, x in got.items()} == {
        "tags": (3, 7, 3),
        "start": (3, 7),
        "end": (3, 7),
        "match": (3, 7, 7),
        "answerable": (3, 2),
    }
    assert {x.dtype for x in got.values()} == {jnp.dtype(jnp.float32)}


def test_two_logits_of_one_name_are_refused():
    heads = [("a", StartEndHead()), ("end", TokenHead(classes=2)), ("b", AnswerHead())]
    with pytest.raises(ValueError) as caught:
        output_names(heads)
    assert str(caught.value) == (
        "several heads give logits named 'start' (of 'a', 'b'); "
        "'end' (of 'a', 'end', 'b')"
    )


@pytest.mark.parametrize(
    ("make_head", "message"),
    [
        (lambda: StartEndHead(classes=0), "classes is 0; want at least 1"),
        (lambda: StartEndHead(form="softmax"), "classes is 1; want at least 2"),
        (lambda: StartEndHead(classes=2, form="positions"), "classes is 2; want 1"),
        (lambda: StartEndHead(form="crf"), "form is 'crf'; supported: 'sigmoid'"),
        (lambda: TwoPointerHead(classes=1), "classes is 1; want at least 2"),
        (lambda: TwoPointerHead(classes=2, form="positions"), "form is 'positions'"),
        (lambda: TwoPointerHead(classes=2, teacher="soft"), "teacher is 'soft'"),
        (lambda: AnswerHead(teacher="soft"), "teacher is 'soft'"),
        (lambda: AnswerabilityHead(activation="selu"), "activation is 'selu'"),
        (lambda: SpanMatchHead(activation="selu"), "activation is 'selu'"),
        (lambda: SpanMatchHead(width=0), "width is 0; want at least 1"),
        (lambda: SpanMatchHead(chunk=0), "chunk is 0; want at least 1"),
    ],
)
def test_settings_that_mean_nothing_are_refused(make_head, message):
    with pytest.raises(ValueError, match=message):
        make_head()
