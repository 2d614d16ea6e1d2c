"""Does a loss help? Every loss with every seed, and what may be said of the scores."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

from dicejax.comparison.baselines import baseline_outcomes, score_baselines
from dicejax.comparison.jobs import (
    BASELINE,
    Job,
    jobs_of,
    shard_of,
    train_all,
    with_baselines,
)
from dicejax.comparison.outcomes import (
    outcome_of,
    require_one_test_set,
    unfinished,
)
from dicejax.comparison.stacks import stack_named
from dicejax.comparison.statistics import Row, rows_of
from dicejax.comparison.table import remarks, table
from dicejax.files import write_whole
from dicejax.objectives import name_of

__all__ = [
    "evaluated",
    "jobs_of",
    "remarks",
    "score_baselines",
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
    rows = rows_of(outcomes + baseline_outcomes(controlled), baseline)
    content = {
        "baseline": baseline,
        "primary_metric": jobs[0].experiment.task.primary_metric,
        "losses": {row.loss: row.to_json() for row in rows},
    }
    if tuning is not None:
        content["tuning"] = tuning
    text = json.dumps(content, indent=2) + "\n"
    write_whole(epath.Path(folder), "comparison.json", text)
    return rows
