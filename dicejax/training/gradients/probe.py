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
    GradientElements,
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
"""The kinds of places in a packed row; the first is known by the row."""

_MARKS = ("▁", "Ġ")  # of a word's start, in SentencePiece and in byte-level BPE


def kinds_of(tokenizer: Tokenizer) -> np.ndarray:
    """Return the kind of each piece of the vocabulary, int32 `[V]` into `KINDS`.

    WordPiece marks continuations ("##ing"), SentencePiece and byte-level BPE the starts
    of words ("▁the", "Ġthe"): the first word of a text without a space before it has no
    mark there. Vocabularies that mark neither have starts alone.

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
    kinds = np.full(max(vocabulary.values()) + 1, KINDS.index("word start"), np.int32)
    for piece, number in vocabulary.items():
        if prefix:
            continues = piece.startswith(prefix)
        else:
            continues = marks_starts and not piece.startswith(_MARKS)
        if continues:
            kinds[number] = KINDS.index("continuation")
    for number, token in tokenizer.get_added_tokens_decoder().items():
        if token.special:
            kinds[number] = KINDS.index("special")
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
class Seen:
    """Measurements of one output at one step.

    Attributes:
      measures: sums over its elements.
      kinds: sums by kind of piece, as in `KINDS`; None if not of tokens.
      counts: soft counts of this batch, and of former ones as they fade.
      soft_f1: of these counts, by average.
      cosine: of the logit gradients of the loss and of 1 - soft F1, by average.
      cosine_heads: the same with respect to the parameters of the heads.
      head_gradients: both gradients, if requested: "loss", and the others by average.
    """

    measures: Measures
    kinds: dict[str, Array] | None
    counts: OverlapCounts
    soft_f1: dict[str, Array]
    cosine: dict[str, Array]
    cosine_heads: dict[str, Array]
    head_gradients: dict[str, Params] | None = None


@functools.partial(
    jax.jit, static_argnames=("network", "task", "outputs", "micro_batches", "mesh")
)
def look_at_step(
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
) -> dict[str, Seen]:
    """Analyse the gradient of the next training step, of the same batch and dropout.

    Args:
      state: state before the step; not donated.
      batch: int `[B, T]` arrays, inputs and labels by name.
      objective: a pytree; its hyper-parameters are traced.
      counts: soft counts so far, by output.
      pieces: int `[V]`, kind of each piece of the vocabulary.
      network: architecture.
      task: turns outputs and batch into the inputs of the objective.
      outputs: outputs to analyse.
      micro_batches: number of micro-batches of the forward pass.
      mesh: devices over which parameters are split.

    Returns:
      Measurements by output, on every process.
    """
    measured = look(
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
    if mesh is not None:
        everywhere = NamedSharding(mesh, P())
        measured = jax.lax.with_sharding_constraint(measured, everywhere)
    return measured


def look(
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
) -> dict[str, Seen]:
    """Analyse the gradient of a loss at a batch.

    Args:
      params: network parameters.
      batch: arrays whose first axis is that of the rows.
      objective: loss of a task.
      former: soft counts of other batches, by output.
      pieces: int `[V]`, kind of each piece of the vocabulary.
      outputs: outputs to analyse.
      task: turns outputs and batch into the inputs of the objective.
      objective_state: state of the objective.
      progress: share of training that is done.
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
    nothing = jax.tree.map(lambda x: 0 * x, gradients)
    seen = {}
    for output in outputs:
        name, groups = output.name, output.groups
        parts = logits[name], labels[name], gradients[name]
        elements = elements_of(*parts, groups)

        def to_heads(gradient: Array, name: str = name) -> Params:
            return backward(nothing | {name: gradient})[0]

        of_loss = to_heads(gradients[name])
        scores, near, near_heads, by_name = {}, {}, {}, {"loss": of_loss}
        for average in averages(groups):
            scores[average], ascent = descent(*parts[:2], former[name], groups, average)
            near[average] = cosine(gradients[name], ascent)
            by_name[average] = to_heads(ascent)
            near_heads[average] = cosine(of_loss, by_name[average])
        seen[name] = Seen(
            measures=measure(elements, groups),
            kinds=_kinds(elements, batch, pieces) if output.of_tokens else None,
            counts=former[name] + counts_of(*parts[:2], groups),
            soft_f1=scores,
            cosine=near,
            cosine_heads=near_heads,
            head_gradients=by_name if keep_head_gradients else None,
        )
    return seen


def _kinds(elements: GradientElements, batch: Batch, pieces: Array) -> dict[str, Array]:
    real = batch["segment_ids"] > 0
    kinds = jax.numpy.where(real, pieces[batch["input_ids"]], KINDS.index("padding"))
    return by_kind(elements, kinds, len(KINDS))
