"""Two pointers: every flat span survives, and scores resolve overlaps."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from dicejax.data import tokenize
from dicejax.data.examples import Sentence, Span
from dicejax.data.pack import fill
from dicejax.errors import InputError
from dicejax.models.heads import TwoPointerHead
from dicejax.tasks.task import Item
from dicejax.tasks.two_pointers import TwoPointerNER
from dicejax.tasks.windows import Window

from .asked import BERT

TASK = TwoPointerNER()
WORDS = ("New", "York", "beats", "York", "in", "York")
SENTENCE = Sentence(
    WORDS,
    (
        Span("LOC-city", 0, 2),
        Span("ORG", 2, 3),  # next to its neighbours, of one word
        Span("LOC-city", 3, 4),
        Span("LOC-city", 5, 6),  # the last word, named before
    ),
    1,
)


@pytest.fixture(scope="module")
def tokenizer():
    return tokenize.learn_wordpiece([*WORDS, "New"] * 3, 33)


def decoded(starts, ends, start_scores=None, end_scores=None):
    labels = ("O", "A", "B")
    length = len(starts)
    item = Item({"input_ids": np.zeros(length)}, 0, Window(np.arange(length)))
    output = {
        "start": np.array(starts),
        "end": np.array(ends),
        "start_score": np.array(start_scores or [0.0] * length, np.float32),
        "end_score": np.array(end_scores or [0.0] * length, np.float32),
    }
    sentence = Sentence(("x",) * length, (), 1)
    spans = TASK.decode(sentence, [item], [output], labels).values
    return [tuple(span) for span in spans]


def test_a_start_takes_the_nearest_end_of_its_type():
    assert decoded([1, 0, 0, 0], [0, 2, 1, 1]) == [("A", 0, 3)]
    assert decoded([0, 1, 0], [1, 0, 0]) == []  # no end at it or behind it
    assert decoded([1, 2, 0], [2, 1, 2]) == [("A", 0, 2)]  # overlaps: the first


def test_overlaps_go_to_the_more_probable_pair():
    starts, ends = [1, 1, 0, 2], [0, 0, 1, 2]  # two starts share an end
    assert decoded(starts, ends) == [("A", 0, 3), ("B", 3, 4)]
    better = decoded(starts, ends, [-0.5, -0.1, 0, 0])
    assert better == [("A", 1, 3), ("B", 3, 4)]
    crossing = ([1, 2, 0, 0], [0, 0, 1, 2])
    assert decoded(*crossing, end_scores=[0, 0, -0.2, -0.1]) == [("B", 1, 4)]
    assert decoded(*crossing, end_scores=[0, 0, -0.1, -0.2]) == [("A", 0, 3)]


def test_the_head_trains_on_the_labels_and_predicts_under_jit(tokenizer):
    labels = TASK.label_names([SENTENCE])
    items = TASK.encode([SENTENCE] * 3, tokenizer, labels, 64)
    rows = [[items[0].arrays, items[1].arrays], [items[2].arrays]]
    batch = fill(rows, 64, TASK.layout(tokenizer))
    ((_, head),) = TASK.heads(labels)
    assert head == TwoPointerHead(classes=3, form="softmax", teacher="gold")
    module = head.build(BERT, dtype=jnp.float32, rngs=nnx.Rngs(0))
    hidden = jax.random.normal(jax.random.key(0), (2, 64, 8))
    outputs = module(hidden, batch, jax.random.key(1))

    logits, gold = jax.jit(TASK.loss_inputs)(outputs, batch)
    for name, target in TASK.targets(labels).items():
        assert target.classes == labels
        assert logits[name].shape == (2, 64, 3) and gold[name].shape == (2, 64)
        np.testing.assert_array_equal(gold[name], batch[name])

    predicted = jax.device_get(jax.jit(TASK.reduce_logits)(outputs, batch))
    second = predicted.item(0, 1, len(items[0]), 2 * len(items[0]))
    here = np.asarray(outputs["end"])[0, len(items[0]) : 2 * len(items[0])]
    np.testing.assert_array_equal(second["end"], here.argmax(-1))
    shifted = here.astype(np.float64) - here.max(-1, keepdims=True)
    expected = -np.log(np.exp(shifted).sum(-1))
    np.testing.assert_allclose(second["end_score"], expected, rtol=1e-5, atol=1e-6)
    spans = TASK.decode(SENTENCE, [items[1]], [second], labels).values
    assert all(a.end <= b.start for a, b in itertools.pairwise(spans))


def test_what_cannot_be_learnt_is_refused():
    with pytest.raises(ValueError, match="teacher is 'both'"):
        TwoPointerNER(teacher="both")
    with pytest.raises(InputError, match="train holds no span"):
        TASK.label_names([Sentence(WORDS, (), 1)])
