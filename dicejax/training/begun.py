"""Runs at the step they go on from: their last checkpoint, or the beginning."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

import jax

from dicejax.config import Experiment, to_json
from dicejax.data.pipeline import Batches
from dicejax.errors import InputError
from dicejax.training.boards import Board, WeightsAndBiases
from dicejax.training.checkpoint import Checkpoints
from dicejax.training.gradients.collector import Collector
from dicejax.training.logging import MetricsLog, NoLog
from dicejax.training.loop_state import Standing
from dicejax.training.member import Member
from dicejax.training.processes import is_main_process
from dicejax.training.progress import TrainingProgress
from dicejax.training.result import checksum
from dicejax.training.run_folder import Run
from dicejax.training.setup import Setup
from dicejax.training.sharding import placed
from dicejax.training.state import TrainState
from dicejax.training.throughput import Throughput, attended_length, flops_per_token


@dataclasses.dataclass(frozen=True, eq=False)
class Begun:
    """A run at the step it goes on from.

    Attributes:
      setup: what it is made of.
      run: its folder.
      batches: of all steps.
      checkpoints: those it has.
      state: at the step, on the devices.
      standing: at the step.
    """

    setup: Setup
    run: Run
    batches: Batches
    checkpoints: Checkpoints
    state: TrainState
    standing: Standing

    @classmethod
    def of(
        cls,
        setup: Setup,
        run: Run,
        mesh: jax.sharding.Mesh,
        batches: Batches,
        progress: TrainingProgress,
    ) -> Begun:
        """Bring a run to where it was cut off, or to its beginning.

        Args:
          setup: what it is made of.
          run: its folder.
          mesh: the devices.
          batches: of all steps.
          progress: is told of a run that goes on, and of damaged checkpoints.

        Raises:
          InputError: the data to train on is not what the run began with.
        """
        kept = setup.experiment.recording
        checkpoints = Checkpoints(
            run.checkpoints, keep_last=kept.keep_last, keep_best=kept.keep_best
        )
        found = _begin(setup, mesh, batches, checkpoints, run, progress)
        return cls(setup, run, batches, checkpoints, *found)

    def member(
        self,
        mesh: jax.sharding.Mesh,
        progress: TrainingProgress,
        place: int | None,
        scores_test: bool,
    ) -> Member:
        """Return the run as it goes on.

        Args:
          mesh: the devices.
          progress: shows where it stands.
          place: in a stack; None: it is by itself.
          scores_test: whether the test split is predicted at all.
        """
        return Member(
            self.setup,
            self.run,
            self.batches,
            _log(self.setup.experiment, self.run, self.standing),
            Collector(
                self.setup,
                self.run.path,
                mesh,
                after_step=self.standing.step,
                say=progress.say,
            ),
            self.checkpoints,
            progress,
            _meter(self.setup, mesh, self.standing),
            self.setup.predictor(mesh),
            self.standing,
            place,
            scores_test,
        )


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
    data = checksum(setup, "train")
    if run.continues:
        like = placed(setup.abstract_state(objective), mesh)
        found = checkpoints.restore(like, progress.note)
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


def _log(experiment: Experiment, run: Run, standing: Standing) -> MetricsLog | NoLog:
    if not is_main_process():
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
