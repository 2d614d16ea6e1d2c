"""How fast is a full card? Large batches, and PyTorch's packed on the same rows."""

from __future__ import annotations

from typing import Any

import encoders
import jax
import numpy as np
import planned_steps

from dicejax.models.encoder import EncoderConfig
from on_device import fast, sentences
from on_device.report import Report
from on_device.rivals import WAYS, attention_of, boundaries

TOKENS = (32768, 16384)
"""Places of a batch, in order of value."""
LENGTH = 512
WRITTEN_OUT = "dicejax, long training"


def run(report: Report, model: str) -> None:
    """Time dicejax with layers written out, PyTorch beside the largest batch."""
    length = 64 if report.smallest else LENGTH
    config = planned_steps.MODELS[model]
    trained_on = fast.FORMS[WRITTEN_OUT]
    network = encoders.network_of(config, "bfloat16")
    network = network.for_training(trained_on, jax.devices()[0].platform)
    ours: list[fast.Timed] = []

    def packed(places: int) -> dict[str, Any]:
        rows = places // length
        drawn = sentences.draw(places + length, config.vocab_size, length)
        ours.append(fast.of_dicejax(network, drawn, length, rows, report.smallest))
        return ours[-1].row(config)

    def pytorch(way: str, places: int) -> dict[str, Any]:
        drawn = sentences.draw(places + length, config.vocab_size, length)
        batch = sentences.packed(drawn, length, places // length)
        theirs = of_packed_pytorch(config, batch, way, report.smallest)
        fast.in_turn([*ours[:1], theirs], report.smallest)
        if ours:
            ratio = ours[0].tokens_per_s / theirs.tokens_per_s
            theirs.facts["dicejax_times_as_fast"] = ratio
        return theirs.row(config)

    sizes = (256, 128) if report.smallest else TOKENS
    on_cpu = fast.torch_device() == "cpu"
    rivals = WAYS[2:] if on_cpu else WAYS[:2]

    def attempt(what: str, needs: float, measure: Any, places: int) -> None:
        report.attempt(
            measure,
            needs=0.0 if report.smallest else needs,
            model=model,
            what=what,
            places=places,
        )

    largest, *others = sizes
    needs = fast.NEEDS[WRITTEN_OUT]
    attempt(WRITTEN_OUT, needs, lambda: packed(largest), largest)
    for way in rivals:
        needed = fast.NEEDS["PyTorch, compiled"]
        what = f"PyTorch, packed, {way}, compiled"
        attempt(what, needed, lambda w=way: pytorch(w, largest), largest)
    for places in others:
        attempt(WRITTEN_OUT, needs, lambda n=places: packed(n), places)


def of_packed_pytorch(
    config: EncoderConfig, batch: dict[str, np.ndarray], way: str, smallest: bool
) -> fast.Timed:
    """Return PyTorch's step on the rows of dicejax; no attention weight is dropped."""
    from transformers import AttentionInterface

    fields = config.to_json()
    near = fields.get("local_attention")
    windows = (None,) if near is None else (None, near // 2)
    segments = batch["segment_ids"]
    attention = attention_of(way, segments, fast.torch_device(), windows)
    name = f"packed_by_{way}"
    AttentionInterface.register(name, attention)
    inputs = {
        "input_ids": batch["input_ids"],
        "position_ids": batch["position_ids"],
        "labels": batch["tags"],
    }
    starts = boundaries(segments)
    is_real = segments.reshape(-1)[starts[:-1]] > 0
    lengths = [int(n) for n in np.diff(starts)[is_real]]
    undropped = dict.fromkeys(config.attention_rates, 0.0)
    return fast.time_pytorch(
        config, [inputs], lengths, not smallest, attention=name, **undropped
    )
