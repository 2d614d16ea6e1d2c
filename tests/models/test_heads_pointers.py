"""Ends conditioned on starts, vs. NumPy and PyTorch; gold never leaks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dicejax.models.heads import IMPOSSIBLE, AnswerHead, TwoPointerHead

from .small import encoder, hidden_states, make, weights

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
    "norm": ({"classes": 3, "layer_norm_eps": 0.5}, CLASSES, ONE_OF_THREE),
    "sigmoid": (
        {"classes": 1, "form": "sigmoid"},
        YES_OR_NO,
        (YES_OR_NO == 1).astype(float)[..., None],
    ),
    "sigmoids": (SIGMOIDS, SEVERAL, (SEVERAL == 1).astype(float)),
    "sigmoids, one label": (SIGMOIDS, CLASSES, ONE_OF_THREE),
}


def two_pointers(weight, hidden, signal, epsilon):
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


@pytest.mark.parametrize("kind", KINDS)
def test_the_end_sees_the_gold_start_in_training_and_the_probable_one_else(kind):
    settings, labels, signal = KINDS[kind]
    hidden, batch = hidden_states((2, 6, 8)), ROWS | {"start": jnp.array(labels)}
    module = make(TwoPointerHead(**settings), encoder(), "float64")
    epsilon = settings.get("layer_norm_eps", 1e-5)
    inputs = weights(module), np.asarray(hidden)
    assert_equal(module(hidden, batch, KEY), two_pointers(*inputs, signal, epsilon))
    form = settings.get("form", "softmax")
    predicted = two_pointers(*inputs, form, epsilon)
    assert_equal(module(hidden, batch, None), predicted)
    assert_equal(module(hidden, ROWS, None), predicted)
    # A teacher of the other kind lets training see the same.
    taught = make(TwoPointerHead(**settings, teacher="predicted"), encoder(), "float64")
    assert_equal(taught(hidden, batch, KEY), predicted)


@pytest.mark.parametrize("head", [TwoPointerHead(classes=3), AnswerHead()])
def test_a_gold_teacher_without_labels_or_of_another_shape_is_refused(head):
    module, hidden = make(head, encoder()), hidden_states((2, 6, 8))
    with pytest.raises(ValueError, match="the batch has no labels 'start'"):
        module(hidden, ROWS, KEY)
    batch = ROWS | {"start": jnp.zeros((2, 5), int)}
    with pytest.raises(ValueError, match=r"have shape \(2, 5\); want \(2,"):
        module(hidden, batch, KEY)


def by_pytorch(torch, weight, hidden, states=None):
    """Return logits of XLNet's modules for states of starts, or for the best ones."""
    from transformers import XLNetConfig
    from transformers.models.xlnet import modeling_xlnet as xlnet

    end, answer = weight["end"], weight["impossible"]
    ends = {"dense_0": end["dense"], "LayerNorm": end["norm"], "dense_1": end["out"]}
    answers = {"dense_0": answer["dense"], "dense_1": answer["out"]}
    modules = []
    for kind, layers in (
        (xlnet.XLNetPoolerStartLogits, {"dense": weight["start"]}),
        (xlnet.XLNetPoolerEndLogits, ends),
        (xlnet.XLNetPoolerAnswerClass, answers),
    ):
        tensors = {
            f"{name}.{'bias' if part == 'bias' else 'weight'}": torch.tensor(array.T)
            for name, layer in layers.items()
            for part, array in layer.items()
        }
        module = kind(XLNetConfig(d_model=8, n_head=2, n_layer=1)).double().eval()
        module.load_state_dict(tensors)
        modules.append(module)
    hidden, absent = (torch.tensor(np.asarray(x)) for x in (hidden, SEGMENTS == 0))
    with torch.no_grad():
        start = modules[0](hidden, p_mask=absent.double())
        of_end = of_answer = states if states is None else torch.tensor(states)
        if states is None:
            of_end = hidden[range(2), start.argmax(-1)]
            of_answer = torch.einsum("blh,bl->bh", hidden, start.softmax(-1))
        of_end = of_end[:, None].expand_as(hidden)
        return {
            "start": start,
            "end": modules[1](hidden, p_mask=absent.double(), start_states=of_end),
            "impossible": modules[2](
                hidden, cls_index=torch.tensor([0, 2]), start_states=of_answer
            ),
        }


@pytest.mark.parametrize("gold", [[3, 5], [3, -100], [3, -1]], ids=str)
def test_the_answer_equals_pytorch_in_training_and_in_prediction(torch, gold):
    """Without a gold start, its state is zero."""
    module = make(AnswerHead(), encoder(), "float64")
    hidden, batch = hidden_states((2, 6, 8)), ROWS | {"start": jnp.array(gold)}
    states = np.asarray(hidden)[range(2), np.maximum(gold, 0)]
    states = states * (np.array(gold) >= 0)[:, None]
    for key, seen in ((KEY, states), (None, None)):
        expected = by_pytorch(torch, weights(module), hidden, seen)
        for name, logits in module(hidden, batch, key).items():
            real = np.ones(2, bool) if name == "impossible" else SEGMENTS > 0
            ours = np.asarray(logits)
            np.testing.assert_allclose(ours[real], expected[name][real], 0, 1e-12)
            assert (ours[~real] == IMPOSSIBLE).all()


def test_each_packed_segment_has_its_gold_start():
    module = make(AnswerHead(), encoder(), "float64")
    hidden = hidden_states((2, 6, 8))
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
