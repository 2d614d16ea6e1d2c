"""The loop over the steps of a run, which can end at any of them and go on."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from dicejax.data.pipeline import Batches, Packed
from dicejax.errors import Diverged
from dicejax.metrics.scores import Scores, heading
from dicejax.models.network import Params
from dicejax.training.devices.processes import is_first
from dicejax.training.devices.sharding import global_batch, replicate, rows_here
from dicejax.training.gradients.collector import Collector
from dicejax.training.logs.metrics_log import MetricsLog, NoLog
from dicejax.training.logs.progress import TrainingProgress
from dicejax.training.logs.throughput import Throughput
from dicejax.training.runs.checkpoint import Checkpoints
from dicejax.training.runs.run import Run
from dicejax.training.runs.signals import Stopped, StopRequest
from dicejax.training.runs.standing import Standing
from dicejax.training.setup import Setup
from dicejax.training.steps.state import TrainState
from dicejax.training.steps.step import train_step


class _StoppedInEvaluation(Exception):
    pass


@dataclasses.dataclass
class Fit:
    """A run under way.

    Attributes:
      setup: what it is made of.
      run: its folder.
      mesh: the devices.
      batches: of all steps.
      log: takes a line for some steps.
      checkpoints: take the state of some.
      progress: shows where it stands.
      meter: measures its speed.
      standing: where it stands.
    """

    setup: Setup
    run: Run
    mesh: jax.sharding.Mesh
    batches: Batches
    log: MetricsLog | NoLog
    checkpoints: Checkpoints
    progress: TrainingProgress
    meter: Throughput
    standing: Standing = dataclasses.field(default_factory=Standing)

    def __post_init__(self):
        experiment = self.setup.experiment
        self.task = experiment.task
        self.name = f"{experiment.objective.short_name} seed {experiment.training.seed}"
        self._predict = self.setup.predictor(self.mesh)
        self._stop = StopRequest()
        self._gradients = Collector(
            self.setup,
            self.run.path,
            self.mesh,
            after_step=self.standing.step,
            say=self.progress.say,
        )

    def finish(self, state: TrainState) -> TrainState:
        """Take all steps that are left.

        Raises:
          Stopped: a signal asked for it; the state is saved.
          Diverged: too many steps in a row had no finite loss or gradient.
          InputError: a checkpoint cannot be written.
        """
        steps, begin = len(self.batches), self.standing.step
        ends = set(self.batches.epoch_ends())
        task = self.progress.begin(self.name, steps)
        self.progress.move(task, begin)
        with self._stop, self._gradients:
            if begin in ends and not self.standing.evaluated:
                self._end_epoch(task, begin, self.batches[begin - 1], state)
            for step, batch, metrics, now in self._steps(state, begin):
                state = now
                due = step % self.setup.experiment.training.log_every == 0
                if due or step in ends:
                    self._collect(step, metrics)
                stop = self._stop.after(step)
                if step in ends and not stop:
                    self._end_epoch(task, step, batch, state)
                elif due and step not in ends:
                    self._write(task, step, batch)
                every = self.setup.experiment.recording.checkpoint_every
                if stop or (step % every == 0 and step not in ends):
                    self._collect(step, metrics)
                    self.standing.evaluated = step not in ends
                    self._save(state)
                if stop:
                    self._end_here(step)
        self.progress.end(task)
        return state

    def _steps(self, state: TrainState, begin: int):
        """Yield each step's number, batch, what it and those before gave, the state."""
        settings = self.setup.step_settings(self.mesh)
        # On the devices already, so that no step sends anything but its batch.
        objective = replicate(self.setup.objective(), self.mesh)
        rows = self.batches.rows
        batches = self.batches.iterate(begin, rows_here=rows_here(rows, self.mesh))
        given: list[dict[str, jax.Array]] = []
        compiled: set[tuple[int, ...]] = set()
        for step in range(begin + 1, len(self.batches) + 1):
            with self.meter.waiting():
                batch = next(batches)
            arrays = global_batch(batch.arrays, self.mesh, rows)
            shape = arrays["input_ids"].shape
            is_new = shape not in compiled
            if is_new:  # compiling is not timed
                jax.block_until_ready(state.step)
                self.meter.pause()
            self._gradients.look(step, state, arrays, objective, self.meter)
            with jax.transfer_guard("allow" if is_new else "disallow"):
                state, metrics = train_step(state, arrays, objective, **settings)
            self.meter.count(batch.tokens, batch.places)
            if is_new:
                compiled.add(shape)
                jax.block_until_ready(metrics)
                self.meter.resume()
            given.append(metrics)
            self.standing.step = step
            yield step, batch, given, state

    def _collect(self, step: int, given: list[dict[str, jax.Array]]) -> None:
        """Wait for the steps given so far, and note what they gave."""
        self._gradients.write()
        most = self.setup.experiment.training.most_skipped
        for number, metrics in enumerate(jax.device_get(given), step - len(given) + 1):
            self.standing.note({name: value.item() for name, value in metrics.items()})
            if self.standing.skipped_in_a_row >= most:
                self._give_up(number)
        given.clear()
        self.meter.pause()
        self.standing.throughput = self.meter.state()
        self.meter.resume()

    def _write(self, task: Any, step: int, batch: Packed, **scores: float) -> None:
        """Write the line of a step."""
        values = self.standing.record(step, batch)
        speed = self.meter.values()
        rounded = {name: round(value, 4) for name, value in speed.items()}
        self.log.write(step, **values, **rounded, **scores)
        self.progress.update(
            task,
            step,
            loss=values["loss"],
            score=self.standing.dev_score,
            headline=self.task.headline,
            tokens_per_s=speed["tokens_per_s"],
            skipped=self.standing.skipped,
            wait_share=speed["wait_share"],
        )

    def _end_epoch(
        self, task: Any, step: int, batch: Packed, state: TrainState
    ) -> None:
        """Score dev, write the line of the step and a checkpoint."""
        self.meter.pause()
        try:
            found = self.find(state.weights, "dev", between=self._look_for_stop)
        except _StoppedInEvaluation:
            self.standing.evaluated = False
            self._save(state)
            self._end_here(step)
        scores = self.score(found, "dev")
        score = scores.values[self.task.headline]
        self.standing.scored(score)
        self._write(task, step, batch, **flat("dev", scores))
        loss = self.standing.mean_of_epoch()
        self._save(state, score)
        self.progress.say(
            f"{self.name}  epoch {batch.epoch + 1}  mean loss {loss:.4f}  "
            f"dev {heading(self.task.headline)} {100 * score:.2f}  "
            f"{self.meter.values()['tokens_per_s']:,.0f} tokens/s"
        )
        self.meter.resume()

    def _save(self, state: TrainState, score: float | None = None) -> None:
        self.log.flush()
        self._gradients.flush()
        self.checkpoints.save(self.standing.step, state, score, self.standing.to_json())

    def _look_for_stop(self) -> None:
        if self._stop.number is not None:
            raise _StoppedInEvaluation

    def _end_here(self, step: int) -> None:
        self.checkpoints.wait()
        raise Stopped(step, self._stop.number)

    def _give_up(self, step: int) -> None:
        """Keep the batch of a step for inspection, and end the run."""
        most = self.setup.experiment.training.most_skipped
        first = step - most + 1
        file = self.run.path / f"not_finite_step_{first}.npz"
        if is_first():
            content = io.BytesIO()
            np.savez_compressed(content, **self.batches[first - 1].arrays)
            file.write_bytes(content.getvalue())
        raise Diverged(
            f"{self.run.path}: no finite loss or gradient in {most} steps in a row, "
            f"{first} to {step}; the batch of step {first} is in {file.name}; try a "
            "lower --optimizer.learning_rate or --training.precision bfloat16, with "
            "--overwrite"
        )

    def find(self, params: Params, split: str, **options: Any) -> list[Any]:
        """Return what the task finds in each example of a split."""
        data = self.setup.data
        examples, items = getattr(data.corpus, split), data.items[split]
        return self._predict(params, examples, items, **options)

    def score(
        self, found: list[Any], split: str, threshold: float | None = None
    ) -> Scores:
        """Score what was found in a split."""
        data = self.setup.data
        examples = getattr(data.corpus, split)
        return self.task.score_found(examples, found, data.labels, threshold)


def flat(split: str, scores: Scores) -> Mapping[str, float]:
    """Name the scores of a split as the boards group them."""
    return {f"{split}/{name}": value for name, value in scores.values.items()}
