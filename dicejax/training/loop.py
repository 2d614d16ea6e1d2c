"""Train one experiment from start to end."""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any

import jax
import numpy as np

from dicejax.config import Experiment
from dicejax.data.pipeline import PackedBatches
from dicejax.metrics.scores import Scores, heading
from dicejax.models.network import Params
from dicejax.training.checkpoint import Checkpoints, restore_params
from dicejax.training.logging import MetricsLog, TrainingProgress
from dicejax.training.run import Run
from dicejax.training.setup import Setup, prepare
from dicejax.training.sharding import global_batch, local_mesh, replicate
from dicejax.training.state import TrainState
from dicejax.training.step import train_step


def train(
    experiment: Experiment, run: Run, progress: TrainingProgress
) -> dict[str, Any]:
    """Train, keep the best and the last checkpoint, and score the test split.

    Args:
      experiment: what to train.
      run: an empty run folder.
      progress: shows where the run stands.

    Returns:
      What `result.json` holds: test scores at the best and the last checkpoint, the
      dev score of each, steps, tokens per second; and where the task tunes a threshold
      on dev, that threshold, and the test scores with it beside those without.

    Raises:
      InputError: data or weights cannot be used; nothing has been written then.
    """
    setup = prepare(experiment, warn=lambda text: progress.say(f"note: {text}"))
    mesh = local_mesh()
    batches = setup.batches(devices=mesh.size)
    data = setup.data
    run.write_setup(experiment, data.labels, setup.network.encoder, data.tokenizer)
    log, checkpoints = MetricsLog(run.path), Checkpoints(run.checkpoints)
    try:
        fit = _Fit(setup, mesh, log, checkpoints, progress)
        state = fit.run(batches)
        checkpoints.close()
        result = fit.summary(batches)
        best_step, best = restore_params(run.checkpoints, setup.network, "best")
        best = replicate(best, mesh)
        found = fit.find(best, "test")
        chosen = fit.score(found, "test")
        last = chosen
        if best_step < len(batches):
            last = fit.score(fit.find(state.params, "test"), "test")
        result |= {
            "best_step": best_step,
            "headline": experiment.task.headline,
            "test": chosen.to_json(),
            "test_at_last_step": last.to_json(),
        }
        log.write(best_step, **_flat("test", chosen))
        if experiment.task.tunes_threshold:
            result |= fit.with_tuned_threshold(best, found)
    finally:
        log.close()
    run.write_result(result)
    return result


class _Fit:
    """The loop over steps, with what it counts on the way."""

    def __init__(self, setup, mesh, log, checkpoints, progress):
        self.setup: Setup = setup
        self.mesh = mesh
        self.log: MetricsLog = log
        self.checkpoints: Checkpoints = checkpoints
        self.progress: TrainingProgress = progress
        self.task = setup.experiment.task
        self.predict = setup.predictor(mesh)
        self.dev_score: float | None = None
        self.best_dev_score = -math.inf
        self.clock = _Clock()

    def run(self, batches: PackedBatches) -> TrainState:
        experiment = self.setup.experiment
        objective = self.setup.objective()
        keys = jax.random.split(jax.random.key(experiment.training.seed))
        state = TrainState.create(
            self.setup.initial_params(keys[0]),
            experiment.optimizer.transform(),
            total_steps=len(batches),
            rng=keys[1],
            objective_state=objective.initial_state(),
        )
        state = replicate(state, self.mesh)
        ends = batches.epoch_ends()
        name = f"{experiment.objective.short_name} seed {experiment.training.seed}"
        task = self.progress.begin(name, len(batches))
        losses: list[jax.Array] = []  # since they were last told
        epoch_losses: list[float] = []
        for step, batch in enumerate(batches.iterate(), start=1):
            state, metrics = train_step(
                state,
                global_batch(batch.arrays, self.mesh),
                objective,
                network=self.setup.network,
                optimizer=experiment.optimizer,
                task=experiment.task,
            )
            self.clock.count(step, batch.tokens)
            losses.append(metrics["loss"])
            if step == 1:
                jax.block_until_ready(metrics)  # the first step compiles: not timed
                self.clock.resume()
            if step % experiment.training.log_every == 0 or step in ends:
                # Told as means: an epoch's last batch may hold a handful of sentences.
                recent = [float(loss) for loss in losses]
                losses.clear()
                epoch_losses += recent
                self._report(task, step, batch, metrics | {"loss": np.mean(recent)})
            if step in ends:
                self._end_epoch(name, step, batch.epoch, state, np.mean(epoch_losses))
                epoch_losses.clear()
        self.progress.end(task)
        return state

    def _report(self, task, step: int, batch, metrics) -> None:
        values = {name: float(value) for name, value in metrics.items()}
        self.clock.pause()
        rate = self.clock.tokens_per_s
        self.log.write(
            step,
            epoch=batch.epoch,
            sentences=batch.sentences,
            tokens_per_s=round(rate, 1),
            **values,
        )
        self.progress.update(
            task,
            step,
            loss=values["loss"],
            score=self.dev_score,
            headline=self.task.headline,
            tokens_per_s=rate,
        )
        self.clock.resume()

    def _end_epoch(
        self, name, step: int, epoch: int, state: TrainState, loss: float
    ) -> None:
        self.clock.pause()
        scores = self.score(self.find(state.params, "dev"), "dev")
        score = self.dev_score = scores.values[self.task.headline]
        self.best_dev_score = max(self.best_dev_score, score)
        self.log.write(step, epoch=epoch, **_flat("dev", scores))
        self.checkpoints.save(step, state, score)
        self.progress.say(
            f"{name}  epoch {epoch + 1}  mean loss {loss:.4f}  "
            f"dev {heading(self.task.headline)} {100 * score:.2f}  "
            f"{self.clock.tokens_per_s:,.0f} tokens/s"
        )
        self.clock.resume()

    def find(self, params: Params, split: str) -> list[Any]:
        """Return what the task finds in each example of a split."""
        data = self.setup.data
        return self.predict(params, getattr(data.corpus, split), data.items[split])

    def score(
        self, found: list[Any], split: str, threshold: float | None = None
    ) -> Scores:
        data = self.setup.data
        examples = getattr(data.corpus, split)
        return self.task.score_found(examples, found, data.labels, threshold)

    def with_tuned_threshold(self, params: Params, found: list[Any]) -> dict[str, Any]:
        """Tune the threshold on dev, and score what was found in test with it."""
        data = self.setup.data
        dev = self.find(params, "dev")
        tuned = self.task.tune(data.corpus.dev, dev, data.labels)
        self.progress.say(f"threshold tuned on dev: {tuned}")
        return {
            "threshold": dataclasses.asdict(tuned),
            "test_with_tuned_threshold": self.score(
                found, "test", tuned.threshold
            ).to_json(),
        }

    def summary(self, batches: PackedBatches) -> dict[str, Any]:
        return {
            "steps": len(batches),
            "best_dev_score": self.best_dev_score,
            "last_dev_score": self.dev_score,
            "tokens_per_s": round(self.clock.tokens_per_s, 1),
            "share_filled": round(batches.share_filled, 4),
            "devices": self.mesh.size,
        }


class _Clock:
    """Tokens per second of training alone: no compiling, no evaluation."""

    def __init__(self):
        self._seconds = 0.0
        self._tokens = 0
        self._timed_tokens = 0
        self._since: float | None = None

    def count(self, step: int, tokens: int) -> None:
        if step > 1:
            self._tokens += tokens

    def pause(self) -> None:
        """Stop the clock; what was counted so far has been computed."""
        if self._since is not None:
            self._seconds += time.perf_counter() - self._since
            self._timed_tokens = self._tokens
        self._since = None

    def resume(self) -> None:
        self._since = time.perf_counter()

    @property
    def tokens_per_s(self) -> float:
        return self._timed_tokens / self._seconds if self._seconds else 0.0


def _flat(split: str, scores: Scores) -> dict[str, float]:
    return {f"{split}/{name}": value for name, value in scores.values.items()}
