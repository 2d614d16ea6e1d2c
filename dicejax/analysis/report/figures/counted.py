"""What figures of counted scores share: counts by output, cells of their tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dicejax.analysis.report.material import Material

BASELINE_KEY = ("baseline", "the baseline, dashed")
SHARE = {"low": 0.0, "high": 1.0, "ticks": (0.0, 0.5, 1.0)}
"""An axis of shares."""


def by_output(
    materials: Sequence[Material],
) -> dict[str, dict[str, Mapping[int, np.ndarray]]]:
    """Return counts by output and loss; one output alone needs no name."""
    outputs = list(dict.fromkeys(name for m in materials for name in m.counts))
    return {
        f", {output}" if len(outputs) > 1 else "": {
            m.loss: m.counts[output] for m in materials if output in m.counts
        }
        for output in outputs
    }


def seed_columns(
    counted: Mapping[str, Mapping[int, np.ndarray]],
) -> tuple[str, ...]:
    """Name a column for each seed that any loss has."""
    return tuple(f"seed {seed}" for seed in _seeds(counted))


def _seeds(counted: Mapping[str, Mapping[int, np.ndarray]]) -> list[int]:
    return sorted({seed for by_seed in counted.values() for seed in by_seed})


def by_seed_cells(
    counted: Mapping[str, Mapping[int, np.ndarray]],
    by_seed: Mapping[int, np.ndarray],
    score: Callable[[np.ndarray], float],
) -> list[str]:
    """Write a score of each seed's counts, for these columns."""
    return [
        f"{score(by_seed[seed]):.2f}" if seed in by_seed else "-"
        for seed in _seeds(counted)
    ]


def beside(what: str, told: Mapping[str, str], loss: str, baseline: str) -> str:
    """Write a loss's number, and that of the baseline."""
    text = f"{what} {told[loss]}"
    return text if loss == baseline else f"{text}, {baseline} {told.get(baseline, '-')}"
