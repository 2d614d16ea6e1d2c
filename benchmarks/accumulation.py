"""Time and memory of micro-batches, for both ways of accumulation.

Steps of dice (cut at the logits) and of cross-entropy (one pass) vs. the plain step, on
packed rows through a BERT with dropout. Memory is the compiler's: temporary buffers of
the step, vs. those of a step on one micro-batch plus the logits of all.

usage:    python benchmarks/accumulation.py [--smallest]
measured: see benchmarks/README.md
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro

from dicejax.models.bert import BertConfig
from dicejax.models.heads import TokenHead
from dicejax.models.network import Network
from dicejax.objectives import CrossEntropy, Dice
from dicejax.optimizers import AdamW
from dicejax.planning.step import memory_of
from dicejax.training.state import TrainState
from dicejax.training.step import train_step

CLASSES = 9


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Sizes of the measurement.

    Args:
      rows: number of rows in the batch.
      max_length: tokens per row.
      micro_batches: number of micro-batches.
      layers: number of layers of the encoder.
      width: width of the hidden states.
      rounds: number of timings of each step.
      precision: dtype of the network.
      smallest: smoke test with the smallest sizes.
    """

    rows: int = 32
    max_length: int = 128
    micro_batches: int = 4
    layers: int = 6
    width: int = 384
    rounds: int = 5
    precision: str = "bfloat16"
    smallest: bool = False


SMALLEST = {"rows": 4, "max_length": 8, "micro_batches": 2, "layers": 1, "width": 24}


def batch_of(rows: int, length: int) -> dict[str, np.ndarray]:
    """Return rows full of tokens, one sentence each."""
    rng = np.random.default_rng(0)
    ones = np.ones((rows, length), np.int32)
    return {
        "input_ids": rng.integers(1, 30000, ones.shape).astype(np.int32),
        "segment_ids": ones,
        "position_ids": np.broadcast_to(np.arange(length, dtype=np.int32), ones.shape),
        "token_type_ids": 0 * ones,
        "tags": rng.integers(0, CLASSES, ones.shape).astype(np.int32),
    }


class Step:
    """Compiled step with its state.

    Attributes:
      temporary: bytes of temporary buffers, by the compiler.
      peak: bytes in use at once, by the compiler.
    """

    def __init__(
        self,
        network: Network,
        batch: Any,
        objective: Any,
        parts: int,
        options: dict[str, Any] | None = None,
    ):
        self._objective = objective.reading("tags")
        self._batch = jax.device_put(batch)
        self._state = TrainState.create(
            jax.jit(network.init)(jax.random.key(0)),
            AdamW(),
            total_steps=1000,
            rng=jax.random.key(1),
        )
        lowered = train_step.lower(
            self._state,
            self._batch,
            self._objective,
            network=network,
            optimizer=AdamW(),
            micro_batches=parts,
        )
        self.compiled = lowered.compile(options)
        self.temporary = self.compiled.memory_analysis().temp_size_in_bytes
        self.peak = memory_of(self.compiled)["peak"]

    def take(self, steps: int = 1) -> None:
        """Take steps, and wait for the last."""
        for _ in range(steps):
            self._state, _ = self.compiled(
                self._state, self._batch, self._objective, optimizer=AdamW()
            )
        jax.block_until_ready(self._state)

    def seconds(self) -> float:
        """Take a step and time it."""
        begin = time.perf_counter()
        self.take()
        return time.perf_counter() - begin


def main(argv: Sequence[str] | None = None) -> None:
    """Time all steps in turn and print them."""
    settings = tyro.cli(Settings, description=__doc__, args=argv)
    if settings.smallest:
        settings = dataclasses.replace(settings, **SMALLEST, rounds=1)
    encoder = BertConfig(
        vocab_size=30522,
        hidden_size=settings.width,
        num_hidden_layers=settings.layers,
        intermediate_size=4 * settings.width,
    )
    heads = (("tags", TokenHead(classes=CLASSES)),)
    network = Network(encoder=encoder, heads=heads, precision=settings.precision)
    parts = settings.micro_batches
    whole = batch_of(settings.rows, settings.max_length)
    part = batch_of(settings.rows // parts, settings.max_length)
    steps = {
        "plain": Step(network, whole, Dice(), 1),
        "one micro-batch": Step(network, part, Dice(), 1),
        "cut at the logits": Step(network, whole, Dice(), parts),
        "one pass": Step(network, whole, CrossEntropy(), parts),
    }
    times = {name: [] for name in steps}
    for _ in range(settings.rounds + 1):
        for name, step in steps.items():
            times[name].append(step.seconds())
    logits = (
        settings.rows * settings.max_length * CLASSES * jnp.dtype("float32").itemsize
    )
    allowed = steps["one micro-batch"].temporary + logits
    plain = statistics.median(times["plain"][1:])
    print(f"{'':20} {'ms':>8} {'/ plain':>8} {'MiB':>8} {'/ part + logits':>16}")
    for name, step in steps.items():
        middle = statistics.median(times[name][1:])
        print(
            f"{name:20} {1e3 * middle:8.0f} {middle / plain:8.2f}"
            f" {step.temporary / 2**20:8.0f} {step.temporary / allowed:16.2f}"
        )


if __name__ == "__main__":
    main()
