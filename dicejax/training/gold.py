"""Soft labels and weights of training examples, from a batch to the objective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dicejax.errors import InputError
from dicejax.objectives import Gold, Objective
from dicejax.tasks import Item
from dicejax.tasks.task import PROBABILITIES


def gold_of_batch(
    outputs: Mapping[str, Array],
    labels: Mapping[str, Array],
    batch: Mapping[str, Array],
) -> Mapping[str, Array | Gold]:
    """Join the labels of outputs to what the batch has of soft labels and weights.

    Weights of examples are `token_example_weights` `[B, T]` where labels begin with
    these axes, else `sequence_example_weights` `[B, S]`. Without either, labels are
    returned as they are.
    """
    gold: dict[str, Array | Gold] = dict(labels)
    for name in outputs:
        weights, soft = batch.get("token_example_weights"), name + PROBABILITIES
        if name in labels and (weights is not None or soft in batch):
            if weights is not None and labels[name].shape[:2] != weights.shape:
                weights = batch["sequence_example_weights"]
            gold[name] = Gold(labels[name], batch.get(soft), weights)
    return gold


def soft_arrays(items: Sequence[Item]) -> tuple[str, ...]:
    """Return the names of the arrays of soft labels that training items have."""
    return tuple(name for name in items[0].arrays if name.endswith(PROBABILITIES))


def weights_of_items(examples: Sequence[Any], items: Sequence[Item]) -> Any:
    """Return the weight of each training item, float32 `[E]`; None where all are 1.

    Raises:
      InputError: a weight is no number from 0 on, or all are 0.
    """
    weights = np.array([getattr(example, "weight", 1.0) for example in examples])
    if (weights == 1).all():
        return None
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        number = int(wrong[0])
        line = getattr(examples[number], "line", None)
        place = f"line {line}" if line else f"example {number + 1}"
        raise InputError(
            f"{place} of train: weight is {weights[number]}; want a number from 0 on"
        )
    if not weights.any():
        raise InputError("train: all weights of examples are 0; want some above")
    return weights[[item.example for item in items]].astype(np.float32)


def check_gold(
    objective: Objective,
    logits: Mapping[str, Array],
    labels: Mapping[str, Array],
    soft: Sequence[str],
    weighted: bool,
) -> None:
    """Check that an objective takes labels as training has them, soft or weighted.

    Logits and labels are of a single element, in rows of a batch.

    Raises:
      ValueError: it takes none, or a hyper-parameter is out of range.
    """
    objective(logits, labels, objective.initial_state())
    if not (soft or weighted):
        return
    gold: dict[str, Array | Gold] = {}
    for name, x in logits.items():
        shares = jax.nn.softmax(x) if name + PROBABILITIES in soft else None
        gold[name] = Gold(labels[name], shares, jnp.ones(1) if weighted else None)
    try:
        objective(logits, gold, objective.initial_state())
    except ValueError as error:
        if not soft or str(error).startswith("train has"):
            raise
        raise ValueError(
            f"train has probabilities of classes, but {error}; take another loss, such "
            "as ce or dice_semimetric, or leave them out"
        ) from error
