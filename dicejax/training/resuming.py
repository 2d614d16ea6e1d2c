"""Resuming a run: check that its data are the same, restore its last checkpoint."""

from __future__ import annotations

from collections.abc import Callable

from jax.sharding import Mesh

from dicejax.errors import InputError
from dicejax.training.checkpoint import Checkpoints
from dicejax.training.checkpoint_folder import steps
from dicejax.training.encoded import noun_of
from dicejax.training.identity import changed
from dicejax.training.loop_state import LoopState
from dicejax.training.processes import is_main_process
from dicejax.training.run_folder import CHECKPOINTS, Run
from dicejax.training.setup import Setup
from dicejax.training.sharding import with_shardings
from dicejax.training.state import TrainState


def check_identity(run: Run, setup: Setup, warn: Callable[[str], None]) -> bool:
    """Compare data and weights of a resumed run with those that it began with.

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
