"""How fast? Training steps of large encoders, and PyTorch's on the same sentences."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import accumulation
import encoders
import jax
import numpy as np
import planned_steps

from dicejax.models.encoder import EncoderConfig
from dicejax.models.network import Network
from dicejax.objectives import SelfAdjustingDice
from dicejax.training.throughput import flops_per_token, peak_flops
from on_device import sentences
from on_device.report import Report

TOKENS = {"bert-base": 16384, "bert-large": 8192, "modernbert-base": 16384, "tiny": 256}
"""Places of a batch, by model: on 80 GB the longest rows take some 30 GB."""
LENGTHS = (128, 512)
"""Tokens per row, in order of value; the longest has the highest peak."""
UPDATES = 4
"""Updates over which PyTorch's sentences are spread, to group them by length."""
# Seconds that a measurement needs, its compilation included.
NEEDS = {
    "dicejax": 30.0,
    "dicejax, long training": 60.0,
    "PyTorch": 10.0,
    "PyTorch, compiled": 60.0,
}
FORMS = {"dicejax": 0, "dicejax, long training": 10**9}
"""Tokens of the training, by the name of a row; a long one has layers written out."""

RIVALS = (  # whether sentences are batched by length, None: full rows; and compiled
    ("PyTorch, padded", False, False),
    ("PyTorch, by length, compiled", True, True),
    ("PyTorch, full rows, compiled", None, True),
)


def run(report: Report, model: str) -> None:
    """Time dicejax for each length of rows, and PyTorch padded and at its best."""
    lengths = (64,) if report.smallest else LENGTHS
    places = TOKENS[model]
    config = planned_steps.MODELS[model]
    drawn = sentences.draw(UPDATES * places, config.vocab_size, lengths[0])
    ours: list[Timed] = []

    def packed(length: int, trained_on: int) -> dict[str, Any]:
        rows = places // length
        network = encoders.network_of(config, "bfloat16")
        network = network.for_training(trained_on, jax.devices()[0].platform)
        ours.append(of_dicejax(network, drawn, length, rows, report.smallest))
        return ours[-1].row(config)

    def pytorch(by_length: bool | None, compiled: bool) -> dict[str, Any]:
        compiled = compiled and not report.smallest
        theirs = of_pytorch(config, drawn, by_length, compiled)
        # Sentences vs. the rows they are packed in; full rows vs. the longest.
        extreme = max if by_length is None else min
        length = extreme((timed.facts["length"] for timed in ours), default=None)
        same_length = [timed for timed in ours if timed.facts["length"] == length]
        rival = max(same_length, key=lambda timed: timed.tokens_per_s, default=None)
        in_turn([*([rival] if rival else []), theirs], report.smallest)
        if rival is not None:
            filled = 1.0 if by_length is not None else rival.facts["filled"]
            ratio = rival.tokens_per_s / filled / theirs.tokens_per_s
            theirs.facts["vs_length"] = rival.facts["length"]
            theirs.facts["dicejax_times_as_fast"] = ratio
        return theirs.row(config)

    for length in lengths:
        for what, trained_on in list(FORMS.items())[: 1 if report.smallest else None]:
            report.attempt(
                lambda n=length, t=trained_on: packed(n, t),
                needs=0.0 if report.smallest else NEEDS[what],
                model=model,
                what=what,
                length=length,
            )
    for what, by_length, compiled in RIVALS:
        seconds = NEEDS["PyTorch, compiled" if compiled else "PyTorch"]
        report.attempt(
            lambda b=by_length, c=compiled: pytorch(b, c),
            needs=0.0 if report.smallest else seconds,
            model=model,
            what=what,
        )


class Timed:
    """A step with its times.

    Args:
      take: takes one round of steps and waits for it.
      steps: steps of a round.
      tokens: real tokens of a round.
      lengths: number of tokens of each sequence.
      facts: further fields of its row.
    """

    def __init__(
        self,
        take: Callable[[], None],
        steps: int,
        tokens: int,
        lengths: Sequence[int],
        **facts: Any,
    ):
        self._take = take
        self.steps = steps
        self.tokens = tokens
        self.lengths = lengths
        self.facts = facts
        self.seconds: list[float] = []

    def measure(self) -> None:
        """Time a round."""
        start = time.perf_counter()
        self._take()
        self.seconds.append(time.perf_counter() - start)

    @property
    def tokens_per_s(self) -> float:
        """Real tokens per second, by the median round."""
        return self.tokens / statistics.median(self.seconds)

    def row(self, config: EncoderConfig) -> dict[str, Any]:
        """Return the fields of a row."""
        peak = peak_flops(jax.devices()[0].device_kind)
        operations = flops_per_token(config, self.lengths)
        utilisation = None
        if peak and operations:
            utilisation = operations * self.tokens_per_s / peak
        median = statistics.median(self.seconds)
        return {
            "ms_per_step": 1e3 * median / self.steps,
            "ms_min": 1e3 * min(self.seconds) / self.steps,
            "ms_max": 1e3 * max(self.seconds) / self.steps,
            "rounds": len(self.seconds),
            "tokens_per_s": self.tokens_per_s,
            "utilisation": utilisation,
            **self.facts,
        }


def in_turn(timed: list[Timed], smallest: bool) -> None:
    """Time rounds of each, in turn, after one that does not count."""
    for turn in range(2 if smallest else 6):
        for each in timed:
            each.measure()
            if not turn:
                each.seconds.clear()


def of_dicejax(
    network: Network,
    drawn: list[dict[str, np.ndarray]],
    length: int,
    rows: int,
    smallest: bool,
    options: dict[str, Any] | None = None,
) -> Timed:
    """Compile a step on packed rows with options of XLA, and time it."""
    batch = sentences.packed(drawn, length, rows)
    started = time.perf_counter()
    step = accumulation.Step(network, batch, SelfAdjustingDice(), 1, options)
    compiled = time.perf_counter() - started
    steps = 1 if smallest else 5
    real = batch["segment_ids"] > 0
    timed = Timed(
        lambda: step.take(steps),
        steps,
        steps * int(real.sum()),
        runs(batch["segment_ids"]),
        length=length,
        rows=rows,
        filled=float(real.mean()),
        compile_s=compiled,
        temporary_gib=step.temporary / 2**30,
        planned_gib=step.peak / 2**30,
    )
    in_turn([timed], smallest)
    memory = jax.devices()[0].memory_stats() or {}
    # The process's peak: it is this step's where it rises.
    timed.facts["peak_gib"] = memory.get("peak_bytes_in_use", 0) / 2**30 or None
    return timed


def runs(segment_ids: np.ndarray) -> list[int]:
    """Return the lengths of the segments of packed rows."""
    counts = [np.bincount(row)[1:] for row in segment_ids]
    return [int(n) for n in np.concatenate(counts) if n]


def of_pytorch(
    config: EncoderConfig,
    drawn: list[dict[str, np.ndarray]],
    by_length: bool | None,
    compiled: bool,
) -> Timed:
    """Return PyTorch's step on the same sentences.

    Args:
      config: architecture, for transformers' model with random weights.
      drawn: sentences of `UPDATES` updates.
      by_length: put sentences of about one length in a batch; None: rows full of one
        segment of 512 tokens, or of the longest that the sentences have.
      compiled: compile the model with torch.compile, for all widths at once if there
        are several.
    """
    batches = [
        {
            "input_ids": batch["input_ids"],
            "attention_mask": (batch["segment_ids"] > 0).astype(int),
            "labels": batch["tags"],
        }
        for batch in batches_of(drawn, by_length)
    ]
    if by_length is None:  # without a mask SDPA is free to take its fastest kernel
        for batch in batches:
            del batch["attention_mask"]
    lengths = [int(n) for b in batches for n in (b["labels"] >= 0).sum(axis=1)]
    # One shape compiles in less time than all.
    several = by_length is not None
    return time_pytorch(config, batches, lengths, compiled, dynamic=several)


def torch_device() -> str:
    """Return the device of PyTorch's side."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def time_pytorch(
    config: EncoderConfig,
    batches: list[dict[str, np.ndarray]],
    lengths: list[int],
    compiled: bool,
    *,
    dynamic: bool = False,
    attention: str = "sdpa",
    **changes: Any,
) -> Timed:
    """Return PyTorch's steps on these inputs, in a round one step on each.

    Args:
      config: architecture, for transformers' model with random weights.
      batches: inputs of the model.
      lengths: number of tokens of each sequence.
      compiled: compile the model with torch.compile.
      dynamic: compile it for all shapes at once.
      attention: transformers' name of the implementation.
      **changes: other fields of the configuration.
    """
    import torch
    from transformers import AutoConfig, AutoModelForTokenClassification

    device = torch_device()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    fields = config.to_json() | changes
    theirs = AutoConfig.for_model(
        fields.pop("model_type"), **fields, num_labels=sentences.CLASSES
    )
    model = AutoModelForTokenClassification.from_config(
        theirs, attn_implementation=attention
    )
    model = model.to(device).train()
    call = torch.compile(model, dynamic=dynamic) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), 5e-5, fused=True)
    on_device = [
        {k: torch.tensor(v, dtype=torch.long, device=device) for k, v in batch.items()}
        for batch in batches
    ]

    def take() -> None:
        for inputs in on_device:
            encoders.torch_update(model, call, optimizer, inputs, autocast=True)
        if device == "cuda":
            torch.cuda.synchronize()

    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    started = time.perf_counter()
    take()
    facts: dict[str, Any] = {"compile_s": time.perf_counter() - started}
    if device == "cuda":
        facts["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
    places = sum(batch["input_ids"].size for batch in batches)
    return Timed(
        take,
        len(batches),
        sum(lengths),
        lengths,
        filled=sum(lengths) / places,
        **facts,
    )


def batches_of(
    drawn: list[dict[str, np.ndarray]], by_length: bool | None
) -> list[dict[str, np.ndarray]]:
    """Return the batches of `UPDATES` updates.

    Args:
      drawn: sentences.
      by_length: as `of_pytorch` has it.
    """
    tokens = np.array([len(sentence["input_ids"]) for sentence in drawn])
    if by_length is None:
        width = min(512, int(tokens.sum()) // UPDATES)
        rows = int(tokens.sum()) // UPDATES // width
        rng = np.random.default_rng(0)
        shape = (rows, width)
        ids = rng.integers(1, max(s["input_ids"].max() for s in drawn), shape)
        tags = rng.integers(0, sentences.CLASSES, shape)
        ones = np.ones(shape, int)
        return [{"input_ids": ids, "segment_ids": ones, "tags": tags}] * UPDATES
    order = np.argsort(tokens, kind="stable") if by_length else np.arange(len(drawn))
    # As many tokens in each batch, not as many sentences: all fill the device.
    update = np.minimum(
        tokens[order].cumsum() * UPDATES // (tokens.sum() + 1), UPDATES - 1
    )
    parts = [[drawn[n] for n in order[update == part]] for part in range(UPDATES)]
    return [sentences.padded(part, multiple_of=8) for part in parts]
