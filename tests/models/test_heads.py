"""Heads: their formulas, types, shapes, dropout, packed rows, gradients, memory."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from scipy.special import erf

from dicejax.models.dropout import DropoutKeys
from dicejax.models.encoder import SequenceSummary
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
from dicejax.models.heads.sequences import summary_state
from dicejax.models.network import Network

from .small import encoder, encoder_of, hidden_states, make, weights

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
    "last": (SequenceHead(classes=3), {"it": "sequence"}),
    "mean": (SequenceHead(classes=3), {"it": "sequence"}),
    "mean of each": (SequenceHead(classes=3), {"it": "sequence"}),
    "pooled mean": (SequenceHead(classes=3), {"it": "sequence"}),
    "pooled max": (SequenceHead(classes=3), {"it": "sequence"}),
    "pooled last": (SequenceHead(classes=3), {"it": "sequence"}),
    "pooled first": (SequenceHead(classes=3), {"it": "sequence"}),
}
each_head = pytest.mark.parametrize("name", HEADS)


def xlnet(**settings):
    return encoder_of("xlnet", 8, 8, heads=2, depth=1, vocab=9, **settings)


CONFIGS = {
    "last": xlnet(),
    "mean": xlnet(summary_type="mean"),
    "mean of each": encoder_of("eurobert", 8, 8, heads=2, depth=1, vocab=9),
    "pooled mean": dataclasses.replace(encoder(), pooling="mean"),
    "pooled max": dataclasses.replace(encoder(), pooling="max"),
    "pooled last": dataclasses.replace(encoder(), pooling="last"),
    "pooled first": xlnet(pooling="first"),
}

# Two sentences in the first row, one behind padding in the second, none in the third.
SEGMENTS = np.array(
    [[1, 1, 1, 2, 2, 0, 0], [0, 0, 1, 1, 1, 1, 1], [0] * 7], dtype=np.int32
)
PLACES = np.array([[0, 3], [2, -1], [-1, -1]], dtype=np.int32)
ROWS = {"segment_ids": jnp.array(SEGMENTS)}
PACKED = ROWS | {"summary_positions": jnp.array(PLACES)}


def packed_for(name):
    """Return the batch, with the places of the tokens that sum up sequences."""
    ends = {"summary_positions": jnp.array([[2, 4], [6, -1], [-1, -1]])}
    return PACKED | (ends if name == "last" else {})


def built(name, dtype="float32"):
    """Return the module of a head, on an encoder with the summary that it tests."""
    return make(HEADS[name][0], CONFIGS.get(name, encoder()), dtype)


def outputs(module, hidden, batch, rng=None):
    got = module(hidden, batch, rng)
    return got if isinstance(got, dict) else {"it": got}


@each_head
@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_logits_are_at_least_float32(name, dtype):
    head, kinds = HEADS[name]

    def traced():
        hidden = hidden_states((3, 7, 8), dtype=dtype)
        return outputs(built(name, dtype), hidden, PACKED)

    with jax.enable_x64(dtype == "float64"):
        got = jax.eval_shape(traced)
        assert set(got) == set(kinds) == set(head.names or ["it"])
        expected = jnp.float64 if dtype == "float64" else jnp.float32
        assert {x.dtype for x in got.values()} == {jnp.dtype(expected)}


@each_head
def test_packed_sentences_get_the_logits_that_they_get_alone(name):
    kinds = HEADS[name][1]
    with jax.enable_x64(True):
        module = built(name, "float64")
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
            return outputs(module, hidden, packed_for(name)), each

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
def test_states_of_padding_change_nothing(name, batch):
    kinds, module = HEADS[name][1], built(name)
    hidden = hidden_states((3, 7, 8))
    other = jnp.where(SEGMENTS[..., None] > 0, hidden, 100 * hidden + 7)
    got, again = map(jax.jit(lambda h: outputs(module, h, batch)), (hidden, other))
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
    key = DropoutKeys.for_rows(jax.random.key(0), jnp.arange(3))
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
    graph, params = nnx.split(built(name))
    hidden = hidden_states((3, 7, 8))

    @jax.jit
    @functools.partial(jax.grad, argnums=(0, 1))
    def gradients(params, hidden):
        got = outputs(nnx.merge(graph, params), hidden, PACKED)
        return sum(jnp.sum(jnp.sin(x)) for x in got.values())

    for scale in (0.0, 1.0, 1e4):
        for gradient in jax.tree.leaves(gradients(params, scale * hidden)):
            assert np.isfinite(gradient).all()


def dense(layer, x):
    return x @ layer["kernel"] + layer["bias"]


def summarize(weight, states, position="first"):
    """Return a sequence's summary: its first or last token or their mean, pooled."""
    state = {"first": states[0], "last": states[-1], "mean": states.mean(0)}[position]
    return np.tanh(dense(weight["summary"]["dense"], state))


def plain_ends(weight, states, classes=1):
    both = dense(weight["dense"], states)
    pair = {"start": both[:, :classes], "end": both[:, classes:]}
    return {name: x[:, 0] if classes == 1 else x for name, x in pair.items()}


def answerable(weight, states, activation):
    inside = activation(dense(weight["dense"], summarize(weight, states)))
    return dense(weight["out"], inside)[0]


ACTIVATIONS = {
    "gelu": lambda x: x * (1 + erf(x / np.sqrt(2))) / 2,
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
}
SUMMARIES = {"first": encoder(), "last": xlnet(), "mean": CONFIGS["mean"]}
UNPOOLED = xlnet(summary_use_proj=False, summary_activation=None)
# A head, the encoder, and its outputs for a row of real tokens alone, in NumPy.
FORMULAS = [
    (TokenHead(classes=3), encoder(), lambda weight, x: dense(weight["dense"], x)),
    (StartEndHead(), encoder(), plain_ends),
    (StartEndHead(classes=3), encoder(), functools.partial(plain_ends, classes=3)),
    (StartEndHead(form="positions"), encoder(), plain_ends),
    (
        SequenceHead(classes=3),
        UNPOOLED,
        lambda weight, x: dense(weight["dense"], x[-1]),
    ),
    *(
        (
            SequenceHead(classes=3),
            config,
            lambda weight, x, p=position: dense(
                weight["dense"], summarize(weight, x, p)
            ),
        )
        for position, config in SUMMARIES.items()
    ),
    *(
        (
            AnswerabilityHead(activation=name),
            encoder(),
            functools.partial(answerable, activation=activation),
        )
        for name, activation in ACTIVATIONS.items()
    ),
]


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(("head", "config", "formula"), FORMULAS)
def test_logits_are_those_of_the_formula(head, config, formula):
    module = make(head, config, "float64")
    hidden, weight = hidden_states((3, 7, 8)), weights(module)
    got = outputs(module, hidden, ROWS)
    for row in (0, 1):
        real = SEGMENTS[row] > 0
        expected = formula(weight, np.asarray(hidden)[row][real])
        expected = expected if isinstance(expected, dict) else {"it": expected}
        assert set(got) == set(expected)
        for name, logits in expected.items():
            ours = np.asarray(got[name])[row]
            if logits.shape[:1] == (real.sum(),):
                if head == StartEndHead(form="positions"):
                    assert (ours[~real] == IMPOSSIBLE).all()
                ours = ours[real]
            assert ours.shape == logits.shape
            np.testing.assert_allclose(ours, logits, 0, 1e-12)


@pytest.mark.parametrize("name", ["rows", "packed"])
def test_a_mean_in_bfloat16_is_rounded_once(name):
    hidden = 1 + hidden_states((1, 400, 8), dtype=jnp.bfloat16)
    batch = {"segment_ids": jnp.ones((1, 400), jnp.int32)}
    if name == "packed":
        batch["summary_positions"] = jnp.zeros((1, 1), jnp.int32)
    got = summary_state(hidden, batch, SequenceSummary(position="mean"))
    assert got.dtype == jnp.bfloat16
    expected = np.asarray(hidden, np.float64).mean(1)
    got = np.asarray(got, np.float64).reshape(1, 8)
    np.testing.assert_allclose(got, expected, 2**-8)


def concatenate_pairs(params, hidden, activation="gelu"):
    """Compute the logits of all pairs by their vectors, `[B, T, T, 2 D]`."""
    shape = (*hidden.shape[:2], *hidden.shape[1:])
    first = jnp.broadcast_to(hidden[:, :, None], shape)
    second = jnp.broadcast_to(hidden[:, None], shape)
    pairs = dense(params["dense"], jnp.concatenate([first, second], axis=-1))
    exact = {"approximate": False} if activation == "gelu" else {}
    return dense(params["out"], getattr(jax.nn, activation)(pairs, **exact))[..., 0]


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(
    ("activation", "width", "chunk"),
    [
        ("gelu", None, 1),
        *(("gelu", 5, chunk) for chunk in (1, 3, 7, 100)),
        *(("relu", 5, 3), ("tanh", 5, 3)),
    ],
)
def test_matches_are_those_of_concatenated_pairs(activation, width, chunk):
    head = SpanMatchHead(activation=activation, width=width, chunk=chunk)
    graph, state = nnx.split(make(head, encoder(), "float64"))
    state = jax.tree.map(lambda x: x.astype("float64"), state)
    params, hidden = nnx.to_pure_dict(state), hidden_states((3, 7, 8))
    assert params["dense"]["kernel"].shape == (16, width or 16)
    cotangent = hidden_states((3, 7, 7), seed=2)
    same = SEGMENTS[:, :, None] == SEGMENTS[:, None]
    possible = np.triu(same & (SEGMENTS > 0)[:, None])

    def ours(state, hidden):
        got = nnx.merge(graph, state)(hidden, ROWS, None)
        return jnp.sum(jnp.where(possible, got, 0) * cotangent), got

    def theirs(params, hidden):
        got = concatenate_pairs(params, hidden, activation)
        return jnp.sum(jnp.where(possible, got, 0) * cotangent), got

    gradients, got = jax.jit(jax.grad(ours, (0, 1), has_aux=True))(state, hidden)
    expected, pairs = jax.jit(jax.grad(theirs, (0, 1), has_aux=True))(params, hidden)
    np.testing.assert_allclose(got[possible], pairs[possible], 0, 1e-12)
    assert (got[~possible] == IMPOSSIBLE).all()
    gradients = nnx.to_pure_dict(gradients[0]), gradients[1]
    for leaf, want in zip(*map(jax.tree.leaves, (gradients, expected)), strict=True):
        np.testing.assert_allclose(leaf, want, 0, 1e-12)


@pytest.mark.parametrize("differentiate", [False, True], ids=["forward", "backward"])
def test_no_array_of_all_pairs_of_vectors_is_ever_in_memory(differentiate):
    size, tokens, width, inside = 2, 64, 8, 96
    pairs_of_vectors = size * tokens**2 * inside * 4  # bytes
    module = make(SpanMatchHead(width=inside, chunk=2), encoder(width=width))
    graph, params = nnx.split(module)
    batch = {"segment_ids": jnp.ones((size, tokens), jnp.int32)}
    hidden = hidden_states((size, tokens, width), dtype="float32")

    def chunked(params, hidden):
        return nnx.merge(graph, params)(hidden, batch, None)

    def peak(function, params):
        def total(params, hidden):
            return jnp.sum(jnp.sin(function(params, hidden)))

        if differentiate:
            total = jax.grad(total, (0, 1))
        compiled = jax.jit(total).lower(params, hidden).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    # The measure sees such an array where there is one.
    assert peak(concatenate_pairs, nnx.to_pure_dict(params)) >= pairs_of_vectors
    assert peak(chunked, params) < pairs_of_vectors / 4


def test_a_network_returns_the_logits_of_all_heads():
    heads = (
        ("tags", TokenHead(classes=3)),
        ("span", StartEndHead()),
        ("match", SpanMatchHead(width=6)),
        ("answerable", AnswerabilityHead()),
    )
    network = Network(encoder=encoder(), heads=heads, precision="bfloat16")
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
