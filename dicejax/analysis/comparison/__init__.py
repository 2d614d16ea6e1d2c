"""Does a loss help? Every loss with every seed, and what may be said of the scores."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

from dicejax.analysis.comparison.controls import control_all, control_outcomes
from dicejax.analysis.comparison.jobs import (
    BASELINE,
    Job,
    jobs_of,
    shard_of,
    train_all,
    with_baselines,
)
from dicejax.analysis.comparison.outcomes import (
    outcome_of,
    require_one_test_set,
    unfinished,
)
from dicejax.analysis.comparison.stacks import stack_named
from dicejax.analysis.comparison.statistics import Row, rows_of
from dicejax.analysis.comparison.table import remarks, table
from dicejax.files import write_whole
from dicejax.objectives import name_of

__all__ = [
    "control_all",
    "evaluated",
    "jobs_of",
    "remarks",
    "shard_of",
    "stack_named",
    "table",
    "train_all",
    "unfinished",
    "with_baselines",
]


def evaluated(
    jobs: Sequence[Job],
    folder: str,
    tuning: Mapping[str, Any] | None = None,
    *,
    baseline: str | None = None,
) -> list[Row]:
    """Read what became of the runs, compare, and write `folder/comparison.json`.

    Args:
      jobs: all runs.
      folder: of the comparison; made where it is missing.
      tuning: how the settings were chosen, if they were, as `tuning.json` has it.
      baseline: the loss that the others are compared with; cross-entropy unless given.

    Raises:
      InputError: runs cannot be read or compared, or the folder cannot be written to.
    """
    outcomes = [outcome_of(job) for job in jobs]
    require_one_test_set(outcomes)
    standard = name_of(BASELINE)
    baseline = baseline or standard
    controlled = [one for one in outcomes if one.loss == standard]
    rows = rows_of(outcomes + control_outcomes(controlled), baseline)
    content = {
        "baseline": baseline,
        "headline": jobs[0].experiment.task.headline,
        "losses": {row.loss: row.to_json() for row in rows},
    }
    if tuning is not None:
        content["tuning"] = tuning
    text = json.dumps(content, indent=2) + "\n"
    write_whole(epath.Path(folder), "comparison.json", text)
    return rows
