"""Log of the training loop: lines of metrics, and counts of the steps taken."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import jax
from etils import epath
from jax.sharding import Mesh

from dicejax.data.pipeline import Batches, Packed
from dicejax.errors import Diverged, Stopped
from dicejax.metrics.scores import Scores, heading
from dicejax.objectives import name_of
from dicejax.training.candidate import candidate_of
from dicejax.training.gradients.probe import FILE as ANALYSIS
from dicejax.training.gradients.probe import Collector
from dicejax.training.logging import FILE as METRICS
from dicejax.training.logging import MetricsLog, boards_of
from dicejax.training.loop_state import LoopState
from dicejax.training.processes import is_main_process
from dicejax.training.progress import TrainingProgress
from dicejax.training.setup import Setup
from dicejax.training.throughput import Throughput, flops_per_token


class LoopLog(contextlib.AbstractContextManager["LoopLog"]):
    """Log of a training loop, a context manager round it.

    It counts the steps in the state of the loop, in place. `write_line` writes and
    shows a line of metrics. Its `meter` measures throughput, its `analyser`, if that is
    on, the gradients of some steps.
    """

    def __init__(
        self,
        setup: Setup,
        folder: epath.Path,
        batches: Batches,
        mesh: Mesh,
        loop: LoopState,
        progress: TrainingProgress,
    ):
        experiment, after = setup.experiment, loop.recorded
        self._setup, self._batches, self._loop = setup, batches, loop
        self._pending: list[dict[str, jax.Array]] = []
        self._batch: Packed | None = None
        self._name = (
            f"{name_of(candidate_of(experiment))} seed {experiment.training.seed}"
        )
        self._metric = heading(experiment.task.primary_metric)
        self._progress = progress
        self._bar = progress.begin(self._name, len(batches), step=loop.step)
        written = folder if is_main_process() else None
        boards = written and boards_of(experiment, written, after)
        self._lines = MetricsLog(written, after_step=after, boards=boards or ())
        self._files = {METRICS: self._lines}
        self.analyser: Collector | None = None
        if experiment.analysis.every:
            self.analyser = Collector(
                setup, folder, mesh, after_step=loop.step, say=progress.say
            )
            self._files[ANALYSIS] = self.analyser.log
        for name, file in self._files.items():
            before = loop.digests.get(name)
            if before and file.sha256 and before != file.sha256:
                progress.note(
                    f"{folder / name}: has changed since the checkpoint of step "
                    f"{loop.step}; the run continues it as it is"
                )
        lengths = [len(item) for item in setup.data.items["train"]]
        operations = flops_per_token(setup.network.encoder, lengths)
        self.meter = Throughput(list(mesh.devices.flat), flops_per_token=operations)
        self.meter.sums.update(loop.throughput)

    def __exit__(
        self, kind: object, error: BaseException | None, trace: object
    ) -> None:
        self._lines.close(failed=error is not None)
        if self.analyser is not None:
            self.analyser.log.close()
        if error is None or isinstance(error, Stopped | Diverged):
            self._progress.remove_task(self._bar)  # its epochs stay in the text above

    def take(self, step: int, batch: Packed, metrics: dict[str, jax.Array]) -> None:
        """Take the metrics of a step, without waiting for them."""
        self.meter.count(batch.tokens, batch.places)
        self._pending.append(metrics)
        self._loop.step, self._batch = step, batch

    def collect(self) -> int | None:
        """Wait for the steps taken so far, and count them.

        Returns:
          The step with which too many in a row had no finite loss or gradient; None if
          there is none.
        """
        if self.analyser is not None:
            self.analyser.write()
        loop, first = self._loop, self._loop.step - len(self._pending) + 1
        most = self._setup.experiment.training.max_consecutive_skips
        for step, metrics in enumerate(jax.device_get(self._pending), first):
            loop.count({name: value.item() for name, value in metrics.items()})
            if loop.skipped_in_a_row >= most:
                return step
        self._pending.clear()
        self.meter.pause()
        loop.throughput = dict(self.meter.sums)
        self.meter.resume()
        return None

    def write_line(self, scores: Scores | None = None) -> None:
        """Write the line of the last step, with the scores on dev of an epoch's end."""
        loop, metric = self._loop, self._setup.experiment.task.primary_metric
        values: Mapping[str, float] = {}
        if scores is not None:
            self._metric, values = scores.name(metric), scores.values
            loop.score_epoch(values[metric])
        batch = self._batch or self._batches[loop.step - 1]  # of a run that resumes
        speed = {name: round(x, 4) for name, x in self.meter.values().items()}
        record = {
            "epoch": batch.epoch,
            "sentences": batch.sentences,
            **loop.next_line(),
            **speed,
            **{f"dev/{name}": value for name, value in values.items()},
        }
        self._lines.write(loop.step, **record)
        self._progress.show(self._bar, loop.step, record, loop.dev_score, self._metric)
        if scores is not None:
            mean, per_s = loop.end_epoch(), speed["tokens_per_s"]
            self._progress.say(
                f"{self._name}  epoch {batch.epoch + 1}  mean loss {mean:.4f}  dev "
                f"{self._metric} {100 * values[metric]:.2f}  {per_s:,.0f} tokens/s"
            )

    def flush(self) -> None:
        """Flush the files to durable storage, and update their checksums."""
        for file in self._files.values():
            file.flush()
        self._loop.digests = {name: file.sha256 for name, file in self._files.items()}
