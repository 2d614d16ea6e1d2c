"""Result of a finished run: how training went, and the scores on the test split."""

from __future__ import annotations

import contextlib
import dataclasses
import platform
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from jax.sharding import Mesh

import dicejax
from dicejax.errors import InputError
from dicejax.training.checkpoint import restore_params
from dicejax.training.processes import is_main_process
from dicejax.training.run_folder import RESULT, SCORE_COUNTS, Run
from dicejax.training.setup import Setup, checksum
from dicejax.training.state import TrainState


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """Result of a finished run, as in its `result.json`.

    Scores are dictionaries by metric, with those of each type under "per_type".

    Attributes:
      folder: the run's.
      steps: number of updates.
      best_dev_score: of the best epoch, by the primary metric.
      last_dev_score: of the last epoch.
      skipped: number of skipped steps.
      seconds: time of the training steps, compilation and evaluation apart.
      examples: number of examples of each split.
      parameters: number of trained parameters.
      tokens_per_s: training throughput, of all devices together.
      padding_share: share of places without a token.
      wait_share: share of the time spent waiting for batches.
      mfu: model FLOPs utilisation; None where it is not known.
      memory_gib: peak memory; None where it is not known.
      share_filled: share of places with a token, by the plan.
      devices: number of devices.
      device_kind: name of their kind.
      versions: of the libraries, by name.
      primary_metric: name of the metric.
      cut: warnings of what is cut off, if anything is.
      best_step: step of the best checkpoint; None, as the rest, if test was not scored.
      test_data: checksum of the test split.
      test: test scores of the best checkpoint.
      test_at_last_step: test scores of the last checkpoint.
      threshold: decision threshold tuned on dev, where the task has one, or one for
        each label, under "threshold"; and how it was tuned.
      test_with_tuned_threshold: test scores of the best checkpoint with it.
    """

    folder: str
    steps: int
    best_dev_score: float | None
    last_dev_score: float | None
    skipped: int
    seconds: float | None = None
    examples: Mapping[str, int] | None = None
    parameters: int | None = None
    tokens_per_s: float
    padding_share: float
    wait_share: float
    mfu: float | None = None
    memory_gib: float | None = None
    share_filled: float
    devices: int
    device_kind: str
    versions: Mapping[str, str]
    primary_metric: str
    cut: Sequence[str] | None = None
    best_step: int | None = None
    test_data: int | None = None
    test: Mapping[str, Any] | None = None
    test_at_last_step: Mapping[str, Any] | None = None
    threshold: Mapping[str, Any] | None = None
    test_with_tuned_threshold: Mapping[str, Any] | None = None

    @classmethod
    def read(cls, run: Run) -> Result:
        """Read the result of a finished run.

        Raises:
          InputError: it is missing or damaged, or of another version.
        """
        try:
            return cls(folder=str(run.path), **run.result())
        except TypeError as error:
            raise InputError(
                f"{run.path / RESULT}: is no result of this version of dicejax "
                f"({error}); train again with --overwrite"
            ) from error

    def to_json(self) -> dict[str, Any]:
        """Return the content of `result.json`."""
        content = dataclasses.asdict(self)
        del content["folder"]
        return {name: value for name, value in content.items() if value is not None}


def score_test_split(
    setup: Setup,
    run: Run,
    mesh: Mesh,
    last: TrainState,
    steps: int,
    between: Callable[[], None],
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Score test with the best and the last checkpoint, and tune a threshold on dev.

    Returns:
      The fields of `Result` from `best_step` on.
    """
    task, data = setup.experiment.task, setup.data
    best_step, best = restore_params(run.checkpoints, setup.network, "best", mesh)
    search = setup.search(best, "test", mesh, counted=True, between=between)
    (candidates,) = search.candidates
    with contextlib.suppress(InputError):  # reported by comparisons
        decided = [task.decide(candidate) for candidate in candidates]
        shares = task.example_statistics(data.corpus.test, decided, data.labels)
        if is_main_process():
            run.write_statistics(shares)
    if is_main_process():
        run.write_arrays(SCORE_COUNTS, search.counts)
    scores = at_last = setup.score(candidates, "test")
    if best_step < steps:
        (at_end,) = setup.search(last.weights, "test", mesh, between=between).candidates
        at_last = setup.score(at_end, "test")
    result = {
        "best_step": best_step,
        "test_data": checksum(map(task.identity, data.items["test"])),
        "test": scores.to_json(),
        "test_at_last_step": at_last.to_json(),
    }
    if task.tunes_threshold:
        (in_dev,) = setup.search(best, "dev", mesh, between=between).candidates
        tuned = task.tune(data.corpus.dev, in_dev, data.labels)
        say(f"threshold tuned on dev: {tuned}")
        with_it = setup.score(candidates, "test", tuned.threshold)
        result |= {
            "threshold": dataclasses.asdict(tuned),
            "test_with_tuned_threshold": with_it.to_json(),
        }
    return result


def versions() -> dict[str, str]:
    """Return the versions of Python and the libraries that numbers depend on.

    >>> sorted(versions())
    ['dicejax', 'flax', 'jax', 'jaxlib', 'optax', 'python']
    """
    libraries = ("jax", "jaxlib", "flax", "optax")
    return {
        "dicejax": dicejax.__version__,
        **{name: import_module(name).__version__ for name in libraries},
        "python": platform.python_version(),
    }
