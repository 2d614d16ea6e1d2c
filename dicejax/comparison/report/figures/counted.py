"""What figures of counted scores share: counts by output, their tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dicejax.comparison.report.document import Table
from dicejax.comparison.report.material import Material

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


def table_of_seeds(
    caption: str,
    counted: Mapping[str, Mapping[int, np.ndarray]],
    of_all: Mapping[str, str],
    score: Callable[[np.ndarray], float],
) -> Table:
    """Lay out a score of each loss: of all its seeds together, and of each.

    Args:
      caption: what it is.
      counted: counts by loss and seed.
      of_all: the score of all seeds, written, by loss.
      score: of the counts of one seed.
    """
    seeds = sorted({seed for by_seed in counted.values() for seed in by_seed})
    return Table(
        caption=caption,
        columns=("loss", "all seeds", *(f"seed {seed}" for seed in seeds)),
        rows=tuple(
            (
                loss,
                of_all[loss],
                *(
                    f"{score(by_seed[seed]):.2f}" if seed in by_seed else "-"
                    for seed in seeds
                ),
            )
            for loss, by_seed in counted.items()
        ),
    )


def beside(what: str, told: Mapping[str, str], loss: str, baseline: str) -> str:
    """Write a loss's number, and that of the baseline."""
    text = f"{what} {told[loss]}"
    return text if loss == baseline else f"{text}, {baseline} {told.get(baseline, '-')}"
