"""A run under way, by itself or beside others: its standing, and what it writes."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from dicejax.data.pipeline import Batches, Packed
from dicejax.errors import Diverged
from dicejax.metrics.scores import Scores, heading
from dicejax.models.network import Params
from dicejax.objectives import name_of
from dicejax.training.checkpoint import Checkpoints
from dicejax.training.gradients.collector import Collector
from dicejax.training.logging import MetricsLog, NoLog
from dicejax.training.loop_state import Standing
from dicejax.training.predict import Predictor, Search
from dicejax.training.processes import is_main_process
from dicejax.training.progress import TrainingProgress
from dicejax.training.run_folder import Run
from dicejax.training.setup import Setup
from dicejax.training.state import TrainState
from dicejax.training.throughput import Throughput


@dataclasses.dataclass(eq=False)
class Member:
    """A run under way.

    Attributes:
      setup: what it is made of.
      run: its folder.
      batches: of all steps.
      log: takes a line for some steps.
      gradients: looks at those of some steps; not in a stack.
      checkpoints: take the state of some.
      progress: shows where it stands.
      meter: measures its speed.
      predict: finds what its task looks for.
      standing: where it stands.
      place: its number among the runs of a stack; None: it is by itself.
      scores_test: whether the test split is predicted at all.
      outcome: what `result.json` holds, or why it was given up; None: it goes on.
    """

    setup: Setup
    run: Run
    batches: Batches
    log: MetricsLog | NoLog
    gradients: Collector
    checkpoints: Checkpoints
    progress: TrainingProgress
    meter: Throughput
    predict: Predictor
    standing: Standing = dataclasses.field(default_factory=Standing)
    place: int | None = None
    scores_test: bool = True
    outcome: dict[str, Any] | Diverged | None = None

    def __post_init__(self):
        experiment = self.setup.experiment
        self.task = experiment.task
        self.name = f"{name_of(experiment.objective)} seed {experiment.training.seed}"
        self.ends = frozenset(self.batches.epoch_ends())
        self._given: list[dict[str, jax.Array]] = []
        self._saved = self.standing.step
        self._line = self.progress.begin(self.name, len(self.batches))
        self.progress.move(self._line, self.standing.step)

    @property
    def goes_on(self) -> bool:
        """Whether it has neither its result nor been given up."""
        return self.outcome is None

    def is_due(self, step: int) -> bool:
        """Whether a line is written of a step, if the run goes on."""
        return step % self.setup.experiment.training.log_every == 0

    def is_kept(self, step: int) -> bool:
        """Whether there is to be a checkpoint of a step within an epoch."""
        every = self.setup.experiment.recording.checkpoint_every
        return step % every == 0 and step not in self.ends

    def take(self, step: int, metrics: dict[str, jax.Array]) -> None:
        """Take what a step gave, without waiting for it."""
        self._given.append(metrics)
        self.standing.step = step

    def collect(self) -> None:
        """Wait for the steps taken so far, and note what they gave.

        Raises:
          Diverged: too many in a row had no finite loss or gradient.
        """
        self.gradients.write()
        most = self.setup.experiment.training.max_consecutive_skips
        first = self.standing.step - len(self._given) + 1
        for number, metrics in enumerate(jax.device_get(self._given), first):
            own = {name: self._own(value) for name, value in metrics.items()}
            self.standing.note(own)
            if self.standing.skipped_in_a_row >= most:
                self._give_up(number)
        self._given.clear()
        self.meter.pause()
        self.standing.throughput = self.meter.state()
        self.meter.resume()

    def _own(self, value: np.ndarray) -> float:
        return value.item() if self.place is None else value[self.place].item()

    def write(self, step: int, batch: Packed, **scores: float) -> None:
        """Write the line of a step."""
        values = self.standing.record(step, batch)
        speed = self.meter.values()
        rounded = {name: round(value, 4) for name, value in speed.items()}
        self.log.write(step, **values, **rounded, **scores)
        self.progress.update(
            self._line,
            step,
            loss=values["loss"],
            score=self.standing.dev_score,
            primary_metric=self.task.primary_metric,
            tokens_per_s=speed["tokens_per_s"],
            skipped=self.standing.skipped,
            wait_share=speed["wait_share"],
        )

    def end_epoch(
        self, step: int, batch: Packed, state: TrainState, between: Callable[[], None]
    ) -> None:
        """Score dev, write the line of the step and a checkpoint.

        Args:
          step: at which the epoch ends.
          batch: of the step.
          state: after it.
          between: called between the batches of dev; what it raises ends the scoring,
            and nothing is written.
        """
        found = self.find(state.weights, "dev", between=between)
        scores = self.score(found, "dev")
        score = scores.values[self.task.primary_metric]
        self.standing.scored(score)
        self.write(step, batch, **flat("dev", scores))
        loss = self.standing.mean_of_epoch()
        self._save(state, score)
        self.progress.say(
            f"{self.name}  epoch {batch.epoch + 1}  mean loss {loss:.4f}  "
            f"dev {heading(self.task.primary_metric)} {100 * score:.2f}  "
            f"{self.meter.values()['tokens_per_s']:,.0f} tokens/s"
        )

    def keep(self, state: TrainState) -> None:
        """Write a checkpoint of the last step, unless there is one."""
        step = self.standing.step
        if self._saved != step:
            self.standing.evaluated = step not in self.ends
            self._save(state)

    def _save(self, state: TrainState, score: float | None = None) -> None:
        self.log.flush()
        self.gradients.flush()
        self._saved = self.standing.step
        self.checkpoints.save(self._saved, state, score, self.standing.to_json())

    def end(self, outcome: dict[str, Any] | Diverged) -> None:
        """Note how it ended, and close its files."""
        self.outcome = outcome
        self.checkpoints.close()
        self.close_logs(failed=isinstance(outcome, Diverged))
        self.progress.end(self._line)

    def close_logs(self, *, failed: bool) -> None:
        """Write what is left in the files that grow with the steps, and close them."""
        self.log.close(failed=failed)
        self.gradients.close()

    def _give_up(self, step: int) -> None:
        """Keep the batch of a step for inspection, and end the run."""
        most = self.setup.experiment.training.max_consecutive_skips
        first = step - most + 1
        file = self.run.path / f"not_finite_step_{first}.npz"
        if is_main_process():
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
        (found,) = self.search(params, split, **options).found
        return found

    def search(self, params: Params, split: str, **options: Any) -> Search:
        """Search a split, as `Predictor.search` does."""
        data = self.setup.data
        examples, items = getattr(data.corpus, split), data.items[split]
        return self.predict.search(params, examples, items, **options)

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
