"""Gradient measurements of a run in analysis.jsonl.

A record has its step and, for each analysed output, the sums of `measures.Measures`,
those by kind of piece, soft counts and F1, cosines, alarms. Each step occurs once, also
in a run that was interrupted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath
from jax.sharding import Mesh

from dicejax.errors import InputError
from dicejax.io.files import read_bytes
from dicejax.losses import OverlapCounts
from dicejax.objectives import Objective
from dicejax.tasks import Task
from dicejax.training.gradients.measures import Groups, alarms_of
from dicejax.training.gradients.probe import (
    KINDS,
    Counts,
    Output,
    OutputMeasures,
    kinds_of,
    measure_step_gradients,
)
from dicejax.training.gradients.soft_f1 import no_counts
from dicejax.training.logging import MetricsLog, lines_up_to, record_of
from dicejax.training.processes import is_main_process
from dicejax.training.setup import Setup
from dicejax.training.sharding import replicate
from dicejax.training.state import TrainState
from dicejax.training.throughput import Throughput

FILE = "analysis.jsonl"
DIGITS = 5


class Collector:
    """Analyser of the gradients of the first and every n-th step.

    Args:
      setup: data, network and objective.
      folder: run folder.
      mesh: devices.
      after_step: step that the run resumes from, or 0; later records are dropped.
      say: called with each alarm, the first time.

    Attributes:
      log: analysis.jsonl.
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
        if not self._every:
            return
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
        if not self._every or (step % self._every and step != 1) or not self._outputs:
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
                record["alarms"] = [[alarm.kind, alarm.group] for alarm in alarms]
                for alarm in alarms:
                    key = (output.name, alarm.kind, alarm.group)
                    if key not in self._alarmed:
                        self._alarmed.add(key)
                        text = f"step {step}, gradient of {output.name}: {alarm.text}"
                        self._say(text)
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
                f"{output.name}; restore it, or start anew with --overwrite"
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
