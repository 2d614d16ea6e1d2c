"""Ends conditioned on starts, vs. NumPy and PyTorch; gold never leaks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax.models.heads import IMPOSSIBLE, AnswerHead, TwoPointerHead

from .making import encoder, hidden_states, make, weights

pytestmark = pytest.mark.usefixtures("float64")

SEGMENTS = np.array([[1, 1, 1, 1, 1, 0], [0, 0, 1, 1, 1, 1]])
ROWS = {"segment_ids": jnp.array(SEGMENTS)}
CLASSES = np.array([[0, 2, 0, 1, 0, -100], [-100, -100, 1, 0, 0, 2]])
YES_OR_NO = np.array([[0, 1, 0, 1, 0, -100], [-100, -100, 1, 0, 0, 1]])
SEVERAL = np.random.default_rng(5).integers(0, 2, (2, 6, 3))
SEVERAL[0, 5] = SEVERAL[1, 0, 1] = -100
KEY = jax.random.key(0)

# Head, gold starts of the batch, and the end's signal.
ONE_OF_THREE = (CLASSES[..., None] == [0, 1, 2]).astype(float)
SIGMOIDS = {"classes": 3, "form": "sigmoid"}
KINDS = {
    "softmax": ({"classes": 3}, CLASSES, ONE_OF_THREE),
    "sigmoid": (
        {"classes": 1, "form": "sigmoid"},
        YES_OR_NO,
        (YES_OR_NO == 1).astype(float)[..., None],
    ),
    "sigmoids": (SIGMOIDS, SEVERAL, (SEVERAL == 1).astype(float)),
    "sigmoids, one label": (SIGMOIDS, CLASSES, ONE_OF_THREE),
}
each_kind = pytest.mark.parametrize("kind", KINDS)


def two_pointers(weight, hidden, signal, epsilon=1e-5):
    """Compute the published model in NumPy; `signal` None: start probabilities."""

    def dense(layer, x):
        return x @ layer["kernel"] + layer["bias"]

    start = dense(weight["start"], hidden)
    if isinstance(signal, str):
        grown = np.exp(start)
        normal = grown.sum(-1, keepdims=True) if signal == "softmax" else 1 + grown
        signal = grown / normal
    x = np.tanh(dense(weight["end"]["dense"], np.concatenate([hidden, signal], -1)))
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon)
    x = x * weight["end"]["norm"]["scale"] + weight["end"]["norm"]["bias"]
    return {"start": start, "end": dense(weight["end"]["out"], x)}


def assert_equal(got, expected):
    assert set(got) == set(expected)
    for name, logits in got.items():
        np.testing.assert_allclose(
            logits, expected[name].reshape(logits.shape), 0, 1e-12, err_msg=name
        )


@each_kind
def test_in_training_the_end_sees_the_gold_start(kind):
    settings, labels, signal = KINDS[kind]
    module = make(TwoPointerHead(**settings), encoder(), "float64")
    hidden = hidden_states((2, 6, 8))
    got = module(hidden, ROWS | {"start": jnp.array(labels)}, KEY)
    assert_equal(got, two_pointers(weights(module), np.asarray(hidden), signal))


@each_kind
def test_in_prediction_the_end_sees_the_probable_start(kind):
    settings, _, _ = KINDS[kind]
    module = make(TwoPointerHead(**settings), encoder(), "float64")
    hidden = hidden_states((2, 6, 8))
    expected = two_pointers(
        weights(module), np.asarray(hidden), settings.get("form", "softmax")
    )
    assert_equal(module(hidden, ROWS, None), expected)
    # A teacher of the other kind lets training see the same.
    taught = make(TwoPointerHead(**settings, teacher="predicted"), encoder(), "float64")
    assert_equal(taught(hidden, ROWS, KEY), expected)


def test_the_layer_norm_has_its_setting():
    head = TwoPointerHead(classes=3, layer_norm_eps=0.5)
    module = make(head, encoder(), "float64")
    hidden = hidden_states((2, 6, 8))
    expected = two_pointers(weights(module), np.asarray(hidden), "softmax", 0.5)
    assert_equal(module(hidden, ROWS, None), expected)


@pytest.mark.parametrize(
    ("head", "labels"),
    [
        (TwoPointerHead(classes=3), CLASSES),
        (TwoPointerHead(classes=3, form="sigmoid"), SEVERAL),
        (AnswerHead(), np.array([3, 4])),
    ],
    ids=["softmax", "sigmoid", "answer"],
)
def test_gold_starts_never_reach_a_prediction(head, labels):
    module = make(head, encoder(), "float64")
    hidden = hidden_states((2, 6, 8))
    blind = module(hidden, ROWS, None)
    seeing = module(hidden, ROWS | {"start": jnp.array(labels)}, None)
    for name, logits in blind.items():
        np.testing.assert_array_equal(logits, seeing[name])


@pytest.mark.parametrize(
    ("head", "labels"),
    [(TwoPointerHead(classes=3), CLASSES), (AnswerHead(), np.array([3, 4]))],
    ids=["two pointers", "answer"],
)
def test_in_training_gold_starts_reach_the_end_but_not_the_start(head, labels):
    module = make(head, encoder(), "float64")
    hidden = hidden_states((2, 6, 8))
    first, second = (
        module(hidden, ROWS | {"start": jnp.array(gold)}, KEY)
        for gold in (labels, np.roll(labels, 1, axis=0))
    )
    np.testing.assert_array_equal(first["start"], second["start"])
    for name in set(first) - {"start"}:
        assert not np.allclose(first[name], second[name])


@pytest.mark.parametrize("head", [TwoPointerHead(classes=3), AnswerHead()])
def test_a_gold_teacher_without_labels_or_of_another_shape_is_refused(head):
    module, hidden = make(head, encoder()), hidden_states((2, 6, 8))
    with pytest.raises(ValueError, match="the batch has no labels 'start'"):
        module(hidden, ROWS, KEY)
    batch = ROWS | {"start": jnp.zeros((2, 5), int)}
    with pytest.raises(ValueError, match=r"have shape \(2, 5\); want \(2,"):
        module(hidden, batch, KEY)


class Theirs:
    """The three modules of PyTorch's XLNet for question answering, with our weights."""

    def __init__(self, torch, weight):
        from transformers import XLNetConfig
        from transformers.models.xlnet import modeling_xlnet as xlnet

        self.torch, end, answer = torch, weight["end"], weight["impossible"]
        ends = {"dense_0": end["dense"], "LayerNorm": end["norm"]}
        answers = {"dense_0": answer["dense"], "dense_1": answer["out"]}
        self.start, self.end, self.answer = (
            self._with(module(XLNetConfig(d_model=8, n_head=2, n_layer=1)), layers)
            for module, layers in (
                (xlnet.XLNetPoolerStartLogits, {"dense": weight["start"]}),
                (xlnet.XLNetPoolerEndLogits, ends | {"dense_1": end["out"]}),
                (xlnet.XLNetPoolerAnswerClass, answers),
            )
        )

    def _with(self, module, layers):
        tensors = {}
        for name, layer in layers.items():
            for ours, array in layer.items():
                suffix = "bias" if ours == "bias" else "weight"
                tensors[f"{name}.{suffix}"] = self.torch.tensor(array.T)
        module = module.double().eval()
        module.load_state_dict(tensors)
        return module

    def __call__(self, hidden, places, starts=None, states=None):
        """Return logits for starts int `[B]`, states `[B, D]`, or the best starts."""
        torch = self.torch
        with torch.no_grad():
            hidden = torch.tensor(np.asarray(hidden))
            absent = torch.tensor(SEGMENTS == 0, dtype=float)
            start = self.start(hidden, p_mask=absent)
            expected = None
            if starts is None and states is None:
                starts = start.argmax(-1)
                expected = torch.einsum("blh,bl->bh", hidden, start.softmax(-1))
            if states is None:
                of_end = {"start_positions": torch.as_tensor(starts)}
                of_answer = of_end if expected is None else {"start_states": expected}
            else:
                states = torch.tensor(states)
                of_end = {"start_states": states[:, None].expand_as(hidden)}
                of_answer = {"start_states": states}
            end = self.end(hidden, p_mask=absent, **of_end)
            answer = self.answer(hidden, cls_index=torch.tensor(places), **of_answer)
            got = {"start": start, "end": end, "impossible": answer}
            return {name: logits.numpy() for name, logits in got.items()}


def assert_equals_theirs(got, expected):
    for name, logits in got.items():
        real = np.ones(2, bool) if name == "impossible" else SEGMENTS > 0
        ours = np.asarray(logits)
        np.testing.assert_allclose(ours[real], expected[name][real], 0, 1e-12)
        assert (ours[~real] == IMPOSSIBLE).all()


@pytest.fixture
def answer(torch):
    """Return the head on an encoder with first-token summaries, and our weights."""
    module = make(AnswerHead(), encoder(), "float64")
    return module, Theirs(torch, weights(module)), hidden_states((2, 6, 8))


FIRST = [0, 2]  # where each row begins


def test_the_answer_equals_pytorch_in_training_and_in_prediction(answer):
    module, theirs, hidden = answer
    gold = [3, 5]
    got = module(hidden, ROWS | {"start": jnp.array(gold)}, KEY)
    assert_equals_theirs(got, theirs(hidden, FIRST, starts=gold))
    assert_equals_theirs(module(hidden, ROWS, None), theirs(hidden, FIRST))


@pytest.mark.parametrize("masked", [-100, -1])
def test_no_gold_start_is_a_state_of_zeros(answer, masked):
    module, theirs, hidden = answer
    got = module(hidden, ROWS | {"start": jnp.array([3, masked])}, KEY)
    states = np.stack([np.asarray(hidden)[0, 3], np.zeros(8)])
    assert_equals_theirs(got, theirs(hidden, FIRST, states=states))


def test_each_packed_segment_has_its_gold_start(answer):
    module, _, hidden = answer
    packed = {
        "segment_ids": jnp.array([[1, 1, 2, 2, 2, 0]]),
        "summary_positions": jnp.array([[0, 2]]),
        "start": jnp.array([[1, 4]]),
    }
    got = module(hidden[:1], packed, KEY)
    for column, tokens, gold in ((0, slice(0, 2), 1), (1, slice(2, 5), 2)):
        ones = jnp.ones((1, tokens.stop - tokens.start), int)
        batch = {"segment_ids": ones, "start": jnp.array([gold])}
        alone = module(hidden[:1, tokens], batch, KEY)
        for name, logits in alone.items():
            part = got[name][0, column]
            part = part if name == "impossible" else part[tokens]
            np.testing.assert_allclose(part, logits[0], 0, 1e-12)
