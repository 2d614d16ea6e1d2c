"""Agreement of losses' gradients with that of soft F1, at a checkpoint of a run."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from rich.box import SIMPLE_HEAD
from rich.table import Table

from dicejax.errors import InputError
from dicejax.io.terminal import literal
from dicejax.mesh import MeshShape
from dicejax.objectives import Objective
from dicejax.training.accumulation import logits_of
from dicejax.training.checkpoint import Which, restore_params
from dicejax.training.gradients.collector import outputs_of
from dicejax.training.gradients.probe import Batch, Counts, Output, Seen, kinds_of, look
from dicejax.training.gradients.soft_f1 import averages, cosine, counts_of
from dicejax.training.offline import offline
from dicejax.training.run_folder import Run
from dicejax.training.setup import Setup, prepare
from dicejax.training.sharding import global_batch, replicate, to_host


@dataclasses.dataclass(frozen=True)
class Agreement:
    """Cosine between the gradients of a loss and of a soft F1.

    Attributes:
      loss: name of the loss.
      output: output of the network.
      average: "micro" or "macro" over classes.
      logits: cosine with respect to the logits, for each batch.
      heads: cosine with respect to the heads' parameters, for each batch.
      heads_of_all: cosine of the gradients summed over the batches.
      share_of_positives: share of the gradient on positives, where there are negatives.
    """

    loss: str
    output: str
    average: str
    logits: list[float]
    heads: list[float]
    heads_of_all: float
    share_of_positives: float | None


@dataclasses.dataclass(frozen=True)
class Agreements:
    """The agreement of several losses at one checkpoint."""

    step: int
    batches: int
    found: tuple[Agreement, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain dictionaries."""
        return dataclasses.asdict(self)


def agreements(
    folder: str,
    losses: dict[str, Objective],
    *,
    which: Which = "best",
    batches: int = 20,
    warn: Callable[[str], None] = print,
) -> Agreements:
    r"""Compare the gradients of losses with that of soft F1, at a checkpoint of a run.

    The data set is the first training batches of the run. F1's counts are of all of
    them at the same parameters, without dropout; the slope at each batch is that of
    `dicejax.training.gradients.soft_f1`, with the counts of all the others fixed. For
    the gradients :math:`g_b` of a loss and :math:`h_b` of 1 - soft F1 at batch b

    .. math:: \cos(g_b, h_b), \qquad
        \cos\left(\sum_b g_b, \sum_b h_b\right)

    1 is a loss with the direction of F1, 0 an unrelated one. Stateful losses start from
    their initial state, schedules are at the checkpoint's step.

    Raises:
      InputError: the run, its data or a loss cannot be used.
    """
    run = Run.open(folder)
    experiment = offline(run)
    setup = prepare(experiment, warn, weights=False, fetch=False)
    if setup.data.labels != run.labels():
        raise InputError(f"{folder}: its data has other labels now than it had then")
    mesh = MeshShape().make(jax.local_devices())
    step, params = restore_params(run.checkpoints, setup.network, which, mesh)
    task, micro_batches = experiment.task, experiment.training.micro_batches
    pieces = replicate(kinds_of(setup.data.tokenizer), mesh)
    progress = step / run.result()["steps"]

    settings = {"network": setup.network, "micro_batches": micro_batches, "mesh": mesh}

    @functools.partial(jax.jit, static_argnums=0)
    def count(outputs: tuple[Output, ...], params: Any, batch: Batch) -> Counts:
        logits = logits_of(params, batch, **settings)
        logits, labels = task.loss_inputs(logits, batch)
        return {
            output.name: counts_of(
                logits[output.name], labels[output.name], output.groups
            )
            for output in outputs
        }

    @functools.partial(jax.jit, static_argnums=0)
    def measure(outputs, params, batch, former, objective, pieces):
        return look(
            params,
            batch,
            objective,
            former,
            pieces,
            outputs,
            task=task,
            objective_state=objective.initial_state(),
            progress=progress,
            keep_head_gradients=True,
            **settings,
        )

    arrays, results = _batches(setup, mesh, batches), []
    for name, loss in losses.items():
        objective = setup.bind(loss)
        in_layout = task.layout(setup.data.tokenizer).tokens
        outputs = outputs_of(task, setup.data.labels, objective, in_layout)
        objective = replicate(objective, mesh)
        counts = [count(outputs, params, batch) for batch in arrays]
        whole = functools.reduce(_plus, counts)
        seen, gradients = [], None
        for batch, batch_counts in zip(arrays, counts, strict=True):
            former = jax.tree.map(lambda a, b: a - b, whole, batch_counts)
            of_batch = measure(outputs, params, batch, former, objective, pieces)
            parts = {key: of_batch[key].head_gradients for key in of_batch}
            gradients = parts if gradients is None else _plus(gradients, parts)
            slim = {
                key: dataclasses.replace(value, head_gradients=None)
                for key, value in of_batch.items()
            }
            seen.append(to_host(slim, mesh))
        results += [
            _agreement(name, output, average, seen, gradients[output.name])
            for output in outputs
            for average in averages(output.groups)
        ]
    if not results:
        raise InputError(f"{folder}: its outputs are positions, which have no classes")
    return Agreements(step, len(arrays), tuple(results))


def table(agreements: Agreements) -> Table:
    """Return a table: one row per loss and output, for the primary average."""
    headlines = {}
    for agreement in agreements.found:
        headlines.setdefault((agreement.loss, agreement.output), agreement)
    averages_of_rows = " and ".join(
        dict.fromkeys(agreement.average for agreement in headlines.values())
    )
    cosines = Table(
        title=f"cosine of the gradients of loss and soft F1 ({averages_of_rows}), "
        f"step {agreements.step}",
        caption=f"mean ± SD over {agreements.batches} training batches; head: "
        "with respect to the head's parameters, of a batch and of all added; "
        "positives: their share of the gradient",
        box=SIMPLE_HEAD,
    )
    cosines.add_column("loss", no_wrap=True)
    for heading in ("logits", "head", "all", "positives"):
        cosines.add_column(heading, justify="right", no_wrap=True)
    several = len({agreement.output for agreement in agreements.found}) > 1
    for agreement in headlines.values():
        share = agreement.share_of_positives
        cosines.add_row(
            literal(
                f"{agreement.loss}, {agreement.output}" if several else agreement.loss
            ),
            _spread(agreement.logits),
            _spread(agreement.heads),
            f"{agreement.heads_of_all:.3f}",
            "" if share is None else f"{share:.1%}",
        )
    return cosines


def _batches(setup: Setup, mesh: Mesh, most: int) -> list[Batch]:
    batches = setup.batches(mesh)
    number = min(most, batches.epoch_ends()[0])
    return [
        global_batch(batches[place].arrays, mesh, batches.rows)
        for place in range(number)
    ]


def _agreement(
    loss: str,
    output: Output,
    average: str,
    seen: Sequence[dict[str, Seen]],
    gradients: dict[str, Any],
) -> Agreement:
    parts = [outputs_seen[output.name] for outputs_seen in seen]
    norm = sum(part.measures.gradient_norm for part in parts)
    share = float(1 - norm[0] / norm.sum()) if norm.sum() else 0.0
    return Agreement(
        loss=loss,
        output=output.name,
        average=average,
        logits=[float(part.cosine[average]) for part in parts],
        heads=[float(part.cosine_heads[average]) for part in parts],
        heads_of_all=float(cosine(gradients["loss"], gradients[average])),
        share_of_positives=share if output.groups.has_negative else None,
    )


def _plus(first: Any, second: Any) -> Any:
    return jax.tree.map(jax.numpy.add, first, second)


def _spread(values: Sequence[float]) -> str:
    return f"{np.mean(values):.3f} ± {np.std(values):.3f}"
