"""Does a loss help? Every loss with every seed, and what may be said of the scores."""

from __future__ import annotations

import json
from collections.abc import Sequence

from etils import epath

from dicejax.analysis.comparison.jobs import BASELINE, Job, jobs_of, shard_of, train_all
from dicejax.analysis.comparison.naming import names_of
from dicejax.analysis.comparison.outcomes import outcome_of, require_one_test_set
from dicejax.analysis.comparison.stacks import stack_named
from dicejax.analysis.comparison.statistics import Row, rows_of
from dicejax.analysis.comparison.table import remarks, table

__all__ = [
    "evaluated",
    "jobs_of",
    "names_of",
    "remarks",
    "shard_of",
    "stack_named",
    "table",
    "train_all",
]


def evaluated(jobs: Sequence[Job], folder: str) -> list[Row]:
    """Read what became of the runs, compare, and write `folder/comparison.json`.

    Raises:
      InputError: runs cannot be read or compared.
    """
    outcomes = [outcome_of(job) for job in jobs]
    require_one_test_set(outcomes)
    (baseline,) = names_of([BASELINE])
    rows = rows_of(outcomes, baseline)
    content = {
        "baseline": baseline,
        "headline": jobs[0].experiment.task.headline,
        "losses": {row.loss: row.to_json() for row in rows},
    }
    file = epath.Path(folder) / "comparison.json"
    file.write_text(json.dumps(content, indent=2) + "\n")
    return rows
