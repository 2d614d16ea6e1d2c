"""Where a run stands beside its state: what a checkpoint notes so that it can go on."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dicejax.data.pipeline import Packed


@dataclasses.dataclass
class Standing:
    """What the loop knows at a step; all of it fits JSON.

    Attributes:
      step: number of updates done.
      recorded: the step of the last line in metrics.jsonl.
      evaluated: whether the epoch that ends at this step, if one does, was scored.
      dev_score: the last one.
      best_dev_score: of all.
      skipped: steps that changed nothing.
      skipped_in_a_row: of them those up to this step.
      unrecorded: what each step since the last line gave.
      epoch_losses: of the steps of this epoch up to the last line.
      throughput: sums of the clock.
      data: checksum of what is trained on.
    """

    step: int = 0
    recorded: int = 0
    evaluated: bool = True
    dev_score: float | None = None
    best_dev_score: float | None = None
    skipped: int = 0
    skipped_in_a_row: int = 0
    unrecorded: list[dict[str, float]] = dataclasses.field(default_factory=list)
    epoch_losses: list[float] = dataclasses.field(default_factory=list)
    throughput: dict[str, float] = dataclasses.field(default_factory=dict)
    data: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return a copy as JSON has it; numbers that are not finite become text."""
        return _changed(dataclasses.asdict(self), _as_text)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Standing:
        """Read what `to_json` gave.

        >>> one = Standing(step=3, epoch_losses=[0.1, math.inf])
        >>> Standing.from_json(one.to_json()) == one
        True
        """
        return cls(**_changed(dict(content), _as_number))

    def note(self, metrics: Mapping[str, float]) -> None:
        """Note what a step gave."""
        self.unrecorded.append(dict(metrics))
        skipped = bool(metrics["skipped"])
        self.skipped += skipped
        self.skipped_in_a_row = self.skipped_in_a_row + 1 if skipped else 0

    def record(self, step: int, batch: Packed) -> dict[str, float]:
        """Return the line of a step, and begin to collect for the next.

        The loss is the mean since the last line, for an epoch's last batch may hold a
        handful of sentences; a step that was skipped has no part in it.
        """
        losses = [
            float(metrics["loss"])
            for metrics in self.unrecorded
            if not metrics["skipped"]
        ]
        last = self.unrecorded[-1]
        self.epoch_losses += losses
        self.unrecorded = []
        self.recorded = step
        values = {
            "epoch": batch.epoch,
            "sentences": batch.sentences,
            "loss": float(np.mean(losses)) if losses else math.nan,
            "gradient_norm": last["gradient_norm"],
            "learning_rate": last["learning_rate"],
            "skipped": self.skipped,
        }
        if "loss_scale" in last:
            values["loss_scale"] = last["loss_scale"]
        return values

    def mean_of_epoch(self) -> float:
        """Return the mean loss of the epoch that ends, and begin the next."""
        losses, self.epoch_losses = self.epoch_losses, []
        return float(np.mean(losses)) if losses else math.nan

    def scored(self, score: float) -> None:
        """Note the score of dev."""
        best = self.best_dev_score
        self.dev_score, self.evaluated = score, True
        self.best_dev_score = score if best is None else max(best, score)


def _changed(value: Any, leaf: Any) -> Any:
    if isinstance(value, dict):
        return {name: _changed(part, leaf) for name, part in value.items()}
    if isinstance(value, list):
        return [_changed(part, leaf) for part in value]
    return leaf(value)


def _as_text(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value


def _as_number(value: Any) -> Any:
    return float(value) if value in ("nan", "inf", "-inf") else value
