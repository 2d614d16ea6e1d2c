"""Checkpoints: the last states and those with the best dev scores, through orbax.

Checkpoints are written asynchronously and atomically; fingerprints reveal damage.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import errno
import os
from collections.abc import Callable, Iterator
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from etils import epath
from jax.experimental import multihost_utils
from jax.sharding import Mesh

from dicejax.errors import Diverged, InputError, Stopped, first_line, truncate
from dicejax.mesh import MeshShape
from dicejax.models.network import Network, Params
from dicejax.training.checkpoint_folder import (
    ITEMS,
    Damaged,
    Record,
    by_score,
    delete,
    delete_leftovers,
    path_for_orbax,
    steps,
)
from dicejax.training.processes import barrier, is_main_process
from dicejax.training.sharding import by_path, with_shardings
from dicejax.training.state import TrainState, not_finite

Which = Literal["best", "last"]


class Checkpoints(contextlib.AbstractContextManager["Checkpoints"]):
    """Asynchronous checkpoints; the last and the best are kept.

    Weights are stored separately, so evaluation reads no optimizer state. Nothing is
    deleted before a later checkpoint is complete. As a context manager they are closed
    where training ended, was stopped or diverged; `last` is the step of the last one.

    Args:
      folder: local or gs://.
      keep_last: number of last checkpoints to keep; two, in case one is damaged.
      keep_best: number of checkpoints with the best dev scores to keep.

    Raises:
      InputError: checkpoints cannot be written to the folder.
    """

    def __init__(self, folder: epath.Path, *, keep_last: int = 2, keep_best: int = 1):
        self._folder, self._keep_last, self._keep_best = folder, keep_last, keep_best
        self.last: int | None = None
        self._scores: dict[int, float | None] = {}
        self._pending: tuple[int, dict[str, Any], float | None]
        self._open = contextlib.ExitStack()
        with self._errors_in_one_line():
            if is_main_process():
                if folder.exists():
                    delete_leftovers(folder)
                folder.mkdir(parents=True, exist_ok=True)
            self._path = self._open.enter_context(path_for_orbax(folder))
            options = ocp.AsyncOptions(
                post_finalization_callback=self._seal,
                # Where one cannot be made, orbax's threads wait for it for minutes.
                create_directories_asynchronously=False,
            )
            items = ocp.CompositeOptions(async_options=options)
            handler = ocp.CompositeCheckpointHandler(composite_options=items)
            self._writer = ocp.AsyncCheckpointer(handler, async_options=options)

    def __exit__(
        self, kind: object, error: BaseException | None, trace: object
    ) -> None:
        if error is None or isinstance(error, Stopped | Diverged):
            self.close()

    def save(
        self,
        step: int,
        state: TrainState,
        score: float | None = None,
        notes: dict[str, Any] | None = None,
    ) -> None:
        """Start writing the state after `step` updates, with a dev score if it has one.

        Raises:
          InputError: this one or the one before cannot be written.
        """
        weights, rest = _parts(state)
        with self._errors_in_one_line():
            self._finish_writing()
            if step == self.last:  # saved once already, before its dev score was taken
                if is_main_process():
                    place = self._folder / str(step)
                    files = Record.read(place).files
                    Record(notes or {}, score, files).write(place)
                    self._scores[step] = score
                return
            self._pending, self.last = (step, notes or {}, score), step
            self._writer.save(
                self._path / str(step),
                args=ocp.args.Composite(
                    params=ocp.args.StandardSave(weights),
                    rest=ocp.args.StandardSave(rest),
                ),
            )

    def _seal(self) -> None:
        """Add the record to a checkpoint that is written but has no name yet.

        Runs in the main process, on a thread of orbax.
        """
        self._delete_old()
        step, notes, score = self._pending
        place = self._writer.get_temporary_path(self._path / str(step)).get()
        Record.create(place, notes, score).write(place)
        self._scores[step] = score

    def _delete_old(self) -> None:
        last = sorted(self._scores)[-self._keep_last :]
        best = by_score(self._scores)[-self._keep_best :]
        for step in self._scores.keys() - {*last, *best}:
            delete(self._folder / str(step))
            del self._scores[step]

    def restore(
        self, like: TrainState, warn: Callable[[str], None]
    ) -> tuple[TrainState, dict[str, Any]] | None:
        """Return the last intact state and its notes; None without any.

        Damaged ones after it are deleted, with a warning. `like` has the shapes of a
        state, each with the sharding it is to have.

        Raises:
          InputError: there are checkpoints and none can be read; nothing was deleted.
        """
        step = self._intact(warn) if is_main_process() else None
        if jax.process_count() > 1:
            mine = np.int32(-1 if step is None else step)
            number = int(multihost_utils.broadcast_one_to_all(mine))
            step = None if number < 0 else number
        if step is None:
            return None
        self.last, place = step, self._folder / str(step)
        weights, rest = _parts(like)
        state = _whole(
            like,
            _arrays(self._path / str(step) / "params", weights, place),
            _arrays(self._path / str(step) / "rest", rest, place),
        )
        return state, _record(place).notes

    def _intact(self, warn: Callable[[str], None]) -> int | None:
        """Return the step of the last intact checkpoint; delete damaged ones."""
        intact: int | None = None
        damaged = {}
        for step in reversed(steps(self._folder)):
            place = self._folder / str(step)
            try:
                record = Record.read(place)
                if intact is None:
                    record.verify(place, *ITEMS)
                    intact = step
                self._scores[step] = record.score
            except Damaged as error:
                damaged[step] = error
        if damaged and intact is None:
            reasons = "; ".join(f"{step}: {error}" for step, error in damaged.items())
            raise InputError(
                f"{self._folder}: no checkpoint can be read ({reasons}); nothing was "
                "deleted; restore one, or start again with --overwrite"
            )
        for step, damage in damaged.items():
            place, is_last = self._folder / str(step), step > (intact or 0)
            then = "going back to the previous checkpoint" if is_last else "deleted"
            warn(f"{place}: damaged: {damage}; {then}")
            with self._errors_in_one_line():
                delete(place)
        return intact

    def wait(self) -> None:
        """Wait until everything is written, and delete old checkpoints.

        Raises:
          InputError: a checkpoint cannot be written.
        """
        with self._errors_in_one_line():
            self._finish_writing()
            self._delete_old()
        barrier("checkpoints are written")

    def _finish_writing(self) -> None:
        self._writer.wait_until_finished()
        # Holes that copies for the disk leave in a heap that never shrinks are too
        # small for the next ones, so that without this it grows with each checkpoint.
        if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # glibc has it
            trim(0)

    def close(self) -> None:
        """Wait until everything is written, and close."""
        self.wait()
        self._writer.close()
        self._open.close()

    @contextlib.contextmanager
    def _errors_in_one_line(self) -> Iterator[None]:
        """Turn errors of writing into an InputError."""
        try:
            yield
        except (OSError, ValueError, RuntimeError, Damaged) as error:
            raise InputError(
                f"{_reason(error)}: cannot write a checkpoint to "
                f"{truncate(str(self._folder), 60)}; make room or repair the folder, "
                "then run the same command again"
            ) from error


def _reason(error: Exception) -> str:
    """Return why writing failed; tensorstore hides it behind paths in its message."""
    reasons = map(os.strerror, (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS))
    named = (reason for reason in reasons if reason in str(error))
    return next(named, truncate(first_line(error), 80))


def restore_params(
    folder: epath.Path,
    network: Network,
    which: Which = "best",
    mesh: Mesh | None = None,
) -> tuple[int, Params]:
    """Read the parameters of a checkpoint, and the step that it was saved at.

    They are put on the devices of the mesh, by default on one.

    Raises:
      InputError: there is no checkpoint, or it is damaged, cannot be read, does not fit
        in memory, or has weights that are not finite.
    """
    network.check_memory(str(folder.parent))
    if not folder.exists():
        raise InputError(f"{folder}: missing; the run holds no checkpoint")
    candidates = steps(folder)
    if which == "best":
        scores = {step: _record(folder / str(step)).score for step in candidates}
        candidates = by_score(scores)
    if not candidates:
        raise InputError(f"{folder}: holds no {which} checkpoint")
    step = candidates[-1]
    place = folder / str(step)
    _record(place, "params")
    target = jax.eval_shape(network.init, jax.random.key(0))
    if mesh is None:
        mesh = MeshShape().make(jax.local_devices()[:1])
    with path_for_orbax(folder) as path:
        params = _arrays(
            path / str(step) / "params", with_shardings(target, mesh), place
        )
    if problem := not_finite(params):
        raise InputError(
            f"{place}: {problem}: the run diverged; train again with a lower "
            "--optimizer.learning_rate and --overwrite"
        )
    return step, params


def _record(place: epath.Path, *items: str) -> Record:
    """Return the record of a checkpoint; damage of it or the items is an InputError."""
    try:
        record = Record.read(place)
        if is_main_process():
            record.verify(place, *items)
    except Damaged as error:
        raise InputError(
            f"{place}: damaged: {error}; restore it, or delete it to use the next best "
            "or the previous checkpoint"
        ) from error
    return record


def _arrays(path: epath.Path, like: Any, place: epath.Path) -> Any:
    """Read an item of a checkpoint, whose fingerprints match, to these shardings."""
    handler = ocp.StandardCheckpointHandler()
    try:
        # Compared before reading: a restore that fails half-way leaves threads behind.
        problems = _mismatches(handler.metadata(path).tree, like)
        if not problems:
            with ocp.Checkpointer(handler) as reader:
                return reader.restore(path, args=ocp.args.StandardRestore(like))
    except Exception as error:  # orbax and tensorstore raise just that
        raise InputError(
            f"{place}: cannot be read: {first_line(error)}; its fingerprints match and "
            "nothing was deleted: run the same command again"
        ) from error
    raise InputError(f"{place}: does not fit the experiment: {'; '.join(problems)}")


def only_weights_stay(folder: epath.Path, step: int) -> None:
    """Delete a finished run's checkpoints except the weights of one step."""
    delete_leftovers(folder)
    for other in steps(folder):
        if other != step:
            delete(folder / str(other))
        elif (folder / str(step) / "rest").exists():
            (folder / str(step) / "rest").rmtree()


def _parts(state: TrainState) -> tuple[Params, dict[str, Any]]:
    """Return the weights, and everything else by path (orbax restores dicts only)."""
    others = dataclasses.replace(state, averaged=None)
    if state.averaged is None:
        others = dataclasses.replace(others, params={})
    return state.weights, {n: _key_data(leaf) for n, leaf in by_path(others).items()}


def _whole(like: TrainState, weights: Params, rest: dict[str, Any]) -> TrainState:
    """Undo `_parts`."""
    place: dict[str, Any] = {"params" if like.averaged is None else "averaged": weights}
    state = dataclasses.replace(like, **place)
    leaves = by_path(state)
    for name, array in rest.items():
        is_key = jnp.issubdtype(leaves[name].dtype, jax.dtypes.prng_key)
        leaves[name] = jax.random.wrap_key_data(array) if is_key else array
    return jax.tree.unflatten(jax.tree.structure(state), leaves.values())


def _key_data(leaf: Any) -> Any:
    """Convert PRNG keys, or their shapes, to integers."""
    if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return leaf
    if isinstance(leaf, jax.ShapeDtypeStruct):
        data = jax.eval_shape(jax.random.key_data, leaf)
        return jax.ShapeDtypeStruct(data.shape, data.dtype, sharding=leaf.sharding)
    return jax.random.key_data(leaf)


def _mismatches(stored: Any, expected: Params) -> list[str]:
    shapes, targets = (
        {name: tuple(leaf.shape) for name, leaf in by_path(tree).items()}
        for tree in (stored, expected)
    )
    return [
        f"{name} is {shapes.get(name, 'missing')}, "
        f"expected {targets.get(name, 'nothing')}"
        for name in sorted(shapes.keys() | targets.keys())
        if shapes.get(name) != targets.get(name)
    ]
