"""What it gains to step several runs by one program, for encoders of several sizes.

Steps of runs with different seeds on the corpus of `experiments/quickstart.py`, one run
after the other and stacked, in turn; batches are on the device already. The last size
is that of the quickstart. Where the ratio falls to 1 is the number of operations up to
which `--stack auto` stacks on a CPU (`training/stack_size.py`).

usage:    python benchmarks/stacked.py
measured: see benchmarks/README.md
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import tyro

from dicejax.config import Experiment, load
from dicejax.training.setup import Setup, describe
from dicejax.training.sharding import global_batch, replicate
from dicejax.training.stack_size import step_flops
from dicejax.training.step import train_step
from dicejax.training.steps.stack import stacked, train_steps

QUICKSTART = Path(__file__).parents[1] / "experiments" / "quickstart.py"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """What to measure.

    Args:
      runs: in a stack.
      steps: of each run in a round.
      rounds: how often, in turn.
      sizes: width of the encoder, layers, tokens per row and sentences per update.
      dropout: of the encoder.
    """

    runs: int = 8
    steps: int = 5
    rounds: int = 3
    sizes: tuple[tuple[int, int, int, int], ...] = (
        (16, 1, 32, 2),
        (32, 1, 32, 8),
        (32, 1, 64, 16),
        (32, 2, 64, 16),
        (64, 2, 64, 16),
        (64, 2, 128, 32),
        (128, 2, 128, 32),
    )
    dropout: float = 0.1


def experiment(size: tuple[int, int, int, int], seed: int, dropout: float):
    """The quickstart with another encoder and batch."""
    width, layers, max_length, sentences = size
    own: Experiment = load(QUICKSTART)
    encoder = dataclasses.replace(
        own.encoder,
        hidden_size=width,
        num_hidden_layers=layers,
        intermediate_size=4 * width,
        num_attention_heads=max(2, width // 32),
        dropout=dropout,
    )
    training = dataclasses.replace(
        own.training, max_length=max_length, batch_size=sentences, seed=seed
    )
    return dataclasses.replace(own, encoder=encoder, training=training)


class Runs:
    """Several runs, and a round of steps of them in either way."""

    def __init__(self, setups: Sequence[Setup], steps: int):
        mesh = setups[0].experiment.mesh.make()
        batches = [setup.batches(mesh) for setup in setups]
        room = max(one.sequences for one in batches)
        arrays = [
            [one.holding(room)[step].arrays for step in range(steps)] for one in batches
        ]
        self.separate = [[global_batch(one, mesh) for one in own] for own in arrays]
        self.together = [
            replicate(jax.tree.map(lambda *x: np.stack(x), *at_step), mesh)
            for at_step in zip(*arrays, strict=True)
        ]
        self.settings = setups[0].step_settings(mesh)
        self.objective = replicate(setups[0].objective(), mesh)
        objectives = [setup.objective() for setup in setups]
        self.objectives = stacked(objectives, mesh)

        def states() -> list[Any]:
            return [
                setup.initial_state(setup.objective(), mesh, len(own))
                for setup, own in zip(setups, batches, strict=True)
            ]

        self.states, self.state = states(), stacked(states(), mesh)

    def one_by_one(self) -> np.ndarray:
        """Take the steps of a round; returns the losses `[N, K]`."""
        losses = []
        for number, batches in enumerate(self.separate):
            state, own = self.states[number], []
            for batch in batches:
                state, metrics = train_step(
                    state, batch, self.objective, **self.settings
                )
                own.append(metrics["loss"])
            self.states[number] = state
            losses.append(jax.device_get(own))
        return np.array(losses)

    def stacked(self) -> np.ndarray:
        """Do the same for all runs at once."""
        settings = {k: v for k, v in self.settings.items() if k != "mesh"}
        losses = []
        for batch in self.together:
            self.state, metrics = train_steps(
                self.state, batch, self.objectives, **settings
            )
            losses.append(metrics["loss"])
        return np.array(jax.device_get(losses)).T


def timed(work: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    """Return seconds and what the work returned."""
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def main() -> None:
    """Measure and print a line for each size."""
    settings = tyro.cli(Settings, description=__doc__)
    print(f"{settings.runs} runs; ms are of a step of one run, medians of rounds")
    print("width layers row sentences   MFLOP  one by one  stacked  ratio  difference")
    for size in settings.sizes:
        first = describe(experiment(size, 0, settings.dropout), warn=lambda text: None)
        setups = [
            first.of_run(experiment(size, seed, settings.dropout))
            for seed in range(settings.runs)
        ]
        runs = Runs(setups, settings.steps)
        difference = np.abs(runs.one_by_one() - runs.stacked()).max()  # and compile
        times = [
            (timed(runs.one_by_one)[0], timed(runs.stacked)[0])
            for _ in range(settings.rounds)
        ]
        taken = settings.steps * settings.runs / 1e3
        ways = [statistics.median(way) / taken for way in zip(*times, strict=True)]
        ratio = statistics.median(alone / together for alone, together in times)
        width, layers, max_length, sentences = size
        print(
            f"{width:5} {layers:6} {max_length:3} {sentences:9} "
            f"{step_flops(first) / 1e6:7.0f} {ways[0]:11.2f} {ways[1]:8.2f} "
            f"{ratio:6.2f} {difference:11.1e}",
            flush=True,
        )
        jax.clear_caches()


if __name__ == "__main__":
    main()
