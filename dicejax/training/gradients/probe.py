"""Measurement of gradients of some steps, with its records in analysis.jsonl.

The loss is differentiated with respect to the logits and the heads' parameters in a
separate program, for little more than a forward pass. The program of the step is
unchanged.

A record has its step and, for each analysed output, the sums of `measures.Measures`,
those by kind of piece, soft counts and F1, cosines, alarms. Each step occurs once, also
in a run that was interrupted.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath
from jax import Array
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from tokenizers import Tokenizer

from dicejax.errors import InputError
from dicejax.io.files import read_bytes
from dicejax.losses import OverlapCounts
from dicejax.models.network import Network, Params
from dicejax.objectives import Objective
from dicejax.tasks import Task
from dicejax.training.accumulation import logits_of, scale_gradients
from dicejax.training.gold import gold_of_batch
from dicejax.training.gradients.measures import (
    FADING,
    Groups,
    Measures,
    alarms_of,
    averages,
    by_kind,
    cosine,
    counts_of,
    descent,
    elements_of,
    measure,
    no_counts,
)
from dicejax.training.logging import MetricsLog, lines_up_to, record_of
from dicejax.training.processes import is_main_process
from dicejax.training.setup import Setup
from dicejax.training.sharding import replicate
from dicejax.training.state import TrainState
from dicejax.training.throughput import Throughput

FILE = "analysis.jsonl"
DIGITS = 5

KINDS = ("padding", "special", "word start", "continuation")
"""Kinds of places in a packed row. Padding follows from the row, the rest from ids."""

_MARKS = ("▁", "Ġ")  # start of a word in SentencePiece and in byte-level BPE


def kinds_of(tokenizer: Tokenizer) -> np.ndarray:
    """Return the kind of each piece of the vocabulary, int32 `[V]` into `KINDS`.

    WordPiece marks continuations ("##ing"), SentencePiece and byte-level BPE the starts
    of words ("▁the", "Ġthe"), except that of a text that begins without a space. In
    vocabularies without marks every piece starts a word.
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
    """An output to analyse, with labels for each token or for each sequence."""

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
        progress=state.step / state.total_steps,
        rng=jax.random.fold_in(state.rng, state.step),
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

    `former` are soft counts of other batches, `pieces` the kinds of the vocabulary, int
    `[V]`, and `forward` network, dropout key, mesh and micro-batches for `logits_of`.
    """

    def of_heads(heads: Params) -> tuple[dict[str, Array], Any]:
        raw = logits_of(params | {"heads": heads}, batch, **forward)
        logits, labels = task.loss_inputs(raw, batch)
        return dict(logits), dict(labels)

    def value(logits: dict[str, Array]) -> Array:
        gold = gold_of_batch(logits, labels, batch)
        scaled = scale_gradients(logits, batch)
        return objective(scaled, gold, objective_state, progress)[0]

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


class Collector:
    """Analyser of the gradients of the first and every n-th step.

    Records behind `after_step`, from which the run resumes, are dropped. `say` is
    called with each alarm, the first time.
    """

    def __init__(
        self,
        setup: Setup,
        folder: epath.Path,
        mesh: Mesh,
        *,
        after_step: int,
        say: Callable[[str], None],
    ):
        self._every = setup.experiment.analysis.every
        self._say = say
        self.log = MetricsLog(None)
        self._pending: list[tuple[int, dict[str, OutputMeasures]]] = []
        self._compiled: set[tuple[int, ...]] = set()
        self._alarmed: set[tuple[str, str, str]] = set()
        task, labels = setup.experiment.task, setup.data.labels
        tokenizer = setup.data.tokenizer
        in_layout = task.layout(tokenizer).tokens
        self._outputs = outputs_of(task, labels, setup.objective, in_layout)
        left = set(task.targets(labels)) - {output.name for output in self._outputs}
        if left and not after_step:
            names = ", ".join(sorted(left))
            say(f"note: analysis leaves out {names}: positions, or no loss reads it")
        self._settings = setup.step_settings(mesh) | {"outputs": self._outputs}
        del self._settings["optimizer"]
        self._pieces = replicate(kinds_of(tokenizer), mesh)
        counts = counts_in(folder / FILE, after_step, self._outputs)
        self._counts = replicate(counts, mesh)
        if is_main_process():
            self.log = MetricsLog(folder, FILE, after_step=after_step)

    def look(
        self,
        step: int,
        state: TrainState,
        batch: Mapping[str, jax.Array],
        objective: Objective,
        meter: Throughput,
    ) -> None:
        """Analyse the gradient of the next step, if it is due.

        Steps are numbered from 1. The meter is paused during compilation.
        """
        if (step % self._every and step != 1) or not self._outputs:
            return
        shape = batch["input_ids"].shape
        is_new = shape not in self._compiled
        if is_new:
            jax.block_until_ready(state.step)
            meter.pause()
        measured = measure_step_gradients(
            state, batch, objective, self._counts, self._pieces, **self._settings
        )
        self._counts = {name: output.counts for name, output in measured.items()}
        self._pending.append((step, measured))
        if is_new:
            self._compiled.add(shape)
            jax.block_until_ready(measured)
            meter.resume()

    def write(self) -> None:
        """Wait for the measurements, and record them."""
        pending, self._pending = self._pending, []
        for step, measured in pending:
            records = {
                name: _record(output)
                for name, output in jax.device_get(measured).items()
            }
            for output in self._outputs:
                record = records[output.name]
                alarms = alarms_of(record, output.groups)
                record["alarms"] = [list(alarm) for alarm in alarms]
                for alarm, text in alarms.items():
                    if (output.name, *alarm) not in self._alarmed:
                        self._alarmed.add((output.name, *alarm))
                        self._say(f"step {step}, gradient of {output.name}: {text}")
            self.log.write(step, outputs=records)


def outputs_of(
    task: Task,
    labels: Sequence[str],
    objective: Objective,
    in_layout: Mapping[str, int],
) -> tuple[Output, ...]:
    """Return the outputs that can be analysed: read by the loss, not positions.

    `in_layout` has the names of the arrays with one number per token.
    """
    read = {leaf.output for leaf in objective.terms()}
    return tuple(
        Output(name, Groups.of_target(target), name in in_layout)
        for name, target in task.targets(labels).items()
        if name in read and target.kind != "positions"
    )


def counts_in(file: epath.Path, step: int, outputs: Sequence[Output]) -> Counts:
    """Return the soft counts of the last record up to a step; zeros without one."""
    content = read_bytes(file) if step and file.exists() else b""
    records = [*filter(None, map(record_of, lines_up_to(step, content)))]
    by_output = {}
    for output in outputs:
        counts = no_counts(len(output.groups.names) - output.groups.multi_label)
        try:
            arrays = records[-1]["outputs"][output.name]["counts"] if records else {}
            arrays = {name: jnp.asarray(x, jnp.float32) for name, x in arrays.items()}
            by_output[output.name] = OverlapCounts(**arrays) if arrays else counts
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{file}: damaged: the record before step {step} has no counts of "
                f"{output.name}; restore it, or start again with --overwrite"
            ) from error
    return by_output


def _record(measured: OutputMeasures) -> dict[str, Any]:
    """Format measurements as JSON; soft counts exact, others rounded."""
    values = dataclasses.asdict(measured)
    del values["head_gradients"]
    counts = {name: array.tolist() for name, array in values.pop("counts").items()}
    record = _rounded(values.pop("measures")) | {"counts": counts}
    kinds = values.pop("kinds")
    if kinds is not None:
        sums = _rounded(kinds)
        record["kinds"] = {
            kind: {name: numbers[index] for name, numbers in sums.items()}
            for index, kind in enumerate(KINDS)
        }
    return record | _rounded(values)


def _rounded(values: Any) -> Any:
    """Round numbers to few digits, whole ones without a point."""
    if isinstance(values, Mapping):
        return {name: _rounded(value) for name, value in values.items()}
    if np.ndim(values):
        return [_rounded(value) for value in values]
    number = float(f"{float(values):.{DIGITS}g}")
    return int(number) if number.is_integer() else number
