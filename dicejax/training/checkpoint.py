"""Checkpoints: the last states and those with the best dev scores, through orbax.

Checkpoints are written asynchronously and atomically; fingerprints reveal damage.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp
from etils import epath
from jax import Array, lax
from jax.sharding import Mesh
from orbax.checkpoint.checkpoint_managers import preservation_policy

from dicejax.errors import InputError, first_line
from dicejax.mesh import MeshShape
from dicejax.models.network import Network, Params
from dicejax.training.sharding import path_name, placed
from dicejax.training.state import TrainState

METRIC = "dev_score"
Which = Literal["best", "last"]
Restored: TypeAlias = tuple[TrainState, dict[str, Any]]
"""A state on the devices, and the notes that were saved with it."""


class Checkpoints:
    """Asynchronous checkpoints; the last and the best are kept.

    Weights are stored separately, so evaluation reads no optimizer state.

    Args:
      folder: local, gs:// or s3://.
      keep_last: number of last checkpoints to keep; two, in case one is damaged.
      keep_best: number of checkpoints with the best dev scores to keep.
    """

    def __init__(self, folder: epath.Path, *, keep_last: int = 2, keep_best: int = 1):
        keep = preservation_policy.AnyPreservationPolicy(
            [
                preservation_policy.LatestN(keep_last),
                preservation_policy.BestN(
                    get_metric_fn=_score,
                    n=keep_best,
                    keep_checkpoints_without_metrics=False,
                ),
            ]
        )
        options = ocp.CheckpointManagerOptions(
            best_fn=_score,
            best_mode="max",
            preservation_policy=keep,
            cleanup_tmp_directories=True,  # left by killed processes
        )
        self._folder = folder
        self._manager = _manager(folder, options)

    def save(
        self,
        step: int,
        state: TrainState,
        score: float | None = None,
        notes: dict[str, Any] | None = None,
    ) -> None:
        """Start writing the state after `step` updates.

        Args:
          step: number of updates.
          state: after them.
          score: dev score; None without one.
          notes: the state of the loop, as JSON.

        Raises:
          InputError: this one or the one before cannot be written.
        """
        weights, rest = _parts(state)
        marks = {
            "weights": fingerprint(weights).tolist(),
            "rest": fingerprint(rest).tolist(),
        }
        with self._errors_in_one_line():
            # Saved once already, before its dev score was taken.
            if step in self._manager.all_steps():
                self._manager.wait_until_finished()
                self._manager.delete(step)
            self._manager.save(
                step,
                args=ocp.args.Composite(
                    params=ocp.args.StandardSave(weights),
                    rest=ocp.args.StandardSave(rest),
                    notes=ocp.args.JsonSave({"marks": marks, "notes": notes or {}}),
                ),
                metrics=None if score is None else {METRIC: score},
            )

    def restore(self, like: TrainState, warn: Callable[[str], None]) -> Restored | None:
        """Return the last intact checkpoint; None without one.

        Damaged ones after it are deleted.

        Args:
          like: the shapes of a state, each with the sharding it is to have.
          warn: called with a message for each damaged one.
        """
        damaged = []
        for step in sorted(self._manager.all_steps(), reverse=True):
            found = self._read(step, like)
            if not isinstance(found, str):
                for later in damaged:
                    self._manager.delete(later)
                return found
            damaged.append(step)
            warn(f"{self._folder / str(step)}: {found}; going back to the one before")
        for step in damaged:
            self._manager.delete(step)
        return None

    def _read(self, step: int, like: TrainState) -> Restored | str:
        """Read a checkpoint, or return the reason why it cannot be read."""
        weights, rest = _parts(like)
        try:
            found = self._manager.restore(
                step,
                args=ocp.args.Composite(
                    params=ocp.args.StandardRestore(weights),
                    rest=ocp.args.StandardRestore(rest),
                    notes=ocp.args.JsonRestore(),
                ),
            )
            marks = found["notes"]["marks"]
            for name, tree in (("weights", found["params"]), ("rest", found["rest"])):
                if fingerprint(tree).tolist() != marks[name]:
                    return "damaged: does not match its fingerprint"
        except Exception as error:  # orbax raises just that for a torn array
            return f"damaged: {first_line(error)}"
        state = _whole(like, found["params"], found["rest"])
        return state, found["notes"]["notes"]

    def wait(self) -> None:
        """Wait until everything is written.

        Raises:
          InputError: it cannot be.
        """
        with self._errors_in_one_line():
            self._manager.wait_until_finished()
            self._manager.check_for_errors()

    def close(self) -> None:
        """Wait until everything is written, and close."""
        self.wait()
        self._manager.close()

    @contextlib.contextmanager
    def _errors_in_one_line(self) -> Iterator[None]:
        """Turn errors of writing into an InputError."""
        try:
            yield
        except (OSError, ValueError, RuntimeError) as error:
            raise InputError(
                f"{self._folder}: cannot write a checkpoint: {first_line(error)}; make"
                " room or mend the folder, then run the same command again: the run"
                " resumes from its last checkpoint"
            ) from error


def restore_params(
    folder: epath.Path,
    network: Network,
    which: Which = "best",
    mesh: Mesh | None = None,
) -> tuple[int, Params]:
    """Read the parameters of a run.

    Args:
      folder: the run's `checkpoints`.
      network: the architecture they belong to.
      which: the checkpoint with the best dev score, or the last.
      mesh: devices to put them on; None: one.

    Returns:
      The step they were saved at, and the parameters.

    Raises:
      InputError: there is no checkpoint, or it cannot be read.
    """
    if not folder.exists():
        raise InputError(f"{folder}: missing; the run holds no checkpoint")
    options = ocp.CheckpointManagerOptions(
        best_fn=_score, best_mode="max", create=False
    )
    with _manager(folder, options) as manager:
        step = manager.best_step() if which == "best" else manager.latest_step()
        if step is None:
            raise InputError(f"{folder}: holds no {which} checkpoint")
        target = jax.eval_shape(network.init, jax.random.key(0))
        if mesh is None:
            mesh = MeshShape().make(jax.local_devices()[:1])
        # Compared before reading: a restore that fails half-way leaves threads behind.
        problems = _mismatches(manager.item_metadata(step)["params"], target)
        if problems:
            raise InputError(
                f"{folder}/{step}: does not fit the network: {'; '.join(problems)}"
            )
        try:
            restored = manager.restore(
                step,
                args=ocp.args.Composite(
                    params=ocp.args.StandardRestore(placed(target, mesh)),
                    notes=ocp.args.JsonRestore(),
                ),
            )
        except Exception as error:  # orbax raises just that for a torn array
            raise InputError(
                f"{folder}/{step}: cannot be read: {first_line(error)}"
            ) from error
    params = restored["params"]
    if fingerprint(params).tolist() != restored["notes"]["marks"]["weights"]:
        raise InputError(
            f"{folder}/{step}: is damaged (does not match its fingerprint); take the "
            f"{'last' if which == 'best' else 'best'} checkpoint, or train again"
        )
    return step, params


def only_weights_stay(folder: epath.Path, step: int) -> None:
    """Delete a finished run's checkpoints except the weights of one.

    Args:
      folder: the run's `checkpoints`.
      step: step of the checkpoint whose weights stay.
    """
    for place in folder.iterdir() if folder.exists() else ():
        if place.name != str(step):
            place.rmtree() if place.is_dir() else place.unlink()
        elif (place / "rest").exists():
            (place / "rest").rmtree()


def _parts(state: TrainState) -> tuple[Params, dict[str, Any]]:
    """Return the weights, and everything else by path (orbax restores dicts only)."""
    others = state if state.averaged is not None else _without(state, "params")
    return state.weights, {
        path_name(path): _key_data(leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(
            _without(others, "averaged")
        )
    }


def _whole(like: TrainState, weights: Params, rest: dict[str, Any]) -> TrainState:
    """Undo `_parts`."""
    place = "params" if like.averaged is None else "averaged"
    own = dataclasses.replace(like, **{place: weights})

    def leaf(path: tuple[Any, ...], leaf: Any) -> Any:
        name = path_name(path)
        if name.split("/", 1)[0] == place:
            return leaf
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(rest[name])
        return rest[name]

    return jax.tree_util.tree_map_with_path(leaf, own)


def _without(state: TrainState, field: str) -> TrainState:
    return dataclasses.replace(state, **{field: None})


def _key_data(leaf: Any) -> Any:
    """Convert PRNG keys, or their shapes, to integers."""
    if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return leaf
    if isinstance(leaf, jax.ShapeDtypeStruct):
        data = jax.eval_shape(jax.random.key_data, leaf)
        return jax.ShapeDtypeStruct(data.shape, data.dtype, sharding=leaf.sharding)
    return jax.random.key_data(leaf)


def _manager(
    folder: epath.Path, options: ocp.CheckpointManagerOptions
) -> ocp.CheckpointManager:
    return ocp.CheckpointManager(
        folder.resolve(),  # orbax refuses relative paths
        options=options,
        item_handlers={
            "params": ocp.StandardCheckpointHandler(),
            "rest": ocp.StandardCheckpointHandler(),
            "notes": ocp.JsonCheckpointHandler(),
        },
    )


def _mismatches(stored: Any, wanted: Params) -> list[str]:
    shapes = [
        {
            path_name(path): tuple(leaf.shape)
            for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
        }
        for tree in (stored, wanted)
    ]
    return [
        f"{name} is {shapes[0].get(name, 'missing')}, "
        f"wanted {shapes[1].get(name, 'nothing')}"
        for name in sorted(shapes[0].keys() | shapes[1].keys())
        if shapes[0].get(name) != shapes[1].get(name)
    ]


def _score(metrics: dict[str, Any]) -> float:
    return metrics[METRIC]


_SPREAD = 2654435761  # of Knuth's multiplicative hashing, 2**32 over the golden ratio


@jax.jit
def fingerprint(tree: Any) -> Array:
    """Sum the bits of each array, each word times a different odd number.

    Sums modulo 2**32 are the same on one device and on many. A changed word always
    changes the result, random damage all but once in 2**32 times.

    >>> import numpy as np
    >>> x = np.arange(6, dtype=np.float32)
    >>> int(fingerprint(x)[0]) == int(fingerprint(x[::-1])[0])
    False

    Returns:
      uint32, one number for each array of the tree.
    """
    return jnp.stack([_of_array(leaf) for leaf in jax.tree.leaves(tree)])


def _of_array(x: Array) -> Array:
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    words = _words(x)
    place = jnp.zeros(words.shape, jnp.uint32)
    for axis, size in enumerate(words.shape):
        place = place * jnp.uint32(size) + lax.broadcasted_iota(
            jnp.uint32, words.shape, axis
        )
    return jnp.sum(words * (place * jnp.uint32(_SPREAD) | 1), dtype=jnp.uint32)


def _words(x: Array) -> Array:
    """Return the bits of an array as uint32, two per 64-bit value."""
    if x.dtype == jnp.bool_:
        return x.astype(jnp.uint32)
    match x.dtype.itemsize:
        case 1:
            return lax.bitcast_convert_type(x, jnp.uint8).astype(jnp.uint32)
        case 2:
            return lax.bitcast_convert_type(x, jnp.uint16).astype(jnp.uint32)
        case _:
            return lax.bitcast_convert_type(x, jnp.uint32)
