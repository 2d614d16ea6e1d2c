"""Train several losses and test whether any beats cross-entropy.

`compare` trains and evaluates; `compare_runs` evaluates runs that exist already.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

import rich.table
from etils import epath

from dicejax.comparison import report, tuning
from dicejax.comparison.baselines import baseline_outcomes, score_baselines
from dicejax.comparison.finding import common_folder, jobs_from, tuning_of
from dicejax.comparison.jobs import (
    BASELINE,
    Job,
    jobs_of,
    outcome_of,
    require_one_test_set,
    shard_of,
    train_all,
    unfinished,
    with_baselines,
)
from dicejax.comparison.statistics import Row, rows_of
from dicejax.comparison.table import baseline_name, remarks, table
from dicejax.config import Experiment
from dicejax.errors import InputError
from dicejax.files import write_whole
from dicejax.metrics.scores import heading
from dicejax.metrics.significance import Verdict
from dicejax.objectives import Objective, name_of
from dicejax.training.progress import TrainingProgress

__all__ = [
    "Comparison",
    "compare",
    "compare_runs",
    "evaluated",
    "jobs_of",
    "remarks",
    "score_baselines",
    "shard_of",
    "table",
    "train_all",
    "unfinished",
    "with_baselines",
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """Result of a comparison.

    Attributes:
      name: name of the experiment.
      folder: output directory.
      rows: one per loss, the baseline first; empty if only tuning was asked for, or
        runs are left to other shards.
      tuned: trials and chosen settings of each loss; empty without tuning.
      unfinished: number of runs left to other shards.
      report: path of the HTML page; None without rows.
    """

    name: str
    folder: str
    rows: tuple[Row, ...] = ()
    tuned: tuple[tuning.Tuned, ...] = ()
    unfinished: int = 0
    report: str | None = None

    @property
    def primary_metric(self) -> str | None:
        """Name of the score that losses are compared by; None without rows."""
        return _primary_metric(self.rows)

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """Verdicts on all losses but the baseline."""
        return {row.loss: row.against.verdict for row in self.rows if row.against}

    def table(self, width: int | None = None) -> rich.table.Table:
        """Return the scores as a table; see `comparison.table.table`."""
        return table(self.rows, self.name, width)

    def lines(self) -> list[str]:
        """Return verdicts, failed runs and tuned settings as lines of text."""
        said = []
        if self.primary_metric is not None:
            versus = f"{heading(self.primary_metric)} vs. "
            versus += baseline_name(self.rows[0].loss)
            said.append(f"{versus} (95% CI over seeds and test examples):")
        said += [f"  {line}" for line in remarks(self.rows)]
        return said + tuning.remarks(self.tuned)

    def to_json(self) -> dict[str, Any]:
        """Return plain dictionaries, as `comparison.json` begins."""
        return _content(self.rows, tuning.to_json(self.tuned))


def compare(
    experiment: Experiment,
    losses: Sequence[Objective] = (),
    *,
    seeds: int = 2,
    tune: int = 0,
    baselines: bool = True,
    shard: str | None = None,
    out: str | None = None,
    overwrite: bool = False,
    progress: TrainingProgress | None = None,
) -> Comparison:
    """Train every loss with every seed, test the differences, and write a report.

    All runs of a seed have the same data order, initial weights and budget. Finished
    runs in the output directory are reused, interrupted ones resume.

    Args:
      experiment: settings of all runs but loss and seed.
      losses: losses to compare; the experiment's `compared` if empty. Cross-entropy
        always takes part.
      seeds: runs per loss; 0 with `tune` only tunes.
      tune: trials per loss before the comparison, scored on dev.
      baselines: add cross-entropy with class weights, and cross-entropy with adjusted
        logits or a tuned threshold.
      shard: train only every N-th run from the I-th on, written "I/N".
      out: output directory; runs/NAME by default.
      overwrite: train existing runs again.
      progress: shows progress; nothing is shown by default.

    Raises:
      InputError: an argument, the data or a run in the directory cannot be used.
      Stopped: a signal interrupted training.
    """
    if seeds < (0 if tune else 1):
        raise InputError(f"--seeds is {seeds}; want at least 1")
    objectives = tuple(losses) or experiment.compared
    if baselines:
        plain = dataclasses.replace(experiment, objective=BASELINE)
        objectives = with_baselines(objectives, plain.task)
    out = out or f"runs/{experiment.name}"
    jobs = jobs_of(experiment, objectives, max(seeds, 1), out)
    shard_of(jobs, shard)  # refuses before anything is trained
    with progress or TrainingProgress(quiet=True) as shown:
        tuned = tuning.tune(
            jobs, tune, out, shown, overwrite=overwrite, may_train=shard is None
        )
        jobs = tuning.applied(jobs, tuned)
        if seeds:
            mine = shard_of(jobs, shard)
            train_all(mine, shown, overwrite=overwrite)
            if baselines:
                score_baselines(mine, shown.say)
    found = Comparison(name=experiment.name, folder=out, tuned=tuple(tuned))
    if not seeds:
        return found
    if shard and (left := unfinished(jobs)):
        return dataclasses.replace(found, unfinished=left)
    rows = evaluated(jobs, out, tuning.to_json(tuned))
    page = report.write(rows, out)
    return dataclasses.replace(found, rows=tuple(rows), report=page)


def compare_runs(
    paths: Sequence[str], *, out: str | None = None, baseline: str | None = None
) -> Comparison:
    """Test the differences between existing runs, and write a report.

    Args:
      paths: run folders, or folders that hold runs at any depth. The runs must belong
        to one experiment and differ in loss and seed alone.
      out: output directory; the folder that holds all the runs by default.
      baseline: loss that the others are compared with; cross-entropy by default.

    Raises:
      InputError: runs cannot be read or compared, or the directory cannot be written
        to.
    """
    if not paths:
        raise InputError("report wants folders of runs: none is named")
    jobs = jobs_from(paths)
    losses = dict.fromkeys(job.loss for job in jobs)
    baseline = baseline or name_of(BASELINE)
    if baseline not in losses:
        raise InputError(
            f"no run of {baseline} among these, to compare with; --baseline "
            f"takes another: {', '.join(losses)}"
        )
    out = out or common_folder(paths)
    rows = evaluated(jobs, out, tuning_of(jobs), baseline=baseline)
    page = report.write(rows, out)
    name = jobs[0].experiment.name
    return Comparison(name=name, folder=out, rows=tuple(rows), report=page)


def evaluated(
    jobs: Sequence[Job],
    folder: str,
    tuned: Mapping[str, Any] | None = None,
    *,
    baseline: str | None = None,
) -> list[Row]:
    """Read the results of runs, compare them, and write `folder/comparison.json`.

    Raises:
      InputError: runs cannot be read or compared, or the folder cannot be written to.
    """
    outcomes = [outcome_of(job) for job in jobs]
    require_one_test_set(outcomes)
    standard = name_of(BASELINE)
    controlled = [one for one in outcomes if one.loss == standard]
    rows = rows_of(outcomes + baseline_outcomes(controlled), baseline or standard)
    text = json.dumps(_content(rows, tuned), indent=2) + "\n"
    write_whole(epath.Path(folder), "comparison.json", text)
    return rows


def _primary_metric(rows: Sequence[Row]) -> str | None:
    results = (one.result for row in rows for one in row.outcomes)
    return next((found["primary_metric"] for found in results if found), None)


def _content(rows: Sequence[Row], tuned: Mapping[str, Any] | None) -> dict[str, Any]:
    content: dict[str, Any] = {
        "baseline": rows[0].loss if rows else None,
        "primary_metric": _primary_metric(rows),
        "losses": {row.loss: row.to_json() for row in rows},
    }
    return content if tuned is None else content | {"tuning": tuned}
