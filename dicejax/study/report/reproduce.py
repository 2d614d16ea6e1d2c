"""What trains the runs of a comparison again, and what they were made with."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from dicejax.config import Experiment
from dicejax.objectives import name_of
from dicejax.study.compare import jobs
from dicejax.study.compare.finding import changed_settings
from dicejax.study.compare.jobs import BASELINE
from dicejax.study.compare.record import Comparison
from dicejax.study.compare.statistics import results_of
from dicejax.study.compare.testing import MARGIN
from dicejax.study.report.measured import measured
from dicejax.training.candidate import candidate_of, with_candidate

FILE = "rerun.py"


def experiment_of(comparison: Comparison) -> tuple[Experiment | None, list[str]]:
    """Return the experiment of all losses, and the settings that only one has.

    It has the first seed; scores from elsewhere have none.
    """
    rows = measured(comparison.rows)
    experiments = [x for row in rows if (x := row.experiment) is not None]
    if not experiments:
        return None, []
    candidates = [*map(candidate_of, experiments)]
    # The others follow from one that does not begin at the class frequencies.
    first = min(experiments, key=lambda x: x.training.head_bias != "zeros")
    seed = seeds_of(comparison)[0]
    seeded = jobs.with_seed(first, seed, jobs.is_resampled(first))
    experiment = dataclasses.replace(seeded, compared=tuple(candidates))
    differences = []
    for row, candidate, each in zip(rows, candidates, experiments, strict=True):
        same = with_candidate(experiment, candidate)
        if changes := changed_settings(same, each):
            differences.append(f"{row.loss} has its own settings: {'; '.join(changes)}")
    return experiment, differences


def seeds_of(comparison: Comparison) -> list[int]:
    """Return the seeds that any loss has."""
    return sorted({run.seed for row in comparison.rows for run in row.runs})


def rerun_of(comparison: Comparison, experiment: Experiment | None) -> dict[str, str]:
    """Return what trains the runs again, or reads their scores, and what made them.

    That is the command, data, seeds, hardware and versions.
    """
    results, seeds = results_of(comparison.rows), seeds_of(comparison)
    rerun = {"command": comparison.command, "data set": comparison.name}
    rerun["seeds"] = ", ".join(map(str, seeds))
    if experiment is None:
        return {**rerun, "scores": comparison.rows[0].runs[0].folder}
    margin = f"--margin {100 * comparison.margin:.12g} " * (comparison.margin != MARGIN)
    flags = f"--seeds {seeds[-1] - seeds[0] + 1} {margin}"
    flags += "--resample " * jobs.is_resampled(experiment)
    command = f"dicejax compare {FILE} {flags}--out FOLDER"
    baseline, *others = (shlex.quote(row.loss) for row in comparison.rows)
    if others and baseline != name_of(BASELINE):
        command += f" && dicejax report FOLDER {margin}--baseline={baseline} --out NEW"
    versions = [result["versions"] for result in results if "versions" in result]
    names = dict.fromkeys(name for by_name in versions for name in by_name)
    checksums = [x["checksums"] for x in results if x.get("checksums")]
    parts = dict.fromkeys(name for sums in checksums for name in sums) or ["test"]
    columns: list[tuple[str, Sequence[Mapping[str, Any]], str]] = [
        *((f"checksum of {name}", checksums, name) for name in parts),
        ("devices", results, "devices"),
        ("hardware", results, "device_kind"),
        *((f"version of {name}", versions, name) for name in names),
        *(() if versions else [("versions", (), "")]),
    ]
    for title, records, key in columns:
        texts = dict.fromkeys(str(record[key]) for record in records if key in record)
        rerun[title] = ", ".join(texts) or "not recorded by these runs"
    return {**rerun, "command": command}
