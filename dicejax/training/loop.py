"""Train experiments from start to end, or from where they were cut off to the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dicejax.config import Experiment
from dicejax.data.pipeline import Batches
from dicejax.errors import Diverged, InputError
from dicejax.training.begun import Begun
from dicejax.training.boards import require_wandb
from dicejax.training.fit import Fit
from dicejax.training.processes import barrier, is_main_process
from dicejax.training.progress import TrainingProgress
from dicejax.training.run_folder import Run
from dicejax.training.runs.companions import Companions
from dicejax.training.setup import prepare


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
    companions: Companions | None = None,
    scores_test: bool = True,
) -> list[dict[str, Any] | Diverged]:
    """Train several runs as `train` does each, in one program.

    Where they were cut off at different steps, each joins at its own. A stack that was
    cut off ends with the same digits if it goes on with the same companions; to
    rounding, a run that was begun in a stack can be continued alone, and the other way
    round. One that diverges is recorded, and the others go on.

    Args:
      experiments: what to train; they differ in the seed and in numbers of the
        objective, in nothing else, see `comparison.stacks`.
      runs: their folders, unfinished.
      progress: shows where the runs stand.
      companions: the stack they were begun in, those of it that are over included;
        None: they were in none, or are to go on in another.
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
    barrier("before anything is written")
    for setup, run in zip(setups, runs, strict=True):
        if is_main_process() and not run.continues:
            data = setup.data
            network = setup.network.encoder
            run.write_setup(setup.experiment, data.labels, network, data.tokenizer)
    barrier("the run's folder is there")
    begun = [
        Begun.of(setup, run, mesh, of_seed[setup.experiment.training.seed], progress)
        for setup, run in zip(setups, runs, strict=True)
    ]
    if companions is None:
        companions = Companions.of(
            runs, max(batches.sequences for batches in of_seed.values())
        )
    if is_main_process():
        for run in runs:
            companions.note(run)
    alone = len(companions.paths) == 1
    places = [None if alone else companions.place(run) for run in runs]
    members = [
        one.member(mesh, progress, place, scores_test)
        for one, place in zip(begun, places, strict=True)
    ]
    states = [one.state for one in begun]
    begun.clear()
    Fit(members, mesh, companions).finish(states)
    return [member.outcome for member in members]


def _found(run: Run, scores_test: bool) -> dict[str, Any]:
    """Return what a finished run holds."""
    result = run.result()
    if scores_test and "test" not in result:
        raise InputError(
            f"{run.path}: a trial of tuning, never scored on test; name another folder"
            " with --out, or replace it with --overwrite"
        )
    return result
