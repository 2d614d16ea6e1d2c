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
from dicejax.study.compare.statistics import (
    MARGIN,
    Look,
    Row,
    look_of,
    results_of,
    rows_of,
)

FILE = "comparison.json"


def evaluated(
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
    return judged(outcomes, folder, tuned, baseline, margin=margin, controls=controls)


def judged(
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
    looks, changed = _earlier(path / FILE)
    rows = rows_of(outcomes, baseline, controls=controls, looks=looks, margin=margin)
    now = look_of(rows)
    most = {loss: max([len(x.get(loss, ())) for x in looks] or [0]) for loss in now}
    if any(len(now[loss]) > most[loss] for loss in now):
        looks = [*looks, now]
    record = content(rows, tuned) | {"margin": margin, "looks": looks}
    record |= {"changed": changed} if changed else {}
    texts = {
        FILE: json.dumps(record, indent=2) + "\n",
        "methods.txt": paste.methods(rows, margin, looks),
        "table.tex": paste.latex(rows),
    }
    for name, text in texts.items():
        write_whole(path, name, text)
    return rows


def _earlier(file: epath.Path) -> tuple[list[Look], dict[str, Any]]:
    """Read the looks so far, and the texts shown, as `report` reads no data."""
    if not file.exists():
        return [], {}
    try:
        record = read(file)
        looks: list[Look] = [
            {
                loss: [value_of(seed, int) for seed in value_of(seeds, list)]
                for loss, seeds in value_of(look, dict).items()
            }
            for look in field(record, "looks", list, [])
        ]
        return looks, field(record, "changed", dict, {})
    except Flaw as flaw:
        raise flaw.at(file, flaw.line) from None


def primary_metric(rows: Sequence[Row]) -> str | None:
    """Return the name of the score that losses are compared by."""
    return next((result["primary_metric"] for result in results_of(rows)), None)


def content(rows: Sequence[Row], tuned: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what `comparison.json` begins with."""
    begin: dict[str, Any] = {
        "baseline": rows[0].loss if rows else None,
        "primary_metric": primary_metric(rows),
        "losses": {row.loss: row.to_json() for row in rows},
    }
    return begin if tuned is None else begin | {"tuning": tuned}
