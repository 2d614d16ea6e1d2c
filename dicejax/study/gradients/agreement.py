"""Agreement of losses' gradients with that of soft F1, at a checkpoint of a run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

from dicejax.errors import InputError
from dicejax.io.terminal import literal
from dicejax.mesh import MeshShape
from dicejax.objectives import Objective
from dicejax.tasks import Task
from dicejax.training.accumulation import logits_of
from dicejax.training.checkpoint import Which
from dicejax.training.gradients import probe
from dicejax.training.gradients.measures import averages, cosine, counts_of
from dicejax.training.gradients.probe import Batch, Output, OutputMeasures
from dicejax.training.restored import network_params
from dicejax.training.run_folder import Run
from dicejax.training.setup import prepare
from dicejax.training.sharding import global_batch, replicate, to_host

PARTS = ("logits", "heads")
"""Names of the variables by which each batch is differentiated."""


def agreements(
    folder: str,
    losses: dict[str, Objective],
    *,
    which: Which = "best",
    batches: int = 20,
    warn: Callable[[str], None] = print,
) -> dict[str, Any]:
    r"""Compare the gradients of losses with that of soft F1, at a checkpoint of a run.

    The data set is the first training batches of the run, without dropout; the slope of
    F1 at each batch is that with the counts of all the others fixed. For the gradients
    :math:`g_b` of a loss and :math:`h_b` of 1 - soft F1 at batch b

    .. math:: \cos(g_b, h_b), \qquad
        \cos\left(\sum_b g_b, \sum_b h_b\right)

    1 is a loss with the direction of F1, 0 an unrelated one. Stateful losses start from
    their initial state, schedules are at the checkpoint's step.

    Returns:
      The step of the checkpoint, the number of batches, and for each loss, output and
      average, "micro" or "macro", the cosines of each batch with respect to the
      logits and to the heads' parameters, the latter of all batches too, and the
      positives' share of the gradient.

    Raises:
      InputError: the run, its data or a loss cannot be used.
    """
    run = Run.open(folder)
    experiment = run.as_begun(run.offline_experiment())
    setup = prepare(experiment, warn, weights=False, fetch=False)
    labels, tokenizer = setup.data.labels, setup.data.tokenizer
    if labels != run.labels():
        raise InputError(f"{folder}: the labels of its data have changed since")
    mesh = MeshShape().make(jax.local_devices())
    step, params = network_params(run, setup.network, which, mesh)
    task = experiment.task
    pieces = replicate(probe.kinds_of(tokenizer), mesh)
    in_layout = task.layout(tokenizer).tokens
    settings = {"network": setup.network, "task": task, "mesh": mesh}
    settings["micro_batches"] = experiment.training.micro_batches
    packed = setup.batches(mesh)
    first = range(min(batches, packed.plan.epoch_ends()[0]))
    arrays = [global_batch(packed[x].arrays, mesh, packed.rows) for x in first]
    progress = step / run.result()["steps"]
    rows: list[dict[str, Any]] = []
    for name, loss in losses.items():
        objective = setup.bind(loss)
        outputs = probe.outputs_of(task, labels, objective, in_layout)
        objective = replicate(objective, mesh)
        options = settings | {"outputs": outputs}
        counts = [_count(params, batch, **options) for batch in arrays]
        total, measured = _sum(counts), []
        for batch, batch_counts in zip(arrays, counts, strict=True):
            former = jax.tree.map(lambda a, b: a - b, total, batch_counts)
            inputs = (params, batch, objective, former, pieces)
            of_batch = _measure(*inputs, progress=progress, **options)
            measured.append(to_host(of_batch, mesh))
        rows += [
            _agreement(name, output, average, [x[output.name] for x in measured])
            for output in outputs
            for average in averages(output.groups)
        ]
    if not rows:
        raise InputError(f"{folder}: its outputs are positions, which have no classes")
    return {"step": step, "batches": len(arrays), "found": rows}


_STATIC = ("outputs", "progress", "network", "task", "micro_batches", "mesh")


@functools.partial(jax.jit, static_argnames=_STATIC)
def _count(
    params: Any, batch: Batch, outputs: tuple[Output, ...], task: Task, **forward: Any
) -> probe.Counts:
    logits, labels = task.loss_inputs(logits_of(params, batch, **forward), batch)
    return {
        x.name: counts_of(logits[x.name], labels[x.name], x.groups) for x in outputs
    }


@functools.partial(jax.jit, static_argnames=_STATIC)
def _measure(
    params: Any, batch: Batch, objective: Objective, *counts: Any, **settings: Any
) -> dict[str, OutputMeasures]:
    settings |= {"objective_state": objective.initial_state()}
    inputs = (params, batch, objective, *counts)
    return probe.measure_gradients(*inputs, keep_head_gradients=True, **settings)


def _agreement(
    loss: str, output: Output, average: str, measured: list[OutputMeasures]
) -> dict[str, Any]:
    heads = _sum([x.head_gradients for x in measured])
    norm = _sum([x.measures.gradient_norm for x in measured])
    share = float(1 - norm[0] / norm.sum()) if norm.sum() else 0.0
    return {
        "loss": loss,
        "output": output.name,
        "average": average,
        "logits": [float(x.cosine[average]) for x in measured],
        "heads": [float(x.cosine_heads[average]) for x in measured],
        "heads_of_all": float(cosine(heads["loss"], heads[average])),
        "share_of_positives": share if output.groups.has_negative else None,
    }


def _sum(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: sum(leaves), *trees)


def table(agreement: Mapping[str, Any]) -> Table:
    """Return a table: one row per loss and output, for the primary average."""
    primary: dict[tuple[str, str], Mapping[str, Any]] = {}
    for row in agreement["found"]:
        primary.setdefault((row["loss"], row["output"]), row)
    names = " and ".join(dict.fromkeys(row["average"] for row in primary.values()))
    cosines = Table(
        title=f"cosine of the gradients of loss and soft F1 ({names}), "
        f"step {agreement['step']}",
        caption=f"mean ± SD over {agreement['batches']} training batches; head: "
        "with respect to the head's parameters, of a batch and of all added; "
        "positives: their share of the gradient",
        box=SIMPLE_HEAD,
    )
    cosines.add_column("loss", no_wrap=True)
    for heading in ("logits", "head", "all", "positives"):
        cosines.add_column(heading, justify="right", no_wrap=True)
    several = len({output for _, output in primary}) > 1
    for (loss, output), row in primary.items():
        share = row["share_of_positives"]
        cosines.add_row(
            literal(f"{loss}, {output}" if several else loss),
            *(f"{np.mean(row[x]):.3f} ± {np.std(row[x]):.3f}" for x in PARTS),
            f"{row['heads_of_all']:.3f}",
            "" if share is None else f"{share:.1%}",
        )
    return cosines
