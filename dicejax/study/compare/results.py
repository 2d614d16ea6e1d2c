"""Compare the outcomes of runs, and record that in `comparison.json`.

With it go texts to paste into a paper: a methods paragraph and a LaTeX table.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

import dicejax
from dicejax.errors import visible
from dicejax.io.files import write_together
from dicejax.objectives import name_of
from dicejax.study.compare import statistics
from dicejax.study.compare.baselines import scored_runs
from dicejax.study.compare.changed import quote
from dicejax.study.compare.jobs import BASELINE, Job, ScoredRun, share_groups
from dicejax.study.compare.record import FILE, Comparison, earlier
from dicejax.study.compare.statistics import Row
from dicejax.study.compare.testing import LEVEL, MARGIN, Look
from dicejax.study.gradients import history
from dicejax.study.sentences import sentences
from dicejax.study.significance import MIN_SEEDS
from dicejax.training.run_folder import Run


def evaluate_runs(
    jobs: Sequence[Job],
    folder: str,
    tuned: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Comparison:
    """Compare runs as `assess_runs` does, and write all but the page to the folder.

    Raises:
      InputError: runs cannot be read or compared, or the folder cannot be written to.
    """
    comparison = assess_runs(jobs, folder, tuned, **settings)
    write_together(epath.Path(folder), texts_of(comparison))
    return comparison


def assess_runs(
    jobs: Sequence[Job],
    folder: str,
    tuned: Mapping[str, Any] | None = None,
    *,
    baseline: str = name_of(BASELINE),
    margin: float = MARGIN,
) -> Comparison:
    """Read the results of runs and compare them, after earlier looks at them.

    `folder/comparison.json` records each look at the results: p-values hold over all.

    Raises:
      InputError: runs, or the record of earlier looks, cannot be read or compared.
    """
    runs, controls = scored_runs(jobs)
    controls = [name for name in controls if name != baseline]
    comparison = assess(
        with_gradients(share_groups(runs)),
        folder,
        baseline,
        name=jobs[0].experiment.name,
        margin=margin,
        controls=controls,
    )
    return quote(dataclasses.replace(comparison, tuning=tuned))


def with_gradients(runs: Sequence[ScoredRun]) -> list[ScoredRun]:
    """Read the gradients of the first run of each loss that recorded them."""
    measured, read = [], set()
    for run in runs:
        # Controls have the runs of the baseline.
        is_trained = bool(run.result) and "control" not in run.result
        folder = Run(epath.Path(run.folder))
        if is_trained and run.loss not in read and history.has_history(folder):
            read.add(run.loss)
            run = dataclasses.replace(run, gradients=history.read(folder))
        measured.append(run)
    return measured


def assess(
    runs: Sequence[ScoredRun],
    folder: str,
    baseline: str,
    *,
    name: str,
    margin: float,
    controls: Sequence[str] = (),
) -> Comparison:
    """Compare runs, after the looks that the record in a folder has."""
    looks, quoted = earlier(folder)  # texts stay, as `report` reads no data
    rows = statistics.rows_of(
        runs, baseline, controls=controls, looks=looks, margin=margin
    )
    now = {x.loss: x.against.seeds for x in rows if x.against and x.against.is_tested}
    before = {k: max((len(x.get(k, ())) for x in looks), default=0) for k in now}
    if any(len(now[loss]) > before[loss] for loss in now):
        looks = (*looks, now)
    return Comparison(
        name=name,
        folder=folder,
        rows=tuple(rows),
        margin=margin,
        looks=looks,
        quoted=quoted,
    )


def texts_of(comparison: Comparison, more: Mapping[str, Any] = {}) -> dict[str, str]:
    """Return texts to paste and, last, the record with more in it, as files by name."""
    rows, margin, looks = comparison.rows, comparison.margin, comparison.looks
    return {
        "methods.txt": visible(methods(rows, margin, looks), keep="\n"),
        "table.tex": latex(rows),
        FILE: json.dumps({**comparison.to_json(), **more}, indent=2) + "\n",
    }


def methods(rows: Sequence[Row], margin: float, looks: Sequence[Look]) -> str:
    """Return a paragraph on the statistics of a comparison."""
    text = sentences("methods").methods(
        rows=rows,
        losses=len(statistics.rivals_of(rows)),
        sizes=sorted({len(x.against.seeds if x.against else x.finished) for x in rows}),
        is_tested=any(row.against and row.against.is_tested for row in rows),
        least=MIN_SEEDS,
        looks=max(len(looks), 1),
        at=sorted({len(seeds) for look in looks for seeds in look.values()}),
        level=LEVEL,
        margin=margin,
        version=dicejax.__version__,
    )
    return f"{text}\n"


def latex(rows: Sequence[Row]) -> str:
    """Return a table of scores, differences and verdicts; it needs booktabs."""
    return f"{sentences('latex').table(rows)}\n"
