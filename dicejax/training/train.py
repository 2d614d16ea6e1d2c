"""Training of an experiment, from data to test scores."""

from __future__ import annotations

import dataclasses
import html
import os
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from dicejax import config
from dicejax.config import Experiment, ExperimentOrFile
from dicejax.errors import InputError, Stopped
from dicejax.io.files import file_name
from dicejax.metrics.bounds import Observation
from dicejax.metrics.calibration import Calibration
from dicejax.metrics.score_counts import count_decisions
from dicejax.metrics.scores import Scores
from dicejax.objectives import Objective, name_of
from dicejax.training.candidate import candidate_of
from dicejax.training.checkpoint import Checkpoints
from dicejax.training.checkpoint_folder import require_orbax
from dicejax.training.control import fit_control
from dicejax.training.encoded import SPLITS, identity_of, noun_of
from dicejax.training.final_scores import score_test_split
from dicejax.training.identity import changed
from dicejax.training.logging import require_wandb
from dicejax.training.loop_log import LoopLog
from dicejax.training.loop_state import LoopState
from dicejax.training.outcome import diverged, divergence, skipped_too_many
from dicejax.training.processes import StopRequest, barrier, is_main_process
from dicejax.training.progress import (
    Progress,
    TrainingProgress,
    format_count,
    progress_of,
)
from dicejax.training.resuming import check_identity, restore
from dicejax.training.run_folder import CHECKPOINTS, RESULT, Run
from dicejax.training.run_lock import run_lock
from dicejax.training.setup import checksum, prepare
from dicejax.training.sharding import global_batch, replicate, rows_here
from dicejax.training.state import TrainState, not_finite
from dicejax.training.step import train_step
from dicejax.training.throughput import machine_of, versions


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """Result of a finished run, as in its `result.json`.

    Scores are by metric, with those of each type under "per_type".

    Attributes:
      folder: the run's.
      steps: number of updates.
      best_dev_score: primary metric on dev in the best epoch.
      last_dev_score: primary metric on dev in the last epoch.
      skipped: number of skipped steps, at most a tenth of all.
      losses: training loss in the first line of metrics.jsonl, and in the last.
      seconds: time of the training steps, compilation and evaluation apart.
      examples: number of examples of each split.
      labels: number of examples with each label, by split.
      parameters: number of trained parameters.
      tokens_per_s: training throughput, of all devices together.
      padding_share: share of places without a token.
      wait_share: share of the time spent waiting for batches.
      mfu: model FLOPs utilisation; None where it is not known.
      memory_gib: peak memory; None where it is not known.
      share_filled: share of places with a token, by the plan.
      devices: number of devices.
      device_kind: name of their kind.
      versions: versions of the libraries that numbers depend on, by name; of a run that
        was resumed under another, both.
      primary_metric: name of the metric; of two classes the scores have the one that
        it is of under "positive".
      cut: warnings of inputs that are cut off; None without any.
      checksums: of each split as it was read, before a sample of it was drawn, and of
        weights and tokenizer of a pretrained encoder.
      best_step: step of the best checkpoint; None, as the rest, if test was not scored.
      test: test scores of the best checkpoint.
      test_at_last_step: test scores of the last checkpoint.
      threshold: decision threshold tuned on dev, where the task has one, or one for
        each label, under "threshold"; and how it was tuned.
      test_with_tuned_threshold: test scores of the best checkpoint with it.
      constraint_on_test: by label the measure that the threshold bounds, with counts
        and its interval, where the threshold keeps a constraint.
      at_constraint: what the constraint leaves open, as "name" and "value" on test.
      calibration: temperature of probabilities fitted on dev, the threshold among
        those that it gives, and scores before and after of dev and test.
      nothing_learnt: how predictions on test show that nothing was learnt, if they do,
        or that scores on dev are no better than those of the weights it began with.
    """

    folder: str
    steps: int
    best_dev_score: float | None
    last_dev_score: float | None
    skipped: int
    losses: Sequence[float] | None = None
    seconds: float | None = None
    examples: Mapping[str, int] | None = None
    labels: Mapping[str, Mapping[str, int]] | None = None
    parameters: int | None = None
    tokens_per_s: float
    padding_share: float
    wait_share: float
    mfu: float | None = None
    memory_gib: float | None = None
    share_filled: float
    devices: int
    device_kind: str
    versions: Mapping[str, str]
    primary_metric: str
    cut: Sequence[str] | None = None
    checksums: Mapping[str, str | int] | None = None
    best_step: int | None = None
    test: Mapping[str, Any] | None = None
    test_at_last_step: Mapping[str, Any] | None = None
    threshold: Mapping[str, Any] | None = None
    test_with_tuned_threshold: Mapping[str, Any] | None = None
    constraint_on_test: Mapping[str, Mapping[str, Any]] | None = None
    at_constraint: Mapping[str, Any] | None = None
    calibration: Mapping[str, Any] | None = None
    nothing_learnt: str | None = None

    @classmethod
    def read(cls, run: Run) -> Result:
        """Read the result of a finished run.

        Raises:
          InputError: the file is missing, damaged or of another version.
        """
        try:
            return cls(folder=str(run.path), **run.result())
        except TypeError as error:
            raise InputError(
                f"{run.path / RESULT}: is not a result of this version of dicejax "
                f"({error}); train again with --overwrite"
            ) from error

    @property
    def observed(self) -> dict[str, Observation]:
        """The measure on test that the threshold bounds, by label."""
        counts = self.constraint_on_test or {}
        return {x: Observation.from_json(y) for x, y in counts.items()}

    @property
    def calibration_on_test(self) -> Calibration | None:
        """Scores of the probabilities on test before and after the temperature."""
        scores = (self.calibration or {}).get("test")
        return None if scores is None else Calibration.from_json(scores)

    def __repr__(self) -> str:
        metric, text = self.primary_metric, "not scored on test"
        if self.test is not None:
            scores = Scores.from_json(self.test)
            text = f"test {scores.name(metric)} {100 * scores.values[metric]:.2f}"
        parts = [text, f"{self.steps:,} updates"]
        parts += [f"{self.skipped:,} skipped"] if self.skipped else []
        parts += ["nothing learnt"] if self.nothing_learnt else []
        return f"Result({self.folder}: {', '.join(parts)})"

    def _repr_html_(self) -> str:
        table = "" if self.test is None else Scores.from_json(self.test)._repr_html_()
        return f"<p>{html.escape(repr(self))}</p>{table}"

    def to_json(self) -> dict[str, Any]:
        """Return the content of `result.json`."""
        values = dataclasses.asdict(self).items()
        return {n: x for n, x in values if n != "folder" and x is not None}


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
      progress: whether progress is shown, or the display that shows it; by default
        where there is a terminal or a notebook.
      score_test: whether to score the test split. A trial of tuning leaves it alone.

    Raises:
      InputError: the experiment, data, weights or the output directory cannot be used,
        or another process trains there, and nothing was written; or a checkpoint cannot
        be written; or the directory was deleted; or its finished run has no test score.
      Stopped: a signal interrupted training; the state is saved.
      Diverged: too many steps had no finite loss or gradient: `max_consecutive_skips`
        in a row, the last five, or more than a tenth of all.
    """
    experiment = config.load(experiment)
    folder = os.fspath(out or default_folder(experiment))
    require_orbax(folder)
    with progress_of(progress) as display:
        run = Run.create(folder, experiment, overwrite=overwrite)
        if not (run.continues and run.is_finished):
            with run_lock(run.path):
                # Another process may have begun or finished the run since.
                run = Run.create(folder, experiment, overwrite=overwrite)
                if not (run.continues and run.is_finished):
                    begin = _train if experiment.control is None else _fit
                    return begin(experiment, run, display, score_test=score_test)
        result = Result.read(run)
        now, noun = identity_of(experiment), noun_of(experiment)
        if changes := run.changes(now, noun) if now else {}:
            since = changed(changes, "the run")
            display.note(f"{run.path}: {since}; its scores are of the data before")
        if score_test and result.test is None:
            raise InputError(
                f"{run.path}: a trial of tuning, never scored on test; name another "
                "folder with --out, or replace it with --overwrite"
            )
        display.say(f"{run.path}: already finished; --overwrite trains it again")
        return result


def _train(
    experiment: Experiment, run: Run, progress: TrainingProgress, *, score_test: bool
) -> Result:
    """Train in a folder that no other process uses."""
    # Data, network, objective.
    mesh = experiment.mesh.make()
    if experiment.recording.wandb_project is not None:
        require_wandb()
    as_given = experiment
    if run.continues:
        experiment = run.as_begun(experiment)
    setup = prepare(experiment, progress.note)
    batches = setup.batches(mesh)
    if run.continues and not check_identity(run, setup, progress.note):
        anew = dataclasses.replace(run, continues=False)
        return _train(as_given, anew, progress, score_test=score_test)
    barrier("data and weights are read")  # nothing is written before
    if is_main_process() and not run.continues:
        run.write_setup(experiment, setup.data)
    barrier("the run's folder exists")

    # State, new or restored.
    recording = experiment.recording
    checkpoints = Checkpoints(
        run.path / CHECKPOINTS,
        keep_last=recording.keep_last,
        keep_best=recording.keep_best,
    )
    encoded = [item.arrays for item in setup.data.items["train"]]
    if setup.example_weights is not None:
        encoded.append({"weights": setup.example_weights})
    digest = checksum(encoded)
    restored = None
    if run.continues:
        restored = restore(setup, run, checkpoints, mesh, digest, progress.note)
    if restored is None:
        state, loop = setup.initial_state(mesh, len(batches)), LoopState(data=digest)
    else:
        state, loop = restored
        progress.say(f"resuming from step {loop.step} of {len(batches)}")
    loop.move_to(machine_of(mesh), progress.note)
    loop.go_on_with(versions())
    parameters = sum(x.size for x in jax.tree.leaves(state.params))
    device_kind = mesh.devices.flat[0].device_kind
    corpus = setup.data.corpus
    counts = ", ".join(f"{len(getattr(corpus, split)):,} {split}" for split in SPLITS)
    progress.say(
        f"{counts} examples; {len(batches):,} updates of {format_count(parameters)} "
        f"parameters, {mesh.size} x {device_kind}",
        once=True,
    )
    if (summary := setup.network.text_summary) is not None:
        progress.say(f"each text is read as {summary}", once=True)

    # Steps: batch, update, log, evaluate, checkpoint.
    settings = setup.step_settings(mesh, batches.plan.places())
    settings["optimizer"] = replicate(experiment.optimizer, mesh)
    epoch_ends, compiled = frozenset(batches.plan.epoch_ends()), set()
    feed = batches.iterate(loop.step, rows_here=rows_here(batches.rows, mesh))
    stop = StopRequest(loop.step)
    log = LoopLog(setup, run.path, batches, mesh, loop, progress)
    meter, analyser = log.meter, log.analyser

    def collect() -> None:
        if (step := log.collect()) is not None:
            raise skipped_too_many(run, experiment, batches, step)

    def save(state: TrainState, score: float | None = None) -> None:
        log.flush()
        # Notes are a copy: saving is asynchronous.
        checkpoints.save(loop.step, state, score, dataclasses.asdict(loop))

    def save_between(state: TrainState) -> None:
        collect()
        if loop.step != (checkpoints.last or 0):
            loop.evaluated = loop.step not in epoch_ends
            save(state)

    count = count_decisions if setup.objective.follows_decisions else None

    def next_objective() -> Objective:
        return replicate(setup.objective.after_epoch(loop.decisions), mesh)

    dev_by_step: dict[int, Sequence[Any]] = {}  # as decoded in the best epoch

    def end_epoch(state: TrainState) -> Objective:
        decoded = setup.decode(
            state.weights, "dev", mesh, count=count, between=stop.check
        )
        loop.decisions = {name: x.tolist() for name, x in decoded.counts.items()}
        (candidates,) = decoded.candidates
        log.write_line(setup.score(candidates, "dev"))
        save(state, loop.dev_score)
        if loop.dev_score == loop.best_dev_score:
            dev_by_step.clear()
            dev_by_step[loop.step] = candidates
        return next_objective()

    with stop, checkpoints, log:
        try:
            objective = next_objective()
            if not loop.evaluated:  # interrupted at the end of an epoch
                objective = end_epoch(state)
            for step in range(loop.step + 1, len(batches) + 1):
                with meter.waiting():
                    batch = next(feed)
                    arrays = global_batch(batch.arrays, mesh, batches.rows)
                shape = arrays["input_ids"].shape
                is_new = shape not in compiled
                if is_new:  # compilation is not timed
                    jax.block_until_ready(state.step)
                    meter.pause()
                if analyser is not None:
                    analyser.look(step, state, arrays, objective, meter)
                with jax.transfer_guard("allow" if is_new else "disallow"):
                    state, metrics = train_step(state, arrays, objective, **settings)
                log.take(step, batch, metrics)
                if is_new:
                    compiled.add(shape)
                    jax.block_until_ready(metrics)
                    meter.resume()
                ends_epoch = step in epoch_ends
                if ends_epoch or step % experiment.training.log_every == 0:
                    collect()
                    if not ends_epoch:
                        log.write_line()
                stop.after(step)
                if ends_epoch:
                    meter.pause()
                    objective = end_epoch(state)
                    meter.resume()
                elif step % recording.checkpoint_every == 0:
                    save_between(state)

            reason = divergence(loop.step, loop.skipped, loop.skipped_in_a_row)
            if reason := reason or not_finite(state.weights):
                raise diverged(run, experiment, reason)

            # Test.
            meter.pause()
            checkpoints.wait()
            measured = meter.values().items()
            speed: dict[str, Any] = {name: round(value, 4) for name, value in measured}
            tested = {}
            if score_test:
                tested = score_test_split(
                    setup, run, mesh, state, loop, stop.check, progress.say, dev_by_step
                )
        except Stopped:
            save_between(state)
            raise
        result = Result(
            folder=str(run.path),
            steps=len(batches),
            losses=loop.losses,
            seconds=round(meter.seconds, 1),
            parameters=parameters,
            **speed,
            share_filled=round(batches.share_filled, 4),
            **setup.facts(mesh, loop),
            **tested,
        )
        if is_main_process():
            log.flush()
            run.write_result(result.to_json())
        barrier("the result is written")
    stop.check()
    return result


def _fit(
    experiment: Experiment, run: Run, progress: TrainingProgress, *, score_test: bool
) -> Result:
    """Fit a control, in a folder that no other process uses."""
    fields = fit_control(experiment, run, progress, score_test=score_test)
    result = Result(folder=str(run.path), **fields)
    run.write_result(result.to_json())
    return result


def default_folder(experiment: Experiment) -> str:
    """Return the output directory of a run: runs/NAME/LOSS/seed-N.

    Raises:
      InputError: the loss has a setting that no folder can be named after.
    """
    loss = file_name(name_of(candidate_of(experiment)), "loss")
    return f"runs/{experiment.name}/{loss}/seed-{experiment.training.seed}"
