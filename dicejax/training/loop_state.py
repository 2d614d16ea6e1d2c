"""Counts of the training loop: its place, losses, scores and skipped steps."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np


@dataclasses.dataclass
class LoopState:
    """State of the loop outside of `TrainState`; checkpoints hold it as JSON."""

    step: int = 0  # number of updates done
    recorded: int = 0  # step of the last line in metrics.jsonl
    evaluated: bool = True  # whether the epoch that ends here, if one does, was scored
    dev_score: float | None = None
    best_dev_score: float | None = None
    skipped: int = 0
    skipped_in_a_row: int = 0
    unrecorded: list[dict[str, float]] = dataclasses.field(default_factory=list)
    epoch_losses: list[float] = dataclasses.field(default_factory=list)
    # Of the first line in metrics.jsonl and, where there are several, of the last.
    losses: list[float] = dataclasses.field(default_factory=list)
    throughput: dict[str, float] = dataclasses.field(default_factory=dict)
    # Counts of dev's decisions after the last epoch, for `Objective.after_epoch`.
    decisions: dict[str, list[Any]] = dataclasses.field(default_factory=dict)
    data: int = 0  # checksum of the encoded training data
    # SHA-256 of metrics.jsonl and analysis.jsonl.
    digests: dict[str, str] = dataclasses.field(default_factory=dict)
    machine: dict[str, str] = dataclasses.field(default_factory=dict)
    versions: dict[str, str] = dataclasses.field(default_factory=dict)  # all, in turn

    def go_on_with(self, versions: Mapping[str, str]) -> None:
        """Note the versions of libraries, beside those that the run began with."""
        for name, version in versions.items():
            before = self.versions.get(name, version)
            is_new = version != before.rpartition(", then ")[2]
            self.versions[name] = f"{before}, then {version}" if is_new else before

    def move_to(self, machine: dict[str, str], warn: Callable[[str], None]) -> None:
        """Note where training goes on; warn if sums may round otherwise there."""
        changes = [
            f"{name} {self.machine[name]}, now {value}"
            for name, value in machine.items()
            if self.machine.get(name, value) != value
        ]
        self.machine = machine
        if changes:
            warn(
                f"begun with {'; '.join(changes)}: the last bits may differ from those "
                "of a run that was not stopped"
            )

    def count(self, metrics: dict[str, float]) -> None:
        """Count a step by its metrics."""
        self.unrecorded.append(metrics)
        self.skipped += bool(metrics["skipped"])
        self.skipped_in_a_row = (self.skipped_in_a_row + 1) * bool(metrics["skipped"])

    def next_line(self) -> dict[str, float]:
        """Return the metrics of the steps since the last line, for the next one.

        The loss is their mean, since an epoch's last batch may hold a handful of
        sentences; skipped steps are left out.
        """
        losses = [x["loss"] for x in self.unrecorded if not x["skipped"]]
        last = self.unrecorded[-1]
        self.epoch_losses += losses
        if losses:
            self.losses = [*self.losses[:1], _mean(losses)]
        self.unrecorded, self.recorded = [], self.step
        line = {
            "loss": _mean(losses),
            "gradient_norm": last["gradient_norm"],
            "learning_rate": last["learning_rate"],
            "skipped": self.skipped,
        }
        return line | {k: x for k, x in last.items() if k == "loss_scale"}

    def score_epoch(self, score: float) -> None:
        """Note the score on dev."""
        best = self.best_dev_score
        self.dev_score, self.evaluated = score, True
        self.best_dev_score = score if best is None else max(best, score)

    def end_epoch(self) -> float:
        """Return the mean loss of the epoch, and begin another."""
        losses, self.epoch_losses = self.epoch_losses, []
        return _mean(losses)


def _mean(losses: Sequence[float]) -> float:
    return float(np.mean(losses)) if losses else math.nan
