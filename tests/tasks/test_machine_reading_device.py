"""Machine reading on the device: masks, and labels of pairs vs. loops."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from dicejax.data.pack import fill
from dicejax.models.heads import output_names
from dicejax.tasks.spans import spans_of
from dicejax.tasks.task import IGNORED

from .asked import BERT, NESTED, SENTENCE, TASK, encoded


def network(task, batch, seed=0):
    """Return logits of the task's own heads, of random states."""
    shape = (*np.shape(batch["input_ids"]), BERT.hidden_size)
    hidden = jax.random.normal(jax.random.key(seed), shape)
    outputs = {}
    for name, head in task.heads(()):
        module = head.module(head, BERT, dtype=jnp.float32, rngs=nnx.Rngs(seed))
        logits = module(hidden, batch, None)
        outputs |= logits if isinstance(logits, dict) else {name: logits}
    assert tuple(outputs) == output_names(task.heads(()))
    return outputs


def packed(task, tokenizer, length=64):
    """Return two items in the first row, one in the second, with padding."""
    items = encoded(task, [NESTED, SENTENCE], tokenizer)[1:]
    rows = [[items[0].arrays, items[1].arrays], [items[2].arrays]]
    return items, fill(rows, length, task.layout(tokenizer))


def expected_match(task, items, rows, sentences, outputs, length):
    """Label pairs by loops over items, words and words."""
    gold = np.full((len(rows), length, length), IGNORED)
    start, end = (np.asarray(outputs[name]) for name in ("start", "end"))
    for row, numbers in enumerate(rows):
        shift = 0
        for number in numbers:
            item, sentence = items[number], sentences[number]
            spans = spans_of(sentence, item.detail.kind)
            starts, ends = ({span[n] for span in spans} for n in (0, 1))
            places = item.detail.words + shift
            for i, first in enumerate(places):
                for j, last in enumerate(places):
                    is_gold = i in starts and j in ends
                    is_predicted = start[row, first] > 0 and end[row, last] > 0
                    chosen = {
                        "gold": is_gold,
                        "predicted": is_predicted,
                        "gold_and_predicted": is_gold or is_predicted,
                        "all": True,
                    }[task.candidates]
                    if i <= j and chosen:
                        gold[row, first, last] = (i, j) in spans
            shift += len(item)
    return gold


@pytest.mark.parametrize("pairs", ["gold", "predicted", "gold_and_predicted", "all"])
def test_pairs_are_labelled_as_by_loops(tokenizer, pairs):
    task = dataclasses.replace(TASK, candidates=pairs)
    items, batch = packed(task, tokenizer)
    outputs = network(task, batch)
    logits, gold = jax.jit(task.loss_inputs)(outputs, batch)
    expected = expected_match(
        task, items, [[0, 1], [2]], [NESTED, SENTENCE, SENTENCE], outputs, 64
    )
    np.testing.assert_array_equal(gold["match"][..., 0], expected)
    spans = {"predicted": 0, "all": 3 + 1 + 2}.get(pairs, 6)
    assert (expected == 1).sum() >= spans and (expected == 0).any()
    for name, target in task.targets(()).items():
        assert target.kind == "multi_label" and len(target.classes) == 1
        assert gold[name].shape == logits[name].shape == (*outputs[name].shape, 1)
        np.testing.assert_array_equal(logits[name][..., 0], outputs[name])
        seen = np.asarray(gold[name]) != IGNORED
        assert (np.asarray(logits[name])[seen] > -1e4).all()  # no impossible pair
    # What can be counted before there is a network.
    if pairs in ("gold", "all"):
        counts = task.class_counts(items, ())
        for name, labels in gold.items():
            counted = [(np.asarray(labels) == value).sum() for value in (0, 1)]
            np.testing.assert_array_equal(counts[name], [counted])


def test_logits_without_a_label_choose_no_pair(tokenizer):
    _, batch = packed(TASK, tokenizer)
    outputs = network(TASK, batch)
    changed = dict(outputs)
    for name in ("start", "end"):
        changed[name] = jnp.where(batch[name] == IGNORED, 99.0, outputs[name])
    first, second = (
        TASK.loss_inputs(logits, batch)[1]["match"] for logits in (outputs, changed)
    )
    np.testing.assert_array_equal(first, second)
    assert (np.asarray(first) == 0).any()


def test_no_gradient_flows_through_the_choice_of_pairs(tokenizer):
    _, batch = packed(TASK, tokenizer)
    outputs = network(TASK, batch)

    def total(starts):
        logits, gold = TASK.loss_inputs(outputs | {"start": starts}, batch)
        return jnp.where(gold["match"] == 1, logits["match"], 0.0).sum()

    assert not np.asarray(jax.grad(total)(outputs["start"])).any()


def test_without_match_nothing_of_pairs_is_shipped(tokenizer):
    task = dataclasses.replace(TASK, match=False)
    _, batch = packed(task, tokenizer)
    outputs = network(task, batch)
    logits, gold = jax.jit(task.loss_inputs)(outputs, batch)
    assert set(logits) == set(gold) == set(task.targets(())) == {"start", "end"}
    assert set(task.loss_weights) == {"start", "end"}
    assert not [name for name in batch if name.startswith("end_of")]
    assert task.reduce_logits(outputs, batch).pairs == {}
    assert dict(TASK.loss_weights) == {"start": 1.0, "end": 1.0, "match": 0.1}


def test_predictions_of_a_packed_row_are_cut_out(tokenizer):
    items, batch = packed(TASK, tokenizer)
    outputs = network(TASK, batch)
    outputs["match"] = outputs["match"].at[0, 0, 0].set(1e9)
    predicted = jax.device_get(jax.jit(TASK.reduce_logits)(outputs, batch))
    assert predicted.pairs["match"].dtype == np.float16
    assert np.isfinite(predicted.pairs["match"]).all()
    size = len(items[0])
    second = predicted.item(0, 1, size, size + len(items[1]))
    assert second["match"].shape == (len(items[1]),) * 2
    np.testing.assert_array_equal(
        second["start"], outputs["start"][0, size : size + len(items[1])]
    )
    other = predicted.item(1, 0, 0, len(items[2]))
    candidates = TASK.decode(SENTENCE, items[1:], [second, other], ())
    assert all(0.01 <= score <= 1 for _, score in candidates)
