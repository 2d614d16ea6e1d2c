"""Part D of the protocol: entities of CoNLL-2003 by machine reading.

Statistics and tables, for `results.py`, from the archives.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import archive
import documents
import numpy as np
import tables
from scipy import stats

from dicejax.study.compare.statistics import Row
from dicejax.study.compare.table import mean_and_spread

# In the order of the protocol.
FORMS = {
    "plain": "Each loss alone (primary)",
    "mined": "Negatives mined, 0.3 per positive",
    "answerable": "With the answerability loss",
}
TUNED = "test_with_tuned_threshold"


@dataclasses.dataclass(frozen=True)
class Form:
    """A finished comparison.

    Attributes:
      name: of the form of machine reading.
      updates: per run, mean over seeds.
      spans: gold spans of the training sample, by their starts.
      hours: of training, of the runs of its own.
      rows: statistics of each loss vs. cross-entropy, decided at 0.5.
      by_document: the same with documents as items.
    """

    name: str
    updates: float
    spans: float
    hours: float
    rows: tuple[Row, ...]
    by_document: tuple[Row, ...]


@functools.cache
def form(name: str) -> Form:
    """Read an archive."""
    runs = archived(name)
    trained_runs = [run for run in runs.outcomes if run.folder == f"mrc/{name}"]
    hours = archive.hours_of(trained_runs)
    return Form(
        name,
        runs.updates,
        runs.mean_positives,
        hours,
        tuple(runs.rows()),
        tuple(documents.by_document(runs).rows()),
    )


def finished() -> list[Form]:
    """Return the comparisons that have the seeds of a look."""
    return [form(name) for name in FORMS if archived(name).seeds]


def archived(name: str) -> archive.Archived:
    """Read the runs of a form.

    Mining changes the losses alone: cross-entropy and the controls are those of the
    first form.
    """
    of_form = archive.read(f"mrc/{name}")
    if name != "mined" or not of_form.runs:
        return of_form
    plain = archive.read("mrc/plain")
    shared = [run for run in plain.runs if run.loss in ("ce", *plain.controls)]
    return archive.merged(dataclasses.replace(plain, runs=tuple(shared)), of_form)


def with_tuned_thresholds(form_: Form) -> str:
    """Return the table of the scores with thresholds tuned on dev.

    Gains are those of the paired t test: over seeds, not over test sentences.
    """
    tuned = {
        row.loss: [run.result[TUNED]["f1"] for run in row.runs]
        for row in form_.rows
        if all(run.result and TUNED in run.result for run in row.runs)
    }
    return tables.table(
        "loss | n | test F1 | gain (95% CI over seeds)",
        [
            [
                f"`{loss}`",
                str(len(scores)),
                mean_and_spread(scores),
                "baseline" if loss == "ce" else _gain(scores, tuned["ce"]),
            ]
            for loss, scores in tuned.items()
        ],
    )


def _gain(ours: Sequence[float], baseline: Sequence[float]) -> str:
    interval = stats.ttest_rel(ours, baseline).confidence_interval(0.95)
    return tables.estimate(np.subtract(ours, baseline).mean(), *interval)
