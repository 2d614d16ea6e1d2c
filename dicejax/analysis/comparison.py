"""Train every loss with every seed, then set the scores side by side."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath
from rich.table import Table

from dicejax.config import Experiment
from dicejax.errors import InputError
from dicejax.metrics.scores import heading
from dicejax.objectives import Objective
from dicejax.training.logs.progress import TrainingProgress
from dicejax.training.loop import train
from dicejax.training.runs.run import Run


@dataclasses.dataclass(frozen=True)
class Row:
    """One loss: its name, and the test scores of its runs by name of the score."""

    name: str
    scores: Mapping[str, tuple[float, ...]]


def compare(
    experiment: Experiment,
    objectives: Sequence[Objective],
    seeds: int,
    folder: str,
    progress: TrainingProgress,
    *,
    overwrite: bool = False,
) -> list[Row]:
    """Train each objective with each seed; finished runs are used again.

    What was cut off goes on where it was.

    All objectives of a seed see the same initial weights, the same batches in the same
    order and the same dropout keys.

    Args:
      experiment: everything but the objective and the seed.
      objectives: what to compare.
      seeds: runs per objective, with the seeds from the experiment's own upwards.
      folder: the runs go to `folder/NAME/seed-N`.
      progress: shows where the runs stand.
      overwrite: train again what is there.

    Raises:
      InputError: a folder holds a finished run of other settings.
    """
    names = names_of(objectives)
    jobs = [
        (
            name,
            dataclasses.replace(
                experiment,
                objective=objective,
                training=dataclasses.replace(experiment.training, seed=seed),
            ),
        )
        for name, objective in zip(names, objectives, strict=True)
        for seed in range(experiment.training.seed, experiment.training.seed + seeds)
    ]
    folders = [
        str(epath.Path(folder) / name / f"seed-{job.training.seed}")
        for name, job in jobs
    ]
    # All folders are looked at before the first run, not after an hour.
    runs = [
        Run.create(path, job, overwrite=overwrite)
        for path, (_, job) in zip(folders, jobs, strict=True)
    ]
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    overall = progress.begin("all runs", len(jobs), status="")
    for run, path, (name, job) in zip(runs, folders, jobs, strict=True):
        if run.continues and run.is_finished:
            progress.say(f"{name} seed {job.training.seed}: used again from {path}")
        result = train(job, run, progress)
        results[name].append(result)
        progress.advance(overall)
    first = results[names[0]][0]["test"]
    scores = [name for name, value in first.items() if isinstance(value, float)]
    rows = [
        Row(name, {s: tuple(r["test"][s] for r in results[name]) for s in scores})
        for name in names
    ]
    summary = {row.name: dict(row.scores) for row in rows}
    (epath.Path(folder) / "comparison.json").write_text(
        json.dumps(summary, indent=2) + "\n"
    )
    return rows


def names_of(objectives: Sequence[Objective]) -> list[str]:
    """Name objectives apart, by what differs from the defaults where need be.

    >>> from dicejax.objectives import CrossEntropy, SelfAdjustingDice
    >>> names_of([CrossEntropy(), SelfAdjustingDice(), SelfAdjustingDice(alpha=1.0)])
    ['ce', 'dsc', 'dsc-alpha=1.0']
    """
    names = [_name(objective) for objective in objectives]
    if len(set(names)) < len(names):
        raise InputError(f"the same loss is named twice: {', '.join(names)}")
    return names


def _name(value: object) -> str:
    """The short name of an objective, with what differs from its defaults."""
    if isinstance(value, tuple):
        return "+".join(map(_name, value))
    if not isinstance(value, Objective):
        return str(value)
    default = type(value)()
    changed = [
        f"{field.name}={_name(getattr(value, field.name))}"
        for field in dataclasses.fields(value)
        if getattr(value, field.name) != getattr(default, field.name)
    ]
    return "-".join([value.short_name, *changed])


def table(rows: Sequence[Row], title: str) -> Table:
    """Lay the rows out for the terminal: mean and spread over seeds, in percent."""
    scores = list(rows[0].scores)
    seeds = len(rows[0].scores[scores[0]])
    what = f"mean ± sd over {seeds} seeds" if seeds > 1 else "one seed"
    out = Table(title=title, caption=f"test split, {what}")
    out.add_column("loss")
    for name in scores:
        out.add_column(heading(name), justify="right")
    for row in rows:
        out.add_row(row.name, *(mean_and_spread(row.scores[s]) for s in scores))
    return out


def mean_and_spread(values: Sequence[float]) -> str:
    """Write fractions as percent: mean and sample standard deviation.

    >>> mean_and_spread([0.5, 0.6])
    '55.00 ± 7.07'
    >>> mean_and_spread([0.5])
    '50.00'
    """
    percent = [100 * value for value in values]
    mean = f"{statistics.fmean(percent):.2f}"
    return f"{mean} ± {statistics.stdev(percent):.2f}" if len(percent) > 1 else mean
