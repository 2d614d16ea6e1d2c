"""Train one experiment from start to end, or from where it was cut off to the end."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import zlib
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from dicejax.config import Experiment, to_json
from dicejax.data.pipeline import Batches
from dicejax.errors import Diverged, InputError
from dicejax.training.devices.model_flops import attended_length, flops_per_token
from dicejax.training.devices.processes import is_first, meet
from dicejax.training.devices.sharding import placed
from dicejax.training.fit import Fit
from dicejax.training.logs.boards import Board, WeightsAndBiases, require_wandb
from dicejax.training.logs.metrics_log import MetricsLog, NoLog
from dicejax.training.logs.progress import TrainingProgress
from dicejax.training.logs.throughput import Throughput
from dicejax.training.runs.checkpoint import Checkpoints, restore_params
from dicejax.training.runs.run import Run
from dicejax.training.runs.standing import Standing
from dicejax.training.runs.versions import versions
from dicejax.training.setup import Setup, prepare
from dicejax.training.steps.state import TrainState


def train(
    experiment: Experiment,
    run: Run,
    progress: TrainingProgress,
    *,
    scores_test: bool = True,
) -> dict[str, Any]:
    """Train, keep the best and the last checkpoints, and score the test split.

    Where the run's folder holds the beginning of the run, it goes on from the last
    checkpoint, and ends with what it would have ended with.

    Args:
      experiment: what to train.
      run: its folder, as `Run.create` gives it.
      progress: shows where the run stands.
      scores_test: whether the test split is predicted at all. A run that only helps to
        choose settings leaves it alone.

    Returns:
      What `result.json` holds: test scores at the best and the last checkpoint, the
      dev score of each, steps, tokens per second; and where the task tunes a threshold
      on dev, that threshold, and the test scores with it beside those without.

    Raises:
      InputError: data or weights cannot be used, and nothing has been written; or a
        checkpoint cannot be written; or the run is finished without the test scores
        that are wanted.
      Stopped: a signal asked for it; the state is saved.
      Diverged: too many steps in a row had no finite loss or gradient.
    """
    if run.continues and run.is_finished:
        return _found(run, scores_test)
    mesh = experiment.mesh.make()
    if experiment.recording.wandb_project is not None:
        require_wandb()
    setup = prepare(experiment, warn=lambda text: progress.say(f"note: {text}"))
    batches = setup.batches(mesh)
    meet("before anything is written")
    data = setup.data
    if is_first() and not run.continues:
        run.write_setup(experiment, data.labels, setup.network.encoder, data.tokenizer)
    meet("the run's folder is there")
    recording = experiment.recording
    checkpoints = Checkpoints(
        run.checkpoints, keep_last=recording.keep_last, keep_best=recording.keep_best
    )
    state, standing = _begin(setup, mesh, batches, checkpoints, run, progress)
    fit = Fit(
        setup,
        run,
        mesh,
        batches,
        _log(experiment, run, standing),
        checkpoints,
        progress,
        _meter(setup, mesh, standing),
        standing,
    )
    with fit.log:
        try:
            state = fit.finish(state)
        except Diverged as error:
            if is_first():
                run.write_diverged(str(error))
            raise
        checkpoints.close()
        result = _told(fit)
        if scores_test:
            result |= _score(fit, state)
    if is_first():
        run.write_result(result)
    meet("the result is there")
    return result


def _found(run: Run, scores_test: bool) -> dict[str, Any]:
    """Return what a finished run holds."""
    result = run.result()
    if scores_test and "test" not in result:
        raise InputError(
            f"{run.path}: a trial of tuning, never scored on test; name another folder"
            " with --out, or replace it with --overwrite"
        )
    return result


def _begin(
    setup: Setup,
    mesh: jax.sharding.Mesh,
    batches: Batches,
    checkpoints: Checkpoints,
    run: Run,
    progress: TrainingProgress,
) -> tuple[TrainState, Standing]:
    """Return the state at the last checkpoint, or at the beginning."""
    objective, steps = setup.objective(), len(batches)
    data = _checksum(setup, "train")
    if run.continues:
        like = placed(setup.abstract_state(objective, steps), mesh)
        found = checkpoints.restore(like, lambda text: progress.say(f"note: {text}"))
        if found is not None:
            standing = Standing.from_json(found.notes)
            if standing.data != data:
                raise InputError(
                    f"{run.path}: the training data is not what the run began with; "
                    "bring it back, or start anew with --overwrite"
                )
            progress.say(f"going on from step {standing.step} of {steps}")
            return found.state, standing
    return setup.initial_state(objective, mesh, steps), Standing(data=data)


def _checksum(setup: Setup, split: str) -> int:
    """A number that changes with the examples of a split, as the network sees them."""
    value = 0
    for item in setup.data.items[split]:
        for name in sorted(item.arrays):
            value = zlib.crc32(np.ascontiguousarray(item.arrays[name]), value)
    return value


def _log(experiment: Experiment, run: Run, standing: Standing) -> MetricsLog | NoLog:
    if not is_first():
        return NoLog()
    boards: Sequence[Board] = ()
    project = experiment.recording.wandb_project
    if project is not None:
        settings = json.loads(to_json(experiment))
        name = f"{experiment.name}/{run.path.name}"
        boards = (WeightsAndBiases(project, run.path, name=name, config=settings),)
    return MetricsLog(run.path, after_step=standing.recorded, boards=boards)


def _meter(setup: Setup, mesh: jax.sharding.Mesh, standing: Standing) -> Throughput:
    lengths = [len(item) for item in setup.data.items["train"]]
    operations = flops_per_token(setup.network.encoder, attended_length(lengths))
    meter = Throughput(list(mesh.devices.flat), flops_per_token=operations)
    if standing.throughput:
        meter.restore(standing.throughput)
    return meter


def _told(fit: Fit) -> dict[str, Any]:
    """Tell how training went, without the test split."""
    standing = fit.standing
    return {
        "steps": len(fit.batches),
        "best_dev_score": standing.best_dev_score,
        "last_dev_score": standing.dev_score,
        "skipped": standing.skipped,
        **{name: round(value, 4) for name, value in fit.meter.values().items()},
        "share_filled": round(fit.batches.share_filled, 4),
        "devices": fit.mesh.size,
        "device_kind": fit.mesh.devices.flat[0].device_kind,
        "versions": versions(),
        "headline": fit.task.headline,
    }


def _score(fit: Fit, state: TrainState) -> dict[str, Any]:
    """Score test with the best and the last checkpoint, and tune what there is."""
    task, steps = fit.task, len(fit.batches)
    folder, network = fit.run.checkpoints, fit.setup.network
    best_step, best = restore_params(folder, network, "best", fit.mesh)
    search = fit.search(best, "test", counted=True)
    (found,) = search.found
    _keep_shares(fit, found)
    if is_first():
        fit.run.write_score_counts(search.counts)
    chosen = last = fit.score(found, "test")
    if best_step < steps:
        last = fit.score(fit.find(state.weights, "test"), "test")
    result = {
        "best_step": best_step,
        "test_data": _checksum(fit.setup, "test"),
        "test": chosen.to_json(),
        "test_at_last_step": last.to_json(),
    }
    if task.tunes_threshold:
        result |= _with_tuned_threshold(fit, best, found)
    return result


def _keep_shares(fit: Fit, found: Sequence[Any]) -> None:
    """Keep what each test example adds to the headline, where that is a sum at all."""
    data, task = fit.setup.data, fit.task
    decided = [task.decide(one) for one in found]
    with contextlib.suppress(InputError):  # told by what wants to compare runs
        shares = task.shares(data.corpus.test, decided, data.labels)
        if is_first():
            fit.run.write_shares(shares)


def _with_tuned_threshold(
    fit: Fit, params: Any, found: Sequence[Any]
) -> dict[str, Any]:
    """Tune the threshold on dev, and score what was found in test with it."""
    data = fit.setup.data
    tuned = fit.task.tune(data.corpus.dev, fit.find(params, "dev"), data.labels)
    fit.progress.say(f"threshold tuned on dev: {tuned}")
    scores = fit.score(found, "test", tuned.threshold)
    return {
        "threshold": dataclasses.asdict(tuned),
        "test_with_tuned_threshold": scores.to_json(),
    }
