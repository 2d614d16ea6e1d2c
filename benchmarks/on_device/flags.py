"""Which of XLA's flags help? Each alone, in turn with the step without any."""

from __future__ import annotations

import dataclasses
import statistics
from typing import Any

import encoders
import planned_steps

from dicejax.models.encoder import MAX_UNROLLED_LAYERS
from on_device import fast, sentences
from on_device.full import LENGTH
from on_device.report import Report

PLACES = 16384
"""Tokens of a batch, padding included."""
# Few layers compile in a fraction of the time of all, and a flag acts on each alike.
DEPTHS = {"written out": MAX_UNROLLED_LAYERS, "loop": 2 * MAX_UNROLLED_LAYERS}
FLAGS: tuple[tuple[str, dict[str, Any]], ...] = (  # in order of value
    ("written out", {"xla_gpu_enable_cublaslt": True}),
    ("loop", {"xla_gpu_enable_dynamic_slice_fusion": True}),
    ("written out", {"xla_gpu_cudnn_gemm_fusion_level": 3}),
    ("written out", {"xla_gpu_enable_triton_gemm": False}),
    ("written out", {"xla_gpu_autotune_level": 0}),
    ("written out", {"xla_gpu_exhaustive_tiling_search": True}),
)
NEEDS = 20.0
"""Seconds that a flag needs: two compilations where it is the first of its form."""


def run(report: Report, model: str) -> None:
    """Time steps with each flag, and without."""
    length, places = (64, 128) if report.smallest else (LENGTH, PLACES)
    without: dict[str, fast.Timed] = {}
    config = planned_steps.MODELS[model]
    drawn = sentences.draw(places + length, config.vocab_size, length)

    def step(form: str, options: dict[str, Any]) -> fast.Timed:
        changes = {} if report.smallest else {"num_hidden_layers": DEPTHS[form]}
        network = encoders.network_of(
            dataclasses.replace(config, **changes), "bfloat16"
        )
        rows = places // length
        return fast.of_dicejax(network, drawn, length, rows, report.smallest, options)

    def with_flag(form: str, options: dict[str, Any]) -> dict[str, Any]:
        if form not in without:
            without[form] = step(form, {})
        base, flagged = without[form], step(form, options)
        base.seconds.clear()
        fast.in_turn([base, flagged], report.smallest)
        ratios = [a / b for a, b in zip(base.seconds, flagged.seconds, strict=True)]
        return {
            "times_as_fast": statistics.median(ratios),
            "ms_without": 1e3 * statistics.median(base.seconds) / base.steps,
            "ms_with": 1e3 * statistics.median(flagged.seconds) / flagged.steps,
            "gib_without": base.facts["temporary_gib"],
            "gib_with": flagged.facts["temporary_gib"],
            "compile_s_without": base.facts["compile_s"],
            "compile_s_with": flagged.facts["compile_s"],
        }

    for form, options in FLAGS:
        [(flag, value)] = options.items()
        report.attempt(
            lambda f=form, o=options: with_flag(f, o),
            needs=0.0 if report.smallest else NEEDS,
            model=model,
            layers=form,
            flag=f"{flag}={value}",
        )
