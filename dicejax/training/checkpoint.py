"""Checkpoints: the last state and the one with the best dev score, through orbax."""

from __future__ import annotations

from typing import Any, Literal

import jax
import orbax.checkpoint as ocp
from etils import epath
from orbax.checkpoint.checkpoint_managers import preservation_policy

from dicejax.errors import InputError
from dicejax.models.network import Network, Params
from dicejax.training.state import TrainState

METRIC = "dev_score"
Which = Literal["best", "last"]


class Checkpoints:
    """Saves states while training goes on; keeps the last and the best.

    Parameters lie in their own part of a checkpoint, so that evaluation reads no
    optimizer state.
    """

    def __init__(self, folder: epath.Path):
        keep = preservation_policy.AnyPreservationPolicy(
            [
                preservation_policy.LatestN(1),
                preservation_policy.BestN(get_metric_fn=_score, n=1),
            ]
        )
        options = ocp.CheckpointManagerOptions(
            best_fn=_score, best_mode="max", preservation_policy=keep
        )
        self._manager = _manager(folder, options)

    def save(self, step: int, state: TrainState, score: float) -> None:
        """Begin to write the state after `step` updates; returns before it is done."""
        rest = {
            "step": state.step,
            "total_steps": state.total_steps,
            "opt_state": state.opt_state,
            "rng": jax.random.key_data(state.rng),
            "objective_state": jax.tree.leaves(state.objective_state),
        }
        self._manager.save(
            step,
            args=ocp.args.Composite(
                params=ocp.args.StandardSave(state.params),
                rest=ocp.args.StandardSave(rest),
            ),
            metrics={METRIC: score},
        )

    def close(self) -> None:
        """Wait until everything is written."""
        self._manager.wait_until_finished()
        self._manager.close()


def restore_params(
    folder: epath.Path, network: Network, which: Which = "best"
) -> tuple[int, Params]:
    """Read the parameters of a run.

    Args:
      folder: the run's `checkpoints`.
      network: the architecture they belong to.
      which: the checkpoint with the best dev score, or the last.

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
        # Compared before reading: a restore that fails half-way leaves threads behind.
        problems = _mismatches(manager.item_metadata(step)["params"], target)
        if problems:
            raise InputError(
                f"{folder}/{step}: does not fit the network: {'; '.join(problems)}"
            )
        here = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
        target = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=here), target
        )
        try:
            restored = manager.restore(
                step, args=ocp.args.Composite(params=ocp.args.StandardRestore(target))
            )
        except (ValueError, OSError) as error:
            reason = str(error).strip().splitlines()[0]
            raise InputError(f"{folder}/{step}: cannot be read: {reason}") from error
    return step, restored["params"]


def _manager(
    folder: epath.Path, options: ocp.CheckpointManagerOptions
) -> ocp.CheckpointManager:
    return ocp.CheckpointManager(
        folder.resolve(),  # orbax refuses relative paths
        options=options,
        item_handlers={
            "params": ocp.StandardCheckpointHandler(),
            "rest": ocp.StandardCheckpointHandler(),
        },
    )


def _mismatches(stored: Any, wanted: Params) -> list[str]:
    shapes = [
        {
            "/".join(str(getattr(k, "key", k)) for k in path): tuple(leaf.shape)
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
