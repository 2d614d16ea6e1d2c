"""Records of a run: the state of its loop, lines of metrics, checkpoints."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import NoReturn

import jax
from jax.sharding import Mesh

from dicejax.data.pipeline import Batches, Packed
from dicejax.errors import Diverged, InputError, Stopped
from dicejax.metrics.scores import Scores, heading
from dicejax.objectives import name_of
from dicejax.training.checkpoint import Checkpoints
from dicejax.training.checkpoint_folder import steps
from dicejax.training.encoded import noun_of
from dicejax.training.gradients.probe import FILE as ANALYSIS
from dicejax.training.gradients.probe import Collector
from dicejax.training.identity import changed
from dicejax.training.logging import FILE as METRICS
from dicejax.training.logging import MetricsLog, boards_of
from dicejax.training.loop_state import LoopState
from dicejax.training.outcome import divergence, lower_rate
from dicejax.training.processes import is_main_process
from dicejax.training.progress import TrainingProgress
from dicejax.training.run_folder import CHECKPOINTS, Run
from dicejax.training.setup import Setup
from dicejax.training.sharding import with_shardings
from dicejax.training.state import TrainState, not_finite
from dicejax.training.throughput import Throughput, flops_per_token


def check_identity(run: Run, setup: Setup, warn: Callable[[str], None]) -> bool:
    """Compare what a run that continues was made from with what is there now.

    Test may have changed where it is not scored yet, and everything before the first
    checkpoint.

    Returns:
      Whether the run can continue; without a checkpoint it is to begin anew.

    Raises:
      InputError: what it was trained on has changed.
    """
    before, now = run.identity(), setup.data.identity
    noun = noun_of(setup.experiment)
    if before is None or not now.changes(before):
        return True
    if changes := run.changes(now, noun):
        since = changed(changes, "the run began")
        remedy = "restore it, or start again with --overwrite"
        raise InputError(f"{run.path}: {since}; {remedy}")
    if not steps(run.path / CHECKPOINTS):
        return False
    since = changed(now.changes(before, noun), "the run began")
    warn(f"{run.path}: {since}; it is scored as it is now")
    if is_main_process():
        run.write_identity(now)
    return True


def restore(
    setup: Setup,
    run: Run,
    checkpoints: Checkpoints,
    mesh: Mesh,
    data: int,
    warn: Callable[[str], None],
) -> tuple[TrainState, LoopState] | None:
    """Return the states at the last checkpoint; None where there is no checkpoint.

    Raises:
      InputError: the encoded training data, whose checksum is given, has changed since
        the run began, or no checkpoint can be read.
    """
    like = with_shardings(setup.abstract_state(), mesh)
    restored = checkpoints.restore(like, warn)
    if restored is None:
        return None
    state, notes = restored
    try:
        loop = LoopState(**notes)
    except TypeError as error:
        raise InputError(
            f"{run.path}: its checkpoints are of another version of dicejax; "
            "train it anew with --overwrite"
        ) from error
    if loop.data != data:
        raise InputError(
            f"{run.path}: the encoded training data has changed since the run began; "
            "restore the data and the versions of then, or start again with --overwrite"
        )
    return state, loop


class Recorder(contextlib.AbstractContextManager["Recorder"]):
    """Writer of metrics and checkpoints, a context manager round the training loop.

    It updates the state of the loop in place. Its `meter` measures throughput, its
    `analyser`, if that is on, the gradients of some steps.
    """

    def __init__(
        self,
        setup: Setup,
        run: Run,
        batches: Batches,
        mesh: Mesh,
        loop: LoopState,
        checkpoints: Checkpoints,
        progress: TrainingProgress,
    ):
        self._experiment = experiment = setup.experiment
        self._metric = heading(experiment.task.primary_metric)
        self._name = f"{name_of(experiment.objective)} seed {experiment.training.seed}"
        self._run, self._batches, self._loop = run, batches, loop
        self._checkpoints, self._progress = checkpoints, progress
        self._epoch_ends = frozenset(batches.plan.epoch_ends())
        self._saved = loop.step
        self._pending: list[dict[str, jax.Array]] = []
        self._batch: Packed | None = None
        self._bar = progress.begin(self._name, len(batches), step=loop.step)
        folder, after = run.path if is_main_process() else None, loop.recorded
        boards = folder and boards_of(experiment, folder, after)
        self._log = MetricsLog(folder, after_step=after, boards=boards or ())
        self.analyser: Collector | None = None
        if experiment.analysis.every:
            self.analyser = Collector(
                setup, run.path, mesh, after_step=loop.step, say=progress.say
            )
        analysis = MetricsLog(None) if self.analyser is None else self.analyser.log
        self._logs = {METRICS: self._log, ANALYSIS: analysis}
        for name, log in self._logs.items():
            before = loop.digests.get(name)
            if before and log.sha256 and before != log.sha256:
                progress.note(
                    f"{run.path / name}: has changed since the checkpoint of step "
                    f"{loop.step}; the run continues it as it is"
                )
        lengths = [len(item) for item in setup.data.items["train"]]
        operations = flops_per_token(setup.network.encoder, lengths)
        self.meter = Throughput(list(mesh.devices.flat), flops_per_token=operations)
        self.meter.sums.update(loop.throughput)

    def __exit__(
        self, kind: object, error: BaseException | None, trace: object
    ) -> None:
        self._log.close(failed=error is not None)
        self._logs[ANALYSIS].close()
        if error is None or isinstance(error, Stopped | Diverged):
            self._checkpoints.close()
            self._progress.remove_task(self._bar)  # its epochs stay in the text above

    def take(self, step: int, batch: Packed, metrics: dict[str, jax.Array]) -> None:
        """Take the metrics of a step, without waiting for them."""
        self.meter.count(batch.tokens, batch.places)
        self._pending.append(metrics)
        self._loop.step, self._batch = step, batch

    def collect(self) -> None:
        """Wait for the steps taken so far, and note their metrics.

        Raises:
          Diverged: too many consecutive steps had no finite loss or gradient.
        """
        if self.analyser is not None:
            self.analyser.write()
        loop, first = self._loop, self._loop.step - len(self._pending) + 1
        for step, metrics in enumerate(jax.device_get(self._pending), first):
            loop.count({name: value.item() for name, value in metrics.items()})
            if loop.skipped_in_a_row >= self._experiment.training.max_consecutive_skips:
                self._give_up(step)
        self._pending.clear()
        self.meter.pause()
        loop.throughput = dict(self.meter.sums)
        self.meter.resume()

    def write_line(self, **scores: float) -> None:
        """Write the line of the last step."""
        loop, batch = self._loop, self._batch
        if batch is None:
            raise ValueError("no step was taken")
        record = {
            "epoch": batch.epoch,
            "sentences": batch.sentences,
            **loop.next_line(),
            **{name: round(value, 4) for name, value in self.meter.values().items()},
            **scores,
        }
        self._log.write(loop.step, **record)
        self._progress.show(self._bar, loop.step, record, loop.dev_score, self._metric)

    def end_epoch(self, state: TrainState, scores: Scores) -> None:
        """Write the line of an epoch's last step with its scores, and a checkpoint."""
        loop, metric = self._loop, self._experiment.task.primary_metric
        score = scores.values[metric]
        loop.score_epoch(score)
        self._metric = scores.name(metric)
        if self._batch is None:  # of a run that resumes here
            self._batch = self._batches[loop.step - 1]
        self.write_line(**{f"dev/{name}": x for name, x in scores.values.items()})
        mean_loss = loop.end_epoch()
        self._save(state, score)
        self._progress.say(
            f"{self._name}  epoch {self._batch.epoch + 1}  mean loss "
            f"{mean_loss:.4f}  dev {self._metric} {100 * score:.2f}  "
            f"{self.meter.values()['tokens_per_s']:,.0f} tokens/s"
        )

    def save(self, state: TrainState) -> None:
        """Write a checkpoint of the last step, unless there is one."""
        self.collect()
        if self._saved != self._loop.step:
            self._loop.evaluated = self._loop.step not in self._epoch_ends
            self._save(state)

    def finish(self, state: TrainState) -> None:
        """Check that training has ended well.

        Raises:
          Diverged: too many steps had no finite loss or gradient, or the weights are
            not finite.
        """
        loop = self._loop
        reason = divergence(loop.step, loop.skipped, loop.skipped_in_a_row)
        reason = reason or not_finite(state.weights)
        if reason is not None:
            self._diverge(reason)

    def flush(self) -> None:
        """Flush the records to durable storage."""
        for log in self._logs.values():
            log.flush()

    def _save(self, state: TrainState, score: float | None = None) -> None:
        self.flush()
        self._loop.digests = {name: log.sha256 for name, log in self._logs.items()}
        self._saved = self._loop.step
        notes = dataclasses.asdict(self._loop)  # a copy: saving is asynchronous
        self._checkpoints.save(self._saved, state, score, notes)

    def _give_up(self, step: int) -> None:
        """Save the batch of a step for inspection, and end the run."""
        most = self._experiment.training.max_consecutive_skips
        first = step - most + 1
        file = f"not_finite_step_{first}.npz"
        if is_main_process():
            self._run.write_arrays(file, self._batches[first - 1].arrays)
        self._diverge(
            f"no finite loss or gradient in {most} steps in a row, {first} to {step}; "
            f"the batch of step {first} is in {file}"
        )

    def _diverge(self, reason: str) -> NoReturn:
        """End the run, whose folder then says why."""
        path, remedy = self._run.path, lower_rate(self._experiment)
        error = Diverged(f"{path}: diverged: {reason}; {remedy}")
        if is_main_process():
            self._run.write_diverged(str(error))
        raise error
