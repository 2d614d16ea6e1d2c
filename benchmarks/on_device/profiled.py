"""Where does a step's time go? The device's kernels, longest first, by the profiler."""

from __future__ import annotations

import collections
import gzip
import tempfile
from pathlib import Path
from typing import Any

import accumulation
import encoders
import jax
import planned_steps
from jax.profiler import ProfileData

from dicejax.objectives import SelfAdjustingDice
from on_device import sentences
from on_device.fast import TOKENS
from on_device.report import Report

LENGTHS = (128, 512)
STEPS = 3
LONGEST = 60
"""Kernels of a step that become rows."""


def run(report: Report, model: str) -> None:
    """Profile the packed step for each length of rows; keep its compiled program."""
    config = planned_steps.MODELS[model]
    for length in (64,) if report.smallest else LENGTHS:
        drawn = sentences.draw(TOKENS[model], config.vocab_size, length)
        batch = sentences.packed(drawn, length, TOKENS[model] // length)
        network = encoders.network_of(config, "bfloat16")
        step = accumulation.Step(network, batch, SelfAdjustingDice(), 1)
        text = step.compiled.as_text()
        name = f"{model}-{length}.hlo.gz"
        report.file.with_name(name).write_bytes(gzip.compress(text.encode()))
        step.take(2)
        with tempfile.TemporaryDirectory() as folder:
            with jax.profiler.trace(folder):
                step.take(STEPS)
            (file,) = Path(folder).rglob("*.xplane.pb")
            name = f"{model}-{length}.xplane.gz"
            report.file.with_name(name).write_bytes(gzip.compress(file.read_bytes()))
            for row in kernels(ProfileData.from_file(str(file))):
                report.row(model=model, length=length, **row)


def kernels(profile: ProfileData) -> list[dict[str, Any]]:
    """Return the time per step of the kernels that take longest, and of all."""
    seconds: dict[str, float] = collections.Counter()
    calls: dict[str, int] = collections.Counter()
    for plane in profile.planes:
        if not plane.name.startswith("/device:"):
            continue
        for line in plane.lines:
            if not line.name.startswith("Stream"):
                continue
            for event in line.events:
                facts = dict(event.stats)
                name = f"{facts.get('hlo_op', '')} {event.name}"[:160]
                seconds[name] += 1e-9 * event.duration_ns
                calls[name] += 1
    rows = [
        {"kernel": name, "ms": 1e3 * total / STEPS, "calls": calls[name] / STEPS}
        for name, total in seconds.most_common(LONGEST)
    ]
    whole = {"kernel": "all", "ms": 1e3 * sum(seconds.values()) / STEPS}
    return [whole | {"calls": sum(calls.values()) / STEPS}, *rows]
