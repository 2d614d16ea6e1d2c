"""Two pointers: every flat span survives, and scores resolve overlaps."""

import jax
import numpy as np
import pytest
from scipy import special

from dicejax.data.examples import Sentence
from dicejax.errors import InputError
from dicejax.models.heads import TwoPointerHead
from dicejax.tasks.task import Item
from dicejax.tasks.two_pointers import TwoPointerNER
from dicejax.tasks.windows import Window

TASK = TwoPointerNER()


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


def test_the_loss_reads_all_classes_and_decoding_the_most_probable():
    labels = ("O", "LOC-city", "ORG")
    ((_, head),) = TASK.heads(labels)
    assert head == TwoPointerHead(classes=3, form="softmax", teacher="gold")
    rng = np.random.default_rng(0)
    outputs = {name: rng.normal(size=(2, 7, 3)) for name in ("start", "end")}
    batch = {name: rng.integers(-1, 3, (2, 7)) for name in outputs}
    logits, gold = jax.jit(TASK.loss_inputs)(outputs, batch)
    predicted = jax.jit(TASK.reduce_logits)(outputs, batch).item(1, 0, 2, 5)
    for name, target in TASK.targets(labels).items():
        assert target.classes == labels
        np.testing.assert_allclose(logits[name], outputs[name], rtol=1e-6)
        np.testing.assert_array_equal(gold[name], batch[name])
        item = outputs[name][1, 2:5]
        np.testing.assert_array_equal(predicted[name], item.argmax(-1))
        expected = special.log_softmax(item, axis=-1).max(-1)
        np.testing.assert_allclose(predicted[f"{name}_score"], expected, rtol=1e-5)


def test_what_cannot_be_learnt_is_refused():
    with pytest.raises(ValueError, match="teacher is 'both'"):
        TwoPointerNER(teacher="both")
    with pytest.raises(InputError, match="train holds no span"):
        TASK.label_names([Sentence(("x",), (), 1)])
