"""Compare the outcomes of runs, and record that in `comparison.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

from dicejax.errors import Flaw
from dicejax.io.files import write_whole
from dicejax.io.json_text import field, read, value_of
from dicejax.objectives import name_of
from dicejax.study.compare import paste
from dicejax.study.compare.baselines import outcomes_of
from dicejax.study.compare.jobs import BASELINE, Job, Outcome
from dicejax.study.compare.statistics import MARGIN, Look, Row, results_of, rows_of

FILE = "comparison.json"


def evaluate_runs(
    jobs: Sequence[Job],
    folder: str,
    tuned: Mapping[str, Any] | None = None,
    *,
    baseline: str | None = None,
    margin: float = MARGIN,
) -> list[Row]:
    """Read the results of runs, compare them, and write `folder/comparison.json`.

    The file records each look at the results: p-values hold over all of them.

    Raises:
      InputError: runs cannot be read or compared, or the folder cannot be written to.
    """
    outcomes, controls = outcomes_of(jobs)
    baseline = baseline or name_of(BASELINE)
    controls = [name for name in controls if name != baseline]
    return add_verdicts(
        outcomes, folder, tuned, baseline, margin=margin, controls=controls
    )


def add_verdicts(
    outcomes: Sequence[Outcome],
    folder: str,
    tuned: Mapping[str, Any] | None,
    baseline: str,
    *,
    margin: float,
    controls: Sequence[str] = (),
) -> list[Row]:
    """Compare outcomes, and write `comparison.json` and texts to paste."""
    path = epath.Path(folder)
    looks: list[Look] = []
    changed: dict[str, Any] = {}  # texts that `report` keeps, as it reads no data
    if (path / FILE).exists():
        try:
            record = read(path / FILE)
            looks = [
                {
                    loss: [value_of(seed, int) for seed in value_of(seeds, list)]
                    for loss, seeds in value_of(look, dict).items()
                }
                for look in field(record, "looks", list, [])
            ]
            changed = field(record, "changed", dict, {})
        except Flaw as flaw:
            raise flaw.at(path / FILE, flaw.line) from None
    rows = rows_of(outcomes, baseline, controls=controls, looks=looks, margin=margin)
    tested = [row for row in rows if row.against and row.against.crossed]
    now = {row.loss: list(row.against.seeds) for row in tested}
    if any(
        len(seeds) > max((len(look.get(loss, ())) for look in looks), default=0)
        for loss, seeds in now.items()
    ):
        looks.append(now)
    record = to_json(rows, tuned) | {"margin": margin, "looks": looks}
    record |= {"changed": changed} if changed else {}
    write_whole(path, FILE, json.dumps(record, indent=2) + "\n")
    write_whole(path, "methods.txt", paste.methods(rows, margin, looks))
    write_whole(path, "table.tex", paste.latex(rows))
    return rows


def to_json(rows: Sequence[Row], tuned: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what `comparison.json` begins with."""
    record: dict[str, Any] = {
        "baseline": rows[0].loss if rows else None,
        "primary_metric": results_of(rows)[0]["primary_metric"] if rows else None,
        "losses": {row.loss: row.to_json() for row in rows},
    }
    return record if tuned is None else record | {"tuning": tuned}
