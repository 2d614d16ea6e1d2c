"""Measurement of one step's gradient in a separate program.

The loss is differentiated with respect to the logits and the heads' parameters, for
little more than a forward pass. The program of the step is unchanged.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from tokenizers import Tokenizer

from dicejax.losses import OverlapCounts
from dicejax.models.network import Network, Params
from dicejax.objectives import Objective
from dicejax.tasks import Task
from dicejax.training.accumulation import logits_of, scale_gradients
from dicejax.training.gradients.measures import (
    Groups,
    Measures,
    by_kind,
    elements_of,
    measure,
)
from dicejax.training.gradients.soft_f1 import (
    FADING,
    averages,
    cosine,
    counts_of,
    descent,
)
from dicejax.training.state import TrainState

KINDS = ("padding", "special", "word start", "continuation")
"""Kinds of places in a packed row. Padding follows from the row, the rest from ids."""

_MARKS = ("▁", "Ġ")  # start of a word in SentencePiece and in byte-level BPE


def kinds_of(tokenizer: Tokenizer) -> np.ndarray:
    """Return the kind of each piece of the vocabulary, int32 `[V]` into `KINDS`.

    WordPiece marks continuations ("##ing"), SentencePiece and byte-level BPE the starts
    of words ("▁the", "Ġthe"), except that of a text that begins without a space. In
    vocabularies without marks every piece starts a word.

    >>> from dicejax.data.tokenize import learn_wordpiece
    >>> tokenizer = learn_wordpiece(["ab"], 40)
    >>> kinds = kinds_of(tokenizer)
    >>> [KINDS[kinds[number]] for number in tokenizer.encode("ab bb").ids]
    ['special', 'word start', 'word start', 'continuation', 'special']
    """
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    model = json.loads(tokenizer.to_str())["model"]
    prefix = model.get("continuing_subword_prefix")
    marked = [piece.startswith(_MARKS) for piece in vocabulary]
    marks_starts = not prefix and np.mean(marked) > 0.05
    special, start, continuation = range(1, len(KINDS))
    kinds = np.full(max(vocabulary.values()) + 1, start, np.int32)
    for piece, index in vocabulary.items():
        has_mark = piece.startswith(prefix or _MARKS)
        if has_mark if prefix else marks_starts and not has_mark:
            kinds[index] = continuation
    for index, token in tokenizer.get_added_tokens_decoder().items():
        if token.special:
            kinds[index] = special
    return kinds


Batch = Mapping[str, Array]
Counts = dict[str, OverlapCounts]


@dataclasses.dataclass(frozen=True)
class Output:
    """An output to analyse.

    Attributes:
      name: name of the output.
      groups: groups of its elements.
      of_tokens: whether it has labels for each token.
    """

    name: str
    groups: Groups
    of_tokens: bool


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class OutputMeasures:
    """Measurements of one output at one step.

    Attributes:
      measures: sums over the elements.
      counts: soft counts of this batch and, as they fade, of former ones.
      kinds: sums by kind of piece, in the order of `KINDS`; None if elements are not
        tokens.
      soft_f1: soft F1 of the counts, by average.
      cosine: cosine of the logit gradients of the loss and of 1 - soft F1, by average.
      cosine_heads: cosine of the gradients with respect to the heads' parameters.
      head_gradients: gradients with respect to the heads' parameters if requested:
        that of the loss as "loss", those of 1 - soft F1 by average.
    """

    measures: Measures
    counts: OverlapCounts
    kinds: dict[str, Array] | None
    soft_f1: dict[str, Array]
    cosine: dict[str, Array]
    cosine_heads: dict[str, Array]
    head_gradients: dict[str, Params] | None = None


@functools.partial(
    jax.jit, static_argnames=("network", "task", "outputs", "micro_batches", "mesh")
)
def measure_step_gradients(
    state: TrainState,
    batch: Batch,
    objective: Objective,
    counts: Counts,
    pieces: Array,
    *,
    network: Network,
    task: Task,
    outputs: tuple[Output, ...],
    micro_batches: int = 1,
    mesh: Mesh | None = None,
) -> dict[str, OutputMeasures]:
    """Analyse the gradient of the next training step, with its batch and dropout.

    The state is not donated; former counts fade. The measurements are on every process.
    """
    measured = measure_gradients(
        state.params,
        batch,
        objective,
        jax.tree.map(lambda x: FADING * x, counts),
        pieces,
        outputs,
        network=network,
        task=task,
        objective_state=state.objective_state,
        progress=state.progress,
        rng=state.dropout_key,
        mesh=mesh,
        micro_batches=micro_batches,
    )
    if mesh is None:
        return measured
    return jax.lax.with_sharding_constraint(measured, NamedSharding(mesh, P()))


def measure_gradients(
    params: Params,
    batch: Batch,
    objective: Objective,
    former: Counts,
    pieces: Array,
    outputs: tuple[Output, ...],
    *,
    task: Task,
    objective_state: Any = (),
    progress: float | Array = 0.0,
    keep_head_gradients: bool = False,
    **forward: Any,
) -> dict[str, OutputMeasures]:
    """Analyse the gradient of a loss at a batch, by output.

    Args:
      params: network parameters.
      batch: int `[B, T]` arrays, inputs and labels by name.
      objective: objective as a pytree; its hyper-parameters are traced.
      former: soft counts of other batches, by output.
      pieces: int `[V]`, kind of each piece of the vocabulary.
      outputs: outputs to analyse.
      task: turns outputs and batch into the inputs of the objective.
      objective_state: state of the objective.
      progress: completed share of training.
      keep_head_gradients: return the gradients of the heads too.
      **forward: network, dropout key, mesh and micro-batches for `logits_of`.
    """

    def of_heads(heads: Params) -> tuple[dict[str, Array], Any]:
        raw = logits_of(params | {"heads": heads}, batch, **forward)
        logits, labels = task.loss_inputs(raw, batch)
        return dict(logits), dict(labels)

    def value(logits: dict[str, Array]) -> Array:
        inputs = scale_gradients(logits, batch), labels
        return objective(*inputs, objective_state, progress)[0]

    logits, backward, labels = jax.vjp(of_heads, params["heads"], has_aux=True)
    gradients = jax.grad(value)(logits)
    zeros = jax.tree.map(lambda x: 0 * x, gradients)
    measured = {}
    for output in outputs:
        name, groups, kinds = output.name, output.groups, None
        z, y, of_logits = logits[name], labels[name], gradients[name]
        elements = elements_of(z, y, of_logits, groups)
        if output.of_tokens:
            is_padding, padding = batch["segment_ids"] <= 0, KINDS.index("padding")
            of_places = jnp.where(is_padding, padding, pieces[batch["input_ids"]])
            kinds = by_kind(elements, of_places, len(KINDS))
        descents = {
            average: descent(z, y, former[name], groups, average)
            for average in averages(groups)
        }
        slopes = {"loss": of_logits} | {key: pair[1] for key, pair in descents.items()}
        heads = {key: backward(zeros | {name: x})[0] for key, x in slopes.items()}
        measured[name] = OutputMeasures(
            measures=measure(elements, groups),
            counts=former[name] + counts_of(z, y, groups),
            kinds=kinds,
            soft_f1={average: score for average, (score, _) in descents.items()},
            cosine={key: cosine(of_logits, slopes[key]) for key in descents},
            cosine_heads={key: cosine(heads["loss"], heads[key]) for key in descents},
            head_gradients=heads if keep_head_gradients else None,
        )
    return measured
