"""Part D of the protocol: entities of CoNLL-2003 by machine reading.

Statistics and tables, for `results.py`, from the archives.
"""

from __future__ import annotations

import dataclasses
import functools

import archive
import numpy as np
import tables
from scipy import stats

from dicejax.comparison.statistics import Row
from dicejax.comparison.table import mean_and_spread
from dicejax.metrics.significance import signed

# In the order of the protocol.
FORMS = {
    "plain": "Each loss alone (primary)",
    "mined": "Negatives mined, 0.3 per positive",
    "answerable": "With the answerability loss",
}
LEVEL = 0.95


@dataclasses.dataclass(frozen=True)
class Form:
    """A finished comparison.

    Attributes:
      name: of the form of machine reading.
      updates: per run, mean over seeds.
      answers: in the training sample.
      hours: of training, of all runs.
      rows: statistics of each loss vs. cross-entropy, decided at 0.5.
      tuned: [S] test F1 with the threshold tuned on dev, by seed, for each loss.
    """

    name: str
    updates: float
    answers: float
    hours: float
    rows: tuple[Row, ...]
    tuned: dict[str, list[float]]

    @property
    def title(self) -> str:
        """Heading of the comparison."""
        return FORMS[self.name]


@functools.cache
def form(name: str) -> Form:
    """Read an archive."""
    of = archive.read(f"mrc/{name}")
    tuned: dict[str, dict[int, float]] = {}
    for one in of.outcomes:
        with_it = one.result and one.result.get("test_with_tuned_threshold")
        if with_it:
            tuned.setdefault(one.loss, {})[one.seed] = with_it["f1"]
    return Form(
        name,
        of.updates,
        float(np.mean([*of.positives.values()])),
        of.hours,
        tuple(of.rows()),
        {
            loss: [scores[seed] for seed in sorted(tuned["ce"])]
            for loss, scores in tuned.items()
        },
    )


def finished() -> list[Form]:
    """Return the comparisons that are archived."""
    return [form(name) for name in FORMS if archive.file_of(f"mrc/{name}").exists()]


def gain_with_tuned_threshold(of: Form, loss: str) -> str:
    """Return the gain of a loss, both with tuned thresholds, with its interval.

    Of the paired t test: over seeds, not over test sentences.
    """
    ours, baseline = (100 * np.array(of.tuned[name]) for name in (loss, "ce"))
    low, high = stats.ttest_rel(ours, baseline).confidence_interval(LEVEL)
    return f"{signed((ours - baseline).mean())} ({signed(low)} to {signed(high)})"


def with_tuned_thresholds(of: Form) -> str:
    """Return the table of the scores with tuned thresholds."""
    order = [row.loss for row in of.rows if row.loss in of.tuned]
    return tables.table(
        "loss | n | test F1 | gain (95% CI over seeds)",
        [
            [
                f"`{loss}`",
                str(len(of.tuned[loss])),
                mean_and_spread(of.tuned[loss]),
                "baseline" if loss == "ce" else gain_with_tuned_threshold(of, loss),
            ]
            for loss in order
        ],
    )
