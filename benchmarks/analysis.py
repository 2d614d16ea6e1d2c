"""Cost of gradient analysis: one analysis vs. one step, and every 50th step.

Both are timed in turn on the batches of an experiment, so that other load affects both.
An analysis is the program, the transfer of its results and the record in the file.
Compilation is reported separately.

usage:    python benchmarks/analysis.py [--smallest] EXPERIMENT.py [--any.setting VALUE]
measured: see benchmarks/README.md
"""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence

import jax
import tyro
from etils import epath

from dicejax import config
from dicejax.training.gradients.probe import Collector
from dicejax.training.setup import prepare
from dicejax.training.sharding import global_batch, replicate
from dicejax.training.step import train_step
from dicejax.training.throughput import Throughput

ROUNDS = 20
EVERY = 50
LIMIT = 0.03


def main(argv: Sequence[str]) -> None:
    """Time both in turn and print them."""
    smallest = "--smallest" in argv
    file, *overrides = (word for word in argv if word != "--smallest")
    rounds = 1 if smallest else ROUNDS
    experiment = tyro.cli(
        tyro.conf.AvoidSubcommands[config.Experiment],
        default=config.load(file),
        args=overrides,
    )
    analysis = config.Analysis(every=1)
    experiment = dataclasses.replace(experiment, analysis=analysis)
    mesh = experiment.mesh.make()
    setup = prepare(experiment, warn=print)
    batches = setup.batches(mesh)
    state = setup.initial_state(mesh, len(batches))
    objective = replicate(setup.objective, mesh)
    settings, meter = setup.step_settings(mesh), Throughput([])
    times: dict[str, list[float]] = {"step": [], "analysis": []}
    with tempfile.TemporaryDirectory() as folder:
        collector = Collector(
            setup, epath.Path(folder), mesh, after_step=0, say=lambda text: None
        )
        with contextlib.closing(collector.log):
            for step in range(1, min(rounds, len(batches)) + 2):
                batch = global_batch(batches[step - 1].arrays, mesh, batches.rows)
                begin = time.perf_counter()
                collector.look(step, state, batch, objective, meter)
                collector.write()
                times["analysis"].append(time.perf_counter() - begin)
                begin = time.perf_counter()
                state, metrics = train_step(state, batch, objective, **settings)
                jax.block_until_ready((state, metrics))
                times["step"].append(time.perf_counter() - begin)
    print(f"{batch['input_ids'].shape} places, {len(times['analysis']) - 1} rounds")
    print(f"{'':10} {'compiled in s':>14} {'median ms':>10} {'min ms':>8}")
    for name, (first, *rest) in times.items():
        middle, least = statistics.median(rest), min(rest)
        print(f"{name:10} {first:14.1f} {1e3 * middle:10.1f} {1e3 * least:8.1f}")
    pairs = zip(times["analysis"][1:], times["step"][1:], strict=True)
    ratio = statistics.median(analysis / step for analysis, step in pairs)
    least = min(times["analysis"][1:]) / min(times["step"][1:])
    for name, x in (("by pairs", ratio), ("by minima", least)):
        cost = x / EVERY
        print(
            f"{name}: an analysis is {x:.2f} of a step; every {EVERY}: {cost:.2%} of "
            f"the time, limit {LIMIT:.0%}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
