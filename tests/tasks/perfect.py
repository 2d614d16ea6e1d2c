"""Outputs of a perfect network, and their decoding."""

from __future__ import annotations

import collections

import numpy as np

from dicejax.tasks.task import IGNORED


def class_outputs(items, head):
    """Return the gold classes of each item; the first class where unlabelled."""
    return [
        {
            head: np.where(item.arrays[head] == IGNORED, 0, item.arrays[head]),
            "probability": np.ones(len(item), np.float32),
        }
        for item in items
    ]


def predictions(task, examples, items, outputs, labels, threshold=None):
    """Decode and decide each example from the outputs of all items."""
    own = collections.defaultdict(list)
    for place, item in enumerate(items):
        own[item.example].append(place)
    found = [
        task.decode(
            example,
            [items[place] for place in own[number]],
            [outputs[place] for place in own[number]],
            labels,
        )
        for number, example in enumerate(examples)
    ]
    return [task.decide(one, threshold) for one in found]


def tagged(task, examples, tokenizer, labels, max_length):
    """Encode for tagging, decode the gold labels, and return scores and items."""
    items = task.encode(examples, tokenizer, labels, max_length)
    (head,) = task.targets(labels)
    outputs = class_outputs(items, head)
    found = predictions(task, examples, items, outputs, labels)
    return task.score(examples, found, labels), items, found
