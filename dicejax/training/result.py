"""What a finished run is scored with, and what its folder keeps of that."""

from __future__ import annotations

import contextlib
import dataclasses
import platform
import zlib
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

import numpy as np
from jax.sharding import Mesh

import dicejax
from dicejax.errors import InputError
from dicejax.models.network import Params
from dicejax.training.checkpoint import restore_params
from dicejax.training.member import Member
from dicejax.training.processes import is_main_process
from dicejax.training.setup import Setup
from dicejax.training.state import TrainState


def result_of(
    member: Member, state: TrainState, mesh: Mesh, between: Callable[[], None]
) -> dict[str, Any]:
    """Tell how training went and, where it is wanted, score test.

    Test is scored with the best and the last checkpoint, and a threshold is tuned on
    dev where the task has one to tune.

    Args:
      member: the run, whose checkpoints are written.
      state: after its last step.
      mesh: the devices.
      between: called between batches; what it raises ends the scoring.

    Returns:
      What `result.json` holds.
    """
    result = _told(member, mesh)
    if member.scores_test:
        result |= _scored(member, state, mesh, between)
    return result


def _told(member: Member, mesh: Mesh) -> dict[str, Any]:
    """Tell how training went, without the test split."""
    standing = member.standing
    return {
        "steps": len(member.batches),
        "best_dev_score": standing.best_dev_score,
        "last_dev_score": standing.dev_score,
        "skipped": standing.skipped,
        **{name: round(value, 4) for name, value in member.meter.values().items()},
        "share_filled": round(member.batches.share_filled, 4),
        "devices": mesh.size,
        "device_kind": mesh.devices.flat[0].device_kind,
        "versions": versions(),
        "primary_metric": member.task.primary_metric,
    }


def _scored(
    member: Member, state: TrainState, mesh: Mesh, between: Callable[[], None]
) -> dict[str, Any]:
    """Score test with the best and the last checkpoint, and tune what there is."""
    folder, network = member.run.checkpoints, member.setup.network
    best_step, best = restore_params(folder, network, "best", mesh)
    search = member.search(best, "test", counted=True, between=between)
    (found,) = search.found
    _keep_shares(member, found)
    if is_main_process():
        member.run.write_score_counts(search.counts)
    chosen = last = member.score(found, "test")
    if best_step < len(member.batches):
        at_last = member.find(state.weights, "test", between=between)
        last = member.score(at_last, "test")
    result = {
        "best_step": best_step,
        "test_data": checksum(member.setup, "test"),
        "test": chosen.to_json(),
        "test_at_last_step": last.to_json(),
    }
    if member.task.tunes_threshold:
        result |= _with_tuned_threshold(member, best, found, between)
    return result


def checksum(setup: Setup, split: str) -> int:
    """Return a number that changes with the examples of a split.

    It is of what the network sees of them.
    """
    value = 0
    for item in setup.data.items[split]:
        for name in sorted(item.arrays):
            value = zlib.crc32(np.ascontiguousarray(item.arrays[name]), value)
    return value


def _keep_shares(member: Member, found: Sequence[Any]) -> None:
    """Write per-example statistics of test, where the primary metric is a sum."""
    data, task = member.setup.data, member.task
    decided = [task.decide(one) for one in found]
    with contextlib.suppress(InputError):  # told by what wants to compare runs
        shares = task.example_statistics(data.corpus.test, decided, data.labels)
        if is_main_process():
            member.run.write_statistics(shares)


def _with_tuned_threshold(
    member: Member, params: Params, found: list[Any], between: Callable[[], None]
) -> dict[str, Any]:
    """Tune the threshold on dev, and score what was found in test with it."""
    data = member.setup.data
    found_in_dev = member.find(params, "dev", between=between)
    tuned = member.task.tune(data.corpus.dev, found_in_dev, data.labels)
    member.progress.say(f"threshold tuned on dev: {tuned}")
    scores = member.score(found, "test", tuned.threshold)
    return {
        "threshold": dataclasses.asdict(tuned),
        "test_with_tuned_threshold": scores.to_json(),
    }


def versions() -> dict[str, str]:
    """Return versions by name.

    >>> sorted(versions())
    ['dicejax', 'flax', 'jax', 'jaxlib', 'optax', 'python']
    """
    libraries = ("jax", "jaxlib", "flax", "optax")
    return {
        "dicejax": dicejax.__version__,
        **{name: metadata.version(name) for name in libraries},
        "python": platform.python_version(),
    }
