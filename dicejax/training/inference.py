"""Uses of a finished run: evaluation, prediction, export to PyTorch."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax

from dicejax import files, json_text
from dicejax.errors import Flaw, InputError
from dicejax.mesh import MeshShape
from dicejax.metrics.scores import Scores
from dicejax.models import huggingface
from dicejax.tasks import Item
from dicejax.training.checkpoint import Which, restore_params
from dicejax.training.offline import offline
from dicejax.training.predict import Predictor
from dicejax.training.run_folder import Run
from dicejax.training.setup import load, longest


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The scores of a split.

    Attributes:
      step: of the checkpoint.
      scores: with the task's default threshold, if it has one.
      threshold: tuned on dev when the run was trained; None without tuning.
      tuned: the scores with it.
    """

    step: int
    scores: Scores
    threshold: float | None = None
    tuned: Scores | None = None


def evaluate(
    folder: str,
    split: str = "test",
    which: Which = "best",
    warn: Callable[[str], None] = lambda text: None,
    data: str | None = None,
) -> Evaluation:
    """Score a split of a run's own data.

    Args:
      folder: the run.
      split: "train", "dev" or "test".
      which: checkpoint to use.
      warn: called with remarks, such as on types without training examples.
      data: folder to read the data from instead of the run's own.

    Raises:
      InputError: the run or its data cannot be used.
    """
    run = Run.open(folder)
    experiment = offline(run, data=data)
    examples = getattr(load(experiment, warn), split)
    task, labels = experiment.task, run.labels()

    step, items, found = _find(run, examples, which)
    for text in task.warnings(split, examples, items, labels):
        warn(text)
    scores, threshold = task.score_found(examples, found, labels), _tuned(run, which)
    if threshold is None:
        return Evaluation(step, scores)
    tuned = task.score_found(examples, found, labels, threshold)
    return Evaluation(step, scores, threshold, tuned)


def predict(
    folder: str, lines: Sequence[str], which: Which = "best"
) -> list[tuple[dict[str, Any], list[str]]]:
    """Predict for examples written as lines; see the task's `parse`.

    A threshold that was tuned on dev is used.

    Returns:
      For each line the prediction as JSON, and as lines for a terminal.

    Raises:
      InputError: the run cannot be used, or a line lacks a part.
    """
    for number, line in enumerate(lines, start=1):
        try:
            json_text.value_of(line, str)
        except Flaw as flaw:  # such as an argument in another encoding
            raise flaw.at(f"text {number}", None) from None
        if not line.strip():
            raise InputError(f"text {number}: is blank; give some words")
    run = Run.open(folder)
    task = run.experiment().task
    parsed = [task.parse(line, number) for number, line in enumerate(lines, start=1)]
    examples = task.adapt(parsed)
    _, _, found = _find(run, examples, which)
    threshold = _tuned(run, which)
    return [
        task.show(example, task.decide(one, threshold))
        for example, one in zip(examples, found, strict=True)
    ]


def read_lines(path: str) -> list[str]:
    """Read one example per line, blank lines left out; "-" is standard input.

    Raises:
      InputError: see `files.lines`; or all lines are blank.
    """
    stream = sys.stdin.buffer if path == "-" else None
    found = [line for _, line in files.lines(path, stream=stream) if line.strip()]
    if not found:
        raise InputError(f"{path}: holds no text")
    return found


def _tuned(run: Run, which: Which) -> float | None:
    """Return the threshold tuned on dev, if this is the best checkpoint."""
    tuned = run.result().get("threshold") if which == "best" else None
    return None if tuned is None else tuned["threshold"]


def _find(
    run: Run, examples: Sequence[Any], which: Which
) -> tuple[int, list[Item], list[Any]]:
    """Return the step of the checkpoint, the items and the decoded candidates."""
    experiment, labels, tokenizer = run.experiment(), run.labels(), run.tokenizer()
    network, mesh = run.network(), MeshShape().make(jax.local_devices())
    length = longest(experiment, network.encoder)
    items = experiment.task.encode(examples, tokenizer, labels, length)
    step, params = restore_params(run.checkpoints, network, which, mesh)
    predictor = Predictor(
        task=experiment.task,
        network=network,
        labels=labels,
        tokenizer=tokenizer,
        max_length=experiment.training.max_length,
        mesh=mesh,
    )
    return step, items, predictor.search(params, examples, items).found[0]


def export(
    folder: str, target: str, which: Which, *, encoder_only: bool = False
) -> str:
    """Export a run's weights, architecture, labels and tokenizer for transformers.

    Args:
      folder: the run.
      target: the folder to make, which appears whole or not at all.
      which: the checkpoint to use.
      encoder_only: leave the head out.

    Returns:
      The PyTorch class that opens the folder.

    Raises:
      InputError: the run cannot be used, the folder is taken, or PyTorch has no class
        with such a head.
    """
    run = Run.open(folder)
    network = run.network()
    _, params = restore_params(run.checkpoints, network, which)
    if encoder_only:
        network = dataclasses.replace(network, heads=())
    return huggingface.write(
        Path(target).expanduser(),
        network,
        params,
        labels=run.labels(),
        tokenizer=run.tokenizer(),
    )
