"""Training and comparing from Python: experiments by file, losses by name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal

from dicejax import config
from dicejax.config import Experiment
from dicejax.objectives import Candidate
from dicejax.objectives.parsing import candidate_named
from dicejax.study import compare as comparing
from dicejax.study.compare import Comparison
from dicejax.study.compare.statistics import MARGIN
from dicejax.training import train as training
from dicejax.training.progress import Progress, progress_of
from dicejax.training.train import Result

ExperimentOrFile = Experiment | str | os.PathLike[str]


def train(
    experiment: ExperimentOrFile,
    out: str | os.PathLike[str] | None = None,
    *,
    overwrite: bool = False,
    progress: Progress = None,
    score_test: bool = True,
) -> Result:
    """Train, keep the best and the last checkpoints, and score the test split.

    An interrupted run resumes from its last checkpoint and ends with the same weights
    and records, bit for bit; a finished one is returned as it is.

    Args:
      experiment: experiment to train, or the path of an experiment file.
      out: output directory; runs/NAME/LOSS/seed-N by default.
      overwrite: replace the run that the directory holds.
      progress: whether progress is shown; by default where there is a terminal or a
        notebook.
      score_test: whether to score the test split.

    Raises:
      InputError: the experiment, its data or the output directory cannot be used.
      Stopped: a signal interrupted training; the state is saved.
      Diverged: too many steps had no finite loss or gradient.
    """
    display = progress_of(progress)
    with display:
        return training.train(
            _load(experiment),
            None if out is None else os.fspath(out),
            overwrite=overwrite,
            progress=display,
            score_test=score_test,
        )


def compare(
    experiment: ExperimentOrFile,
    losses: Sequence[Candidate | str] = (),
    *,
    seeds: int = 3,
    until: Literal["decided"] | None = None,
    budget: str | None = None,
    margin: float = 100 * MARGIN,
    tune: int = 0,
    baselines: bool = True,
    resample: bool = False,
    shard: str | None = None,
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    progress: Progress = None,
) -> Comparison:
    """Train every loss with every seed, test the differences, and write a report.

    All runs of a seed have the same data order, initial weights and budget. Finished
    runs in the output directory are reused, interrupted ones resume.

    Args:
      experiment: settings of all runs but loss and seed, or the path of a file.
      losses: losses to compare, or their names with settings after a colon, such as
        "dsc:alpha=1,smooth=0.01" or "ce+prior"; the experiment's `compared` if empty.
        Cross-entropy always takes part.
      seeds: runs per loss; 0 with `tune` only tunes. Fewer than 3 have no verdict.
      until: "decided" adds seeds until each loss is better, worse, practically equal
        or hopeless.
      budget: time after which `until` begins no further seeds, such as 2h or 90m.
      margin: differences within this many points do not matter in practice.
      tune: tuning trials per loss before the comparison, scored on dev.
      baselines: also compare cheap baselines, such as class weights.
      resample: draw another training sample for each seed.
      shard: train only every N-th run from the I-th on, written "I/N".
      out: output directory; runs/NAME by default.
      overwrite: train existing runs again.
      progress: whether progress is shown; by default where there is a terminal or a
        notebook.

    Raises:
      InputError: a name, an argument, the data or a run in the directory cannot be
        used.
      Stopped: a signal interrupted training.
    """
    return comparing.compare(
        _load(experiment),
        [candidate_named(x) if isinstance(x, str) else x for x in losses],
        seeds=seeds,
        until=until,
        budget=budget,
        margin=margin,
        tune=tune,
        baselines=baselines,
        resample=resample,
        shard=shard,
        out=None if out is None else os.fspath(out),
        overwrite=overwrite,
        progress=progress_of(progress),
    )


def _load(experiment: ExperimentOrFile) -> Experiment:
    if isinstance(experiment, Experiment):
        return experiment
    return config.load(os.fspath(experiment))
