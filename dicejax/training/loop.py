"""Train experiments from start to end, or from where they were cut off to the end."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import jax

from dicejax.config import Experiment, to_json
from dicejax.data.pipeline import Batches
from dicejax.errors import Diverged, InputError
from dicejax.training.devices.model_flops import attended_length, flops_per_token
from dicejax.training.devices.processes import is_first, meet
from dicejax.training.devices.sharding import placed
from dicejax.training.fit import Fit
from dicejax.training.gradients.collector import Collector
from dicejax.training.logs.boards import Board, WeightsAndBiases, require_wandb
from dicejax.training.logs.metrics_log import MetricsLog, NoLog
from dicejax.training.logs.progress import TrainingProgress
from dicejax.training.logs.throughput import Throughput
from dicejax.training.member import Member
from dicejax.training.result import checksum
from dicejax.training.runs.checkpoint import Checkpoints
from dicejax.training.runs.run import Run
from dicejax.training.runs.standing import Standing
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
    (outcome,) = train_stack([experiment], [run], progress, scores_test=scores_test)
    if isinstance(outcome, Diverged):
        raise outcome
    return outcome


def train_stack(
    experiments: Sequence[Experiment],
    runs: Sequence[Run],
    progress: TrainingProgress,
    *,
    scores_test: bool = True,
) -> list[dict[str, Any] | Diverged]:
    """Train several runs as `train` does each, in one program.

    Those that were cut off at one step go on together, those at another step after
    them. A run that was begun in a stack can be continued alone, and the other way
    round. One that diverges is recorded, and the others go on.

    Args:
      experiments: what to train; they differ in the seed and in numbers of the
        objective, in nothing else, see `analysis.comparison.stacks`.
      runs: their folders, unfinished.
      progress: shows where the runs stand.
      scores_test: whether the test split is predicted at all.

    Returns:
      For each run what `result.json` holds, or why it was given up.

    Raises:
      InputError: data or weights cannot be used, and nothing has been written; or a
        checkpoint cannot be written.
      Stopped: a signal asked for it; the states are saved.
    """
    mesh = experiments[0].mesh.make()
    if experiments[0].recording.wandb_project is not None:
        require_wandb()
    first = prepare(experiments[0], warn=progress.note)
    setups = [first, *map(first.of_run, experiments[1:])]
    # The seed decides on the order of the data: runs of one seed share their batches.
    of_seed: dict[int, Batches] = {}
    for setup in setups:
        seed = setup.experiment.training.seed
        if seed not in of_seed:
            of_seed[seed] = setup.batches(mesh)
    meet("before anything is written")
    for setup, run in zip(setups, runs, strict=True):
        if is_first() and not run.continues:
            data = setup.data
            network = setup.network.encoder
            run.write_setup(setup.experiment, data.labels, network, data.tokenizer)
    meet("the run's folder is there")
    begun = [
        _Begun.of(setup, run, mesh, of_seed[setup.experiment.training.seed], progress)
        for setup, run in zip(setups, runs, strict=True)
    ]
    outcomes: dict[int, dict[str, Any] | Diverged] = {}
    for step in sorted({one.standing.step for one in begun}):
        together = [one for one in begun if one.standing.step == step]
        members = [
            one.member(
                mesh, progress, place if len(together) > 1 else None, scores_test
            )
            for place, one in enumerate(together)
        ]
        Fit(members, mesh).finish([one.state for one in together])
        outcomes |= {
            id(one): member.outcome
            for one, member in zip(together, members, strict=True)
        }
    return [outcomes[id(one)] for one in begun]


@dataclasses.dataclass(frozen=True, eq=False)
class _Begun:
    """A run at its last checkpoint, or at its beginning."""

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
    ) -> _Begun:
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
