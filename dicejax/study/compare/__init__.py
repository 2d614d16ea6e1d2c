"""Train several losses and test whether any beats cross-entropy.

`compare` trains and evaluates; `compare_runs` evaluates runs that exist already.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

from etils import epath

from dicejax import config
from dicejax.config import ExperimentOrFile
from dicejax.errors import InputError, quote
from dicejax.io.files import file_name, write_together
from dicejax.objectives import Candidates, Control, name_of
from dicejax.objectives.parsing import candidate_named
from dicejax.study import report
from dicejax.study.compare import record, scores_file, tuning
from dicejax.study.compare.baselines import (
    controls_among,
    score_baselines,
    with_prior_head,
)
from dicejax.study.compare.changed import quote as quote_changed
from dicejax.study.compare.finding import (
    common_folder,
    is_alone,
    jobs_from,
    tuning_of,
)
from dicejax.study.compare.jobs import (
    BASELINE,
    Job,
    jobs_of,
    plain_models,
    require_fit,
    require_one_label_set,
    shard_of,
    train_all,
    unfinished,
    with_baselines,
)
from dicejax.study.compare.record import Comparison as Comparison
from dicejax.study.compare.results import assess, assess_runs, evaluate_runs
from dicejax.study.compare.same_data import DataCheck, warn_of_changes
from dicejax.study.compare.testing import MARGIN
from dicejax.study.compare.until import seconds_of, train_until_decided
from dicejax.study.significance import MIN_SEEDS
from dicejax.training.checkpoint_folder import require_orbax
from dicejax.training.encoded import reading_once
from dicejax.training.progress import Progress, progress_of

MOST_DRAWN = 50  # data sets of scores with figures, which take half a second each


def compare(
    experiment: ExperimentOrFile,
    losses: Candidates = (),
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
      losses: losses to compare, `FromPrior` among them, or their names with settings
        after a colon, such as "dsc:alpha=1,smooth=0.01" or "ce+prior"; the experiment's
        `compared` if empty. Cross-entropy always takes part.
      seeds: runs per loss; 0 with `tune` only tunes. Fewer than 3 have no verdict; more
        can be added later, and p-values stay valid.
      until: "decided" adds seeds until each loss is better, worse, practically equal
        or hopeless.
      budget: time after which `until` begins no further seeds, such as 2h or 90m.
      margin: differences within this many points do not matter in practice.
      tune: trials per loss before the comparison, scored on dev; per loss and seed with
        `resample`.
      baselines: add models that are no fine-tuned encoders (`Experiment.control`),
        cross-entropy with class weights, in trainings of fewer than 250 updates
        cross-entropy whose head begins at the class frequencies, and cross-entropy with
        adjusted logits or a tuned threshold. All but the last two are trained.
      resample: draw another training sample for each seed, so that verdicts hold for
        training data of this size and kind and not for one sample of it.
      shard: train only every N-th run from the I-th on, written "I/N"; with 0
        seeds, tune only every N-th loss.
      out: output directory; runs/NAME by default.
      overwrite: train existing runs again.
      progress: whether progress is shown, or the display that shows it; by default
        where there is a terminal or a notebook.

    Raises:
      InputError: a name, an argument, the data or a run there cannot be used.
      Stopped: a signal interrupted training.
    """
    shared = config.load(experiment)
    if isinstance(losses, str):  # each letter would be the name of one
        raise InputError(f"losses is {quote(losses)}; want a list, [{losses!r}]")
    named = [candidate_named(x) if isinstance(x, str) else x for x in losses]
    if seeds < (0 if tune else 1):
        raise InputError(f"--seeds is {seeds}; want at least 1")
    if until is None and budget is not None:
        raise InputError("--budget limits --until decided; add it")
    if until is not None and (shard is not None or overwrite or not seeds):
        raise InputError(
            "--until adds seeds: leave out --shard, --overwrite and --seeds 0"
        )
    if resample and not seeds:
        raise InputError(
            "--seeds 0 with --resample: each seed has its own trials; give the number "
            "of seeds; with --shard each process tunes those of its runs"
        )
    folder = os.fspath(out or f"runs/{shared.name}")
    require_orbax(folder)
    fraction = _fraction(margin)
    result = Comparison(name=shared.name, folder=folder, margin=fraction)
    limit = None if budget is None else seconds_of(budget)
    objectives = tuple(named) or shared.compared
    plain = dataclasses.replace(shared, objective=BASELINE)
    if baselines:
        objectives = with_baselines(objectives, plain.task)
    is_shard = shard is not None
    tunes_part = is_shard and (resample or not seeds)  # other shards tune the rest
    tuned: tuning.Record | None = None

    def jobs_with(count: int) -> list[Job]:
        """Return the runs of all losses with a number of seeds."""
        jobs = jobs_of(shared, objectives, count, folder, resample=resample)
        if resample:
            experiments = [job.experiment for job in jobs]
            trials = map(tuning.of_trial, experiments if tune else ())
            require_one_label_set([*experiments, *trials])
        return jobs

    def choose_settings(jobs: Sequence[Job], *, of_all_shards: bool = False) -> None:
        """Choose the settings of the losses of runs, or read those of all shards."""
        nonlocal tuned
        tuned = tuning.tune(
            *(jobs, tune, folder, display),
            overwrite=overwrite and not of_all_shards,
            may_train=tunes_part or not is_shard,
            earlier=tuned,
            is_part=tunes_part and not of_all_shards,
        )

    def train(jobs: Sequence[Job]) -> None:
        """Train runs, tuned first where each seed has trials, and score baselines."""
        if resample:
            choose_settings(jobs)
        jobs = tuning.apply_settings(jobs, tuned)
        if not overwrite:
            check(jobs, trains=unfinished(jobs) > 0)
        train_all(jobs, display, overwrite=overwrite)
        if baselines:
            score_baselines(jobs, display.say)

    def evaluate(jobs: Sequence[Job]) -> Comparison:
        """Compare runs, which records a look."""
        jobs = tuning.apply_settings(jobs, tuned)
        return evaluate_runs(jobs, folder, tuned, margin=fraction)

    with progress_of(progress) as display, reading_once():
        check = DataCheck(display.note)
        jobs = jobs_with(max(seeds, 1))
        if baselines:  # after what is refused without the encoder
            objectives = with_prior_head(objectives, plain, folder)
            controls = map(Control, plain_models(shared))
            objectives = tuple(dict.fromkeys([*objectives, *controls]))
            jobs = jobs_with(max(seeds, 1))
        # Refuse before anything is trained; finished runs need no data.
        ours = shard_of(jobs, shard)
        left = unfinished(ours if seeds else tuning.trial_jobs(ours, tune, folder))
        trials = tuning.trial_jobs(jobs, tune, folder)
        if not overwrite:
            check([*trials, *(jobs if seeds else ())], trains=left > 0)
        if overwrite or left:
            require_fit(jobs, overwrite=overwrite)
        if not resample:
            choose_settings(jobs if seeds else ours)
        if until is not None:
            least = max(seeds, MIN_SEEDS)
            acts = jobs_with, train, evaluate
            judged, ended = train_until_decided(
                *acts, least=least, budget=limit, say=display.say
            )
        else:
            if seeds:
                train(ours)
                left = unfinished(jobs) if is_shard else 0
            else:
                left = unfinished(trials)
            waits = is_shard and left > 0
            if tunes_part and not waits:
                choose_settings(jobs, of_all_shards=True)
            if waits or not seeds:
                return dataclasses.replace(result, tuning=tuned, unfinished=left)
            judged, ended = evaluate(jobs), None

    def read_examples() -> Sequence[Any] | None:
        if "test" in check.changed:
            return None
        with contextlib.suppress(InputError):  # finished runs need no data
            return shared.data.load().test
        return None

    result = dataclasses.replace(judged, ended=ended)
    return report.write(quote_changed(result, read_examples))


def compare_runs(
    paths: Sequence[str],
    *,
    out: str | None = None,
    baseline: str | None = None,
    margin: float | None = None,
    warn: Callable[[str], None] = warnings.warn,
) -> Comparison:
    """Test the differences between existing runs, and write a report.

    Folders may hold runs at any depth, all of one experiment, which differ in loss and
    seed alone. By default the report is written to the folder that holds them all, the
    baseline is cross-entropy, and the margin half a point. Data that have changed since
    the runs, or cannot be read, are warned of. Of one folder without runs, but with the
    record of a comparison, the report is drawn anew from that.

    Raises:
      InputError: runs cannot be read or compared, or the folder cannot be written to.
    """
    fraction = _fraction(100 * MARGIN if margin is None else margin)
    if not paths:
        raise InputError("report needs run folders: none is named")
    if len(paths) == 1 and is_alone(paths[0]):
        for flag, value in (("baseline", baseline), ("margin", margin)):
            if value is not None:
                raise InputError(
                    f"--{flag} compares runs anew, and {paths[0]} has none; leave it "
                    "out to draw the report of its record"
                )
        comparison = record.read(paths[0])
        return report.write(dataclasses.replace(comparison, folder=out or paths[0]))
    baseline = name_of(BASELINE) if baseline is None else baseline
    jobs = jobs_from(paths)
    losses = dict.fromkeys(job.loss for job in jobs)
    if baseline not in losses:
        raise InputError(
            f"no run of {baseline} among these, to compare with; --baseline "
            f"takes another: {', '.join(losses)}"
        )
    warn_of_changes(jobs, warn)
    comparison = assess_runs(
        jobs,
        out or common_folder(paths),
        tuning_of(jobs),
        baseline=baseline,
        margin=fraction,
    )
    return report.write(comparison)


def compare_scores(
    path: str,
    *,
    out: str,
    unit: scores_file.Unit | None = None,
    baseline: str = name_of(BASELINE),
    controls: Sequence[str] = (),
    margin: float = 100 * MARGIN,
) -> list[Comparison]:
    """Test the differences between scores in a CSV file, one comparison per data set.

    Of several data sets each has a folder in the output folder, of more than
    `MOST_DRAWN` without figures. All files appear or none. Scores are points from 0 to
    100, or with the unit "fraction" from 0 to 1. Without a unit a loss of a data set
    without a score above 1 is refused. Controls are losses of a known name, such as
    "wce" or "ce + tuned threshold", and those that are named.

    Raises:
      InputError: the file cannot be used, a data set has no run of the baseline, a
        control is not in the file, or the folder cannot be written to.
    """
    fraction = _fraction(margin)
    by_data = scores_file.runs_of(path, unit)
    folders = dict.fromkeys(by_data, out)
    for data, runs in by_data.items():
        losses = dict.fromkeys(run.loss for run in runs)
        if baseline not in losses:
            raise InputError(
                f"{path}: {quote(data)} has no score of {baseline} to compare with; "
                f"--baseline takes another: {', '.join(losses)}"
            )
        if len(by_data) > 1:
            folders[data] = str(epath.Path(out) / file_name(data, "data set"))
    names = {run.loss for runs in by_data.values() for run in runs}
    for name in controls:
        if name not in names - {baseline}:
            fault = "the baseline" if name == baseline else "not in the file"
            listed = ", ".join(sorted(names - {baseline}))
            raise InputError(f"--controls: {quote(name)} is {fault}; want {listed}")
    cheap = sorted({*controls_among(names), *controls} - {baseline})
    words = ["dicejax", "report", "--scores", path, "--out", "FOLDER"]
    words += ["--unit", unit] if unit else []
    words += ["--baseline", baseline] if baseline != name_of(BASELINE) else []
    words += ["--controls", *controls] if controls else []
    words += ["--margin", f"{margin:.12g}"] if fraction != MARGIN else []
    comparisons: list[Comparison] = []
    contents: dict[str, str] = {}
    for (data, runs), folder in zip(by_data.items(), folders.values(), strict=True):
        judged = assess(
            runs, folder, baseline, name=data, margin=fraction, controls=cheap
        )
        page = str(epath.Path(folder) / report.PAGE)
        comparison = dataclasses.replace(judged, command=shlex.join(words), report=page)
        made = report.contents_of(comparison, drawn=len(by_data) <= MOST_DRAWN)
        place = f"{data}/" if len(by_data) > 1 else ""
        contents |= {f"{place}{name}": text for name, text in made.items()}
        comparisons.append(comparison)
    write_together(epath.Path(out), contents)
    return comparisons


def _fraction(margin: float) -> float:
    """Return a margin in points as a fraction."""
    if not 0 <= margin < 100:
        raise InputError(f"--margin is {margin:g}; want points, from 0 to below 100")
    return margin / 100
