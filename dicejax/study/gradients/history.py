"""Gradient measurements of a run, read from its folder."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from dicejax.errors import InputError
from dicejax.io import files
from dicejax.training.gradients.measures import Groups, Measures, averages
from dicejax.training.gradients.probe import FILE
from dicejax.training.run_folder import Run

SUMS = tuple(field.name for field in dataclasses.fields(Measures))


@dataclasses.dataclass(frozen=True)
class History:
    """Measurements of one output; S steps, G groups.

    Attributes:
      steps: int `[S]`.
      sums: sums of `measures.Measures` by name, `[S, G, ...]`.
      kinds: by kind of piece, by "places", "labelled" and "gradient_norm": `[S]`; empty
        if elements are not tokens.
      soft_f1: by average, `[S]`.
      cosine: cosine of the gradients of loss and soft F1 at the logits, by average.
      cosine_heads: the same with respect to the heads' parameters.
      alarms: step, kind and group of each alarm.
    """

    output: str
    groups: Groups
    steps: np.ndarray
    sums: dict[str, np.ndarray]
    kinds: dict[str, dict[str, np.ndarray]]
    soft_f1: dict[str, np.ndarray]
    cosine: dict[str, np.ndarray]
    cosine_heads: dict[str, np.ndarray]
    alarms: list[tuple[int, str, str]]

    def share_of_gradient(self) -> np.ndarray:
        """Return each group's share of the gradient, `[G]`."""
        return share(self.sums["gradient_norm"].sum(axis=0))

    def share_of_elements(self) -> np.ndarray:
        """Return each group's share of the elements, `[G]`."""
        return share(self.sums["count"].sum(axis=0))


def has_history(run: Run) -> bool:
    """Return whether gradients were measured in a run."""
    return files.was_written(run.path, FILE)


def read(run: Run) -> tuple[History, ...]:
    """Return the measurements of each output.

    Raises:
      InputError: nothing was measured, or the file is damaged.
    """
    file = run.path / FILE
    if not file.exists():
        raise InputError(
            f"{file}: missing; train with --analysis.every 50, or name losses with "
            "--losses to compare their gradients at the end of this run"
        )
    records = run.records(FILE)
    try:
        targets = run.experiment().task.targets(run.labels())
        names = records[0]["outputs"] if records else {}
        histories = tuple(
            _history(name, Groups.of_target(targets[name]), records) for name in names
        )
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file}: damaged: {error!r}") from error
    if not histories:
        raise InputError(f"{file}: holds nothing; its outputs are positions, or empty")
    return histories


def share(values: np.ndarray) -> np.ndarray:
    """Divide by the sum over the last axis; zeros stay."""
    total = values.sum(axis=-1, keepdims=True)
    return values / np.where(total > 0, total, 1)


def _history(name: str, groups: Groups, records: list[dict[str, Any]]) -> History:
    parts = [record["outputs"][name] for record in records]
    steps = [record["step"] for record in records]

    def by_average(key: str) -> dict[str, np.ndarray]:
        return {x: _stack([part[key][x] for part in parts]) for x in averages(groups)}

    return History(
        output=name,
        groups=groups,
        steps=np.array(steps),
        sums={key: _stack([part[key] for part in parts]) for key in SUMS},
        kinds=_stack([part.get("kinds", {}) for part in parts]),
        soft_f1=by_average("soft_f1"),
        cosine=by_average("cosine"),
        cosine_heads=by_average("cosine_heads"),
        alarms=[
            (int(step), kind, group)
            for step, part in zip(steps, parts, strict=True)
            for kind, group in part["alarms"]
        ],
    )


def _stack(values: list[Any]) -> Any:
    """Return the numbers of all steps as an array, in dictionaries by key."""
    if isinstance(values[0], dict):
        return {key: _stack([value[key] for value in values]) for key in values[0]}
    return np.array(values, float)  # None becomes NaN
