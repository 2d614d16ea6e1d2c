"""Gradient measurements of a run, read from its folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from dicejax.errors import InputError
from dicejax.io import files
from dicejax.training.gradients.collector import FILE
from dicejax.training.gradients.measures import Groups
from dicejax.training.gradients.soft_f1 import averages
from dicejax.training.run_folder import Run

_SUMS = (
    "count",
    "gradient_norm",
    "hardness",
    "hardness_norm",
    "norms",
    "hard",
    "dead",
    "saturated",
    "not_finite",
)


@dataclasses.dataclass(frozen=True)
class History:
    """Measurements of one output; S steps, G groups.

    Attributes:
      output: name of the output.
      groups: names of the groups of its elements.
      steps: int `[S]`.
      sums: sums of `measures.Measures` by name, `[S, G, ...]`.
      kinds: by kind of piece, by "places", "labelled" and "gradient_norm": `[S]`; empty
        if elements are not tokens.
      soft_f1: by average, `[S]`.
      cosine: between the gradients of the loss and of soft F1 with respect to the
        logits, by average, `[S]`.
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
            _history(name, Groups.of(targets[name]), records) for name in names
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
    steps = np.array([record["step"] for record in records])

    def series(get: Callable[[dict[str, Any]], Any]) -> np.ndarray:
        return np.array([get(part) for part in parts], float)  # None becomes NaN

    def by_average(key: str) -> dict[str, np.ndarray]:
        return {
            average: series(lambda part, average=average: part[key][average])
            for average in averages(groups)
        }

    return History(
        output=name,
        groups=groups,
        steps=steps,
        sums={key: series(lambda part, key=key: part[key]) for key in _SUMS},
        kinds={
            kind: {
                n: series(lambda part, kind=kind, n=n: part["kinds"][kind][n])
                for n in values
            }
            for kind, values in parts[0].get("kinds", {}).items()
        },
        soft_f1=by_average("soft_f1"),
        cosine=by_average("cosine"),
        cosine_heads=by_average("cosine_heads"),
        alarms=[
            (int(step), kind, group)
            for step, part in zip(steps, parts, strict=True)
            for kind, group in part["alarms"]
        ],
    )
